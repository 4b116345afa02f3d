"""Two users at a time, each with a daemon and a CRIU of their own, and a third CRIU that belongs to nobody's daemon: nothing is shared
by which one could disturb another. CRIU's notes on the kernel were such a thing once, at /run/criu.kdat."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from harness.daemon import criu
from harness.session import Commands

OPERATIONS = int(os.environ.get("INFINIJUP_SIDE_BY_SIDE", "20"))


class Checker(threading.Thread):
    """`criu check` as root, again and again. It writes its notes where every CRIU of root's does."""

    def __init__(self):
        super().__init__()
        self.runs, self.ended = 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.1):
            # What it says of this machine does not matter here.
            subprocess.run([criu(), "check"], check=False, capture_output=True, timeout=60)
            self.runs += 1

    def stop(self):
        self.ended.set()
        self.join()


class Work(threading.Thread):
    """One user's operations, one after the other, with the state compared after each restore."""

    def __init__(self, session, secret):
        super().__init__()
        self.session, self.secret, self.done, self.failure = session, secret, 0, None

    def run(self):
        try:
            while self.done < OPERATIONS:
                for _operation in self.round():
                    self.done += 1
                    if self.done >= OPERATIONS:
                        break
        except BaseException as failure:  # noqa: BLE001 a thread's failure is the test's
            self.failure = failure

    def round(self):
        """Yields after each operation."""
        session, kernel = self.session, self.session.kernel
        kernel.run(f"n = {self.done}")
        expected = (self.done, self.secret)
        taken = session.snapshot()["commit"]
        yield "snapshot"
        kernel.run("n = secret = None")
        session.rollback(taken)
        kernel.ready()
        assert kernel.value("(n, secret)") == expected
        yield "rollback"
        branch, _ = session.branch(f"b{self.done}")
        yield "branch"
        assert branch.connect().value("(n, secret)") == expected
        branch.remove()
        yield "remove"
        session.suspend()
        yield "suspend"
        session.resume()
        kernel.ready()
        assert kernel.value("(n, secret)") == expected
        yield "resume"


@pytest.fixture
def other_criu(record):
    """Another installation of CRIU, for the second user."""
    prefix = Path(criu()).resolve().parents[1]
    copy = record.base / "other-criu"
    if (prefix / "lib").is_dir() and prefix != Path("/usr"):
        shutil.copytree(prefix, copy, symlinks=True, dirs_exist_ok=True)
        return copy / Path(criu()).resolve().relative_to(prefix)
    return Path(criu())


@pytest.mark.timeout(120 + 10 * OPERATIONS)
def test_two_users_and_a_criu_of_nobodys(make_user, make_daemon, other_criu):
    first, second = make_user(), make_user()
    assert first.uid != second.uid
    daemons = [make_daemon(user=first), make_daemon(user=second, environment={"INFINIJUP_CRIU": str(other_criu)})]
    works = [Work(Commands(daemon, daemon.user).kernel("same-name"), f"of {daemon.user.name}") for daemon in daemons]
    for work in works:
        work.session.kernel.run(f"secret = {work.secret!r}")
    checker = Checker()
    checker.start()
    try:
        for work in works:
            work.start()
        for work in works:
            work.join()
    finally:
        checker.stop()
        for work in works:
            work.session.kernel.close()
    for work in works:
        if work.failure:
            raise work.failure
    print(f"{[work.done for work in works]} operations, {checker.runs} other runs of CRIU")
    assert [work.done for work in works] == [OPERATIONS, OPERATIONS]
    assert checker.runs >= 5
