"""Memory and process limits hold, and hold again after a restore."""

import pytest

FORK = """
import os, signal
children, refused = [], False
for _ in range(200):
    try:
        pid = os.fork()
    except BlockingIOError:
        refused = True
        break
    if pid == 0:
        signal.pause()
    children.append(pid)
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""
# A child, so that the kernel itself survives.
EAT = """
import subprocess, sys
eaten = subprocess.run([sys.executable, '-c', "x = bytearray(700 << 20); print(len(x))"], capture_output=True).returncode
"""


def test_without_a_delegated_group_a_limit_is_refused_in_plain_words(commands):
    for option in (["--memory", "512M"], ["--pids", "64"]):
        error = commands.fails("run", "--name", "small", *option, "--", "true")
        assert "control group" in error["message"] and "Delegate" in error["message"], error
    assert commands.sessions() == {}


@pytest.mark.parametrize("after", ["start", "rollback", "branch"])
def test_limits_hold(root, after):
    """Root has the machine's groups."""
    work = root.user.mkdir(root.daemon.state.parent / "work")
    session = root.kernel("small", options=["--memory", "512M", "--pids", "64"], cwd=work)
    if after == "rollback":
        session.rollback(session.snapshot()["commit"])
        session.kernel.ready()
    elif after == "branch":
        session, _ = session.branch("copy")
        session.connect()
    session.kernel.run(FORK)
    assert session.kernel.value("refused")
    session.kernel.run(EAT)
    assert session.kernel.value("eaten") != 0
    session.kernel.run("fine = len(bytearray(100 << 20))")
