"""Every fault of the driver at every step of every pipeline, and the daemon killed at each step.

After each cell the program runs with its bytes, or its session is suspended and can be resumed with the reason said, or the driver
itself has declared it lost, which is said too. It is never left locked, frozen or half restored.

The matrix is generated: each pipeline makes a known sequence of driver calls; each fault is put on each call that can have it.
"""

import itertools
import os
import signal
import threading

import pytest

from harness import proc
from harness.gpu_session import Target
from harness.session import Commands
from harness.wire import request

# What a pipeline asks of the driver, in order. `restore` and `unlock` of a branch come twice: first for the original, which goes
# on, then for the branch.
PIPELINES = {
    "snapshot": ["lock", "checkpoint", "restore", "unlock"],
    "suspend": ["lock", "checkpoint"],
    "rollback": ["lock", "checkpoint", "restore", "unlock"],
    "branch": ["lock", "checkpoint", "restore", "unlock", "restore", "unlock"],
    "resume": ["restore", "unlock"],
}

# Faults that any call can have.
ANYWHERE = {
    "slow": {"delay-ms": 700},
    "hangs": {"hang": True},
    "unknown-999": {"error": 999},
    "os-304": {"error": 304},
    "not-permitted-800": {"error": 800},
    "worker-dies": {"kill-caller": True},
}
# Faults of one call.
AT = {
    "lock": {"times-out-600": {"error": 600}},
    "checkpoint": {"terminal": {"terminal": True}, "out-of-memory-2": {"error": 2}},
    "restore": {"out-of-memory-2": {"error": 2}, "then-304": {"then-304": True}, "no-device-100": {"error": 100}},
    "unlock": {"illegal-state-401": {"error": 401}},
}
# What happens to the machine when a call is about to begin, and passes when the pipeline has ended.
AROUND = ["gpu-full"]
# Two more, for a quiet machine: what they leave behind (a program that ends by itself, a call that has its effect late) comes when it
# comes, and the next request may rightly be told to wait.
if os.environ.get("INFINIJUP_GPU_ALL_CELLS"):
    AROUND += ["gpu-lost", "target-stopped"]
# The driver itself gives the process up, or the program's own calls fail.
LOST = {"terminal", "then-304", "gpu-lost"}
KILLS = ["daemon-killed-before", "daemon-killed-after"]
# Where the processes are known from outside when the call comes.
STOPPABLE = ("snapshot", "suspend")


def cells():
    """Pipeline, call, which one of that call, fault."""
    for pipeline, calls in PIPELINES.items():
        for position, call in enumerate(calls):
            nth = calls[:position].count(call) + 1
            for fault in itertools.chain(ANYWHERE, AT[call], AROUND, KILLS):
                if fault == "target-stopped" and pipeline not in STOPPABLE:
                    continue
                yield pipeline, call, nth, fault


CELLS = list(cells())


def test_the_matrix_is_as_large_as_promised():
    assert len(CELLS) >= 150


class World:
    """One daemon, one stand-in, and a program that is made anew only when the driver has given it up."""

    def __init__(self, commands, daemon, gpu):
        self.commands, self.daemon, self.gpu = commands, daemon, gpu
        self.target = None
        self.base = None
        self.made = 0

    def ready(self, pipeline):
        """A running program with a snapshot to go back to; suspended if the pipeline begins there."""
        if self.target is None:
            self.made += 1
            self.target = Target.start(self.commands, f"t{self.made}", "--gpus", 2, "--mib", 2)
            self.base = self.target.session.snapshot()["commit"]
        if self.target.session.state == "suspended":
            self.target.session.resume()
        if pipeline == "resume":
            self.target.session.suspend()

    def operation(self, pipeline, seconds=60):
        """The request, and its answer; `None` if the daemon died over it."""
        session = self.target.session
        body = {"rollback": {"to": self.base, "force": True}, "branch": {"name": f"b{os.urandom(3).hex()}"}}.get(pipeline, {})
        try:
            return request(self.daemon.socket, "POST", f"/v1/sessions/{session.id}/{pipeline}?wait=true", body, seconds=seconds)
        except (OSError, ValueError):
            return None

    def give_up(self):
        """After a cell that failed."""
        self.gpu.clear()
        self.target = None


@pytest.fixture(scope="module")
def world(module_gpu, module_make_daemon, module_make_user):
    limits = {"INFINIJUP_GPU_LOCK_LIMIT": "1", "INFINIJUP_GPU_STEP_LIMIT": "2"}
    daemon = module_make_daemon({**module_gpu.env(), **limits})
    commands = Commands(daemon, module_make_user(), module_gpu.env())
    return World(commands, daemon, module_gpu)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("pipeline", "call", "nth", "fault"), CELLS, ids=["-".join(map(str, cell)) for cell in CELLS])
