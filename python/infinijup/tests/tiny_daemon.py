"""A daemon that keeps sessions in memory and runs real kernels beside itself, for what Jupyter's side makes of its answers.

It has the routes that a provisioner uses, as docs/openapi.json has them, and nothing that needs root: a swap is for tests to play, by
changing `sessions`. Sessions outlive `stop`, as they outlive the real one.
"""

import http.server
import json
import os
import re
import secrets
import signal
import socketserver
import subprocess
import threading
import time
from pathlib import Path

from jupyter_client.connect import write_connection_file


class Refusal(Exception):
    def __init__(self, status, code, message, exit_code=1):
        self.status = status
        self.body = {"code": code, "message": message, "causes": [], "hint": "do otherwise", "exit": exit_code}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class FakeDaemon:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.socket = str(self.directory / "d.sock")
        self.sessions, self.processes, self.asked, self.refuse = {}, {}, [], {}
        self.server = None
        self.start()

    def start(self):
        Path(self.socket).unlink(missing_ok=True)
        handler = type("Handler", (Handler,), {"fake": self})
        self.server = Server(self.socket, handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        Path(self.socket).unlink()

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        if os.path.exists(self.socket):
            self.stop()

    def view(self, session):
        view = self.sessions[session]
        process = self.processes.get(session)
        if view["state"] == "running" and process is not None and process.poll() is not None:
            code = process.returncode
            view.update(state="ended", exit=code if code >= 0 else 128 - code)
        return view

    def answer(self, method, path, body):
        self.asked.append((method, path, body))
        for pattern, refusal in self.refuse.items():
            if re.fullmatch(pattern, f"{method} {path}"):
                raise refusal
        parts = path.split("?")[0].strip("/").split("/")[1:]
        if parts == ["version"]:
            return {"version": "0"}
        if parts == ["sessions"] and method == "GET":
            return {"sessions": [self.view(session) for session in self.sessions]}
        if parts == ["sessions"]:
            return self.job("start", self.begin(body))
        if parts[1] not in self.sessions:
            raise Refusal(404, "IJ-L010", f"there is no session `{parts[1]}`", 15)
        view = self.view(parts[1])
        if len(parts) == 2:
            if method == "PATCH":
                labels = {**view["labels"], **body.pop("labels", {})}
                view.update(body, labels={key: value for key, value in labels.items() if value is not None})
            return view
        return getattr(self, f"do_{parts[2]}")(view, body)

    def begin(self, body):
        assert body.keys() <= STARTS, body.keys() - STARTS
        if any(view["name"] == body["name"] for view in self.sessions.values()):
            raise Refusal(409, "IJ-L012", "the name is in use", 14)
        session = secrets.token_hex(6)
        path = str(self.directory / f"{session}.json")
        write_connection_file(path)
        kernel = {"connection_file": path, "kernel_name": body["start"]["spec"]}
        kept = {key: body.get(key) for key in ("name", "cwd", "notebook", "policy", "network")}
        more = {"id": session, "state": "running", "kernel": kernel, "labels": body["labels"], "head": None}
        self.sessions[session] = {**kept, **more, "exit": None, "operation": None}
        self.run(session, body)
        return self.sessions[session]

    def run(self, session, body):
        argv = [word.replace("{connection_file}", str(self.directory / f"{session}.json")) for word in body["start"]["argv"]]
        env = {entry["name"]: entry["value"] for entry in body["env"]}
        log = subprocess.DEVNULL
        self.processes[session] = subprocess.Popen(argv, env=env, cwd=body["cwd"], start_new_session=True, stdout=log, stderr=log)
        self.sessions[session].update(state="running", exit=None)

    def do_restart(self, view, body):
        assert body.keys() <= {"start", "env", "cwd", "grace_ms", "snapshot"}
        self.end(view)
        self.run(view["id"], body)
        return self.job("restart", view)

    def do_signal(self, view, body):
        if view["state"] != "running":
            raise Refusal(409, "IJ-L014", "it does not run", 1)
        os.killpg(self.processes[view["id"]].pid, body["signal"])
        return {}

    def do_stop(self, view, _body):
        self.end(view)
        return self.job("stop", view)

    def end(self, view):
        process = self.processes[view["id"]]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        view.update(state="ended", exit=137)

    def job(self, kind, view):
        return {"id": "1", "kind": kind, "state": "done", "steps": [], "result": {"type": "session", **view}, "error": None}


# Of a request to start a session.
STARTS = {"name", "start", "cwd", "env", "network", "outside", "workspace", "files", "memory_limit", "gpus", "labels", "notebook", "policy"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "local"

    def log_message(self, *_):
        pass

    def serve(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            status, answer = 200, self.fake.answer(self.command, self.path, body)
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = serve


def until(what, check, seconds=30):
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)
    return found
