"""A request that may never be answered, because its daemon is killed meanwhile."""

import http.client
import random
import threading
import time

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


def seconds_of(do):
    """How long something takes that nobody interrupts."""
    begun = time.monotonic()
    do()
    return time.monotonic() - begun


def moments(count, whole, seed):
    """As many moments of something that takes `whole` seconds: one in each part of it, so that on a machine of any speed most of them are
    before its end."""
    dice = random.Random(seed)
    return [(number + dice.random()) / count * whole for number in range(count)]


def killed_after(seconds, daemon, target, body):
    """Kills a daemon that long after it was asked for something. Whether it was cut short; the daemon is not started again."""
    work = Operation(daemon, target, body)
    work.start()
    time.sleep(seconds)
    daemon.kill()
    work.join(20)
    return work.answer is None
