"""Snapshots go to a real S3 server and come back on another machine, whatever the network does."""

import os
import random
import subprocess
import threading
import time

import pytest

from harness.daemon import programs
from harness.object_store import KEYS
from harness.session import Commands

# Writers that push to one remote while it is collected may take longer than other tests.
pytestmark = pytest.mark.timeout(900)
MIB = 1 << 20
# So long do writers push beside collections.
SECONDS = float(os.environ.get("INFINIJUP_REMOTE_SECONDS", "20"))
WRITERS = int(os.environ.get("INFINIJUP_REMOTE_WRITERS", "4"))
# A writer of whom nothing has arrived by then goes on for so much longer: on a busy machine a push takes ten seconds.
PATIENCE = 180


class Folder:
    """A store in a folder, and the command about it."""

    def __init__(self, directory):
        self.directory = directory
        self.tree = directory / "tree"
        self.tree.mkdir(parents=True)
        self.words = [
            programs() / "infinijup",
            "--json",
            "--store",
            directory / "store",
        ]

    def begin(self, *words):
        """Starts a command."""
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.directory),
            **KEYS,
        }
        return subprocess.Popen(
            [*self.words, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words, check=True):
        """Runs one: its exit code and what it printed."""
        process = self.begin(*words)
        out, err = process.communicate(timeout=300)
        assert not check or process.returncode == 0, f"{words}: {out}{err}"
        return process.returncode, out + err

    def commit(self, message, size):
        """A snapshot with so many new bytes."""
        (self.tree / message).write_bytes(os.urandom(size))
        self.run("debug", "commit", "--tree", self.tree, "--message", message)

    def commits(self):
        """The messages in its history."""
        return [line for line in self.run("log")[1].splitlines() if '"message_type":"commit"' in line]


def test_a_snapshot_comes_back_on_another_machine(make_daemon, make_user, proxy):
    here = Commands(make_daemon(), make_user.owner(), KEYS)
    session = here.start("worker", "sleep", "1000")
    session.snapshot("-m", "first")
    here.run("remote", "add", "origin", proxy.address("machines"))
    assert here.fails("push")["code"] == "IJ-R060"
    here.run("push", "--unencrypted")
    session.snapshot("-m", "second")
    new = here.run("push", "--dry-run").one("pushed")["bytes"]
    before = proxy.sent
    here.run("push")
    assert proxy.sent - before <= 1.2 * new + MIB
    assert here.run("push").one("pushed")["objects"] == 0

    stranger = make_user()
    there = Commands(make_daemon(user=stranger), stranger, KEYS)
    there.run("clone", proxy.address("machines"))
    logs = [[one["id"] for one in side.run("log", "worker").messages("commit")] for side in (here, there)]
    assert logs[0] == logs[1] and len(logs[0]) == 2
    there.run("store", "verify", "--bytes")
    there.run("remote", "verify", "--bytes")
    session.remove()


def test_an_encrypted_store_is_cloned_with_its_passphrase(tmp_path, proxy):
    here = Folder(tmp_path / "here")
    (tmp_path / "right").write_text("correct horse battery staple\n")
    (tmp_path / "wrong").write_text("correct horse battery stable\n")
    for name in ("key", "another"):
        (tmp_path / name).write_bytes(os.urandom(32))
    right, key = ("--passphrase-file", tmp_path / "right"), ("--key-file", tmp_path / "key")
    here.run("store", "init", *right, *key)
    here.words += right
    here.commit("secret", 3 * MIB)
    address = proxy.address("sealed")
    here.run("remote", "add", "origin", address)
    here.run("push")

    there = Folder(tmp_path / "there")
    for words, code in [
        ((), "IJ-R014"),
        (("--passphrase-file", tmp_path / "wrong"), "IJ-R013"),
        (("--key-file", tmp_path / "another"), "IJ-R013"),
    ]:
        ended, said = there.run("clone", address, *words, check=False)
        assert ended == 12 and code in said, said
        assert not (there.directory / "store").exists(), "nothing is made before the key has opened"
    there.run("clone", address, *key)
    there.words += right
    assert there.commits() == here.commits()
    there.run("store", "verify", "--bytes")
    # It is as good as the first one: what is made there comes back.
    there.commit("answer", MIB)
    there.run("push")
    here.run("pull")
    assert len(here.commits()) == 2

    here.run("store", "rotate-keys", "--new-key-file", tmp_path / "key")
    here.words[-2:] = key
    here.run("push")
    late = Folder(tmp_path / "late")
    assert "IJ-R013" in late.run("clone", address, *right, check=False)[1]
    late.run("clone", address, *key)
    # Who gives a key does not want what anybody could have put there.
    plain = Folder(tmp_path / "plain")
    plain.run("store", "init")
    plain.run("remote", "add", "origin", proxy.address("not-sealed"))
    ended, said = Folder(tmp_path / "misled").run("clone", proxy.address("not-sealed"), *key, check=False)
    assert ended == 1 and "IJ-R015" in said


def test_a_push_that_is_killed_is_continued(tmp_path, proxy):
    here = Folder(tmp_path / "here")
    here.run("store", "init")
    here.commit("large", 160 * MIB)
    here.run("remote", "add", "origin", proxy.address("killed"))
    # Slow enough that some of it was published before it is killed, also where requests take long.
    push = here.begin("push", "--unencrypted", "--limit-rate", "15M")
    deadline = time.monotonic() + 120
    while proxy.sent < 120 * MIB and push.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    push.kill()
    push.communicate()
    assert "threads/main" not in here.run("fetch")[1]
    before = proxy.sent
    here.run("push")
    assert proxy.sent - before < 130 * MIB
    there = Folder(tmp_path / "there")
    there.run("clone", proxy.address("killed"))
    there.run("store", "verify", "--bytes")
    assert len(there.commits()) == 1
    # What it left is collected.
    for _ in range(3):
        here.run("remote", "gc", "--grace", "0", "--lease", "0")
    here.run("remote", "verify", "--bytes")
    assert '"writers":0' in here.run("remote", "stat")[1]


def test_writers_beside_each_other_lose_nothing_when_the_network_fails(tmp_path, proxy):
    folders = [Folder(tmp_path / f"writer-{n}") for n in range(WRITERS)]
    for folder in folders:
        folder.run("store", "init")
        folder.commit("first", 1000)
        folder.run("remote", "add", "origin", proxy.address("crowd"))
    acknowledged = [0] * WRITERS
    ends = time.monotonic() + SECONDS
    troubles = []

    def write(n):
        turn = 0
        while time.monotonic() < ends + (0 if acknowledged[n] else PATIENCE):
            turn += 1
            folders[n].run(
                "debug",
                "commit",
                "--tree",
                folders[n].tree,
                "--message",
                f"turn {turn}",
                "--thread",
                f"writer-{n}",
            )
            (folders[n].tree / "grows").write_bytes(os.urandom(200_000))
            code, said = folders[n].run("push", "origin", f"writer-{n}", "--unencrypted", check=False)
            if code == 0:
                acknowledged[n] = turn
            # The network may be too bad for once; a thread of our own cannot be in the way of itself.
            elif not any(code in said for code in ("IJ-R001", "IJ-R041", "IJ-R042", "IJ-R040")):
                troubles.append(said)

    def collect():
        while time.monotonic() < ends:
            # Half of the time even those are given up that are at work.
            lease = random.choice(["600", "1"])
            folders[0].run("remote", "gc", "--grace", "0", "--lease", lease, check=False)

    proxy.cut, proxy.lose = 0.01, 0.01
    threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)] + [threading.Thread(target=collect)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proxy.cut = proxy.lose = 0.0
    assert not troubles, troubles
    assert proxy.cuts and proxy.lost
    print(f"{sum(acknowledged)} pushes, {proxy.cuts} connections cut, {proxy.lost} answers lost")
    assert all(acknowledged), acknowledged

    assert '"clean":true' in folders[0].run("remote", "verify", "--bytes")[1]
    there = Folder(tmp_path / "there")
    there.run("clone", proxy.address("crowd"))
    there.run("store", "verify", "--bytes")
    for n in range(WRITERS):
        log = there.run("log", f"writer-{n}", "-n", "100000")[1]
        lost = [turn for turn in range(1, acknowledged[n] + 1) if f'"turn {turn}"' not in log]
        assert not lost, f"writer {n} was told that turn {acknowledged[n]} has arrived, and {lost} are not there"
    for _ in range(3):
        folders[0].run("remote", "gc", "--grace", "0", "--lease", "0")
    assert '"clean":true' in folders[0].run("remote", "verify", "--bytes")[1]
