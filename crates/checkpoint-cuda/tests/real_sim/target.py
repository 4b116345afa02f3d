"""A process with memory on GPUs: `target.py MIB GPU…`. For each empty line on its input it prints what it has, as JSON; a line with
words is a program that takes its place."""

import ctypes
import hashlib
import json
import os
import select
import sys

# The loader ignores its path in a setuid program.
cuda = ctypes.CDLL(os.environ.get("INFINIJUP_TEST_LIBRARY", "libcuda.so.1"))


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise SystemExit(f"{name} answered {result}")


class Gpu:
    def __init__(self, index, size):
        self.size, self.context, self.buffer = size, ctypes.c_void_p(), ctypes.c_uint64()
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), index)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        call("cuCtxSetCurrent", self.context)
        call("cuMemAlloc_v2", ctypes.byref(self.buffer), ctypes.c_size_t(size))
        block = hashlib.sha256(f"{os.getpid()} {index}".encode()).digest()
        content = b"".join(hashlib.sha256(block + bytes([n % 251])).digest() for n in range(size // 32))
        call("cuMemcpyHtoD_v2", self.buffer, content, ctypes.c_size_t(size))

    def hash(self):
        content = ctypes.create_string_buffer(self.size)
        call("cuCtxSetCurrent", self.context)
        call("cuMemcpyDtoH_v2", content, self.buffer, ctypes.c_size_t(self.size))
        return hashlib.sha256(content.raw).hexdigest()


def main():
    call("cuInit", 0)
    gpus = [Gpu(int(index), int(sys.argv[1]) << 20) for index in sys.argv[2:]]
    rounds = 0
    print("ready", flush=True)
    while True:
        for gpu in gpus:
            call("cuCtxSetCurrent", gpu.context)
            call("cuCtxSynchronize")
        rounds += 1
        if select.select([sys.stdin], [], [], 0.002)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            if line.strip():
                os.execv(line.split()[0], line.split())
            has = {"hashes": [gpu.hash() for gpu in gpus], "pointers": [gpu.buffer.value for gpu in gpus]}
            print(json.dumps({**has, "rounds": rounds}), flush=True)


main()
