"""Which device nodes a session has, through everything that happens to it."""

import os
import stat

import pytest

from harness.gpu import NODE
from harness.session import Commands

SHARED = {"nvidiactl", "nvidia-uvm"}


@pytest.fixture
def commands(gpu, make_daemon, user):
    """A user's commands on a machine with two GPUs."""
    return Commands(make_daemon(gpu.env()), user, gpu.env())


def nodes(session):
    """Nodes of GPUs in the session's /dev, with their numbers."""
    directory = f"/proc/{session.view()['pid']}/root/dev"
    return {name: os.stat(f"{directory}/{name}").st_rdev for name in os.listdir(directory) if name.startswith("nvidia")}


@pytest.mark.parametrize(
    ("wish", "own"), [((), {"nvidia0", "nvidia1"}), (("--gpus", "1"), {"nvidia1"}), (("--gpus", "all"), {"nvidia0", "nvidia1"})]
)
def test_a_session_has_the_nodes_of_its_gpus(commands, wish, own):
    session = commands.start("s", "sleep", "1000", options=wish)
    assert nodes(session) == {name: NODE for name in own | SHARED}


def test_a_session_without_gpus_has_none(commands):
    session = commands.start("s", "sleep", "1000", options=("--gpus", "none"))
    assert nodes(session) == {}
    assert session.view()["gpus"] == []


def test_nodes_follow_the_gpus_of_a_branch_and_of_a_resumed_session(commands):
    session = commands.start("s", "sleep", "1000", options=("--gpus", "0"))
    commands.run("branch", "s", "--name", "b", "--gpus", "1")
    branch = commands.session(commands.sessions()["b"])
    assert nodes(branch).keys() == SHARED | {"nvidia1"}
    assert nodes(session).keys() == SHARED | {"nvidia0"}
    commands.run("suspend", "s")
    commands.run("resume", "s", "--gpus", "1")
    assert nodes(session).keys() == SHARED | {"nvidia1"}


def test_a_session_that_slept_while_the_driver_got_another_number(commands):
    session = commands.start("s", "sleep", "1000")
    commands.run("suspend", "s")
    # as after a reboot: it opens, and is another device
    other = os.makedev(1, 3)
    os.remove("/dev/nvidia-uvm")
    os.mknod("/dev/nvidia-uvm", stat.S_IFCHR | 0o666, other)
    os.chmod("/dev/nvidia-uvm", 0o666)
    commands.run("resume", "s")
    assert nodes(session)["nvidia-uvm"] == other
    assert nodes(session)["nvidia0"] == NODE
