"""A target that something has frozen can never be locked: it is refused, within a stated limit, or thawed as asked."""

import os
import signal
import time
from pathlib import Path

import pytest

from harness import proc
from harness.gpu_session import Target
from harness.session import Commands

LIMIT = 8


@pytest.fixture
def commands(gpu, make_daemon, make_user):
    return Commands(make_daemon({**gpu.env(), "INFINIJUP_GPU_LOCK_LIMIT": "2"}), make_user(), gpu.env())


class Stopped:
    """SIGSTOP."""

    name = "SIGSTOP"

    def freeze(self, pids):
        self.pids = pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        proc.until("all stand still", lambda: all(proc.stat(pid)["state"] == "T" for pid in pids))

    def is_frozen(self):
        return all(proc.stat(pid)["state"] == "T" for pid in self.pids)

    def thaw(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


class Frozen:
    """A freezer cgroup of somebody else's making, of version 1 or 2."""

    def __init__(self, directory, state_file, frozen, thawed):
        self.directory = directory / f"frozen-{os.urandom(3).hex()}"
        self.state_file, self.frozen, self.thawed = self.directory / state_file, frozen, thawed
        self.before = {}

    def freeze(self, pids):
        self.directory.mkdir()
        for pid in pids:
            (self.directory / "cgroup.procs").write_text(str(pid))
        self.state_file.write_text(self.frozen)
        proc.until("all are frozen", self.is_frozen)

    def is_frozen(self):
        if self.state_file.name == "freezer.state":
            return self.state_file.read_text().strip() == "FROZEN"
        return "frozen 1" in (self.directory / "cgroup.events").read_text()

    def thaw(self):
        self.state_file.write_text(self.thawed)

    def remove(self, home):
        for pid in (self.directory / "cgroup.procs").read_text().split():
            (home / "cgroup.procs").write_text(pid)
        self.directory.rmdir()


def freezers():
    """The kinds of freezing that this machine has."""
    found = [pytest.param(Stopped, id="SIGSTOP")]
    first = Path("/sys/fs/cgroup/freezer")
    if (first / "cgroup.procs").exists():
        found.append(pytest.param(lambda: Frozen(first, "freezer.state", "FROZEN", "THAWED"), id="cgroup-v1"))
    for second in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
        if (second / "cgroup.controllers").exists():
            found.append(pytest.param(lambda second=second: Frozen(second, "cgroup.freeze", "1", "0"), id="cgroup-v2"))
            break
    return found


@pytest.mark.parametrize("make", freezers())
def test_a_frozen_target_is_refused_in_time_and_untouched(commands, gpu, make):
    target = Target.start(commands, "frozen", "--gpus", 1, "--mib", 2)
    freezer = make()
    home = cgroup_of(target, freezer)
    freezer.freeze(list(target.host_pids().values()))
    try:
        begun = time.monotonic()
        error = commands.fails("snapshot", "frozen")
        took = time.monotonic() - begun
        assert took < LIMIT, f"it took {took:.1f} s to refuse"
        said = (error["message"] + " ".join(error.get("causes", []))).lower()
        assert "frozen" in said or "stopped" in said, error
        # Whoever traces what is stopped lets it go for a moment afterwards, until it stands again.
        proc.until("what somebody else had frozen is so still", freezer.is_frozen, seconds=5)
    finally:
        freezer.thaw()
        if home:
            freezer.remove(home)
    target.check()
    target.session.snapshot()
    target.check()


def cgroup_of(target, freezer):
    """Where the processes are now in the hierarchy that will freeze them."""
    if isinstance(freezer, Stopped):
        return None
    top = freezer.directory.parent
    pid = next(iter(target.host_pids().values()))
    for line in proc.read(pid, "cgroup").decode().splitlines():
        number, controllers, path = line.split(":", 2)
        if ("freezer" in controllers.split(",")) == (freezer.state_file.name == "freezer.state") and (
            number == "0" or freezer.state_file.name == "freezer.state"
        ):
            return top / path.lstrip("/")
    raise AssertionError(f"no cgroup of {pid} in {top}")
