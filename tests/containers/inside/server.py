"""A server on the network, run in a container: `python3 server.py ADDRESS… PORT`.

It listens on the port, at each of the addresses; `own` is the one that the container has been given. Whoever connects is told how many
have come so far.
"""

import socket
import sys
import threading


def own_address():
    """The one from which the container would speak. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("192.0.2.1", 9))
        return out.getsockname()[0]


def main(addresses, port):
    told = [0]
    lock = threading.Lock()

    def answer(listener):
        while True:
            other, _ = listener.accept()
            with lock, other:
                told[0] += 1
                other.sendall(b"%d\n" % told[0])

    for address in addresses:
        listener = socket.create_server((own_address() if address == "own" else address, port))
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:-1], int(sys.argv[-1]))
