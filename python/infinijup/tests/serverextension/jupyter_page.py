"""A page, as far as a kernel's websocket is concerned: sends cells and collects what comes of them."""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

V1 = "v1.kernel.websocket.jupyter.org"


@dataclass
class Answer:
    """Everything that came for one request. It is complete with a reply and `idle`, as for JupyterLab."""

    reply: dict[str, Any] | None = None
    idle: bool = False
    text: str = ""
    kinds: list[str] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> str | None:
        return self.reply and self.reply["status"]


class Page:
    def __init__(self, socket: WebSocketClientConnection, session: str, legacy: bool):
        self.socket, self.session, self.legacy = socket, session, legacy
        self.answers: dict[str, Answer] = {}
        self.questions: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.status = "unknown"
        self.closed = False
        self.task = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, url: str, headers: dict[str, str], session: str | None = None, legacy: bool = False) -> "Page":
        session = session or uuid.uuid4().hex
        request = HTTPRequest(f"{url}?session_id={session}", headers=dict(headers), request_timeout=90)
        socket = await websocket_connect(request, subprotocols=None if legacy else [V1])
        return cls(socket, session, legacy)

    def close(self) -> None:
        self.closed = True
        self.task.cancel()
        self.socket.close()

    def send(self, kind: str, content: dict[str, Any], channel: str = "shell", metadata: dict[str, Any] | None = None) -> Answer:
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": self.session, "username": "", "version": "5.3", "date": ""}
        message = {"header": header, "parent_header": {}, "metadata": metadata or {}, "content": content}
        if self.legacy:
            raw, binary = json.dumps({**message, "channel": channel, "buffers": []}), False
        else:
            raw, binary = serialize_msg_to_ws_v1(message, channel, lambda part: json.dumps(part).encode()), True
        answer = self.answers[header["msg_id"]] = Answer()
        asyncio.ensure_future(self.socket.write_message(raw, binary=binary))
        return answer

    def execute(self, code: str, cell: str | None = None, **more: Any) -> Answer:
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True, "stop_on_error": True}
        return self.send("execute_request", {**content, **more}, metadata={"cellId": cell} if cell else None)

    async def run(self, code: str, seconds: float = 60.0, **more: Any) -> Answer:
        answer = self.execute(code, **more)
        await asyncio.wait_for(answer.done.wait(), seconds)
        return answer

    async def _read(self) -> None:
        while (raw := await self.socket.read_message()) is not None:
            channel, message = self._parse(raw)
            self._take(channel, message)
        self.closed = True

    def _parse(self, raw: Any) -> tuple[str, dict[str, Any]]:
        if self.legacy:
            message = json.loads(raw)
            return message["channel"], message
        channel, parts = deserialize_msg_from_ws_v1(raw)
        header, parent, metadata, content = (json.loads(part) for part in parts[:4])
        return channel, {"header": header, "parent_header": parent, "metadata": metadata, "content": content}

    def _take(self, channel: str, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        answer = self.answers.get(message["parent_header"].get("msg_id", ""))
        if kind == "status":
            self.status = content["execution_state"]
        if kind == "input_request":
            self.questions.put_nowait(message)
        if answer is None:
            return
        answer.kinds.append(kind)
        if kind == "stream":
            answer.text += content["text"]
        if channel in ("shell", "control"):
            answer.reply = content
        if kind == "status" and content["execution_state"] == "idle":
            answer.idle = True
        if answer.reply is not None and answer.idle:
            answer.done.set()
