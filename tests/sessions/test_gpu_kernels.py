"""Kernels on the stand-in: CUDA C++ of kernels/kernels.cu, compiled by NVIDIA's NVRTC for several chips, compared with numpy.

The results say that the interpreter reads what NVRTC writes. On a machine with a GPU `kernels/check.py` is a test of that GPU.
"""

import os
import subprocess
from json import loads
from pathlib import Path

import pytest

from harness import gpu as standin
from harness.gpu_clients import PYTHON, Client
from harness.needs import cannot_run

pytestmark = pytest.mark.timeout(300)
CHECK = Path(__file__).parent / "kernels" / "check.py"


@pytest.fixture(scope="module")
def machine(module_make_gpu):
    return module_make_gpu()


@pytest.fixture(autouse=True, scope="module")
def needs():
    missing = standin.missing()
    if not os.access(PYTHON, os.X_OK):
        missing.append(f"{PYTHON} (scripts/gpu-python.sh)")
    if missing:
        cannot_run("needs " + ", ".join(missing))


@pytest.mark.parametrize(
    "options",
    [["compute_80"], ["compute_90"], ["compute_120"], ["compute_90", "-G"], ["compute_90", "--use_fast_math"]],
    ids=["ampere", "hopper", "blackwell", "debug", "fast-math"],
)
def test_kernels_compute_what_numpy_computes(machine, options):
    environment = {**os.environ, **machine.env(), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([PYTHON, CHECK, *options], env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    said = loads(done.stdout)
    assert said["wrong"] == []
    assert len(said["right"]) > 80


# Counts on the device, in memory and in a variable of its module, each time it is asked.
COUNTER = r"""
import numpy
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r'''
__device__ int rounds = 100;
extern "C" __global__ void count(int *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += i;
    if (blockIdx.x == 0 && threadIdx.x == 0) rounds += 1;
}
'''
device = Device(0)
device.set_current()
stream = device.create_stream()
program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
kernel = program.compile("ptx").get_kernel("count")
module = call(driver.cuModuleLoadData(program.compile("ptx").code))
variable, _ = call(driver.cuModuleGetGlobal(module, b"rounds"))
function = call(driver.cuModuleGetFunction(module, b"count"))
data = numpy.zeros(1000, dtype=numpy.int32)
buffer = int(call(driver.cuMemAlloc(data.nbytes)))
call(driver.cuMemcpyHtoD(buffer, data.ctypes.data, data.nbytes))
rounds = numpy.zeros(1, dtype=numpy.int32)
while True:
    # once as a kernel of a library, once as a function of a module: handles from before must serve
    launch(stream, LaunchConfig(grid=2, block=64), kernel, buffer, numpy.int32(data.size))
    cells = [numpy.array([buffer], dtype=numpy.uint64), numpy.array([data.size], dtype=numpy.int32)]
    pointers = numpy.array([cell.ctypes.data for cell in cells], dtype=numpy.uint64)
    call(driver.cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, int(stream.handle), pointers.ctypes.data, 0))
    stream.sync()
    call(driver.cuMemcpyDtoH(data.ctypes.data, buffer, data.nbytes))
    call(driver.cuMemcpyDtoH(rounds.ctypes.data, variable, 4))
    say(last=int(data[-1]), even=bool((data == data[1] * numpy.arange(1000)).all()), rounds=int(rounds[0]))
    if heard() == "end":
        break
"""

STEPS = """
from cuda.core import checkpoint
process = checkpoint.Process(int(sys.argv[1]))
process.lock(5000)
process.checkpoint()
process.restore()
process.unlock()
say(done=True)
"""


def test_modules_and_functions_outlive_a_checkpoint(gpu):
    with Client(gpu, COUNTER) as counter:
        for turn in range(1, 4):
            assert counter.hear() == {"last": 999 * 2 * turn, "even": True, "rounds": 100 + turn}
            with Client(gpu, STEPS, counter.pid) as tool:
                assert tool.hear() == {"done": True}
            counter.tell()
        assert counter.hear()["last"] == 999 * 8
        counter.tell("end")


REFUSED = r"""
from cuda.bindings import driver
call(driver.cuInit(0))
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
head = b".version 8.0\n.target sm_90\n.address_size 64\n"
log = bytearray(200)
option = driver.CUjit_option
strange = head + b".entry e()\n{\n.reg .b32 %r<3>;\nwmma.load %r1, [%r2];\n}\n\0"
answer = driver.cuModuleLoadDataEx(strange, 2, [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES], [log, len(log)])
module = call(driver.cuModuleLoadData(head + b".entry e()\n{\nret;\n}\n\0"))
function = call(driver.cuModuleGetFunction(module, b"e"))
say(
    opcode=int(answer[0]), log=bytes(log).split(b"\0")[0].decode(),
    binary=int(driver.cuModuleLoadData(b"\x7fELF\2\1\1" + bytes(100))[0]),
    text=int(driver.cuModuleLoadData(b"nonsense\0")[0]),
    nobody=int(driver.cuModuleGetFunction(module, b"nobody")[0]),
    wide=int(driver.cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, 0, 0, 0)[0]),
    flat=int(driver.cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, 0, 0, 0)[0]),
    good=int(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)[0]),
    unloaded=[int(driver.cuModuleUnload(module)[0]), int(driver.cuModuleUnload(module)[0])],
)
"""


def test_what_cannot_run_is_refused_with_the_drivers_codes(machine):
    with Client(machine, REFUSED) as client:
        said = client.hear()
    assert "wmma.load" in said.pop("log")
    assert said == {"opcode": 218, "binary": 209, "text": 218, "nobody": 500, "wide": 1, "flat": 1, "good": 0, "unloaded": [0, 400]}
