"""Many cycles of snapshot and rollback leave nothing behind: no descriptors, memory, mounts, namespaces, zombies, staging space."""

import os
import time

import pytest

from harness import proc
from harness.files import below

CYCLES = int(os.environ.get("INFINIJUP_LEAK_CYCLES", "100"))
TINY_CYCLES = int(os.environ.get("INFINIJUP_LEAK_CYCLES_TINY", "300"))
LARGE_CYCLES = int(os.environ.get("INFINIJUP_LEAK_CYCLES_LARGE", "20"))
LARGE_MIB = int(os.environ.get("INFINIJUP_LEAK_MIB", "256"))

# A process with nothing but a number: USR1 adds one to it, USR2 spoils it, and each leaves it in a file, whole.
TINY = """
my $n = 0;
sub leave { open(my $file, '>', 'number.new') or die; print $file $n; close $file; rename 'number.new', 'number' }
$SIG{USR1} = sub { $n += 1; leave };
$SIG{USR2} = sub { $n = -1; leave };
leave;
sleep 1000 while 1;
"""


class Balance:
    """What the daemon and its session hold right now."""

    def __init__(self, daemon, session):
        pids = [pid for pid in proc.pids() if daemon.record.is_ours(pid, daemon.name)]
        # Packs of the store are kept open for readers, 128 of them at most.
        targets = [proc.link(daemon.pid, f"fd/{number}") for number in os.listdir(f"/proc/{daemon.pid}/fd")]
        self.packs = len([target for target in targets if target.removesuffix(" (deleted)").endswith(".pack")])
        self.descriptors = len(targets) - self.packs
        self.threads = len(os.listdir(f"/proc/{daemon.pid}/task"))
        self.resident = at_rest(daemon.pid)
        self.mounts = len(proc.mounts_below(daemon.run)) + len(proc.mounts_below(daemon.state))
        self.processes = len(pids)
        self.namespaces = len({inode for pid in pids for inode in proc.namespaces_of(pid).values()})
        everybody = [facts for facts in map(proc.stat, proc.pids()) if facts]
        self.zombies = len([facts for facts in everybody if facts["parent"] == daemon.pid and facts["state"] == "Z"])
        self.staging = sum(used(path) for path in (daemon.state / "staging", daemon.run / "tmpfs"))
        self.small_files = sum(1 for place in (daemon.run, daemon.state / "sessions") for _ in below(place))
        self.session_descriptors = proc.descriptors(session.pid)

    def __repr__(self):
        return str(vars(self))


def at_rest(pid):
    """What a daemon keeps: it copies what its session wrote while that rests, and needs buffers for it, which it gives back."""
    least = proc.resident(pid)
    for _ in range(20):
        time.sleep(0.1)
        least = min(least, proc.resident(pid))
    return least


def used(path):
    return sum(facts.st_blocks * 512 for _, facts in below(path))


def kernel_cycle(session, number):
    session.kernel.run(f"x = {number}")
    post(session, "snapshot?wait=true", {})
    taken = session.view()["head"]
    session.kernel.run("x = -1")
    post(session, "rollback?wait=true", {"to": taken})
    session.kernel.ready()
    assert session.kernel.value("x") == number


def tiny_cycle(session, number, file):
    """The number in the process is the cycle's own, and the next one once it was rolled back and counted on."""
    assert file.read_text() == str(number)
    post(session, "snapshot?wait=true", {})
    taken = session.view()["head"]
    post(session, "signal", {"signal": "USR2"})
    proc.until("the number is spoilt", lambda: file.read_text() == "-1", seconds=30)
    post(session, "rollback?wait=true", {"to": taken})
    post(session, "signal", {"signal": "USR1"})
    proc.until("it counts on from the snapshot", lambda: file.read_text() == str(number + 1), seconds=30)


def post(session, verb, body):
    status, answer = session.commands.daemon.post(f"/v1/sessions/{session.id}/{verb}", body)
    assert status == 200, answer


def check(before, after, cycles):
    print(f"before: {before}\nafter:  {after}")
    # What a runtime keeps for itself may differ by a thread and its descriptors, not by one for each cycle; one child may have
    # ended a moment ago.
    for name, slack in (
        ("descriptors", 8), ("threads", 8), ("mounts", 0), ("processes", 1), ("namespaces", 0), ("zombies", 1), ("small_files", 4),
        ("session_descriptors", 0),
    ):
        assert getattr(after, name) <= getattr(before, name) + slack, f"{name} grew: {before} {after}"
    assert after.packs <= 128, f"more packs are open than the store may keep: {after}"
    assert after.staging <= before.staging + (1 << 20), f"staging space was not given back: {before} {after}"
    grown = after.resident - before.resident
    assert grown < 32 << 20, f"the daemon grew by {grown} bytes in {cycles} cycles"


def again_and_again(daemon, session, once, cycles, warm):
    """Runs `once(number)` so often. What there is after the first few is what there may be after the last."""
    for number in range(warm):
        once(number)
    before = Balance(daemon, session)
    for number in range(warm, cycles):
        once(number)
    check(before, Balance(daemon, session), cycles - warm)


@pytest.mark.timeout(300 + 3 * TINY_CYCLES)
def test_a_tiny_process(commands, user, daemon):
    session = commands.start("tiny", "perl", "-e", TINY, cwd=user.home)
    file = user.home / "number"
    proc.until("it has begun", file.exists)
    again_and_again(daemon, session, lambda number: tiny_cycle(session, number, file), TINY_CYCLES, min(50, TINY_CYCLES // 4))


# A cycle takes a second and a half on a quiet machine, and three times as long beside other lanes.
@pytest.mark.timeout(300 + 8 * CYCLES)
def test_a_small_kernel(commands, daemon):
    session = commands.kernel("small")
    again_and_again(daemon, session, lambda number: kernel_cycle(session, number), CYCLES, min(50, CYCLES // 4))


@pytest.mark.timeout(300 + 60 * LARGE_CYCLES)
def test_a_large_kernel(commands, daemon):
    session = commands.kernel("large")
    session.kernel.run(f"import numpy; data = numpy.random.default_rng(1).random({LARGE_MIB} << 17)")

    def once(number):
        session.kernel.run(f"data[{number} * 4096] = {number}")
        kernel_cycle(session, number)

    again_and_again(daemon, session, once, LARGE_CYCLES, min(5, LARGE_CYCLES // 2))
