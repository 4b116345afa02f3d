"""What was on a GPU is on a GPU of the machine that a snapshot was cloned to, byte for byte."""

import pytest

from harness.two_hosts import TwoHosts

HOLD = """
import ctypes, hashlib, random
from cuda.bindings import driver
def call(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]
call(driver.cuInit(0))
context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))
call(driver.cuCtxSetCurrent(context))
SIZE = 8 << 20
buffer = int(call(driver.cuMemAlloc(SIZE)))
content = random.Random(7).randbytes(SIZE)
call(driver.cuMemcpyHtoD(buffer, content, SIZE))
del content
def look():
    call(driver.cuCtxSetCurrent(context))
    found = ctypes.create_string_buffer(SIZE)
    call(driver.cuMemcpyDtoH(ctypes.addressof(found), buffer, SIZE))
    return hex(buffer), hashlib.sha256(found.raw).hexdigest()
"""


@pytest.fixture
def two(gpu, record, make_user, make_daemon):
    made = TwoHosts(record, make_user(), make_daemon, gpu.env())
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_what_was_on_a_gpu_here_is_on_one_there(two):
    session = two.kernel("training")
    expected = two.here.value(session, "look()", HOLD)
    assert session.snapshot("--tag", "good")["vram_bytes"] >= 8 << 20
    two.push("vram")
    session.stop()
    session.remove()
    two.clone("vram")
    moved = two.come_up("good")
    assert two.there.value(moved, "look()") == expected
    assert moved.view()["vram_bytes"] >= 8 << 20
