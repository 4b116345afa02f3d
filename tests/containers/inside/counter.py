"""A program with state, run in a container: `python3 counter.py DIRECTORY`.

It counts, and writes each number to `DIRECTORY/count`, a file that it keeps open, from a thread beside the one that counts. It listens on a
socket in /tmp, where it answers with the number, and keeps 1 MiB whose hash it writes to `DIRECTORY/hash` when it starts and whenever it is
asked by SIGUSR1. SIGUSR2 has it leap a million numbers.
"""

import hashlib
import os
import signal
import socket
import sys
import threading
import time

PAUSE = 0.01
LEAP = 1_000_000


def main(directory):
    kept = os.urandom(1 << 20)
    state = {"count": 0}
    out = os.open(os.path.join(directory, "count"), os.O_RDWR | os.O_CREAT, 0o644)

    def tell_hash(*_):
        path = os.path.join(directory, "hash")
        with open(path + ".new", "w") as file:
            file.write(hashlib.sha256(kept).hexdigest())
        os.rename(path + ".new", path)

    def write():
        while True:
            # All digits in one write: whoever reads finds a whole number.
            os.pwrite(out, b"%12d\n" % state["count"], 0)
            time.sleep(PAUSE)

    def answer(listener):
        while True:
            other, _ = listener.accept()
            other.sendall(b"%d\n" % state["count"])
            other.close()

    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/tmp/counter")
    listener.listen()
    tell_hash()
    leaps = []
    signal.signal(signal.SIGUSR1, tell_hash)
    signal.signal(signal.SIGUSR2, lambda *_: leaps.append(LEAP))
    threading.Thread(target=write, daemon=True).start()
    threading.Thread(target=answer, args=(listener,), daemon=True).start()
    while True:
        state["count"] += leaps.pop() if leaps else 1
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(sys.argv[1])
