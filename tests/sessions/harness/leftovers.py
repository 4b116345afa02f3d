"""What a run makes is written down first, so that a run that was killed can be cleaned up by the next.

Each run has a name of its own and a record `/var/lib/infinijup-test/NAME.json`: who runs it, its directories, its users. Only
what a record names is touched, and only if the run that wrote it is over:

* processes whose environment names the run's directory: the daemon and what it started outside of sessions;
* processes in another mount namespace that have something from the run's directory mounted: its sessions;
* processes of its throw-away users;
* mounts at and below its directories, in our own mount namespace;
* nodes in /dev that its stand-in for GPUs has.

The root of a session is a bind of `/`. So a directory is deleted only after nothing is mounted below it, and never across
a mount.
"""

import itertools
import json
import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path

from harness import proc

RECORDS = Path("/var/lib/infinijup-test")


class Record:
    """What one run has made."""

    def __init__(self, path, content):
        self.path = path
        self.content = content
        self.numbers = itertools.count(1)

    @classmethod
    def begin(cls):
        """Starts the record of this run."""
        RECORDS.mkdir(mode=0o755, exist_ok=True)
        name = f"infinijup-test-{secrets.token_hex(3)}"
        content = {
            "name": name,
            "runner": proc.identity(os.getpid()),
            "directories": [f"/var/lib/{name}", f"/run/{name}"],
            "users": [],
        }
        record = cls(RECORDS / f"{name}.json", content)
        record.write()
        return record

    @property
    def name(self):
        """Unique to the run."""
        return self.content["name"]

    @property
    def base(self):
        """For what lasts, such as states and copies of the programs. Every user may enter it."""
        return Path(self.content["directories"][0])

    def new_name(self, what):
        """One that nothing else of this run has, and a short one: paths of sockets have room for 107 bytes."""
        return f"{what}{next(self.numbers)}"

    @property
    def run(self):
        """For sockets and mounts."""
        return Path(self.content["directories"][1])

    def write(self):
        """Replaces the record as a whole: a half-written one would be no help."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.content))
        new.rename(self.path)

    def add_user(self, name):
        """Before the user is made."""
        self.content["users"].append(name)
        self.write()

    def remove_user(self, name):
        """After the user is gone."""
        self.content["users"].remove(name)
        self.write()

    def remove_nodes(self):
        """Device nodes of the stand-in for GPUs."""
        for path in self.content.pop("nodes", []):
            Path(path).unlink(missing_ok=True)
        self.write()

    def is_ours(self, pid, below=None):
        """Whether a process belongs to this run, or to the daemon whose directories are called `below`."""
        mark = f"/{self.name}/{below}/" if below else f"/{self.name}/"
        if mark.encode() in read_environment(pid):
            return True
        if proc.link(pid, "ns/mnt") in ("", proc.link("self", "ns/mnt")):
            return False
        # The fourth field is what was mounted, not where: a session has its own directory of ours mounted inside.
        mounted = [line.split(b" ")[3] for line in proc.read(pid, "mountinfo").splitlines()]
        return any(mark.encode() in path + b"/" for path in mounted)

    def kill_processes(self, below=None):
        """Ends everything that belongs to the run, or to one daemon of it."""
        ours = lambda: [pid for pid in proc.pids() if self.is_ours(pid, below)]  # noqa: E731
        for pid in ours():
            if pid != os.getpid():
                proc.kill(pid)

    def clean(self):
        """Removes all of it."""
        self.kill_processes()
        self.remove_nodes()
        for user in list(self.content["users"]):
            remove_user(user)
            self.remove_user(user)
        for directory in self.content["directories"]:
            delete(directory)
        self.path.unlink()


def read_environment(pid):
    """With a slash after each value, so that a directory is found as itself and below itself alike."""
    if pid == os.getpid():
        return b""
    own = [word for word in proc.read(pid, "environ").split(b"\0") if word.startswith((b"INFINIJUP_RUN=", b"INFINIJUP_STATE="))]
    return b"".join(word + b"/" for word in own)


def remove_user(name):
    """Removes a throw-away user, with everything that is left of it."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return
    clear_user(entry.pw_uid, entry.pw_dir)
    subprocess.run(["userdel", name], check=False, capture_output=True)


def clear_user(uid, home):
    """Ends the processes of a throw-away user and removes its home."""
    for pid in proc.pids():
        if proc.status(pid, "Uid").split()[:1] == [str(uid)]:
            proc.kill(pid)
    # Images that a daemon kept there for a way back; the next user may get the same number.
    for path in Path("/dev/shm").glob("infinijup-*"):
        if path.lstat().st_uid == uid:
            shutil.rmtree(path)
    delete(home)


def unmount(directory):
    """Unmounts all at and below a directory."""
    for point in proc.mounts_below(directory):
        subprocess.run(["umount", "--lazy", "--no-canonicalize", point], check=False, capture_output=True)


def delete(directory):
    """Deletes a directory of ours once nothing is mounted below it."""
    unmount(directory)
    left = proc.mounts_below(directory)
    assert not left, f"{directory} is not deleted: still mounted below it: {left}"
    if os.path.isdir(directory):
        shutil.rmtree(directory)


def clean_earlier_runs():
    """Cleans up after runs that are over and could not do so themselves."""
    for path in sorted(RECORDS.glob("*.json")):
        record = Record(path, json.loads(path.read_text()))
        if not proc.is_alive(record.content["runner"]):
            record.clean()
