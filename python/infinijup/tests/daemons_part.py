"""A real ipykernel, and a client that plays the daemon's part: it sees requests on iopub and answers on the control channel."""

import queue
import threading
import time

from jupyter_client import KernelManager

COMMIT = "f26f289a073f1220ad134a70f4107024c8ee7c666a4e5574bdb636dbca8b7822"
VIEW = {"id": "4be1c09fd27a", "name": "analysis", "state": "running", "head": None, "memory_bytes": 64 << 20, "vram_bytes": None}


class Played:
    """`answers` has, for each verb, a result, an error as a tuple, or a function of the request's content. None answers nothing."""

    def __init__(self, env):
        self.manager = KernelManager()
        self.manager.start_kernel(env=env)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(60)
        self.daemon = self.manager.blocking_client()
        self.daemon.start_channels()
        self.daemon.wait_for_ready(60)
        self.answers = {"status": VIEW}
        self.asked = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.play, daemon=True)
        self.thread.start()

    def close(self):
        self.over.set()
        self.thread.join()
        for client in (self.client, self.daemon):
            client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def play(self):
        while not self.over.is_set():
            try:
                message = self.daemon.get_iopub_msg(timeout=0.1)
            except queue.Empty:
                continue
            if message["msg_type"] == "infinijup_request":
                content = message["content"]
                self.asked.append(content)
                self.answer(content)

    def answer(self, content):
        answer = self.answers.get(content["do"])
        answer = answer(content) if callable(answer) else answer
        if isinstance(answer, tuple):
            code, message, hint = answer
            self.reply({"id": content["id"], "ok": False, "error": {"code": code, "message": message, "hint": hint}})
        elif answer is not None:
            self.reply({"id": content["id"], "ok": True, "result": answer})

    def restore(self, note=None):
        """What the daemon says to a kernel that it has restored."""
        self.reply({"id": "*", "ok": True, "result": {"restored": COMMIT, "session": "analysis", "note": note}})

    def reply(self, content):
        self.daemon.control_channel.send(self.daemon.session.msg("infinijup_reply", content))

    def run(self, code):
        """What a cell prints and its reply."""
        asked = self.client.execute(code)
        printed, deadline = "", time.monotonic() + 60
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=20)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return printed, self.reply_to(asked)
        raise AssertionError(f"{code!r} did not end")

    def reply_to(self, asked):
        while True:
            message = self.client.get_shell_msg(timeout=60)
            if message["parent_header"].get("msg_id") == asked:
                return message["content"]

    def complete(self, code):
        asked = self.client.complete(code)
        return self.reply_to(asked)["matches"]

    def verbs(self):
        return [content["do"] for content in self.asked]
