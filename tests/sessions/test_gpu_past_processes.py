"""Device memory that goes past its process, with a driver that has custom storage: faults, and the daemon killed at each of its calls.

The stories of what goes well are told in `machine/tests/real_gpu.rs`. Here the bytes are in files of ours for a while, and are the only copy:
whatever happens then, the program has them again afterwards, or its session sleeps at a snapshot that has them.
"""

from pathlib import Path

import pytest

from harness import proc
from harness.gpu_session import Target
from harness.session import Commands
from test_gpu_faults import KILLS, World, check, kill_daemon

LEVEL = 615
# What a pipeline asks of the driver. Each checkpoint and each restore ends with a call of its own.
PIPELINES = {
    "snapshot": ["lock", "checkpoint", "complete", "restore", "complete", "unlock"],
    "suspend": ["checkpoint", "complete"],
    "rollback": ["checkpoint", "complete", "restore", "complete", "unlock"],
    "resume": ["restore", "complete", "unlock"],
}
CELLS = [
    (pipeline, call, calls[:position].count(call) + 1, fault)
    for pipeline, calls in PIPELINES.items()
    for position, call in enumerate(calls)
    for fault in KILLS
]


@pytest.fixture(scope="module")
def world(module_make_gpu, module_make_daemon, module_make_user):
    gpu = module_make_gpu(level=LEVEL)
    daemon = module_make_daemon({**gpu.env(), "INFINIJUP_GPU_LOCK_LIMIT": "1", "INFINIJUP_GPU_STEP_LIMIT": "2"})
    return World(Commands(daemon, module_make_user(), gpu.env()), daemon, gpu)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("pipeline", "call", "nth", "fault"), CELLS, ids=["-".join(map(str, cell)) for cell in CELLS])
def test_the_daemon_is_killed(world, pipeline, call, nth, fault):
    try:
        world.ready(pipeline)
        kill_daemon(world, pipeline, call, nth, fault)
        check(world, pipeline, "mended", fault, None)
    except BaseException:
        world.give_up()
        raise


@pytest.mark.timeout(120)
@pytest.mark.parametrize("action", [{"error": 999}, {"error": 801}, {"kill-caller": True}], ids=["999", "801", "worker-dies"])
def test_what_cannot_go_past_goes_through(world, action):
    """The driver refuses, or its worker dies, before anything is done: the plain way, and a warning."""
    world.ready("snapshot")
    world.gpu.fault(call="checkpoint", nth=1, action=action)
    status, answer = world.operation("snapshot")
    world.gpu.clear()
    assert status == 200, answer
    assert any("went through its processes" in warning for warning in answer["result"]["warnings"]), answer
    world.target.check()


@pytest.mark.timeout(180)
def test_a_process_needs_no_room_for_it(world):
    """A program with 256 MiB on its GPU has no more memory of its own while a snapshot is taken, and nothing is left on the disk."""
    target = Target.start(world.commands, "large", "--gpus", 1, "--mib", 256)
    (inside,) = target.expected
    pid = target.host_pids()[inside]
    # The most that it has had is counted from now on.
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = int(proc.status(pid, "VmRSS").split()[0])
    outcome = target.session.snapshot()
    most = int(proc.status(pid, "VmHWM").split()[0])
    assert most - before < 64 << 10, f"{before} kB became {most} kB"
    assert outcome["warnings"] == []
    assert outcome["vram_bytes"] >= 256 << 20
    target.check()
    assert list(world.daemon.state.glob("sessions/*/device/*")) == []
    second = target.session.snapshot()
    assert second["new_bytes"] < 32 << 20
    target.session.stop()
