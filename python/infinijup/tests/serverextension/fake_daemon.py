"""A daemon for tests without privileges: its interface on a Unix socket, real kernels behind it, and no snapshots.

A rollback here is what the Jupyter side sees of one: the process goes, and another is there on the same ports with the same key. It
remembers nothing, which is what a test of lost answers needs least. `refuse` makes any route fail, `slow` makes jobs take their time.
"""

import asyncio
import contextlib
import json
import re
import secrets
import socket
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def error(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "message": message, "causes": [], "hint": None, "exit": 1, **more}


class FakeDaemon:
    def __init__(self, directory: Path):
        # Where the files of sessions are.
        self.workspace: str | None = None
        self.directory = directory
        self.socket = directory / "d.sock"
        self.sessions: dict[str, dict[str, Any]] = {}
        self.commits: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, str] = {}
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.starts: dict[str, dict[str, Any]] = {}
        self.jobs: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, Any]] = []
        self.refuse: dict[str, tuple[int, dict[str, Any]]] = {}
        self.slow = 0.0
        # How many may run when another is resumed.
        self.places = 1000
        self.current = ""
        self._ports: list[socket.socket] = []
        self._events: list[dict[str, Any]] = []
        self._streams: set[asyncio.Queue[dict[str, Any]]] = set()
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, str(self.socket))

    async def stop(self) -> None:
        """As a daemon that was killed: sessions live on."""
        if self._server:
            self._server.close()
            self._server = None
        self.socket.unlink(missing_ok=True)
        for client in list(self._clients):
            client.cancel()

    async def close(self) -> None:
        await self.stop()
        for session in list(self.processes):
            await self.end(session)
        for held in self._ports:
            held.close()

    # HTTP.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._clients.add(task)
        try:
            method, path, headers, body = await self._read(reader)
            await self._dispatch(method, path, headers, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], Any]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        return method, path, headers, json.loads(raw) if raw else None

    async def _dispatch(self, method: str, path: str, headers: dict[str, str], body: Any, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(path)
        if parts.path == "/v1/events":
            await self._stream(headers, writer)
            return
        self.requests.append((method, unquote(parts.path), body))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            status, answer = await self.answer(method, unquote(parts.path), query, body)
        except KeyError as problem:
            status, answer = 404, error("IJ-L010", f"there is no {problem}")
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(raw)) + raw)
        await writer.drain()

    async def _stream(self, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        last = int(headers.get("last-event-id", len(self._events)))
        for event in self._events[last:]:
            queue.put_nowait(event)
        self._streams.add(queue)
        try:
            while True:
                event = await queue.get()
                writer.write(f"id: {event['id']}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n".encode())
                await writer.drain()
        finally:
            self._streams.discard(queue)

    def tell(self, kind: str, **more: Any) -> None:
        event = {"id": len(self._events) + 1, "time": now(), "kind": kind, **more}
        self._events.append(event)
        for queue in self._streams:
            queue.put_nowait(event)

    # What it does.

    async def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        for pattern, refusal in self.refuse.items():
            if re.fullmatch(pattern, f"{method} {path}"):
                return refusal
        words = path.split("/")[2:]
        match method, *words:
            case "GET", "version":
                return 200, {"version": "0.1.0", "api": 1, "criu": "4.2", "refusal": None}
            case "GET", "doctor":
                return 200, {"works": True, "findings": []}
            case "GET", "store":
                return 200, {"path": "/store", "used_bytes": 1200, "allowed_bytes": 4600}
            case "GET", "sessions":
                return 200, {"sessions": list(self.sessions.values())}
            case "GET", "jobs":
                return 200, {"jobs": self.jobs}
            case "POST", "sessions":
                return await self.job("start", None, self.begin(body))
            case "GET", "sessions", session:
                return 200, self.sessions[session]
            case "PATCH", "sessions", session:
                return 200, self.patch(session, body)
            case "DELETE", "sessions", session:
                view = self.sessions.pop(session)
                self.tell("session_removed", session=session)
                return 200, view
            case "GET", "sessions", session, "servers":
                _ = self.sessions[session]
                return 200, {"servers": [{"port": 8050, "outside_port": 40123}]}
            case "GET", "sessions", session, "files":
                view = self.sessions[session]
                return 200, {
                    "directory": view["workspace"],
                    "own": view["parent"] is not None,
                    "loose": [{"path": "/w/new.csv", "bytes": 5}],
                }
            case "GET", "commits", _, "files":
                return 200, {"files": [{"path": "/w/new.csv", "bytes": 5}], "count": 1, "bytes": 5}
            case "POST", "commits", _, "files":
                written = [{"path": path, "to": f"{body['to']}/{Path(path).name}"} for path in body["paths"]]
                return await self.job("copy_out", None, self.value({"type": "copy_out", "written": written, "skipped": []}))
            case "GET", "sessions", session, "history":
                mine = [commit for commit in self.commits.values() if commit["session"] == session]
                thread = {"name": session, "head": self.sessions[session]["head"], "session": session}
                return 200, {"commits": mine[::-1], "threads": [thread]}
            case "POST", "sessions", session, "signal":
                self.processes[session].send_signal(body["signal"])
                return 200, {}
            case "POST", "sessions", session, ("snapshot" | "rollback" | "suspend" | "resume" | "stop" | "restart" | "branch") as kind:
                _ = self.sessions[session]
                return await self.job(kind, session, getattr(self, f"do_{kind}")(session, body or {}))
            case "GET", "commits", commit:
                return 200, self.commits[commit]
            case "GET", "commits", commit, "notebook":
                return 200, self.documents[commit].encode()
            case "GET", "commits", commit, "variables":
                return 200, {"variables": []}
            case "GET", "diff":
                return 200, {"a": query["a"], "b": query["b"], "processes": [], "memory": [], "files": [], "totals": {}}
            case "POST", "tags":
                return 200, self.commits[body["commit"]] | {"tags": [body["name"]]}
            case "DELETE", "tags", _:
                return 200, {}
            case "POST", "forget":
                return await self.job("forget", None, self.value({"forgotten": body["commits"], "kept": []}))
            case "POST", "gc":
                return await self.job("gc", None, self.value({"freed_bytes": 0, "commits": 0, "objects": 0}))
        return 404, error("IJ-D010", f"there is no {method} {path}")

    async def value(self, value: Any) -> Any:
        return value

    async def job(self, kind: str, session: str | None, work: Any) -> tuple[int, Any]:
        job = {"id": secrets.token_hex(8), "kind": kind, "session": session, "state": "running", "began": now(), "ended": None}
        job |= {"steps": [], "result": None, "error": None}
        self.jobs.append(job)
        if session:
            self.sessions[session]["operation"] = kind
        self.tell("job_began", session=session, job_id=job["id"], job_kind=kind, job={**job})
        try:
            self.current = job["id"]
            await asyncio.sleep(self.slow)
            job["result"], job["state"] = await work, "done"
            status, answer = 200, job
        except Refused as refused:
            job["error"], job["state"] = refused.body, "failed"
            status, answer = refused.status, refused.body
        job["ended"] = now()
        if session in self.sessions:
            self.sessions[session]["operation"] = None
        self.tell("job_ended", session=session, job_id=job["id"], job_kind=kind, job={**job, "result": None})
        return status, answer

    async def begin(self, body: dict[str, Any]) -> dict[str, Any]:
        session = secrets.token_hex(6)
        self.starts[session] = body
        self.sessions[session] = {
            "id": session,
            "name": body.get("name") or session,
            "state": "starting",
            "labels": body.get("labels", {}),
            "notebook": body.get("notebook"),
            "policy": body.get("policy"),
            "operation": None,
            "pid": None,
            "kernel": {"connection_file": str(self.connection(session)), "kernel_name": "python3", "language": "python"},
            "thread": session,
            "head": None,
            "parent": None,
            "workspace": self.workspace,
            "created": now(),
            "exit": None,
        }
        await self.spawn(session)
        return self.sessions[session]

    def connection(self, session: str) -> Path:
        file = self.directory / f"{session}.json"
        ports = {name: self.port() for name in PORTS}
        info = {"ip": "127.0.0.1", "transport": "tcp", "signature_scheme": "hmac-sha256", "key": secrets.token_hex(16), "kernel_name": ""}
        file.write_text(json.dumps({**info, **ports}))
        return file

    def port(self) -> int:
        """One that is a session's for good, also before its kernel listens and while it is suspended.

        A socket that is bound and does not listen keeps it from everybody who takes any port (a client's connection too), and not from
        the kernel, which asks for this one: both allow the address to be used again.
        """
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self._ports.append(held)
        return held.getsockname()[1]

    async def spawn(self, session: str) -> None:
        view = self.sessions[session]
        words = [sys.executable, "-m", "ipykernel_launcher", "-f", view["kernel"]["connection_file"]]
        words.append("--HistoryManager.hist_file=:memory:")
        log = (self.directory / "kernels.log").open("ab")
        self.processes[session] = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        self.set(session, state="running", pid=self.processes[session].pid)

    async def end(self, session: str) -> None:
        process = self.processes.pop(session, None)
        if process:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def set(self, session: str, **more: Any) -> None:
        self.sessions[session].update(more)
        self.tell("session_state", session=session, state=self.sessions[session]["state"])

    def patch(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        view = self.sessions[session]
        labels = {**view["labels"], **body.pop("labels", {})}
        view.update(body, labels={name: value for name, value in labels.items() if value is not None})
        self.tell("session_changed", session=session)
        return view

    async def do_snapshot(self, session: str, body: dict[str, Any], reason: str = "manual") -> dict[str, Any]:
        commit, head = secrets.token_hex(32), self.sessions[session]["head"]
        document = body.get("notebook")
        view = {"id": commit, "parents": [head] if head else [], "thread": session, "tags": [], "time": now(), "bytes": 1}
        view |= {"reason": body.get("reason", reason), "message": body.get("message") or "", "label": body.get("label")}
        view |= {"session": session, "automatic": reason != "manual", "cell": body.get("cell"), "has_notebook": document is not None}
        self.commits[commit] = view
        if document is not None:
            self.documents[commit] = document
        self.sessions[session]["head"] = commit
        self.tell("snapshot_taken", session=session, commit=commit, job_id=self.current)
        return {"type": "snapshot", "commit": commit, "warnings": [], "not_captured": [], "steps": []}

    async def do_rollback(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        if body["to"] not in self.commits:
            raise Refused(404, error("IJ-L010", f"there is no snapshot `{body['to']}`"))
        automatic = await self.do_snapshot(session, {"notebook": body.get("notebook")}, "automatic")
        await self.end(session)
        await self.spawn(session)
        # Being back is a commit of its own.
        back = {**self.commits[body["to"]], "id": secrets.token_hex(32), "parents": [automatic["commit"], body["to"]]}
        self.commits[back["id"]] = {**back, "back_to": body["to"], "reason": "rollback", "automatic": True, "time": now()}
        self.sessions[session]["head"] = back["id"]
        self.tell("rolled_back", session=session, commit=back["id"])
        return {"type": "rollback", "commit": back["id"], "automatic": automatic["commit"], "changed_by_others": [], "steps": []}

    async def do_suspend(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        taken = await self.do_snapshot(session, body, "suspend")
        await self.end(session)
        self.set(session, state="suspended", pid=None)
        return {"type": "suspend", "commit": taken["commit"], "freed_bytes": 1, "steps": []}

    async def do_resume(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        if sum(view["state"] == "running" for view in self.sessions.values()) > self.places:
            raise Refused(409, error("IJ-L080", "no place on the GPUs"))
        await self.spawn(session)
        return {"type": "session", **self.sessions[session]}

    async def do_stop(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        await self.end(session)
        self.set(session, state="ended", pid=None, exit=0)
        return {"type": "session", **self.sessions[session]}

    async def do_restart(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        await self.end(session)
        await self.spawn(session)
        return {"type": "session", **self.sessions[session]}

    async def do_branch(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        start = body.get("from") or (await self.do_snapshot(session, {"notebook": body.get("notebook")}, "branch"))["commit"]
        made = await self.begin({"name": body.get("name"), "labels": {}})
        made |= {"parent": {"session": session, "commit": start}, "head": start}
        return {"type": "branch", "branches": [{"session": made, "commit": start, "shared": [], "warnings": []}]}


class Refused(Exception):
    def __init__(self, status: int, body: dict[str, Any]):
        super().__init__(body["message"])
        self.status, self.body = status, body


async def main(directory: Path) -> None:
    """`python fake_daemon.py DIRECTORY`: something for JupyterLab to talk to, with INFINIJUP_SOCKET=DIRECTORY/d.sock."""
    daemon = FakeDaemon(directory)
    await daemon.start()
    try:
        await asyncio.Event().wait()
    finally:
        await daemon.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
