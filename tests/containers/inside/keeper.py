"""A program with memory, run in a container: `python3 keeper.py DIRECTORY MIB`.

It keeps so many MiB, and 8 more that a child has, too, which it has forked. SIGUSR1: it writes the hash of what both have to
`DIRECTORY/hash`. SIGUSR2: both write to pages, `FIRST COUNT BYTE` in `DIRECTORY/order`, and the file is gone when they have. Threads
beside it count, as in counter.py, and start programs that end again.
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

ORDERS = {signal.SIGUSR1, signal.SIGUSR2}
PAGE = 4096
MIB = 1 << 20


def pages_of(mib):
    """No page like another."""
    data = bytearray(os.urandom(MIB) * mib)
    for at in range(0, len(data), PAGE):
        data[at : at + 8] = at.to_bytes(8, "little")
    return data


def write(data, first, count, byte):
    for page in range(first, first + count):
        data[page * PAGE % len(data) + 9] = byte


def serve(both, orders, answers):
    for line in orders:
        first, count, byte = map(int, line.split())
        write(both, first, count, byte)
        answers.write(hashlib.sha256(both).hexdigest() + "\n")
        answers.flush()


def main(directory, mib):
    both = pages_of(8)
    to_child, from_child = os.pipe(), os.pipe()
    if os.fork() == 0:
        serve(both, os.fdopen(to_child[0]), os.fdopen(from_child[1], "w"))
        os._exit(0)
    orders, answers = os.fdopen(to_child[1], "w"), os.fdopen(from_child[0])
    kept = pages_of(mib)
    state = {"count": 0}
    out = os.open(os.path.join(directory, "count"), os.O_RDWR | os.O_CREAT, 0o644)

    def child(first, count, byte):
        orders.write(f"{first} {count} {byte}\n")
        orders.flush()
        return answers.readline()

    def tell_hash(*_):
        told = hashlib.sha256(kept)
        told.update(both)
        told.update(child(0, 0, 0).encode())
        path = os.path.join(directory, "hash")
        with open(path + ".new", "w") as file:
            file.write(told.hexdigest())
        os.rename(path + ".new", path)

    def obey(*_):
        path = os.path.join(directory, "order")
        with open(path) as file:
            order = list(map(int, file.read().split()))
        write(kept, *order)
        write(both, *order)
        child(*order)
        os.unlink(path)

    def count():
        while True:
            state["count"] += 1
            os.pwrite(out, b"%12d\n" % state["count"], 0)
            time.sleep(0.01)

    def start_programs():
        while True:
            subprocess.run(["/bin/cat", "/proc/self/comm"], stdout=subprocess.DEVNULL, check=False)
            time.sleep(0.05)

    signal.signal(signal.SIGUSR1, tell_hash)
    signal.signal(signal.SIGUSR2, obey)
    # Python answers signals in its first thread only, and that one sleeps: a signal that the kernel gave to another thread, because the
    # first one stood still in that moment, would be answered when the sleep is over. Threads inherit what is blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)
    for work in (count, start_programs):
        threading.Thread(target=work, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)
    while True:
        time.sleep(1000)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
