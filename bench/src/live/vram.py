"""A program whose state is on a GPU: `vram.py FILE`. It has the file's bytes there, and next to nothing in its own memory.

Speaks like the tests' own program: a line of JSON when it is ready, on SIGUSR1 the hash of what is on the GPU and the longest time between
two rounds of its loop, on SIGUSR2 the number of its next round.
"""

import ctypes
import hashlib
import json
import os
import signal
import sys
import time

PIECE = 16 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise RuntimeError(f"{name} answered {result}")


def say(line):
    os.write(1, json.dumps(line).encode() + b"\n")


def digest():
    whole, piece = hashlib.blake2b(), ctypes.create_string_buffer(PIECE)
    for start in range(0, size, PIECE):
        length = min(PIECE, size - start)
        call("cuMemcpyDtoH_v2", piece, ctypes.c_uint64(buffer.value + start), ctypes.c_size_t(length))
        whole.update(memoryview(piece)[:length])
    return whole.hexdigest()


asked, awaited = [], []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
signal.signal(signal.SIGUSR2, lambda *_: awaited.append(True))
size = os.path.getsize(sys.argv[1])
device, context, buffer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
with open(sys.argv[1], "rb") as file:
    start = 0
    while piece := file.read(PIECE):
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(buffer.value + start), piece, ctypes.c_size_t(len(piece)))
        start += len(piece)
rounds, gap, last = 0, 0.0, time.perf_counter()
say({"ready": os.getpid()})
while True:
    # A call of CUDA's: it waits while the process is locked.
    call("cuCtxSynchronize")
    rounds += 1
    gap = max(gap, time.perf_counter() - last)
    if awaited:
        awaited.clear()
        say({"round": rounds})
    if asked:
        asked.clear()
        say({"report": os.getpid(), "hash": digest(), "pointers": [buffer.value], "gap": gap})
        gap = 0.0
    time.sleep(0.005)
    last = time.perf_counter()
