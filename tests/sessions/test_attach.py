"""`attach --pid` adopts a process tree that we did not start."""

import subprocess
import sys
import threading

import pytest

from harness import proc
from harness.kernel import Kernel


@pytest.fixture
def plain_kernel(user):
    """A kernel that somebody started by hand, without any namespace of its own."""
    connection = user.home / "plain.json"
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", str(connection), "--HistoryManager.enabled=False"]
    process = subprocess.Popen(
        user.words(words), env=user.environment(), cwd=user.home,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    # A rollback needs its number again: it must not stay behind as a zombie of ours.
    threading.Thread(target=process.wait, daemon=True).start()
    proc.until("its connection file is there", lambda: connection.exists() and connection.stat().st_size)
    kernel = Kernel(connection).ready(60)
    yield process, kernel
    kernel.close()
    process.kill()
    process.wait()


def test_a_foreign_kernel_is_adopted(root, plain_kernel):
    process, kernel = plain_kernel
    kernel.run("x = 1")
    view = root.run("attach", "--pid", str(process.pid), "--name", "found").one("attached")["session"]
    session = root.session(view)
    assert session.view()["pid"] == process.pid
    taken = session.snapshot()
    kernel.run("x = 2")
    assert kernel.value("x") == 2
    session.rollback(taken["commit"])
    kernel.ready()
    assert kernel.value("x") == 1


def test_only_roots_own_daemon_can(commands, plain_kernel, daemon):
    """Saving a process outside of a box takes root's rights, which a user's daemon has not."""
    process, kernel = plain_kernel
    for pid, codes in ((process.pid, ("IJ-L015",)), (1, ("IJ-D010",)), (daemon.pid, ("IJ-L010", "IJ-L015"))):
        error = commands.fails("attach", "--pid", str(pid))
        assert error["code"] in codes, error
    assert "root" in commands.fails("attach", "--pid", str(process.pid))["message"]
    assert kernel.value("1 + 1") == 2
