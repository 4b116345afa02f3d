"""An ordinary user who means ill: `attacker.py HELPER-SOCKET`. Reads one JSON object a line and answers with one.

The numbers are those of `helper/message.rs`, written down a second time on purpose: this is another program's idea of them.
"""

import array
import json
import os
import random
import signal
import socket
import struct
import sys
import time

LENGTH = 2072
MAGIC = b"IJGPU\0\0\x01"
VERBS = {"thread": 1, "state": 2, "lock": 3, "checkpoint": 4, "restore": 5, "unlock": 6}
# Longer than the helper waits for anybody, on a busy machine.
PATIENCE = 30
PIDFD_THREAD = os.O_EXCL

kept = {}


def message(verb, timeout_ms=None):
    timeout_ms = timeout_ms if timeout_ms is not None else (2000 if verb == "lock" else 0)
    return (MAGIC + struct.pack("<IIII", VERBS[verb], timeout_ms, 0, 0)).ljust(LENGTH, b"\0")


def talk(payload, descriptors):
    """One packet with descriptors, and what comes back: kind and value, or None if nothing does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(sys.argv[1])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            connection.sendmsg([payload], rights)
            answer = connection.recv(64)
        except (BrokenPipeError, ConnectionResetError):
            return None
        if not answer:
            return None
        assert len(answer) == 16 and answer[:8] == MAGIC, answer
        return list(struct.unpack("<Ii", answer[8:]))


def ask(request):
    """A whole request about a process that was kept, about one by its number, or about a single thread."""
    if "kept" in request:
        pidfd = kept[request["kept"]]
    elif "thread" in request:
        pidfd = os.pidfd_open(request["thread"], PIDFD_THREAD)
    else:
        pidfd = os.pidfd_open(request["pid"])
    return {"answer": talk(message(request["verb"], request.get("timeout_ms")), [pidfd] * request.get("copies", 1))}


def keep(request):
    """A pidfd, for later."""
    kept[request["name"]] = os.pidfd_open(request["pid"])
    return {}


def child(request):
    """A child that is kept; then it is ended, and its number is free."""
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    kept[request["name"]] = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return {"pid": pid}


def idle(request):
    """Connections on which nothing is said, until the other side ends them: how long that took at most."""
    connections = []
    for _ in range(request["count"]):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(PATIENCE)
        connection.connect(sys.argv[1])
        connections.append(connection)
    begun = time.monotonic()
    for connection in connections:
        connection.recv(64)
        connection.close()
    return {"seconds": time.monotonic() - begun}


def flood(request):
    """Messages that are none, and requests about a process of somebody else's. Nothing but refusals may come back."""
    chance = random.Random(request["seed"])
    other = os.pidfd_open(request["pid"])
    gone = kept["gone"]
    own = os.open("/proc/self", os.O_RDONLY)
    null = os.open("/dev/null", os.O_RDWR)
    pipe = os.pipe()
    seen = {}

    def descriptors():
        kind = chance.randrange(8)
        if kind == 0:
            return []
        if kind == 1:
            return [other] * chance.choice([2, 3, 60, 250])
        if kind == 2:
            return [chance.choice([own, null, *pipe])]
        return [chance.choice([other, gone])]

    def payload():
        kind = chance.randrange(6)
        if kind == 0:
            return chance.randbytes(chance.choice([1, 7, 8, 24, 2071, 2073, 4096, 60000]))
        if kind == 1:
            return chance.randbytes(LENGTH)
        if kind == 2:
            return MAGIC + chance.randbytes(LENGTH - 8)
        whole = bytearray(message(chance.choice(list(VERBS))))
        if kind == 3:
            return bytes(whole[: chance.randrange(1, LENGTH)])
        for _ in range(chance.randrange(4) if kind == 4 else 1):
            whole[chance.randrange(chance.choice([24, LENGTH]))] = chance.randrange(256)
        return bytes(whole)

    for _ in range(request["count"]):
        if chance.randrange(50) == 0:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.connect(sys.argv[1])
            continue
        answer = talk(payload(), descriptors())
        name = str(answer)
        seen[name] = seen.get(name, 0) + 1
    return {"seen": seen}


def main():
    deeds = {"ask": ask, "keep": keep, "child": child, "idle": idle, "flood": flood}
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(deeds[request.pop("do")](request)), flush=True)


main()
