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


@pytest.mark.parametrize("after", ["start", "rollback", "branch"])
def test_limits_hold(commands, after):
    session = commands.kernel("small", options=["--memory", "512M", "--pids", "64"])
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
