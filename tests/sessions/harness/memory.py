"""Runs inside a kernel: memory of every sort that a program can have, and a mark of each."""

import ctypes
import mmap
import multiprocessing
import os
import subprocess
import sys
import threading
import zlib

MIB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

# A program of its own, with an address space of its own.
BESIDE = """
import os, sys, zlib
own = bytearray(os.urandom(24 << 20))
print("ready", flush=True)
for line in sys.stdin:
    print(zlib.crc32(own), flush=True)
"""


def private(mib, advice=None):
    """Anonymous memory of its own mapping, filled."""
    part = mmap.mmap(-1, mib * MIB, flags=PRIVATE)
    if advice is not None:
        part.madvise(advice)
    part.write(os.urandom(mib * MIB))
    return part


def address(part):
    return ctypes.addressof(ctypes.c_char.from_buffer(part))


def forked(pipe, inherited):
    """Has its parent's memory, changes some of it, and has some of its own."""
    inherited[7 * MIB : 9 * MIB] = os.urandom(2 * MIB)
    own = bytearray(os.urandom(24 * MIB))
    while pipe.recv():
        pipe.send((zlib.crc32(inherited), zlib.crc32(own)))


class Memory:
    def __init__(self, mib):
        self.large = bytearray(os.urandom(mib * MIB))
        self.large[8 * MIB : 24 * MIB] = bytes(16 * MIB)
        self.huge = private(32, mmap.MADV_HUGEPAGE)
        self.small_pages = private(20, mmap.MADV_NOHUGEPAGE)
        self.read_only = private(40)
        assert LIBC.mprotect(ctypes.c_void_p(address(self.read_only) + 12 * MIB), 4 * MIB, mmap.PROT_READ) == 0
        self.locked = private(20)
        assert LIBC.mlock(ctypes.c_void_p(address(self.locked) + 4 * MIB), 64 << 10) == 0
        self.dropped = private(24)
        self.dropped.madvise(mmap.MADV_DONTNEED, 4 * MIB, 8 * MIB)
        self.shared = mmap.mmap(-1, 20 * MIB)
        self.shared.write(os.urandom(20 * MIB))
        self.never_touched = mmap.mmap(-1, 64 * MIB, flags=PRIVATE)
        self.inherited = bytearray(os.urandom(24 * MIB))
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.child = fork.Process(target=forked, args=(theirs, self.inherited), daemon=True)
        self.child.start()
        self.after_the_fork = bytearray(os.urandom(32 * MIB))
        self.beside = subprocess.Popen([sys.executable, "-c", BESIDE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.beside.stdout.readline() == "ready\n"
        # Their stacks and what the kernel writes for them are in large mappings.
        threading.stack_size(32 * MIB)
        self.asked, self.answers = [threading.Event() for _ in range(3)], [None] * 3
        self.threads = [threading.Thread(target=self.serve, args=(number,), daemon=True) for number in range(3)]
        for thread in self.threads:
            thread.start()
        threading.stack_size(0)

    def serve(self, number):
        mine = os.urandom(MIB)
        while True:
            self.asked[number].wait()
            self.asked[number].clear()
            # Where it runs, the kernel tells it by itself.
            self.answers[number] = (zlib.crc32(mine), os.sched_getaffinity(0) != set())

    def of_threads(self):
        self.answers = [None] * 3
        for event in self.asked:
            event.set()
        while None in self.answers:
            os.sched_yield()
        return list(self.answers)

    def marks(self):
        """What all of it is; equal before and after."""
        self.pipe.send(True)
        print("", file=self.beside.stdin, flush=True)
        parts = ("large", "huge", "small_pages", "read_only", "locked", "dropped", "shared", "never_touched", "inherited", "after_the_fork")
        marks = {name: zlib.crc32(getattr(self, name)) for name in parts}
        # Written by the parent, seen by nobody else.
        return {**marks, "child": self.pipe.recv(), "beside": self.beside.stdout.readline(), "threads": self.of_threads()}

    def wreck(self):
        """Everything becomes something else."""
        for part in (self.large, self.huge, self.small_pages, self.locked, self.dropped, self.shared, self.never_touched, self.inherited):
            part[5 * MIB : 6 * MIB] = os.urandom(MIB)

    def zeros(self):
        """What must be zeros, however it came back."""
        return not any(self.large[8 * MIB : 24 * MIB]) and not any(self.dropped[4 * MIB : 12 * MIB]) and not any(self.never_touched[:])
