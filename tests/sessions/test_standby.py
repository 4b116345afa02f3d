"""The newest snapshot of a kernel stands by: going back to it is a switch, is right, and leaves nothing behind."""

import os
import signal
import time
from pathlib import Path

import pytest

from harness import proc
from harness.metrics import copied, figures
from harness.proc import until
from harness.session import Commands

MIB = 1 << 20
SIZE = 192
MEMORY = (Path(__file__).parent / "harness/memory.py").read_text()


@pytest.fixture
def daemon(make_daemon, user):
    """One that keeps standbys."""
    return make_daemon({"INFINIJUP_STANDBY": "on"}, user)


@pytest.fixture
def commands(user, daemon):
    return Commands(daemon, user)


def stands_by(session):
    """Waits for its standby. The memory that it has."""
    return until("it stands by", lambda: session.view()["standby_bytes"], seconds=120)


def held(daemon, session):
    """The processes that the daemon holds still, but for those of the session itself, which it holds for moments to copy what they write."""
    return proc.traced_by(daemon.pid, proc.tree(session.pid))


def root_of_standby(daemon, session):
    """The first process of what stands by; the first of a box is number 300 in there."""
    roots = [pid for pid in held(daemon, session) if proc.status(pid, "NSpid").split()[-1:] == ["300"]]
    assert len(roots) == 1, roots
    return roots[0]


def was_a_switch(outcome):
    """Whether nothing had to be laid out for it."""
    return "lay out images" not in [step["name"] for step in outcome["steps"]]


def boxes_of(session):
    """The holders of all boxes of a session."""
    words = (f"/sessions/{session.id}/box\0").encode()
    return [pid for pid in proc.pids() if b"\0holder\0" in (line := proc.read(pid, "cmdline") or b"") and words in line]


def switched(session, daemon, to):
    """Goes back by what stands by; how long it took."""
    stands_by(session)
    root = root_of_standby(daemon, session)
    began = time.monotonic()
    outcome = session.rollback(to)
    took = time.monotonic() - began
    assert was_a_switch(outcome), outcome["steps"]
    assert outcome["warnings"] == []
    assert session.pid == root, "it was not the one that stood by"
    session.kernel.ready(60)
    return took, outcome


@pytest.mark.timeout(600)
def test_undo_is_a_switch_and_right_in_every_byte(commands, daemon):
    session = commands.kernel("undo")
    session.kernel.run(MEMORY)
    session.kernel.run("memory = Memory(160)", seconds=120)
    marks = session.kernel.value("memory.marks()")
    taken = session.snapshot()["commit"]
    for _ in range(3):
        # The second and third time what is left is itself one that stood by, and the snapshot is the same.
        stands_by(session)
        session.kernel.run("memory.wreck()")
        assert session.kernel.value("memory.marks()") != marks
        _, outcome = switched(session, daemon, taken)
        assert session.kernel.value("memory.zeros()")
        assert session.kernel.value("memory.marks()") == marks
        assert len(boxes_of(session)) <= 2
    # What was left is in history, and can be gone to.
    assert outcome["automatic"]
    session.rollback(outcome["automatic"])
    session.kernel.ready(120)
    assert session.kernel.value("memory.marks()") != marks


@pytest.mark.timeout(600)
def test_what_stood_by_is_followed_from_its_first_instruction(commands, daemon):
    session = commands.kernel("followed")
    session.kernel.run(f"import os, hashlib; data = bytearray(os.urandom({SIZE} << 20))", seconds=60)
    before = session.kernel.value("hashlib.sha256(data).hexdigest()")
    taken = session.snapshot()["commit"]
    stands_by(session)
    session.kernel.run("data[1 << 20 : 60 << 20] = bytes(59 << 20)")
    assert figures(daemon)["followed_from_restore_total"] == 0
    switched(session, daemon, taken)
    assert figures(daemon)["followed_from_restore_total"] == 1
    at_switch = copied(daemon)
    session.kernel.run("data[4096 * 5000] ^= 255")
    outcome = session.snapshot()
    assert outcome["warnings"] == [] and outcome["frozen_bytes"] is not None
    # What CRIU brings itself, small mappings all, is copied once more.
    assert copied(daemon) - at_switch < outcome["memory_bytes"] - (SIZE - 16) * MIB
    session.kernel.run("data[4096 * 5000] ^= 255; data = None")
    session.rollback(outcome["commit"])
    session.kernel.ready(120)
    session.kernel.run("data[4096 * 5000] ^= 255")
    assert session.kernel.value("hashlib.sha256(data).hexdigest()") == before


