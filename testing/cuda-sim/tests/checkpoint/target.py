"""A program with state on every GPU, by the C interface alone.

It fills a buffer on each GPU, then counts in device memory. On SIGUSR1 it says how it is: one line of JSON. Options:
--mib N       bytes of each buffer
--gpus N      how many GPUs to use
--fork        has a child that never calls CUDA
At SIGUSR2 it queues work on a stream and then makes no call until it is asked.
"""

import argparse
import ctypes
import hashlib
import json
import os
import signal
import sys
import time

# What the test's own parents left open is none of this program's.
os.closerange(3, 256)

arguments = argparse.ArgumentParser()
arguments.add_argument("--mib", type=int, default=1)
arguments.add_argument("--gpus", type=int, default=2)
arguments.add_argument("--fork", action="store_true")
arguments = arguments.parse_args()

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *values):
    code = getattr(cuda, name)(*values)
    if code:
        sys.exit(f"{name}: {code}")


def u64(value=0):
    return ctypes.c_uint64(value)


call("cuInit", 0)
if arguments.fork:
    child = os.fork()
    if child == 0:
        while os.getppid() != 1:
            time.sleep(0.05)
        os._exit(0)
    print(json.dumps({"child": child}), flush=True)

SIZE = arguments.mib << 20
buffers = []
for ordinal in range(arguments.gpus):
    device, context, data, counter = ctypes.c_int(), u64(), u64(), u64()
    call("cuDeviceGet", ctypes.byref(device), ordinal)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(SIZE))
    call("cuMemAlloc_v2", ctypes.byref(counter), ctypes.c_size_t(8))
    text = (hashlib.sha256(str(ordinal).encode()).digest() * (SIZE // 32 + 1))[:SIZE]
    call("cuMemcpyHtoD_v2", data, text, ctypes.c_size_t(SIZE))
    call("cuMemcpyHtoD_v2", counter, bytes(8), ctypes.c_size_t(8))
    buffers.append((device, context, data, counter))

asked = [False]
burst = [False]
signal.signal(signal.SIGUSR1, lambda *_: asked.__setitem__(0, True))
signal.signal(signal.SIGUSR2, lambda *_: burst.__setitem__(0, True))


def read(address, size):
    room = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", room, address, ctypes.c_size_t(size))
    return room.raw


def report():
    digest, counters, uuids, buses = hashlib.sha256(), [], [], []
    for device, context, data, counter in buffers:
        call("cuCtxSetCurrent", context)
        digest.update(read(data, SIZE))
        counters.append(int.from_bytes(read(counter, 8), "little"))
        uuid = ctypes.create_string_buffer(16)
        call("cuDeviceGetUuid_v2", uuid, device)
        uuids.append(uuid.raw.hex())
    return {
        "hash": digest.hexdigest(),
        "pointers": [data.value for _, _, data, _ in buffers],
        "counters": counters,
        "rounds": rounds,
        "uuids": uuids,
    }


rounds, quiet = 0, False
print(json.dumps({"ready": os.getpid()}), flush=True)
while True:
    rounds += not quiet
    for _, context, _, counter in buffers if not quiet else []:
        call("cuCtxSetCurrent", context)
        value = int.from_bytes(read(counter, 8), "little") + 1
        call("cuMemcpyHtoD_v2", counter, value.to_bytes(8, "little"), ctypes.c_size_t(8))
    if burst[0]:
        burst[0], quiet = False, True
        call("cuMemsetD8Async", buffers[0][2], 0xAB, ctypes.c_size_t(SIZE), None)
    if asked[0]:
        asked[0] = quiet = False
        print(json.dumps({"report": report()}), flush=True)
    time.sleep(0.002)
