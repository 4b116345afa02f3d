"""A small program with state on GPUs, run inside a session: `python3 cuda_target.py [--gpus N] [--mib M] [--children N] [--idle-fork]`.

It speaks to `libcuda.so.1` by ctypes, so any Python will do. On each GPU it has a buffer whose bytes depend on the GPU and the
process, and a counter that a kernel increments in a loop. On SIGUSR1 it prints one line of JSON: the number of rounds it has made,
the counters as the GPUs have them, its pointers, the hash of its buffers as read back from the GPUs, and the longest time between
two rounds since it was last asked. On SIGUSR2 it prints the number of its next round as soon as that is made. A program whose calls are blocked by a lock answers nothing.
"""

import argparse
import ctypes
import hashlib
import json
import os
import signal
import time

KERNEL = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry bump(.param .u64 counter)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [counter];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    add.s32 %r2, %r1, 1;
    st.global.u32 [%rd2], %r2;
    ret;
}
\0"""


class Driver:
    """`libcuda.so.1`, with errors as exceptions."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                raise RuntimeError(f"{name} answered {result}")

        return call


class Gpu:
    """A context on one GPU, with a buffer, a counter and the kernel that increments it."""

    def __init__(self, driver, index, size):
        self.driver, self.size = driver, size
        self.context, self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.buffer, self.counter = ctypes.c_uint64(), ctypes.c_uint64()
        device = ctypes.c_int()
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device)
        self.enter()
        driver.cuMemAlloc_v2(ctypes.byref(self.buffer), ctypes.c_size_t(size))
        driver.cuMemAlloc_v2(ctypes.byref(self.counter), ctypes.c_size_t(4))
        driver.cuMemsetD32_v2(self.counter, 0, ctypes.c_size_t(1))
        # Different everywhere, so that nothing can be taken for something else, and mostly compressible, as tensors are.
        pattern = b"".join(hashlib.sha256(f"{os.getpid()} {index} {n}".encode()).digest() + bytes(4064) for n in range(256))
        content = pattern * (size // len(pattern) + 1)
        driver.cuMemcpyHtoD_v2(self.buffer, content[:size], ctypes.c_size_t(size))
        driver.cuModuleLoadData(ctypes.byref(self.module), KERNEL)
        driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, b"bump")

    def enter(self):
        self.driver.cuCtxSetCurrent(self.context)

    def bump(self):
        self.enter()
        argument = ctypes.c_uint64(self.counter.value)
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p))
        self.driver.cuLaunchKernel(self.function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
        self.driver.cuCtxSynchronize()

    def read(self, pointer, size):
        self.enter()
        content = ctypes.create_string_buffer(size)
        self.driver.cuMemcpyDtoH_v2(content, pointer, ctypes.c_size_t(size))
        return content.raw

    def pointers(self):
        return [self.buffer.value, self.counter.value]


def say(line):
    """In one piece: other processes write to the same log."""
    os.write(1, json.dumps(line).encode() + b"\n")


def report(gpus, rounds, gap):
    digest = hashlib.sha256()
    for gpu in gpus:
        digest.update(gpu.read(gpu.buffer, gpu.size))
    counters = [int.from_bytes(gpu.read(gpu.counter, 4), "little") for gpu in gpus]
    pointers = [pointer for gpu in gpus for pointer in gpu.pointers()]
    line = {"report": os.getpid(), "rounds": rounds, "counters": counters, "pointers": pointers, "hash": digest.hexdigest()}
    say({**line, "gap": gap})


def idle():
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def work(count, size, idle_fork):
    asked, awaited = [], []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    signal.signal(signal.SIGUSR2, lambda *_: awaited.append(True))
    driver = Driver()
    driver.cuInit(0)
    gpus = [Gpu(driver, index, size) for index in range(count)]
    if idle_fork and os.fork() == 0:
        idle()
    rounds, gap, last = 0, 0.0, time.perf_counter()
    say({"ready": os.getpid()})
    while True:
        for gpu in gpus:
            gpu.bump()
        rounds += 1
        gap = max(gap, time.perf_counter() - last)
        if awaited:
            awaited.clear()
            say({"round": rounds})
        if asked:
            asked.clear()
            report(gpus, rounds, gap)
            gap = 0.0
        time.sleep(0.005)
        last = time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--mib", type=int, default=2)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--idle-fork", action="store_true")
    options = parser.parse_args()
    for _ in range(options.children):
        # Before any call of ours: CUDA does not survive a fork.
        if os.fork() == 0:
            return work(options.gpus, options.mib << 20, False)
    return work(options.gpus, options.mib << 20, options.idle_fork)


if __name__ == "__main__":
    main()