def test_cell(world, pipeline, call, nth, fault):
    try:
        run_cell(world, pipeline, call, nth, fault)
    except BaseException:
        # The cells that follow begin with a program of their own.
        world.give_up()
        raise


def run_cell(world, pipeline, call, nth, fault):
    world.ready(pipeline)
    gpu = world.gpu
    if fault in KILLS:
        kill_daemon(world, pipeline, call, nth, fault)
        answer = None
    elif fault in AROUND:
        answer = disturb(world, pipeline, call, nth, fault)
    else:
        before = gpu.status()["fired"]
        gpu.fault(call=call, nth=nth, action={**ANYWHERE, **AT[call]}[fault])
        answer = world.operation(pipeline)
        assert gpu.status()["fired"] == before + 1, f"{pipeline} did not come to its {nth}. {call}: {answer}"
        gpu.clear()
    check(world, pipeline, fault, answer)


def kill_daemon(world, pipeline, call, nth, fault):
    """Kills the daemon while a call of the driver is about to begin or has just been carried out."""
    phase = "before" if fault == "daemon-killed-before" else "after"
    world.gpu.fault(call=call, nth=nth, phase=phase, action={"hold": True})
    work = threading.Thread(target=world.operation, args=(pipeline,), daemon=True)
    work.start()
    assert world.gpu.await_hold(20), f"{pipeline} did not come to {call}"
    world.daemon.kill()
    world.gpu.clear()
    world.gpu.release()
    work.join(30)
    world.daemon.start()


def disturb(world, pipeline, call, nth, fault):
    """Does something to the machine while a call is about to begin; the pipeline's answer. All is well again afterwards."""
    gpu, answers = world.gpu, []
    gpu.fault(call=call, nth=nth, action={"hold": True})
    work = threading.Thread(target=lambda: answers.append(world.operation(pipeline)), daemon=True)
    work.start()
    assert gpu.await_hold(20), f"{pipeline} did not come to {call}"
    pids = list(world.target.host_pids().values()) if fault == "target-stopped" else []
    if fault == "gpu-lost":
        gpu.lose(0)
    elif fault == "gpu-full":
        gpu.control("fill", gpu=0)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    gpu.clear()
    work.join(60)
    for pid in pids:
        resume_signal(pid)
    gpu.control("lose", gpu=0, lost=False)
    gpu.fill(0, 0)
    assert answers, f"{pipeline} did not end"
    return answers[0]


def resume_signal(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def check(world, pipeline, fault, answer):
    """Running with its bytes, or suspended and restorable with the reason said; lost only if the driver said so."""
    session = world.target.session
    state = proc.until("the session has settled", lambda: settled(session), seconds=60)
    failed = answer is not None and answer[0] != 200
    if failed:
        error = answer[1]["error"] if "error" in answer[1] else answer[1]
        assert error["code"].startswith("IJ-"), answer
        assert error["message"], answer
    if state == "suspended":
        assert pipeline in ("suspend", "resume") or failed or fault in KILLS, f"suspended, and nobody said why: {answer}"
        session.resume()
        state = session.state
    if fault == "gpu-lost" or (state == "running" and fault in LOST and failed):
        # What the driver has given up cannot go on, nor a program whose calls failed; the session goes back to its last snapshot.
        session.rollback(world.base, "--force")
    elif state in ("failed", "ended"):
        assert fault in LOST, f"{state} after {fault}: {answer}"
        assert failed, "it was lost, and nobody said so"
        session.rollback(world.base, "--force")
    world.target.check()
    # A call that hung is followed up beside; nothing of it may be left.
    proc.until("the daemon has no trouble with the GPU", lambda: not session.view().get("gpu_trouble"), seconds=30)
    for process in world.gpu.status()["processes"]:
        assert process["state"] in ("running", "checkpointed"), process
    remove_branches(world)


def settled(session):
    state = session.state
    return state if state != "starting" else None


def remove_branches(world):
    """A branch that was made is as whole as the original; one that was not made left nothing."""
    _, listed = world.daemon.get("/v1/sessions")
    for view in listed["sessions"]:
        if view["id"] == world.target.session.id:
            continue
        if view["state"] == "running" and view["name"].startswith("b"):
            world.target.of_branch(world.commands.session(view)).check()
        world.daemon.remove_session(view)
