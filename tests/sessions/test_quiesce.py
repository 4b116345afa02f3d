"""A program that chooses the moment of its snapshot, and goes back to work wherever it wakes up."""

import shutil
import sys
from pathlib import Path

import pytest

from harness.proc import until

PACKAGE = Path(__file__).parents[2] / "python/infinijup/infinijup"
RESTED = ["rests", "works"]


@pytest.fixture
def quiesce(user):
    """The command, with a copy of the package that the user can read."""
    place = user.mkdir(user.home / "package")
    shutil.copytree(PACKAGE, place / "infinijup", ignore=shutil.ignore_patterns("__pycache__"))
    return f"env PYTHONPATH={place} {sys.executable} -m infinijup"


@pytest.fixture
def session(commands, user, quiesce):
    session = commands.kernel("rests")
    session.kernel.run(f"import sys; sys.path.insert(0, {str(user.home / 'package')!r})")
    session.kernel.run("%load_ext infinijup")
    session.kernel.run("import infinijup; said = []")
    session.kernel.run("hook = infinijup.register('hook', lambda: said.append('rests'), lambda: said.append('works'))")
    return session


def has_said(session, words):
    until(f"{session.name} says {words}", lambda: session.kernel.value("said") == words)


def test_it_is_at_rest_in_the_snapshot(session, quiesce):
    taken = session.snapshot("--quiesce", f"{quiesce} --rest 600")
    assert session.kernel.value("said") == ["rests"]
    session.execute(*quiesce.split(), "--resume")
    assert session.kernel.value("said") == RESTED

    session.kernel.run("said.append('later')")
    session.rollback(taken["commit"])
    assert session.kernel.value("said") == ["rests"]
    # It listens as it did before.
    session.execute(*quiesce.split(), "--resume")
    assert session.kernel.value("said") == RESTED


def test_it_goes_back_to_work_by_itself_wherever_it_wakes_up(session, quiesce):
    session.snapshot("--quiesce", f"{quiesce} --rest 1")
    has_said(session, RESTED)

    other, _ = session.branch("other")
    other.connect()
    other.kernel.run("said.clear()")
    other.snapshot("--quiesce", f"{quiesce} --rest 1")
    has_said(other, RESTED)

    session.suspend()
    session.resume()
    session.kernel.ready(60)
    session.kernel.run("said.clear()")
    session.snapshot("--quiesce", f"{quiesce} --rest 1")
    has_said(session, RESTED)


def test_a_hook_that_refuses_means_no_snapshot(session, quiesce, commands):
    session.kernel.run("infinijup.on_quiesce(lambda: 1 / 0, order=1)")
    error = commands.fails("snapshot", session.name, "--quiesce", quiesce)
    assert error["code"] == "IJ-L042"
    assert "ZeroDivisionError" in error["message"]
    has_said(session, RESTED)
