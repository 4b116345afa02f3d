"""Sessions live on while the daemon is away, and are adopted by the next one."""

import os
import shutil

import pytest

from harness import proc
from harness.proc import until


@pytest.mark.parametrize("way", ["stop", "kill", "upgrade"])
def test_kernels_do_not_notice(commands, daemon, way):
    session = commands.kernel("k")
    branch, _ = session.branch("b")
    branch.connect()
    kernel, pid = session.kernel, session.pid
    taken = session.snapshot()
    kernel.run("import time; x = 1")
    cell = kernel.send("for n in range(100): time.sleep(0.01)\nx = 2")
    if way == "kill":
        daemon.kill()
    else:
        daemon.stop()
    # The client is served while there is no daemon.
    kernel.finish(cell)
    assert kernel.value("x") == 2
    if way == "upgrade":
        new = daemon.bin / "infinijupd.new"
        shutil.copy(daemon.bin / "infinijupd", new)
        os.rename(new, daemon.bin / "infinijupd")
    daemon.start()
    assert session.state == "running" and session.pid == pid
    assert branch.kernel.value("1 + 1") == 2
    session.rollback(taken["commit"])
    kernel.ready()
    assert kernel.value("'x' in globals()") is False
    session.stop()
    assert session.state == "ended"
    assert branch.state == "running"


def test_an_end_while_the_daemon_is_away_is_found_out(commands, daemon):
    session = commands.start("box", "sleep", "1000")
    pid = session.pid
    daemon.kill()
    proc.kill(pid)
    daemon.start()
    # Killed, not ended: nobody was left to write down a status.
    until("it is known to have ended", lambda: session.state == "failed")


def test_the_daemon_reaps_what_it_adopts(commands, daemon):
    session = commands.start("box", "sleep", "1000")
    session.snapshot()
    session.rollback(session.view()["head"])
    pid = session.pid
    proc.kill(pid)
    until("the session has ended", lambda: session.state == "failed")
    until("nothing of it is left", lambda: proc.stat(pid) is None)
