"""A user changes the images of their own snapshot, which lie in their own directory while it is restored: what comes of it has that user's
rights, or nothing comes of it. Each field is tried against the strict reader of root's daemon in `lifecycle`; here CRIU itself is asked."""

import os
import signal
import threading
import time

import pytest

from harness import images, proc
from harness.rights import Watcher
from harness.session import Commands

ALL = 0xFFFFFFFF
CREDENTIALS = (5, 10)
SECRET = "what is root's"


@pytest.fixture
def secret(record):
    """A file that is root's alone."""
    path = record.base / f"roots{os.urandom(2).hex()}"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def credentials(directory, change):
    """Changes those of every process."""
    for image in directory.glob("core-*.img"):
        images.edit(image, lambda entry: images.change_within(entry, CREDENTIALS, change))


def ids(number):
    """All ids of every process, real and effective, of user and group."""

    def craft(directory, _secret):
        def change(fields):
            for field in range(1, 9):
                fields = images.put(fields, field, number)
            return fields

        credentials(directory, change)

    return craft


def capabilities(directory, _secret):
    def change(fields):
        for field in (9, 10, 11, 12):
            fields = images.put(fields, field, ALL, 0x1FF)
        return fields

    credentials(directory, change)


def groups(directory, _secret):
    """Root's, disk and shadow as supplementary groups."""
    credentials(directory, lambda fields: images.put(fields, 14, 0, 6, 42))


def other_path(of_file):
    """The open file `mine` becomes another one."""

    def craft(directory, secret):
        name = (str(secret) if of_file is None else of_file).encode()

        def regular(fields):
            if any(number == 6 and value.endswith(b"/mine") for number, _, value in fields):
                # Its size and permissions are compared by CRIU: they are made to fit.
                fields = [(number, kind, name if number == 6 else value) for number, kind, value in fields if number not in (7, 9, 10, 11)]
            return fields

        images.edit(directory / "files.img", lambda entry: images.change_within(entry, (3,), regular))

    return craft


CRAFTED = {
    "user zero": ids(0),
    "another user": ids(1),
    "all capabilities": capabilities,
    "groups": groups,
    "a file of root's": other_path(None),
    "passwords": other_path("/etc/shadow"),
    "a device": other_path("/dev/mem"),
    "a process of the machine's": other_path("/proc/1/environ"),
}


@pytest.fixture(scope="module")
def session(module_make_user, module_make_daemon):
    """One for all: what was refused must not have harmed it."""
    user = module_make_user()
    commands = Commands(module_make_daemon(user=user), user)
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))
    session.kernel.run("import os; open('mine', 'w').write('mine'); f = open('mine')")
    session.kernel.run("def read(path):\n    try:\n        return open(path).read()\n    except OSError:\n        return ''")
    session.kernel.run("def again():\n    try:\n        return os.pread(f.fileno(), 1000, 0)\n    except OSError:\n        return b''")
    yield session
    session.kernel.close()


def laid_out(daemon):
    """Images that a restore has laid out: all but the memory are there when that begins."""
    for path in (daemon.state / "staging").glob("*/pages-*.img"):
        if (path.parent / "inventory.img").exists():
            return path.parent
    return None


def reads_already(user):
    """Whether a CRIU of the user's is at work."""
    mine = (pid for pid in proc.pids() if (proc.status(pid, "Uid") or "").split()[:1] == [str(user.uid)])
    return any(b"\0swrk\0" in (proc.read(pid, "cmdline") or b"") for pid in mine)


class Exchange(threading.Thread):
    """Changes the images of one restore, between being laid out and being read. The daemon stands still meanwhile."""

    def __init__(self, daemon, user, craft):
        super().__init__()
        self.daemon, self.user, self.craft, self.changed, self.over = daemon, user, craft, False, False

    def run(self):
        while not (self.over or (directory := laid_out(self.daemon))):
            time.sleep(0.0005)
        if self.over:
            return
        os.kill(self.daemon.pid, signal.SIGSTOP)
        try:
            if not reads_already(self.user):
                honest = {path: path.read_bytes() for path in directory.glob("*.img")}
                self.craft(directory)
                self.changed = any(path.read_bytes() != content for path, content in honest.items())
        finally:
            os.kill(self.daemon.pid, signal.SIGCONT)


def rollback_to_crafted(session, commit, craft):
    """A rollback whose images were changed; tried again if they were read before that."""
    for _ in range(5):
        exchange = Exchange(session.commands.daemon, session.commands.user, craft)
        exchange.start()
        answer = session.commands.run("rollback", "k", commit, "--force", check=False, seconds=60)
        exchange.over = True
        exchange.join()
        if exchange.changed:
            return answer
        session.kernel.ready()
        session.kernel.run("n = 2")
    raise AssertionError("CRIU was always faster")


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_images_have_the_rights_of_their_user(record, session, secret, name):
    commands, kernel = session.commands, session.kernel
    user = commands.user
    kernel.run("n = 1")
    taken = session.snapshot()["commit"]
    kernel.run("n = 2")
    watcher = Watcher(record, commands.daemon, user)
    watcher.start()
    try:
        answer = rollback_to_crafted(session, taken, lambda directory: CRAFTED[name](directory, secret))
        print("restored" if answer.code == 0 else (answer.error["code"], answer.error["message"], answer.error["causes"][-1:]))
        assert session.state == "running"
        kernel.ready()
        assert kernel.value("n") == (1 if answer.code == 0 else 2)
        assert kernel.value("again()") in (b"mine", b"")
        assert kernel.value(f"read({str(secret)!r}) + read('/etc/shadow')") == ""
        assert kernel.value("os.getresuid()") == (user.uid,) * 3
        for pid in proc.tree(session.pid):
            assert proc.status(pid, "Uid").split() == [str(user.uid)] * 4
    finally:
        watcher.stop()
    assert not watcher.problems and watcher.looks > 0
    assert secret.read_text() == SECRET
