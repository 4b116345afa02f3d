"""A request that may never be answered, because its daemon is killed meanwhile."""

import http.client
import threading

from harness.wire import request


class Operation(threading.Thread):
    """`answer` is that of the daemon, or `None` if there was none, or no good one."""

    def __init__(self, daemon, target, body):
        super().__init__(daemon=True)
        self.daemon_socket, self.target, self.body = daemon.socket, target, body
        self.answer = None

    def run(self):
        try:
            status, answer = request(self.daemon_socket, "POST", self.target + "?wait=true", self.body, seconds=60)
            if status == 200:
                self.answer = answer
        except (OSError, ValueError, http.client.HTTPException):
            pass
