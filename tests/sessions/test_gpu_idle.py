"""An idle kernel that holds GPU memory sleeps after a while, and its memory is free; one that holds none stays awake."""

import pytest

from harness import proc
from harness.session import Commands
from harness.wire import request

# 64 MiB on the first GPU, with something in it that must come back.
HOLD = """
from cuda.bindings import driver
def call(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]
call(driver.cuInit(0))
context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))
call(driver.cuCtxSetCurrent(context))
buffer = int(call(driver.cuMemAlloc(64 << 20)))
call(driver.cuMemsetD32(buffer, 7, 1024))
def look():
    import ctypes
    call(driver.cuCtxSetCurrent(context))
    found = (ctypes.c_uint32 * 1024)()
    call(driver.cuMemcpyDtoH(ctypes.addressof(found), buffer, 4096))
    return set(found)
"""


@pytest.mark.timeout(300)
def test_only_what_holds_gpu_memory_sleeps(gpu, make_daemon, make_user):
    commands = Commands(make_daemon(gpu.env()), make_user(), gpu.env())
    plain, holder = commands.kernel("plain"), commands.kernel("holder")
    holder.kernel.run(HOLD)
    proc.until("it is seen to hold GPU memory", lambda: holder.view()["vram_bytes"] >= 64 << 20)
    for session in (plain, holder):
        path = f"/v1/sessions/{session.id}"
        status, view = request(commands.daemon.socket, "PATCH", path, {"policy": {"suspend_after_idle_s": 2}})
        assert status == 200, view
    proc.until("the one with GPU memory sleeps", lambda: holder.state == "suspended", seconds=120)
    # Idle for longer than the other was when it fell asleep.
    assert plain.state == "running"
    holder.resume()
    holder.kernel.ready(60)
    assert holder.kernel.value("look()") == {7}
