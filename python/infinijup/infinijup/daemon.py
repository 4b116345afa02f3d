"""The daemon, as Python programs of the Jupyter server speak to it: JSON over HTTP on its Unix socket.

Everything that takes time is a job of the daemon's: `post` waits for its end and gives its result, or raises what went wrong with
it. A job goes on when its client goes, so a lost connection says nothing about the operation; it is `DaemonAway`, which callers
must not take for a refusal. See docs/daemon.md for the interface and docs/scripting.md for the rules of its JSON.

This module needs httpx, so `import infinijup` must not import it: that runs inside kernels.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from infinijup.wire import Event

SOCKET_VARIABLE = "INFINIJUP_SOCKET"
RUN_VARIABLE = "INFINIJUP_RUN"
STATE_VARIABLE = "INFINIJUP_STATE"

# A comment comes every 15 seconds on a stream that has nothing to tell.
_SILENCE = 45.0
_ANSWER = 30.0
# The command gives up by itself before that.
_START = 90.0


class DaemonError(Exception):
    """The daemon refused, or failed: its own code, message and way out."""

    def __init__(self, code: str, message: str, hint: str | None = None, status: int = 500, causes: list[str] | None = None):
        super().__init__(message)
        self.code, self.message, self.hint, self.status, self.causes = code, message, hint, status, causes or []
        self.body: dict[str, Any] = {"code": code, "message": message, "hint": hint, "causes": self.causes}

    @classmethod
    def from_body(cls, status: int, body: Any) -> "DaemonError":
        """Of an answer. Further fields of its body are kept in `body`."""
        if not isinstance(body, dict) or "message" not in body:
            return cls("bad-answer", f"the daemon answered with status {status} and no reason", status=status)
        error = cls(str(body.get("code", "")), body["message"], body.get("hint"), status, body.get("causes"))
        error.body = {**body, **error.body}
        return error

    @property
    def field(self) -> str | None:
        """The field of the request that the daemon does not know, or that cannot be so."""
        return self.body.get("field")

    def __str__(self) -> str:
        text = ": ".join([self.message, *self.causes])
        return f"{text} [{self.code}]" + (f". {self.hint}" if self.hint else "")

    def sentences(self) -> str:
        """For people, who want neither codes nor fragments."""
        parts = [": ".join([self.message, *self.causes]), *([self.hint] if self.hint else [])]
        return " ".join(f"{part[:1].upper() if number else part[:1]}{part[1:].rstrip('.')}." for number, part in enumerate(parts))


class DaemonAway(DaemonError):
    """There is no daemon to be reached, or the connection was lost before it answered."""

    def __init__(self, message: str):
        super().__init__("daemon-away", message, "start it with `infinijup daemon start`; `infinijup doctor` tells what is wrong", 503)


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid if os.path.isdir(path) else None
    except OSError:
        return None


def socket_path(uid: int | None = None, environment: Mapping[str, str] | None = None, owner: Callable[[str], int | None] = _owner) -> str:
    """Where the daemon of this user listens: the rule of crates/api/src/places.rs, held to it by a test."""
    uid = os.geteuid() if uid is None else uid
    environment = os.environ if environment is None else environment
    for name in (SOCKET_VARIABLE, RUN_VARIABLE, STATE_VARIABLE):
        if environment.get(name) and not os.path.isabs(environment[name]):
            raise ValueError(f"{name} needs an absolute path, not `{environment[name]}`")
    if environment.get(SOCKET_VARIABLE):
        return environment[SOCKET_VARIABLE]
    run = environment.get(RUN_VARIABLE) or ("/run/infinijup" if uid == 0 else "")
    if not run:
        places = (environment.get("XDG_RUNTIME_DIR") or "", f"/run/user/{uid}")
        directory = next((path for path in places if os.path.isabs(path) and owner(path) == uid), None)
        run = f"{directory}/infinijup" if directory else f"{_state(environment)}/run"
    return f"{run}/infinijupd.sock"


def _state(environment: Mapping[str, str]) -> str:
    """Where the daemon of an ordinary user keeps what must last."""
    if environment.get(STATE_VARIABLE):
        return environment[STATE_VARIABLE]
    data = environment.get("XDG_DATA_HOME") or ""
    if not os.path.isabs(data):
        home = environment.get("HOME") or (os.path.expanduser("~") if environment is os.environ else "")
        if not os.path.isabs(home):
            raise ValueError("neither HOME nor XDG_DATA_HOME is set")
        data = f"{home}/.local/share"
    return f"{data}/infinijup"


def may_start() -> bool:
    """Whether the daemon may be started from here. Who names a socket, or runs inside a session, means another one."""
    named = os.environ.get(SOCKET_VARIABLE) or os.environ.get("INFINIJUP_SESSION")
    return not named and os.environ.get("INFINIJUP_AUTOSTART") != "0"


def command() -> str | None:
    """The command `infinijup`: the one of this Python, or the first in the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "infinijup")
    return beside if os.access(beside, os.X_OK) else shutil.which("infinijup")


def start() -> None:
    """Starts the daemon unless it runs; waits until it answers. How that is done is the command's business."""
    program = command()
    if program is None:
        raise DaemonAway("infinijupd does not run, and the command `infinijup`, which would start it, is not installed")
    try:
        words = [program, "daemon", "start", "--json"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DaemonAway(f"infinijupd could not be started: {error}") from error
    if done.returncode != 0:
        last = _decode(done.stderr.strip().rpartition("\n")[2].encode())
        said = last if isinstance(last, dict) else {"message": done.stderr.strip() or f"the command ended with {done.returncode}"}
        raise DaemonAway(": ".join([str(said.get("message")), *map(str, said.get("causes") or [])]))


def to_wire(text: str | bytes) -> str | dict[str, str]:
    """A path or argument as the wire has it: a string, or its bytes in hex if they are not UTF-8."""
    raw = os.fsencode(text)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"hex": raw.hex()}


