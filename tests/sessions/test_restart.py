"""A restart runs the command anew in the same session: its history, its ports and its key stay, its processes do not."""

import http.client
import os
import random
import threading
import time
from pathlib import Path

import pytest

from harness import proc
from harness.notebook_kernel import IPYKERNEL, Provisioner
from harness.wire import request

ROUNDS = int(os.environ.get("INFINIJUP_RESTART_KILLS", "12"))


@pytest.fixture
def jupyter(commands):
    return Provisioner(commands)


def test_the_history_goes_on(jupyter):
    session = jupyter.start("k")
    file = Path(session.view()["kernel"]["connection_file"])
    connection, pid = file.read_text(), session.pid
    session.kernel.run("x = 1")
    first = session.snapshot()["commit"]
    session.kernel.run("x = 2")

    view = jupyter.restart(session, snapshot=True)
    assert view["id"] == session.id and view["state"] == "running" and view["thread"] == session.first_view["thread"]
    assert view["pid"] != pid
    assert file.read_text() == connection, "whoever has the connection file need not read it again"
    session.kernel.ready()
    assert session.kernel.value("'x' in globals()") is False
    before = jupyter.history(session)[0]
    assert before["reason"] == "before-restart" and before["parents"] == [first]
    assert view["head"] == before["id"]

    session.kernel.run("y = 3")
    second = session.snapshot()["commit"]
    assert jupyter.history(session)[0]["parents"] == [before["id"]]
    # To before the restart and back again, with the same client.
    for commit, expression, value in [(before["id"], "x", 2), (second, "y", 3), (first, "x", 1)]:
        session.rollback(commit)
        session.kernel.ready()
        assert session.kernel.value(expression) == value
    session.remove()


@pytest.mark.parametrize("state", ["suspended", "ended", "failed", "never snapshotted"])
def test_a_session_without_processes_starts_anew(jupyter, state):
    session = jupyter.start("k")
    session.kernel.run("x = 1")
    head = None
    if state == "suspended":
        head = session.suspend()["commit"]
    elif state == "never snapshotted":
        session.stop()
    else:
        head = session.snapshot()["commit"]
        if state == "ended":
            session.stop()
        else:
            proc.kill(session.pid)
            proc.until("its end is noticed", lambda: session.state == "failed", seconds=30)
    view = jupyter.restart(session)
    assert view["state"] == "running" and view["exit"] is None
    assert view["head"] == head
    session.kernel.ready(60)
    assert session.kernel.value("'x' in globals()") is False
    if head:
        session.rollback(head)
        session.kernel.ready()
        assert session.kernel.value("x") == 1
    session.remove()


def test_an_exit_status_is_that_of_the_last_command(jupyter):
    session = jupyter.start("k")
    session.kernel.send("import os; os._exit(3)")
    proc.until("its end is noticed", lambda: session.state == "ended", seconds=30)
    assert session.view()["exit"] == 3
    jupyter.restart(session)
    proc.kill(session.pid)
    proc.until("its end is noticed", lambda: session.state not in ("running", "starting"), seconds=30)
    # Its init was killed and could not say anything; what the command before it said is no answer.
    assert session.state == "failed" and session.view()["exit"] is None


def test_what_fails_keeps_its_snapshots(jupyter):
    session = jupyter.start("k")
    session.kernel.run("x = 1")
    error = jupyter.restart(session, status=400, start={**IPYKERNEL, "argv": ["/bin/false"]}, snapshot=True)
    assert error["code"] == "IJ-L016"
    view = session.view()
    assert view["state"] == "ended" and view["exit"] == 1
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    # What can be known beforehand costs nothing.
    pid = session.pid
    for wrong in ({"start": {"type": "command", "argv": ["true"]}}, {"cwd": "/nowhere"}, {"start": {"type": "kernel", "spec": "none"}}):
        jupyter.restart(session, status=400, **wrong)
    assert session.pid == pid and session.kernel.value("x") == 1
    session.remove()


def test_a_branch_keeps_its_own_files(jupyter):
    work = jupyter.user.mkdir(jupyter.user.home / "work")
    session = jupyter.start("k", cwd=str(work))
    session.kernel.run("open('f', 'w').write('original')")
    branch, _ = session.branch("b")
    branch.connect()
    branch.kernel.run("open('f', 'w').write('branch')")
    jupyter.restart(branch)
    branch.kernel.ready()
    assert branch.kernel.value("open('f').read()") == "branch"
    assert (work / "f").read_text() == "original"
    branch.remove()
    session.remove()


class Restart(threading.Thread):
    """A restart that may never be answered."""

    def __init__(self, jupyter, session):
        super().__init__(daemon=True)
        self.socket = jupyter.daemon.socket
        self.target = f"/v1/sessions/{session.id}/restart?wait=true"
        self.body = {"start": IPYKERNEL, "env": jupyter.env(), "grace_ms": 2000}

    def run(self):
        try:
            request(self.socket, "POST", self.target, self.body, seconds=60)
        except (OSError, ValueError, http.client.HTTPException):
            pass


@pytest.mark.timeout(600)
def test_kill_of_the_daemon_in_the_middle(jupyter, daemon):
    seed = int(os.environ.get("INFINIJUP_SEED", time.time_ns() % 1_000_000))
    print(f"INFINIJUP_SEED={seed}")
    chance = random.Random(seed)
    session = jupyter.start("k")
    session.kernel.run("x = 0")
    kept = session.snapshot()["commit"]
    begun = time.monotonic()
    jupyter.restart(session)
    took = time.monotonic() - begun
    seen = set()
    for value in range(1, ROUNDS + 1):
        session.kernel.ready(60)
        session.kernel.run(f"x = {value}")
        work = Restart(jupyter, session)
        work.start()
        time.sleep(chance.uniform(0, 1.1) * took)
        daemon.kill()
        work.join(60)
        daemon.start()
        state = session.state
        seen.add(state)
        assert state in ("running", "failed", "ended"), session.view()
        if state != "running":
            here = proc.link("self", "ns/pid")
            inside = [pid for pid in proc.pids() if proc.link(pid, "ns/pid") not in ("", here)]
            left = [pid for pid in inside if daemon.record.is_ours(pid, daemon.name)]
            assert not left, f"processes were left: {left}"
            jupyter.restart(session)
        else:
            session.kernel.ready(60)
            # The old one as it was, or the new one.
            assert session.kernel.value("globals().get('x')") in (value, None)
        assert kept in [commit["id"] for commit in jupyter.history(session)]
    print(f"states: {seen}")
    session.rollback(kept)
    session.kernel.ready()
    assert session.kernel.value("x") == 0
