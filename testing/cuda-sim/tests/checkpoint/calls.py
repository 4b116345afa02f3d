"""The checkpoint calls by the C interface: calls.py round|itself|absent PID UUID…"""

import ctypes
import sys

what, pid, uuids = sys.argv[1], int(sys.argv[2]), [bytes.fromhex(uuid) for uuid in sys.argv[3:]]
cuda = ctypes.CDLL("libcuda.so.1")


def expect(code, name, *values):
    got = getattr(cuda, name)(*values)
    assert got == code, f"{name}: {got}, not {code}"


def words(*first):
    """One of the argument structs: 64 bytes."""
    return (ctypes.c_uint64 * 8)(*first)


def state(pid):
    found = ctypes.c_int(-1)
    expect(0, "cuCheckpointProcessGetState", pid, ctypes.byref(found))
    return found.value


def round_of_calls():
    tid = ctypes.c_int()
    expect(0, "cuCheckpointProcessGetRestoreThreadId", pid, ctypes.byref(tid))
    assert tid.value > 0
    expect(1, "cuCheckpointProcessGetRestoreThreadId", pid, None)
    assert state(pid) == 0
    # timeoutMs is the low half of the first word; the other half is reserved.
    expect(1, "cuCheckpointProcessLock", pid, words(5000 | 1 << 32))
    expect(1, "cuCheckpointProcessLock", pid, words(5000, 0, 0, 0, 0, 0, 0, 1))
    expect(0, "cuCheckpointProcessLock", pid, words(5000))
    assert state(pid) == 1
    expect(1, "cuCheckpointProcessCheckpoint", pid, words(0, 0, 7))
    expect(0, "cuCheckpointProcessCheckpoint", pid, words())
    assert state(pid) == 2
    swapped = b"".join(old + new for old, new in zip(uuids, reversed(uuids)))
    pairs = ctypes.create_string_buffer(swapped, len(swapped))
    address = ctypes.addressof(pairs)
    expect(1, "cuCheckpointProcessRestore", pid, words(0, len(uuids)))
    expect(1, "cuCheckpointProcessRestore", pid, words(address, 1))
    expect(1, "cuCheckpointProcessRestore", pid, words(address, len(uuids), 0, 1))
    expect(0, "cuCheckpointProcessRestore", pid, words(address, len(uuids)))
    assert state(pid) == 1
    expect(1, "cuCheckpointProcessUnlock", pid, words(1))
    expect(0, "cuCheckpointProcessUnlock", pid, None)
    assert state(pid) == 0
    expect(801, "cuCheckpointOperationComplete", None)


def itself():
    """A process may be its own caller: another thread does the work."""
    import os

    expect(0, "cuInit", 0)
    own = os.getpid()
    expect(0, "cuCheckpointProcessLock", own, None)
    expect(0, "cuCheckpointProcessCheckpoint", own, None)
    assert state(own) == 2
    expect(0, "cuCheckpointProcessRestore", own, None)
    expect(0, "cuCheckpointProcessUnlock", own, None)
    count = ctypes.c_int()
    expect(0, "cuDeviceGetCount", ctypes.byref(count))
    assert count.value == len(uuids)


def absent():
    expect(801, "cuCheckpointProcessLock", pid, None)
    expect(801, "cuCheckpointProcessGetState", pid, ctypes.byref(ctypes.c_int()))
    found, result = ctypes.c_void_p(), ctypes.c_int(-1)
    arguments = [ctypes.byref(found), 12080, ctypes.c_uint64(0), ctypes.byref(result)]
    code = cuda.cuGetProcAddress_v2(b"cuCheckpointProcessLock", *arguments)
    assert code != 0 or not found.value, "an old driver does not have this"


{"round": round_of_calls, "itself": itself, "absent": absent}[what]()
