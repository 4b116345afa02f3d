"""The client of the daemon, against a socket that says what the test wants."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("httpx")

from infinijup import daemon as module
from infinijup.daemon import Daemon, DaemonAway, DaemonError, from_wire, socket_path, target, to_wire

JOB = {"id": "1", "kind": "snapshot", "state": "done", "steps": [], "result": {"type": "snapshot", "commit": "f26f"}, "error": None}


class Socket:
    """Answers each connection with the next of `answers`: a status and a body, text to stream, or None to hang up."""

    def __init__(self, path, answers):
        self.path, self.answers, self.heard = str(path), list(answers), []

    async def __aenter__(self):
        self.server = await asyncio.start_unix_server(self.serve, self.path)
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0)
        self.heard.append((head.decode(), json.loads(await reader.readexactly(length)) if length else None))
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + answer.encode())
        elif answer is not None:
            status, body = answer
            content = json.dumps(body).encode()
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()
        writer.close()


def run(tmp_path, answers, story):
    async def whole():
        path = tmp_path / "d.sock"
        async with Socket(path, answers) as socket:
            return await story(Daemon(str(path)), socket)

    return asyncio.run(asyncio.wait_for(whole(), 30))


def event(number, kind="session_state"):
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps({'id': number, 'kind': kind})}\n\n"


def test_a_job_is_waited_for_and_gives_its_result(tmp_path):
    async def story(daemon, socket):
        assert await daemon.post("/v1/sessions/a/snapshot", {"label": "x"}) == JOB["result"]
        assert socket.heard[0][0].startswith("POST /v1/sessions/a/snapshot?wait=true ")
        assert socket.heard[0][1] == {"label": "x"}
        assert await daemon.post("/v1/x?a=b", wait=False) == JOB
        assert socket.heard[1][0].startswith("POST /v1/x?a=b ")

    run(tmp_path, [(200, JOB), (202, JOB)], story)


def test_what_is_no_job_is_given_as_it_is(tmp_path):
    async def story(daemon, _):
        assert await daemon.get("/v1/sessions") == {"sessions": []}
        assert await daemon.patch("/v1/sessions/a", {}) == {"id": "a"}
        assert await daemon.read("/v1/commits/a/notebook") == b'{"cells": []}'

    run(tmp_path, [(200, {"sessions": []}), (200, {"id": "a"}), (200, {"cells": []})], story)


def test_refusals_carry_the_daemons_words(tmp_path):
    body = {"code": "IJ-L013", "message": "busy", "hint": "wait", "causes": ["a rollback"], "exit": 11}

    async def story(daemon, _):
        with pytest.raises(DaemonError) as caught:
            await daemon.post("/v1/sessions/a/stop")
        error = caught.value
        assert (error.code, error.status, error.hint, error.body["exit"]) == ("IJ-L013", 409, "wait", 11)
        with pytest.raises(DaemonError) as caught:
            await daemon.delete("/v1/sessions/a")
        assert caught.value.code == "IJ-L013" and not isinstance(caught.value, DaemonAway)

    run(tmp_path, [(409, body), (200, {**JOB, "state": "failed", "result": None, "error": body})], story)


def test_a_lost_connection_is_no_refusal(tmp_path):
    async def story(daemon, _):
        with pytest.raises(DaemonAway, match="does not answer"):
            await daemon.get("/v1/version")

    run(tmp_path, [None], story)
    with pytest.raises(DaemonAway, match="infinijupd does not run: there is no /nowhere"):
        asyncio.run(Daemon("/nowhere").get("/v1/version"))


def test_events_are_read_until_the_stream_ends_and_resumed_after(tmp_path):
    async def story(daemon, socket):
        seen = []
        with pytest.raises(DaemonAway):
            async for found in daemon.events(6):
                seen.append(found["id"])
        assert seen == [7, 8]
        assert "last-event-id: 6" in socket.heard[0][0].lower()

    run(tmp_path, [event(7) + ": alive\n\n" + event(8)], story)


def test_watching_goes_on_for_ever(tmp_path):
    async def story(daemon, socket):
        seen = []
        async for found in daemon.watch(pause=0.01):
            seen.append(found.get("id", found["kind"]))
            if len(seen) == 5:
                break
        assert seen == [1, 2, "away", "back", 3]
        resumed = [head for head, _ in socket.heard if head.startswith("GET /v1/events")][-1]
        assert "last-event-id: 2" in resumed.lower()

    run(tmp_path, [event(1) + event(2), None, (200, {}), event(3)], story)


def test_one_client_serves_one_loop_after_the_other(tmp_path):
    daemon = Daemon(str(tmp_path / "d.sock"))

    async def story(_, socket):
        return await daemon.get("/v1/version")

    for number in range(2):
        assert run(tmp_path, [(200, {"n": number})], story) == {"n": number}
        (tmp_path / "d.sock").unlink(missing_ok=True)


def test_paths_and_bytes_on_the_wire():
    assert target("sessions", "a/b c", "history", family=True, limit=None) == "/v1/sessions/a%2Fb%20c/history?family=true"
    assert to_wire("/caf\xe9") == "/caf\xe9"
    odd = b"/caf\xe9"
    assert to_wire(odd) == {"hex": "2f636166e9"} and from_wire(to_wire(odd)).encode("utf-8", "surrogateescape") == odd


def test_inside_kernels_nothing_of_this_is_imported():
    package = Path(__file__).parents[1]
    heavy = "{'httpx', 'jupyter_client', 'jupyter_server', 'IPython', 'zmq'}"
    probe = f"import sys, infinijup; sys.exit(', '.join({heavy} & sys.modules.keys()) or 0)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CASES = json.loads((Path(__file__).parents[3] / "crates/api/tests/places.json").read_text())


@pytest.mark.parametrize("case", [case for case in CASES if "socket" in case], ids=lambda case: case["about"])
def test_the_socket_is_where_the_daemon_says(case):
    assert socket_path(case["uid"], case["environment"], case.get("owners", {}).get) == case["socket"]


def test_a_relative_path_is_refused_as_the_daemon_does():
    refused = [case for case in CASES if "SOCKET" in case.get("refused", "")]
    assert refused
    for case in refused:
        with pytest.raises(ValueError) as caught:
            socket_path(case["uid"], case["environment"], {}.get)
        assert str(caught.value) == case["refused"]


@pytest.fixture
def startable(monkeypatch, tmp_path):
    """A place where a daemon may be started, by a command that the test writes."""
    for name in ("INFINIJUP_SOCKET", "INFINIJUP_SESSION", "INFINIJUP_AUTOSTART"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INFINIJUP_RUN", str(tmp_path))

    def write(script):
        program = tmp_path / "infinijup"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(module, "command", lambda: str(program))

    return write


def test_who_needs_the_daemon_has_it_started(startable, tmp_path):
    startable(f'echo "$@" >> {tmp_path}/asked')
    asyncio.run(Daemon().ensure())
    assert (tmp_path / "asked").read_text() == "daemon start --json\n"

    async def story(_daemon, _socket):
        (tmp_path / "d.sock").rename(tmp_path / "infinijupd.sock")
        await Daemon().ensure()

    run(tmp_path, [None], story)
    assert (tmp_path / "asked").read_text() == "daemon start --json\n", "it was there"


def test_nobody_starts_one_who_means_another(startable, tmp_path, monkeypatch):
    startable(f"touch {tmp_path}/asked")
    asyncio.run(Daemon(str(tmp_path / "other.sock")).ensure())
    for name, value in {"INFINIJUP_AUTOSTART": "0", "INFINIJUP_SESSION": "train", "INFINIJUP_SOCKET": "/x.sock"}.items():
        with monkeypatch.context() as only:
            only.setenv(name, value)
            asyncio.run(Daemon().ensure())
    assert not (tmp_path / "asked").exists()


def test_what_the_command_says_is_passed_on(startable, monkeypatch):
    error = {"message_type": "exit_error", "message": "the daemon could not be started: it ended", "causes": ["no space left"]}
    startable(f"echo '{json.dumps(error)}' >&2; exit 16")
    with pytest.raises(DaemonAway, match="could not be started: it ended: no space left"):
        asyncio.run(Daemon().ensure())
    startable("echo nonsense >&2; exit 3")
    with pytest.raises(DaemonAway, match="nonsense"):
        asyncio.run(Daemon().ensure())
    monkeypatch.setattr(module, "command", lambda: None)
    with pytest.raises(DaemonAway, match="is not installed"):
        asyncio.run(Daemon().ensure())
