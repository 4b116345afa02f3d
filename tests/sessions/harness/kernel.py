"""A client of a live kernel, as a notebook is one.

Values come back on the shell channel, as user expressions of the reply. Output on IOPub is lost while a client is
connecting, also with a real notebook, so nothing here depends on it except `output`, which waits for the
subscription first.

A client is never told that its kernel was exchanged. ZeroMQ connects again by itself; a request that was on its way in
that moment is lost, so `ready` asks until there is an answer, as notebooks do.
"""

import ast
import json
import queue
import time
import weakref
from pathlib import Path

from jupyter_client import BlockingKernelClient


class KernelError(AssertionError):
    """The cell raised."""


class Kernel:
    """One client of one kernel. `close` ends it, not the kernel; so does forgetting it."""

    def __init__(self, connection_file):
        self.connection = json.loads(Path(connection_file).read_text())
        self.client = BlockingKernelClient()
        self.client.load_connection_info(self.connection)
        self.client.start_channels()
        # Left alone it would connect again for ever, and its heartbeat would be a strange request to the next kernel that has this port.
        self.close = weakref.finalize(self, self.client.stop_channels)

    def ready(self, seconds=30.0):
        """Waits until the kernel answers."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            asked = self.client.kernel_info()
            if self.reply(asked, 1.0) is not None:
                return self
        raise AssertionError(f"the kernel did not answer in {seconds} s")

    def reply(self, asked, seconds):
        """The reply to one request; `None` if it does not come in time. Other replies are dropped."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.client.get_shell_msg(timeout=left)
            except queue.Empty:
                return None
            if message["parent_header"].get("msg_id") == asked:
                return message
        return None

    def send(self, code):
        """Begins a cell and does not wait for it. If it fails, what comes soon after it is not answered with `aborted`."""
        return self.client.execute(code, silent=False, store_history=False, allow_stdin=False, stop_on_error=False)

    def run(self, code, seconds=60.0):
        """Runs a cell to its end."""
        return self.finish(self.send(code), seconds)

    def finish(self, asked, seconds=60.0):
        """Waits for the end of a cell."""
        message = self.reply(asked, seconds)
        assert message is not None, f"the cell did not end in {seconds} s"
        content = message["content"]
        if content["status"] != "ok":
            raise KernelError("\n".join(content.get("traceback", [])) or str(content))
        return content

    def value(self, expression, seconds=60.0):
        """The value of an expression that has a literal form."""
        asked = self.client.execute("", silent=True, user_expressions={"value": expression}, allow_stdin=False)
        content = self.finish(asked, seconds)["user_expressions"]["value"]
        if content["status"] != "ok":
            raise KernelError(f"{expression}: {content['ename']}: {content['evalue']}")
        return ast.literal_eval(content["data"]["text/plain"])

    def output(self, code, seconds=60.0):
        """What a cell prints."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            asked = self.send(code)
            self.finish(asked, seconds)
            text, complete = self.collect(asked)
            # Without the opening `status: busy` the subscription was not there yet: the cell must be repeatable.
            if complete:
                return text
        raise AssertionError(f"no output in {seconds} s")

    def collect(self, asked):
        """Output of one cell, and whether it was seen from its beginning to its end."""
        text, begun = "", False
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=1.0)
            except queue.Empty:
                return text, False
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
            elif message["msg_type"] == "status":
                begun |= content["execution_state"] == "busy"
                if content["execution_state"] == "idle":
                    return text, begun
