"""Signals reach the main command of a session, its process group, and nobody else."""

import threading

import pytest

from harness import proc
from harness.kernel import KernelError
from harness.notebook_kernel import Provisioner
from harness.session import Commands


@pytest.fixture
def jupyter(commands):
    return Provisioner(commands)


def interrupted(jupyter, session):
    """Whether SIGINT ends a cell that would run for long."""
    kernel = session.kernel
    kernel.run("import pathlib, time; flag = pathlib.Path.home() / f'running-{time.time_ns()}'")
    flag = kernel.value("str(flag)")
    cell = kernel.send("flag.touch()\nfor n in range(100_000): time.sleep(0.01)")
    # A branch has a home of its own, so it is looked at inside.
    proc.until("the cell runs", lambda: session.execute("test", "-e", flag, check=False).code == 0, seconds=30)
    jupyter.signal(session, "INT")
    with pytest.raises(KernelError, match="KeyboardInterrupt"):
        kernel.finish(cell, 30)
    assert kernel.value("1 + 1") == 2


def test_an_interrupt_reaches_the_kernel_also_after_a_swap(jupyter):
    session = jupyter.start("k")
    interrupted(jupyter, session)
    taken = session.snapshot()["commit"]
    session.rollback(taken)
    session.kernel.ready()
    interrupted(jupyter, session)
    session.suspend()
    error = jupyter.signal(session, "INT", status=400)
    assert error["code"] == "IJ-L012"
    session.resume()
    session.kernel.ready()
    interrupted(jupyter, session)
    branch, _ = session.branch("b")
    branch.connect()
    interrupted(jupyter, branch)
    jupyter.restart(branch)
    branch.kernel.ready()
    interrupted(jupyter, branch)
    branch.remove()
    session.remove()


def test_an_interrupt_reaches_the_kernel_while_a_snapshot_is_taken(jupyter):
    session = jupyter.start("k")
    session.kernel.run("big = bytearray(__import__('os').urandom(1 << 20)) * 200")
    work = threading.Thread(target=session.snapshot)
    work.start()
    interrupted(jupyter, session)
    work.join(60)
    session.remove()


def test_the_group_or_the_process_alone(commands, jupyter):
    # Neither starts anything once it is up: a signal that comes while dash starts a command can get lost in it.
    script = (
        "trap 'echo main' USR1; sh -c 'trap \"echo child\" USR1; (trap \"\" USR1; exec sleep 1000) & echo up; while :; do wait; done' & "
        "while :; do wait; done"
    )
    session = commands.start("box", "sh", "-c", script, options=["--sidecar", "trap 'echo sidecar' USR1; while :; do sleep 0.05; done"])
    lines = lambda: session.log().splitlines()  # noqa: E731
    proc.until("the child runs", lambda: "up" in lines(), seconds=30)
    jupyter.signal(session, "USR1", group=False)
    proc.until("the main command has it", lambda: "main" in lines(), seconds=30)
    jupyter.signal(session, 10)
    proc.until("the child has it", lambda: "child" in lines(), seconds=30)
    proc.until("so has the main command", lambda: lines().count("main") == 2, seconds=30)
    assert lines().count("child") == 1 and "sidecar" not in lines()
    for wrong in (0, 99, -1):
        jupyter.signal(session, wrong, status=400)
    jupyter.signal(session, "STOPP", status=400)
    jupyter.signal(session, "KILL")
    proc.until("it has ended", lambda: session.state == "ended", seconds=30)
    assert session.view()["exit"] == 137
    jupyter.signal(session, "KILL", status=400)
