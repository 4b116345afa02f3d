"""Custom storage by the C interface: storage.py PID UUID…; the memory of PID goes through this process and back."""

import ctypes
import os
import sys

pid, uuids = int(sys.argv[1]), [bytes.fromhex(uuid) for uuid in sys.argv[2:]]
cuda = ctypes.CDLL("libcuda.so.1")


class PerDevice(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("size", ctypes.c_size_t), ("stream", ctypes.c_void_p)]


class Info(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("devices", ctypes.POINTER(PerDevice)), ("count", ctypes.c_uint)]


def expect(code, name, *values):
    got = getattr(cuda, name)(*values)
    assert got == code, f"{name}: {got}, not {code}"


def words(*first):
    return (ctypes.c_uint64 * 8)(*first)


def state():
    found = ctypes.c_int(-1)
    expect(0, "cuCheckpointProcessGetState", pid, ctypes.byref(found))
    return found.value


info = ctypes.POINTER(Info)()
checkpoint = words(ctypes.addressof(info))
expect(0, "cuCheckpointProcessLock", pid, None)
expect(3, "cuCheckpointProcessCheckpoint", pid, checkpoint)
expect(0, "cuInit", 0)
expect(201, "cuCheckpointProcessCheckpoint", pid, checkpoint)
assert state() == 1
contexts = {}
for ordinal in range(len(uuids)):
    context = ctypes.c_uint64()
    expect(0, "cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
    contexts[context.value] = ordinal
expect(801, "cuCheckpointProcessCheckpoint", os.getpid(), checkpoint)
expect(0, "cuCheckpointProcessCheckpoint", pid, checkpoint)
assert state() == 4, "CHECKPOINTING"
assert info.contents.count == 2


def parts():
    for index in range(info.contents.count):
        part = info.contents.devices[index]
        context = ctypes.c_uint64()
        expect(0, "cuStreamGetCtx", ctypes.c_void_p(part.stream), ctypes.byref(context))
        expect(0, "cuCtxSetCurrent", context)
        yield contexts[context.value], part


stored = {}
for gpu, part in parts():
    room = ctypes.create_string_buffer(part.size)
    expect(0, "cuMemcpyDtoHAsync_v2", room, ctypes.c_uint64(part.address), part.size, ctypes.c_void_p(part.stream))
    stored[gpu] = room
expect(401, "cuCheckpointProcessRestore", pid, None)
expect(0, "cuCheckpointOperationComplete", ctypes.c_void_p(info.contents.handle))
expect(1, "cuCheckpointOperationComplete", ctypes.c_void_p(info.contents.handle))
assert state() == 2
print("checkpointed", flush=True)
sys.stdin.readline()

expect(1, "cuCheckpointProcessRestore", pid, None)
swapped = b"".join(old + new for old, new in zip(uuids, reversed(uuids)))
pairs = ctypes.create_string_buffer(swapped, len(swapped))
info = ctypes.POINTER(Info)()
expect(0, "cuCheckpointProcessRestore", pid, words(ctypes.addressof(pairs), len(uuids), ctypes.addressof(info)))
assert state() == 5, "RESTORING"
for gpu, part in parts():
    # What was on one GPU is on the other now.
    room = stored[len(uuids) - 1 - gpu]
    assert len(room) == part.size
    expect(0, "cuMemcpyHtoDAsync_v2", ctypes.c_uint64(part.address), room, part.size, ctypes.c_void_p(part.stream))
expect(401, "cuCheckpointProcessUnlock", pid, None)
expect(0, "cuCheckpointOperationComplete", ctypes.c_void_p(info.contents.handle))
assert state() == 1
expect(0, "cuCheckpointProcessUnlock", pid, None)
