"""HTTP over the daemon's Unix socket.

Uses the standard library only and nothing of the harness: throw-away users, who cannot read the sources, run the text of
this file with `python -c`, as `SOCKET METHOD TARGET [BODY]`.
"""

import http.client
import json
import socket
import sys


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


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