@pytest.mark.timeout(600)
def test_a_newer_snapshot_takes_the_place_of_the_older(commands, daemon):
    session = commands.kernel("newer")
    session.kernel.run("x = 1")
    first = session.snapshot()["commit"]
    stands_by(session)
    old = root_of_standby(daemon, session)
    session.kernel.run("x = 2")
    second = session.snapshot()["commit"]
    until("the old one is gone", lambda: proc.is_over(old))
    session.kernel.run("x = 3")
    switched(session, daemon, second)
    assert session.kernel.value("x") == 2
    # There is nothing for this one: it takes the ordinary way.
    outcome = session.rollback(first)
    assert not was_a_switch(outcome)
    session.kernel.ready(60)
    assert session.kernel.value("x") == 1


@pytest.mark.timeout(600)
def test_open_files_are_where_they_were(commands, daemon, user):
    session = commands.kernel("files")
    session.kernel.run("log = open('log.txt', 'a+'); log.write('one\\n'); log.flush()")
    session.kernel.run("reader = open('log.txt'); reader.readline()")
    taken = session.snapshot()["commit"]
    stands_by(session)
    session.kernel.run("log.write('two, which is undone\\n'); log.flush()")
    session.kernel.run("open('new.txt', 'w').write('undone, too')")
    switched(session, daemon, taken)
    session.kernel.run("log.write('three\\n'); log.flush()")
    assert session.kernel.value("open('log.txt').read()") == "one\nthree\n"
    assert session.kernel.value("reader.read()") == "three\n"


@pytest.mark.timeout(600)
def test_a_file_that_was_exchanged_means_the_ordinary_way(commands, daemon):
    session = commands.kernel("exchanged")
    session.kernel.run("held = open('held.txt', 'w+'); held.write('one'); held.flush()")
    taken = session.snapshot()["commit"]
    stands_by(session)
    standby = root_of_standby(daemon, session)
    session.kernel.run("import os; open('other.txt', 'w').write('another'); os.replace('other.txt', 'held.txt')")
    outcome = session.rollback(taken, "--force")
    assert session.pid != standby
    until("what stood by is gone", lambda: proc.is_over(standby))
    assert outcome["warnings"] == []
    session.kernel.ready(60)
    assert session.kernel.value("(held.seek(0), held.read())[1]") == "one"
    session.kernel.run("import os")
    assert session.kernel.value("os.fstat(held.fileno()).st_ino == os.stat('held.txt').st_ino")


@pytest.mark.timeout(600)
def test_what_cannot_be_there_twice_does_not_stand_by(commands, daemon):
    session = commands.kernel("locked")
    session.kernel.run("import fcntl; locked = open('lock', 'w'); fcntl.flock(locked, fcntl.LOCK_EX)")
    taken = session.snapshot()["commit"]
    session.kernel.run("x = 1")
    # Beside one that stands by by now, it does not.
    other = commands.kernel("other")
    other.snapshot()
    stands_by(other)
    assert session.view()["standby_bytes"] is None
    assert len(boxes_of(session)) == 1
    outcome = session.rollback(taken)
    assert not was_a_switch(outcome)
    session.kernel.ready(60)
    assert session.kernel.value("locked.closed") is False


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_it_goes_with_the_daemon(commands, daemon, how):
    session = commands.kernel("gone")
    session.kernel.run("data = bytearray(64 << 20); data[:] = b'x' * len(data)")
    taken = session.snapshot()["commit"]
    stands_by(session)
    victims = held(daemon, session)
    assert victims
    getattr(daemon, how)()
    until("they are gone", lambda: all(proc.is_over(pid) for pid in victims))
    until("its box is gone", lambda: len(boxes_of(session)) == 1)
    daemon.start()
    assert not (daemon.run / "gate" / f"{session.id}+").exists()
    assert [path.name for path in (daemon.state / "staging").iterdir()] == []
    assert session.kernel.value("data.count(b'x')") == 64 << 20, "the session itself went on"
    session.kernel.run("data = None")
    outcome = session.rollback(taken)
    session.kernel.ready(60)
    assert session.kernel.value("data.count(b'x')") == 64 << 20, outcome


@pytest.mark.timeout(600)
def test_one_that_was_killed_is_not_missed(commands, daemon):
    session = commands.kernel("killed")
    session.kernel.run("x = 1")
    taken = session.snapshot()["commit"]
    stands_by(session)
    standby = root_of_standby(daemon, session)
    os.kill(standby, signal.SIGKILL)
    session.kernel.run("x = 2")
    session.rollback(taken)
    session.kernel.ready(60)
    assert session.kernel.value("x") == 1
    until("nothing is left of it", lambda: len(boxes_of(session)) <= 2)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("end", ["suspend", "stop"])
def test_it_ends_with_its_session(commands, daemon, end):
    session = commands.kernel("ended")
    session.snapshot()
    stands_by(session)
    victims = held(daemon, session)
    getattr(session, end)()
    assert all(proc.is_over(pid) for pid in victims)
    assert boxes_of(session) == []
    assert not (daemon.run / "gate" / f"{session.id}+").exists()
