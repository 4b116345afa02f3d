"""Every fault of the driver at every step of every pipeline, and the daemon killed at each step.

The matrix is generated: each pipeline makes a known sequence of driver calls; each fault is put on each call that can have it. Each
cell asserts that its fault happened and that what came of it is what `OUTCOMES` says: the request is answered in that way and the session
is in that state. After each cell the program runs with its bytes, or its session is suspended and can be resumed, or the driver itself has
declared it lost and the session goes back to its last snapshot. It is never left locked, frozen or half restored.
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
    "slow": {"delay-ms": 400},
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
AROUND = ["gpu-full", "gpu-lost", "target-stopped"]
KILLS = ["daemon-killed-before", "daemon-killed-after"]
# Where the processes are known from outside when the call comes.
STOPPABLE = ("snapshot", "suspend")
# The driver itself gives the process up, or the program's own calls fail.
LOST = {"terminal", "then-304", "gpu-lost"}

# What comes of a fault. Of the calls that put work back onto a GPU there are four kinds: in place after a snapshot or a branch was taken, and
# into processes that a rollback, a resume or a branch has just restored.
#
#   done     as if nothing had happened
#   CODE     refused with IJ-CODE, and the program runs on as before
#   stuck    refused with IJ-L083: the program is off the GPU, its view says why, and it comes back by itself
#   asleep   IJ-L082: suspended at the snapshot that was just taken
#   kept     IJ-L020: the rollback failed, and what it would have left runs on
#   down     IJ-L021: suspended at its newest snapshot
#   mended   the daemon was killed, and the next one has the program running
#   lost     IJ-L083, IJ-G012 or IJ-G015: the program ends by itself when a call of its own fails, at a moment that nobody knows, and so was
#            stuck, lost to the driver, or gone
#   -        the call cannot have this fault
OUTCOMES = """
fault                 off the GPU        in place        rollback        resume          branch
                      lock  checkpoint   restore unlock  restore unlock  restore unlock  restore unlock
slow                  done  done         done    done    done    done    done    done    done    done
hangs                 stuck stuck        done    done    kept    kept    down    down    G011    G011
unknown-999           G010  G010         done    done    kept    done    down    done    G010    done
os-304                G010  G010         done    done    kept    done    down    done    G013    done
not-permitted-800     G018  G018         done    done    kept    done    down    done    G018    done
worker-dies           G005  G005         done    done    kept    done    down    done    G005    done
times-out-600         G010  -            -       -       -       -       -       -       -       -
terminal              -     stuck        -       -       -       -       -       -       -       -
out-of-memory-2       -     G010         done    -       kept    -       down    -       G010    -
then-304              -     -            asleep  -       kept    -       down    -       G010    -
no-device-100         -     -            done    -       kept    -       down    -       G010    -
illegal-state-401     -     -            -       done    -       done    -       done    -       done
gpu-full              done  done         asleep  done    down    done    down    done    G010    done
gpu-lost              lost  lost         asleep  done    down    done    down    done    G010    done
target-stopped        stuck stuck        asleep  asleep  -       -       -       -       -       -
daemon-killed-before  mended mended      mended  mended  mended  mended  mended  mended  mended  mended
daemon-killed-after   mended mended      mended  mended  mended  mended  mended  mended  mended  mended
"""
# Where a pipeline differs. A branch looks for room after its original was snapshotted: it finds a GPU that is full (L080) or not there any
# more (L062). A rollback needs no more of a program that has ended, and finds that out about the GPU instead.
EXCEPT = {
    ("branch", "lock", 1, "gpu-full"): "L080",
    ("branch", "checkpoint", 1, "gpu-full"): "L080",
    ("branch", "unlock", 1, "gpu-full"): "L080",
    ("branch", "unlock", 1, "gpu-lost"): "L062",
    ("rollback", "lock", 1, "gpu-lost"): "lost, or no GPU",
    ("rollback", "checkpoint", 1, "gpu-lost"): "lost, or no GPU",
}
CODES = {
    "stuck": ["L083"],
    "asleep": ["L082"],
    "kept": ["L020"],
    "down": ["L021"],
    "lost": ["L083", "G012", "G015"],
    "lost, or no GPU": ["L083", "G012", "G015", "L062", "L080"],
}
COLUMNS = [
    "lock", "checkpoint", "in place restore", "in place unlock", "rollback restore", "rollback unlock", "resume restore", "resume unlock",
    "branch restore", "branch unlock",
]  # fmt: skip
TABLE = {row.split()[0]: dict(zip(COLUMNS, row.split()[1:], strict=True)) for row in OUTCOMES.strip().splitlines()[2:]}


def outcome(pipeline, call, nth, fault):
    """The word of `OUTCOMES` for a cell."""
    if (pipeline, call, nth, fault) in EXCEPT:
        return EXCEPT[pipeline, call, nth, fault]
    if call in ("lock", "checkpoint"):
        return TABLE[fault][call]
    where = "in place" if pipeline == "snapshot" or (pipeline == "branch" and nth == 1) else pipeline
    return TABLE[fault][f"{where} {call}"]


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
    assert len(CELLS) == 218
    assert all(outcome(*cell) != "-" for cell in CELLS)


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
    check(world, pipeline, outcome(pipeline, call, nth, fault), fault, answer)


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


def check(world, pipeline, expected, fault, answer):
    """What came of it is what was expected, and the program is well after it."""
    session = world.target.session
    state = proc.until("the session has settled", lambda: settled(session), seconds=60)
    check_answer(pipeline, expected, answer)
    check_state(session, pipeline, expected, fault, state)
    if state == "suspended":
        session.resume()
    elif fault == "gpu-lost" or (fault in LOST and expected != "done"):
        go_back(world)
    world.target.check()
    # What hung, or was stopped, is followed up beside, and nothing of it may be left.
    proc.until("the daemon has no trouble with the GPU", lambda: not session.view().get("gpu_trouble"), seconds=60, pause=0.2)
    for process in world.gpu.status()["processes"]:
        assert process["state"] in ("running", "checkpointed"), process
    remove_branches(world)


def check_answer(pipeline, expected, answer):
    """The request was answered as the table says."""
    if expected == "mended":
        assert answer is None, f"the daemon answered though it was killed: {answer}"
    elif expected == "done":
        assert answer[0] == 200, answer
    else:
        error = answer[1].get("error", answer[1])
        assert answer[0] != 200, answer
        assert error["code"].removeprefix("IJ-") in CODES.get(expected, [expected]), answer
        assert error["message"], answer
        # The snapshot that was asked for, and the newest: each has its reason.
        assert ("did not come back either: " in error["message"]) == (expected == "down" and pipeline == "rollback"), answer


def check_state(session, pipeline, expected, fault, state):
    """The session is in the state that the table says."""
    if expected in ("asleep", "down") or (expected == "done" and pipeline == "suspend"):
        assert state == "suspended"
    elif fault == "gpu-lost":
        # The program ends by itself when its next call fails, which may be at any time from now on.
        assert state in ("running", "ended", "failed")
    else:
        assert state == "running"
        # What hung may have come back meanwhile.
        assert expected == "stuck" or not session.view().get("gpu_trouble"), session.view()


def go_back(world):
    """What the driver has given up cannot go on, nor a program whose calls failed: the session goes back to its last snapshot."""

    def went_back():
        answer = world.commands.run("rollback", world.target.session.name, world.base, "--force", check=False)
        # The end of the program is being noted, or a call that hung is followed up.
        assert answer.code == 0 or answer.error["code"] == "IJ-L013", answer.error
        return answer.code == 0

    proc.until("the session goes back", went_back, seconds=60)


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
