"""A program that ends by itself while its session goes back: there is nothing left to keep, and the way back is open."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import proc

# Parts of the time that a rollback takes, at which the program ends.
MOMENTS = [part / 12 for part in range(12)]


@pytest.mark.timeout(240)
def test_a_rollback_needs_nothing_of_what_has_just_ended(commands):
    session = commands.start("s", "sleep", "1000")
    taken = session.snapshot()["commit"]
    begun = time.monotonic()
    session.rollback(taken)
    whole = time.monotonic() - begun
    with ThreadPoolExecutor(1) as pool:
        for moment in MOMENTS:
            program = sleeper(session)
            work = pool.submit(go_back, session, taken)
            time.sleep(moment * whole)
            end(program)
            work.result()
            assert session.state == "running"
            assert proc.is_alive(sleeper(session)), "it runs again"


def sleeper(session):
    """The program below the session's first process."""
    return proc.identity(next(pid for pid in proc.tree(session.pid) if proc.read(pid, "comm") == b"sleep\n"))


def end(program):
    """The program ends, unless the rollback was faster."""
    if proc.is_alive(program):
        os.kill(program["pid"], signal.SIGKILL)


def go_back(session, taken):
    """A rollback; while the end of the program is being noted, the session is busy."""

    def went_back():
        answer = session.commands.run("rollback", session.name, taken, "--force", check=False)
        assert answer.code == 0 or answer.error["code"] == "IJ-L013", answer.error
        return answer.code == 0

    proc.until("the session goes back", went_back, seconds=60)
