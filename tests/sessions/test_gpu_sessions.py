"""The story of a kernel with 2 GiB on two GPUs: snapshot while it works, go back, branch onto free GPUs, sleep, wake on others.

After every step the bytes and the pointers are the same and the loop on the GPUs goes on.
"""

import os

import pytest

from harness import proc
from harness.session import Commands

# Rounds, and MiB on each of the two GPUs. A round of 64 MiB takes twenty seconds beside other stages, one of 1 GiB a minute; twenty of each, which
# the gate has no time for, are made by `.ci/run --full`.
STORIES = [tuple(map(int, story.split("x"))) for story in os.environ.get("INFINIJUP_GPU_STORIES", "4x64,1x256").split(",")]
BRANCHES = 3

# Runs in the kernel: two buffers on two GPUs through NVIDIA's own bindings, and a thread that launches a kernel on each for ever.
SETUP = """
import concurrent.futures, hashlib, threading, time
import numpy
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

def call(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]

SOURCE = 'extern "C" __global__ void bump(unsigned int *counter) { counter[threadIdx.x] += 1; }'

class Gpu:
    def __init__(self, index, size):
        self.device = Device(index)
        self.device.set_current()
        self.stream = self.device.create_stream()
        program = Program(SOURCE, code_type="c++", options=ProgramOptions(arch=f"sm_{self.device.arch}"))
        self.kernel = program.compile("ptx").get_kernel("bump")
        self.buffer, self.size = int(call(driver.cuMemAlloc(size))), size
        self.counter = int(call(driver.cuMemAlloc(32 * 4)))
        call(driver.cuMemsetD32(self.counter, 0, 32))
        # Noise in every fourth page, zeros in the rest: neither trivial nor slow to store.
        self.content = numpy.zeros((size // 16384, 16384), dtype=numpy.uint8)
        self.content[:, :4096] = numpy.random.default_rng(index).integers(0, 256, (size // 16384, 4096), dtype=numpy.uint8)
        call(driver.cuMemcpyHtoD(self.buffer, self.content.ctypes.data, size))
        self.content = None

    def bump(self):
        self.device.set_current()
        launch(self.stream, LaunchConfig(grid=1, block=32), self.kernel, self.counter)
        self.stream.sync()

    def look(self):
        self.device.set_current()
        bytes_ = numpy.empty(self.size, dtype=numpy.uint8)
        call(driver.cuMemcpyDtoH(bytes_.ctypes.data, self.buffer, self.size))
        return self.buffer, self.counter, hashlib.sha256(bytes_).hexdigest()

    def count(self):
        self.device.set_current()
        counts = numpy.empty(32, dtype=numpy.uint32)
        call(driver.cuMemcpyDtoH(counts.ctypes.data, self.counter, counts.nbytes))
        assert len(set(counts.tolist())) == 1, counts
        return int(counts[0])

gpus = [Gpu(index, SIZE) for index in range(2)]
rounds, failure, guard = 0, None, threading.Lock()

def loop():
    global rounds, failure
    try:
        while True:
            with guard:
                for gpu in gpus:
                    gpu.bump()
                rounds += 1
            time.sleep(0.002)
    except BaseException as error:
        failure = repr(error)

def counts():
    with guard:
        return rounds, [gpu.count() for gpu in gpus], failure

def look():
    with guard:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(Gpu.look, gpus))

threading.Thread(target=loop, daemon=True).start()
"""


class Story:
    """A kernel and what must never change in it or in what comes of it."""

    def __init__(self, session, size):
        self.session, self.size = session, size
        session.kernel.run(f"SIZE = {size}\n{SETUP}", 120)
        self.expected = session.kernel.value("look()", 120)

    def check(self, session):
        """Equal bytes, equal pointers, no round lost or made twice, and the loop goes on."""
        kernel = session.kernel
        kernel.ready(60)
        assert kernel.value("look()", 120) == self.expected
        rounds, counters, failure = kernel.value("counts()")
        assert failure is None, failure
        assert counters == [rounds, rounds]
        proc.until("the loop goes on", lambda: kernel.value("rounds") > rounds)


@pytest.fixture
def gpu(make_gpu):
    return make_gpu(gpus=8, memory="4GiB")


@pytest.mark.timeout(2300)
@pytest.mark.parametrize(("rounds", "mib"), STORIES)
def test_a_kernel_with_two_gpus_again_and_again(gpu, make_daemon, make_user, rounds, mib):
    commands = Commands(make_daemon(gpu.env()), make_user(), gpu.env())
    uuids = gpu.uuids()
    session = commands.kernel("train", options=("--gpus", "0,1"))
    story = Story(session, mib << 20)
    for number in range(rounds):
        once(commands, gpu, uuids, story, number)


def once(commands, gpu, uuids, story, number):
    session = story.session
    taken = session.snapshot()
    assert taken["vram_bytes"] >= 2 * story.size
    story.check(session)

    session.kernel.run("before_rollback = True")
    session.rollback(taken["commit"])
    story.check(session)
    assert session.kernel.value("'before_rollback' in globals()") is False

    branches = []
    for index in range(BRANCHES):
        own = [uuids[2 + 2 * index], uuids[3 + 2 * index]]
        branch, _ = session.branch(f"idea-{number}-{index}", "--from", taken["commit"], "--gpus", ",".join(own))
        branch.connect()
        branches.append((branch, own))
    for branch, own in branches:
        story.check(branch)
        assert set(gpus_of(gpu, branch)) == set(own)
    story.check(session)
    for branch, _ in branches:
        branch.remove()

    freed = session.suspend()["freed_vram_bytes"]
    assert freed >= 2 * story.size
    assert gpu.bytes_held() == 0
    others = uuids[6:8] if number % 2 == 0 else uuids[0:2]
    commands.run("resume", session.name, "--gpus", ",".join(others))
    story.check(session)
    assert set(gpus_of(gpu, session)) == set(others)


def gpus_of(gpu, session):
    """UUIDs of the GPUs on which the session's processes hold memory, as the stand-in says."""
    tree = proc.tree(session.pid)
    return [uuid for process in gpu.status()["processes"] if process["pid"] in tree for uuid, held in process["gpus"].items() if held]
