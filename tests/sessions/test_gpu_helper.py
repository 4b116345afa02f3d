"""A driver that lets nobody but root make its checkpoint calls: sessions without the helper that an administrator may install, and with it."""

import threading

import pytest

from harness import proc
from harness.daemon import programs
from harness.gpu_session import Target
from harness.session import Commands


@pytest.fixture
def gpu(make_gpu):
    """A machine with two GPUs and such a driver."""
    gpu = make_gpu()
    gpu.control("root-only")
    return gpu


@pytest.fixture
def commands(gpu, gpu_helper, make_daemon, user):
    """The commands of a user of a machine with the helper."""
    return Commands(make_daemon({**gpu.env(), "INFINIJUP_GPU_HELPER": str(gpu_helper)}), user, gpu.env())


def calls(gpu_helper):
    """How the helper's processes ended, one for each call."""
    return gpu_helper.with_name("helper.log").read_text().split()


def test_without_it_a_session_is_refused_and_runs_on(gpu, make_daemon, user):
    environment = {**gpu.env(), "INFINIJUP_GPU_HELPER": str(gpu.directory / "nobody.sock")}
    commands = Commands(make_daemon(environment), user, gpu.env())
    target = Target.start(commands, "s", "--gpus", 1, "--mib", 2)
    for verb in ("snapshot", "suspend"):
        error = commands.fails(verb, "s")
        assert error["code"] == "IJ-G018", error
        assert "sudo infinijup setup-gpu" in error["hint"], error
        target.check()
    assert target.session.state == "running"
    # What holds nothing on a GPU needs no driver.
    plain = commands.start("plain", "sleep", "1000")
    plain.rollback(plain.snapshot()["commit"])


def test_with_it_everything_works(commands, gpu, gpu_helper):
    target = Target.start(commands, "s", "--gpus", 1, "--mib", 8, "--children", 1, processes=2)
    session = target.session
    taken = session.snapshot()
    target.check()
    session.rollback(taken["commit"])
    target.check()
    session.suspend()
    assert gpu.bytes_held() == 0
    session.resume()
    target.check()
    branch, _ = session.branch("other", "--gpus", gpu.uuids()[1])
    target.of_branch(branch).check()
    ended = calls(gpu_helper)
    assert len(ended) > 20 and set(ended) == {"0"}, ended


def test_nothing_but_the_helper_is_root_while_it_calls(commands, gpu):
    target = Target.start(commands, "s", "--gpus", 1, "--mib", 2)
    gpu.fault("checkpoint", {"hold": True})
    asked = threading.Thread(target=target.session.snapshot)
    asked.start()
    try:
        assert gpu.await_hold()
        running = {pid: proc.link(pid, "exe") for pid in proc.pids()}
        ours = {pid for pid, program in running.items() if f"/{commands.daemon.record.name}/" in program}
        assert {"infinijupd", "infinijup-gpu"} <= {proc.status(pid, "Name") for pid in ours}
        assert {uid for pid in ours for uid in proc.status(pid, "Uid").split()} == {str(commands.user.uid)}
        assert str(programs() / "infinijup-gpu-helper") in running.values()
    finally:
        gpu.release()
        asked.join(60)
    target.check()