def from_wire(text: str | dict[str, str]) -> str:
    """The reverse, as the operating system's functions take it."""
    return os.fsdecode(bytes.fromhex(text["hex"])) if isinstance(text, dict) else text


def target(*parts: str, **query: Any) -> str:
    """`/v1/…` of parts that may hold anything, with a query. What is None is left out."""
    path = "/v1/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


class Daemon:
    """A client. It may be used from several event loops, one after the other: each gets connections of its own."""

    def __init__(self, path: str | None = None):
        self.socket = path or socket_path()
        self._may_start = path is None and may_start()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http: httpx.AsyncClient | None = None

    async def ensure(self) -> None:
        """Has the daemon started if it does not run. For those who need it; who only watches waits until somebody does."""
        if self._may_start and not await asyncio.to_thread(self._is_there):
            await asyncio.to_thread(start)

    def _is_there(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_ANSWER)
            return probe.connect_ex(self.socket) == 0

    async def get(self, path: str) -> Any:
        """What is at `path`."""
        return await self._ask("GET", path)

    async def read(self, path: str) -> bytes:
        """The same for what is not JSON."""
        return (await self._send("GET", path)).content

    async def post(self, path: str, body: Any = None, wait: bool = True) -> Any:
        """Asks for something to be done. The result of the job if it is one; without `wait`, the job as it begins."""
        return await self._ask("POST", path, {} if body is None else body, wait)

    async def patch(self, path: str, body: Any) -> Any:
        """Changes something that is there."""
        return await self._ask("PATCH", path, body)

    async def delete(self, path: str, wait: bool = True) -> Any:
        """Takes something away."""
        return await self._ask("DELETE", path, None, wait)

    async def events(self, last_id: int | None = None) -> AsyncIterator[Event]:
        """What happens from now on, or after event `last_id`. Ends by `DaemonAway`; then come back with the last id seen.

        `kind` is `missed` if events before it are lost: ask for the state of things anew.
        """
        headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
        try:
            limits = httpx.Timeout(_ANSWER, read=_SILENCE)
            async with self._client().stream("GET", "/v1/events", headers=headers, timeout=limits) as response:
                if response.status_code != 200:
                    raise DaemonError.from_body(response.status_code, _decode(await response.aread()))
                async for line in response.aiter_lines():
                    # An event of the daemon's is one line of JSON; `id:` and `event:` say nothing that is not in it.
                    if line.startswith("data:"):
                        yield json.loads(line[5:])
        except httpx.TransportError as error:
            raise self._away(error) from error
        raise DaemonAway("the daemon ended its stream of events")

    async def watch(self, last_id: int | None = None, pause: float = 1.0) -> AsyncIterator[Event]:
        """`events` for ever. `{"kind": "away"}` and `{"kind": "back"}` come in between when the daemon goes and returns."""
        away = False
        while True:
            try:
                if away:
                    await self.get("/v1/version")
                    away = False
                    yield {"kind": "back"}
                async for event in self.events(last_id):
                    last_id = event["id"]
                    yield event
            except DaemonAway as error:
                if not away:
                    away = True
                    yield {"kind": "away", "detail": error.message}
                await asyncio.sleep(pause)

    async def close(self) -> None:
        """Ends its connections."""
        http, self._http, self._loop = self._http, None, None
        if http is not None:
            await http.aclose()

    async def _ask(self, method: str, path: str, body: Any = None, wait: bool = False) -> Any:
        if wait:
            path += ("&" if "?" in path else "?") + "wait=true"
        answer = _decode((await self._send(method, path, body, wait)).content)
        if not (isinstance(answer, dict) and {"kind", "state", "steps"} <= answer.keys()):
            return answer
        if answer["state"] == "failed":
            raise DaemonError.from_body(500, answer.get("error"))
        return answer.get("result") if wait else answer

    async def _send(self, method: str, path: str, body: Any = None, wait: bool = False) -> httpx.Response:
        # A job takes what it takes: a snapshot of hundreds of GB is no reason to give up.
        timeout = httpx.Timeout(_ANSWER, read=None if wait else _ANSWER)
        try:
            response = await self._client().request(method, path, json=body, timeout=timeout)
        except httpx.TransportError as error:
            raise self._away(error) from error
        if response.status_code >= 400:
            raise DaemonError.from_body(response.status_code, _decode(response.content))
        return response

    def _away(self, error: Exception) -> DaemonAway:
        if not os.path.exists(self.socket):
            return DaemonAway(f"infinijupd does not run: there is no {self.socket}")
        return DaemonAway(f"infinijupd does not answer at {self.socket}: {error or type(error).__name__}")

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            # Connections belong to the loop they were made in; those of a loop that has ended go with it.
            # None is kept: one that the daemon closed by restarting looks alive until it is used, and a new one costs next to nothing.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
            transport = httpx.AsyncHTTPTransport(uds=self.socket, verify=False, limits=limits)
            self._http = httpx.AsyncClient(transport=transport, base_url="http://localhost", trust_env=False)
            self._loop = loop
        return self._http


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None
