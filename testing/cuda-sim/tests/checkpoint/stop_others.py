"""Stops every thread of a process but one by ptrace, as CRIU does: stop_others.py PID TID. Lets them go at its end."""

import ctypes
import os
import sys

pid, keep = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000

for tid in map(int, os.listdir(f"/proc/{pid}/task")):
    if tid == keep:
        continue
    assert libc.ptrace(SEIZE, tid, None, None) == 0, os.strerror(ctypes.get_errno())
    assert libc.ptrace(INTERRUPT, tid, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(tid, WALL)
print("stopped", flush=True)
sys.stdin.readline()
