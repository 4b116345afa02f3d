"""`infinijup.fork` and `gather` in a kernel that has an array on a GPU: each branch has VRAM of its own."""

import pytest

from harness.jupyter import install
from harness.session import Commands

MIB = 1 << 20

# Runs in the kernel: an array in VRAM through NVIDIA's own bindings, and what changes and reads it.
SETUP = f"""
import hashlib, sys
sys.path.insert(0, PACKAGE)
import infinijup
import numpy
from cuda.bindings import driver

def call(result):
    error, *values = result
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else values

call(driver.cuInit(0))
context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))
call(driver.cuCtxSetCurrent(context))
host = numpy.arange(16 * {MIB} // 8, dtype=numpy.int64)
array = int(call(driver.cuMemAlloc(host.nbytes)))
call(driver.cuMemcpyHtoD(array, host.ctypes.data, host.nbytes))

def add(number):
    part = numpy.full(1000, number, dtype=numpy.int64)
    call(driver.cuMemcpyHtoD(array, part.ctypes.data, part.nbytes))

def total():
    back = numpy.empty_like(host)
    call(driver.cuMemcpyDtoH(back.ctypes.data, array, back.nbytes))
    return int(back.sum())
"""

FORK = """
i = infinijup.fork(4)
if i:
    add(i)
results = infinijup.gather((i, total()), timeout=200)
"""


@pytest.mark.timeout(600)
def test_four_branches_with_vram_bring_back_their_results(make_gpu, make_daemon, make_user):
    gpu = make_gpu(gpus=1, memory="4GiB")
    daemon, user = make_daemon(gpu.env()), make_user()
    commands = Commands(daemon, user, gpu.env())
    session = commands.kernel("train", options=("--gpus", "0"), cwd=user.mkdir(user.home / "work"))
    kernel = session.kernel
    kernel.run(f"PACKAGE = {str(install(user))!r}\n{SETUP}", 120)
    before = kernel.value("total()")
    one = gpu.bytes_held()
    assert one >= 16 * MIB
    kernel.run(FORK, 400)
    rest = before - sum(range(1000))
    assert kernel.value("results") == [(number, rest + 1000 * number) for number in range(1, 5)]
    # The original has its own array still, goes on with it, and nobody holds another one any more.
    assert kernel.value("total()") == before
    kernel.run("add(7)")
    assert kernel.value("total()") == rest + 7000
    assert [name for name in commands.sessions() if name.startswith("fork-")] == []
    assert gpu.bytes_held() == one
