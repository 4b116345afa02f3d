"""A session whose writes are followed: from its first instruction after a restore, while it rests, and never again once that went wrong."""

import os
import time

import pytest

from harness.metrics import copied, figures
from harness.proc import until

MIB = 1 << 20
SIZE = 192

WORLD = f"""
import hashlib, os
data = bytearray(os.urandom(1 << 20) * {SIZE})
for at in range(0, len(data), 4096):
    data[at : at + 8] = at.to_bytes(8, "little")

def write(first, pages, byte):
    for page in range(first, first + pages):
        data[page * 4096 + 9] = byte

def observe():
    return hashlib.sha256(data).hexdigest()
"""


def world(commands, name):
    session = commands.kernel(name)
    session.kernel.run(WORLD)
    return session


@pytest.mark.timeout(300)
def test_the_first_snapshot_after_a_restore_copies_what_was_written(commands, daemon):
    session = world(commands, "back")
    first = session.snapshot()
    assert copied(daemon) > SIZE * MIB, "the first of all copies everything"
    at_first = session.kernel.value("observe()")

    def changed(session, byte, restores):
        """Writes to 300 pages, takes a snapshot, and sees that not much more was copied."""
        assert figures(daemon)["followed_from_restore_total"] == restores
        session.connect()
        before = copied(daemon)
        session.kernel.run(f"write(1000, 300, {byte})")
        outcome = session.snapshot()
        assert outcome["warnings"] == [] and outcome["frozen_bytes"] is not None
        # What CRIU brings itself, small mappings all, is copied once more.
        assert copied(daemon) - before < outcome["memory_bytes"] - (SIZE - 16) * MIB
        assert outcome["new_bytes"] < 64 * MIB
        return outcome["commit"], session.kernel.value("observe()")

    taken = []
    session.rollback(first["commit"])
    taken.append(changed(session, 1, 1))
    session.suspend()
    session.resume()
    taken.append(changed(session, 2, 2))
    branch, _ = session.branch("beside")
    taken.append(changed(branch, 3, 3))
    for commit, then in [*taken[:2], (first["commit"], at_first)]:
        session.rollback(commit)
        session.kernel.ready()
        assert session.kernel.value("observe()") == then
    branch.rollback(taken[2][0])
    branch.kernel.ready()
    assert branch.kernel.value("observe()") == taken[2][1]


@pytest.mark.timeout(300)
def test_what_a_cell_wrote_is_copied_while_its_kernel_rests(commands, daemon):
    session = world(commands, "rests")
    session.snapshot()
    kernel = session.kernel
    kernel.run("write(0, 20000, 7)")
    before = kernel.value("observe()")
    until("it is copied beforehand", lambda: copied(daemon, "rest") > 20000 * 4096, seconds=60)
    until("the round is over", lambda: figures(daemon)["waiting_bytes"] > 20000 * 4096)
    at_dump = copied(daemon, "dump")
    outcome = session.snapshot()
    assert outcome["warnings"] == [] and outcome["frozen_bytes"] is not None
    assert copied(daemon, "dump") - at_dump < 16000 * 4096, "it was copied again"
    assert figures(daemon)["waiting_bytes"] == 0
    kernel.run("write(3, 9000, 8)")
    session.rollback(outcome["commit"])
    kernel.ready()
    assert kernel.value("observe()") == before


@pytest.mark.timeout(300)
def test_a_kernel_that_nobody_uses_is_left_alone(commands, daemon):
    session = world(commands, "unused")
    session.snapshot()

    def rounds():
        return figures(daemon)['rounds_total{when="rest"}']

    # Whatever it still had to do is over when there was no round for a while.
    quiet = until("it is quiet", lambda: _same_for(rounds, 4.0), seconds=60)
    assert _same_for(rounds, 6.0) == quiet


def _same_for(value, seconds):
    """The value, if it stays the same for so long."""
    before = value()
    time.sleep(seconds)
    return (before,) if value() == before else None


@pytest.mark.timeout(300)
def test_a_dump_does_not_wait_for_what_is_copied_beforehand(commands, daemon):
    """Snapshots that come at any moment of such a round are whole."""
    session = world(commands, "interrupted")
    session.snapshot()
    kernel = session.kernel
    for number in range(2):
        kernel.run(f"write(0, 40000, {number + 1})")
        before = kernel.value("observe()")
        rounds = copied(daemon, "rest") + figures(daemon)["waiting_bytes"]
        if number:
            until("a round has begun", lambda rounds=rounds: copied(daemon, "rest") + figures(daemon)["waiting_bytes"] != rounds, seconds=60)
        outcome = session.snapshot()
        assert outcome["warnings"] == [] and outcome["frozen_bytes"] is not None
        kernel.run("write(100, 100, 99)")
        session.rollback(outcome["commit"])
        kernel.ready()
        assert kernel.value("observe()") == before


@pytest.mark.timeout(300)
def test_a_session_that_was_followed_wrongly_is_never_followed_again(commands, daemon, user):
    session = world(commands, "odd")
    first = session.snapshot()
    assert first["frozen_bytes"] is not None
    # What is written down when a page was found that nobody had noticed the write to.
    marker = daemon.state / "sessions" / session.id / "not-followed"
    marker.write_text("page 1000 of task 300 was written and nobody noticed")
    os.chown(marker, user.uid, user.gid)
    assert session.snapshot()["frozen_bytes"] is None
    session.rollback(first["commit"])
    session.kernel.ready()
    assert session.snapshot()["frozen_bytes"] is None
    assert figures(daemon)['plain_dumps_total{why="mistrusted"}'] >= 2
    daemon.restart()
    assert session.snapshot()["frozen_bytes"] is None
    doctor = {item["item"]: item for item in commands.run("doctor").one("doctor")["findings"]}["copying memory ahead"]
    assert doctor["state"] == "warn" and session.id in doctor["evidence"] and "page 1000" in doctor["evidence"]
    other = world(commands, "even")
    assert other.snapshot()["frozen_bytes"] is not None
