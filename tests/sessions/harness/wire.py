"""HTTP over the daemon's Unix socket.

Uses the standard library only and nothing of the harness: throw-away users, who cannot read the sources, run the text of
this file with `python -c`, as `SOCKET METHOD TARGET [BODY]`.
"""

import ctypes
import http.client
import json
import os
import platform
import socket
import sys

SETRESUID = {"x86_64": 117, "aarch64": 147}


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self.path = str(path)

    def connect(self):
        self.sock = connect(self.path, self.timeout)


def connect(path, seconds):
    """A connection to a daemon, as the user who runs it: it listens to nobody else, root included."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(seconds)
    if os.getuid() != 0:
        client.connect(str(path))
        return client
    try:
        # The kernel tells the daemon who connects, and who that is in this moment.
        become(os.stat(path).st_uid)
        client.connect(str(path))
    finally:
        become(0)
    return client


def become(uid):
    """Who this thread is, as others see it. `os.seteuid` changes that for all threads, which may be doing something as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SETRESUID[platform.machine()], -1, uid, -1) != 0:
        raise OSError(ctypes.get_errno(), f"cannot become user {uid}")


def request(path, method, target, body=None, seconds=110):
    """One request; status and decoded answer."""
    connection = UnixConnection(path, seconds)
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(method, target, json.dumps(body) if body is not None else None, headers)
        except BrokenPipeError:
            # It answered before it had heard everything, and that is what counts.
            pass
        response = connection.getresponse()
        text = response.read()
        try:
            return response.status, json.loads(text) if text else None
        except ValueError:
            return response.status, text.decode(errors="replace")
    finally:
        connection.close()


if __name__ == "__main__":
    asked = sys.argv[1:]
    answer = request(asked[0], asked[1], asked[2], json.loads(asked[3]) if len(asked) > 3 else None)
    print(json.dumps(answer))
