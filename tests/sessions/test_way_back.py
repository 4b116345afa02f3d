"""Memory comes back straight from the store: all of it, of whatever sort, and nothing runs before it is there."""

import http.client
import threading
from pathlib import Path

import pytest

from harness import proc
from harness.proc import until

MEMORY = (Path(__file__).parent / "harness/memory.py").read_text()


def filled(commands, name, mib):
    session = commands.kernel(name)
    session.kernel.run(MEMORY)
    session.kernel.run(f"memory = Memory({mib})", seconds=120)
    assert session.kernel.value("memory.zeros()")
    return session, session.kernel.value("memory.marks()")


def assert_whole(session, marks):
    session.kernel.ready(120)
    assert session.kernel.value("memory.zeros()"), "there was something where nothing had been"
    assert session.kernel.value("memory.marks()") == marks


@pytest.mark.timeout(600)
def test_every_sort_of_memory_comes_back(commands, daemon):
    session, marks = filled(commands, "all", 160)
    taken = session.snapshot()
    session.kernel.run("memory.wreck()")
    assert session.kernel.value("memory.marks()") != marks
    assert session.rollback(taken["commit"])["warnings"] == []
    assert_whole(session, marks)
    # From a state that has come back itself, and with nothing but the store.
    session.suspend()
    daemon.restart()
    session.resume()
    assert_whole(session, marks)
    branch, outcome = session.branch("twig")
    assert outcome["warnings"] == []
    branch.connect()
    session.kernel.run("memory.wreck()")
    assert_whole(branch, marks)
    branch.remove()
    assert "came through images" not in daemon.log.read_text()


def stopped_by_its_user(session):
    """A process in the session that its user has stopped, as the machine numbers it."""
    return [pid for pid in proc.tree(session.pid) if (proc.stat(pid) or {}).get("state") == "T"]


def test_what_its_user_has_stopped_stays_so(commands):
    session = commands.kernel("stopped")
    session.kernel.run("data = bytearray(64 << 20); data[:] = b'x' * len(data)")
    session.kernel.run("import signal, subprocess; child = subprocess.Popen(['sleep', '1000']); child.send_signal(signal.SIGSTOP)")
    until("it is stopped", lambda: len(stopped_by_its_user(session)) == 1)
    taken = session.snapshot()
    session.rollback(taken["commit"])
    session.kernel.ready()
    assert session.kernel.value("data.count(b'x')") == 64 << 20
    # While the daemon looks at its memory, it is traced for moments.
    until("it is stopped, and nobody let it go on", lambda: len(stopped_by_its_user(session)) == 1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["resume", "rollback", "branch"])
def test_what_is_half_filled_dies_with_the_daemon(commands, daemon, way):
    session, marks = filled(commands, "half", 256)
    taken = session.snapshot()
    before = {view["id"] for view in commands.sessions().values()}
    if way == "resume":
        session.suspend()
    body = {"to": taken["commit"]} if way == "rollback" else {}
    asking = threading.Thread(target=ask, args=(daemon, f"/v1/sessions/{session.id}/{way}", body), daemon=True)
    # What runs the daemon holds for moments, to copy what it writes; what is new, to fill it.
    others = set(proc.pids())
    asking.start()
    victims = until("processes are being filled", lambda: proc.traced_by(daemon.pid, others), seconds=120, pause=0.001)
    daemon.kill()
    until("they are gone", lambda: all(proc.is_over(pid) for pid in victims))
    daemon.start()
    asking.join(60)
    until("it has settled", lambda: session.state in ("running", "suspended"), seconds=120)
    assert session.state == "running", session.view()
    assert_whole(session, marks)
    # A branch that was cut short never was.
    assert {view["id"] for view in commands.sessions().values()} == before


def ask(daemon, target, body):
    """It may never be answered."""
    try:
        daemon.post(target + "?wait=true", body)
    except (OSError, ValueError, http.client.HTTPException):
        pass
