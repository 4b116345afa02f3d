"""A session that the version before has started goes on under this one.

Both are installed from their wheels. That of the version before is built here from a checkout of `INFINIJUP_UPGRADE_FROM`, a name that
git knows; it takes minutes, so this is a test of `.ci/run --full`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.session import Commands

REPOSITORY = Path(__file__).resolve().parents[2]


def git(*words):
    return subprocess.run(["git", "-C", REPOSITORY, *words], check=True, capture_output=True, text=True).stdout.strip()


def install(wheel, place):
    """As pip puts it into an environment that everybody may enter."""
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run([place / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    return place / "bin"


@pytest.fixture(scope="module")
def before(record):
    """The programs of the version before."""
    checkout, out = record.base / "before", record.base / "before-wheel"
    git("worktree", "add", "--force", "--detach", str(checkout), os.environ["INFINIJUP_UPGRADE_FROM"])
    try:
        # The dependencies are mostly the same, so they are built once for both.
        target = os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target"
        words = ["scripts/build-wheel.sh", "--venv", os.environ["INFINIJUP_LAB"], "--out", out]
        subprocess.run(words, check=True, cwd=checkout, env={**os.environ, "CARGO_TARGET_DIR": f"{target}/before"})
    finally:
        git("worktree", "remove", "--force", str(checkout))
    (wheel,) = out.glob("infinijup-*.whl")
    return install(wheel, record.base / "before-venv")


@pytest.fixture(scope="module")
def now(record):
    """The programs of this version."""
    return install(os.environ["INFINIJUP_WHEEL"], record.base / "now-venv")


@pytest.mark.timeout(2400)
def test_a_session_outlives_the_upgrade(before, now, make_daemon, user):
    daemon = make_daemon()
    daemon.stop()
    daemon.bin = before
    daemon.start()
    session = Commands(daemon, user).kernel("k")
    session.kernel.run("x = 1")
    old = session.snapshot()["commit"]
    asleep = Commands(daemon, user).kernel("asleep")
    asleep.kernel.run("y = 1")
    asleep.suspend()
    session.kernel.run("x = 2")

    daemon.stop()
    daemon.bin = now
    daemon.start()
    assert session.kernel.value("x") == 2, "it never noticed"
    asleep.resume()
    asleep.kernel.ready()
    assert asleep.kernel.value("y") == 1
    taken = session.snapshot()["commit"]
    session.kernel.run("x = 3")
    for commit, x in ((taken, 2), (old, 1)):
        session.rollback(commit)
        session.kernel.ready()
        assert session.kernel.value("x") == x
    branch, _ = session.branch("b")
    branch.connect()
    assert branch.kernel.value("x") == 1
