"""Everything that a kernel holds, snapshotted in the middle of a cell, comes back by a rollback."""

import os
from pathlib import Path

import pytest

from harness.proc import until

WORLD = (Path(__file__).parent / "harness/world.py").read_text()
ROUNDS = int(os.environ.get("INFINIJUP_STATE_ROUNDS", "8"))

# A cell that runs until it is told to stop, and says how far it got.
LONG_CELL = """
cell, cell_done = 0, False
open(begun, "w").close()
while not os.path.exists(go):
    cell += 1
    time.sleep(0.002)
cell_done = True
"""


@pytest.fixture
def session(commands, user):
    workspace = user.mkdir(user.home / "work")
    session = commands.kernel("world", cwd=workspace)
    session.kernel.run("import os, time")
    session.kernel.run(WORLD)
    session.kernel.run(f"world = World({str(workspace)!r}); go, begun = {str(workspace / 'go')!r}, {str(workspace / 'begun')!r}")
    return session


@pytest.mark.timeout(900)
def test_everything_comes_back_again_and_again(session, user):
    kernel, go, begun = session.kernel, user.home / "work/go", user.home / "work/begun"
    for number in range(1, ROUNDS + 1):
        kernel.run(f"world.advance({number})")
        kernel.run("world.is_connected() or world.reconnect()")
        before = kernel.value("world.observe()")
        assert before["number"] == number and before["in transaction"] and before["threads"] and before["journal"] == ("wal",)
        assert kernel.value("world.is_connected()")
        file_before = (user.home / "work/grows.bin").read_bytes()

        cell = kernel.send(LONG_CELL)
        until("the cell has begun", begun.exists)
        begun.unlink()
        taken = session.snapshot("--message", f"round {number}")
        user.write(go, "")
        kernel.finish(cell)
        assert kernel.value("world.observe()") == before, "the snapshot itself changed something"

        kernel.run("world.wreck()")
        assert kernel.value("world.number") == 666
        go.unlink()
        # The kernel has closed its files, but it was at work when they changed: they are its own.
        rolled = session.rollback(taken["commit"])
        assert rolled["changed_by_others"] == []
        assert rolled["closed_connections"], "an outbound connection was closed, and that was not said"

        # The cell goes on where it was when the snapshot was taken.
        user.write(go, "")
        kernel.ready()
        assert kernel.value("cell_done") and kernel.value("cell") > 0
        assert kernel.value("world.observe()") == before
        assert (user.home / "work/grows.bin").read_bytes() == file_before
        assert not kernel.value("world.is_connected()"), "a connection to the past"
        go.unlink()
    # Not only its values: the kernel still works as a kernel.
    assert kernel.output("print('alive')") == "alive\n"
    kernel.run("world.advance(100); world.database.execute('COMMIT')")


def test_the_kernel_runs_as_its_user(session, user):
    kernel = session.kernel
    assert kernel.value("[os.getuid(), os.geteuid(), os.getgid(), os.getgroups()]") == [user.uid, user.uid, user.gid, [user.gid]]
    assert kernel.value("os.environ['HOME']") == str(user.home)
    assert kernel.value("os.getcwd()") == str(user.home / "work")
    assert "0000000000000000" == kernel.value("[l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')][0]")


def test_a_snapshot_of_a_busy_client_does_not_disturb_it(session):
    kernel = session.kernel
    asked = kernel.send("for n in range(150): time.sleep(0.01)\nfinished = n")
    for _ in range(3):
        session.snapshot()
    kernel.finish(asked)
    assert kernel.value("finished") == 149


def test_an_interrupt_reaches_a_restored_kernel(session, user):
    kernel, begun = session.kernel, user.home / "work/begun"
    taken = session.snapshot()
    session.rollback(taken["commit"])
    kernel.ready()
    asked = kernel.send(f"try:\n    open({str(begun)!r}, 'w').close()\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    stopped = True")
    until("the cell has begun", begun.exists)
    session.execute("sh", "-c", "kill -INT $(pgrep -of ipykernel_launcher)")
    kernel.finish(asked, 10)
    assert kernel.value("stopped")
