"""Kernel messages as they cross the websocket, in both of Jupyter's wire forms.

A page that asks for the subprotocol v1 sends every message as one binary frame: the number of offsets, the offsets, the channel's name
and then header, parent header, metadata, content and buffers. The legacy form is JSON in a text frame, or a binary frame with buffers.
Only what must be known to decide about a message is decoded here; it travels on as the bytes that came.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

V1 = "v1.kernel.websocket.jupyter.org"


@dataclass
class Incoming:
    """A message from the page."""

    raw: Any
    subprotocol: str | None

    @cached_property
    def _parts(self) -> tuple[str, dict[str, Any]]:
        if self.subprotocol == V1:
            channel, parts = deserialize_msg_from_ws_v1(self.raw)
            names = ("header", "parent_header", "metadata", "content")
            return channel, dict(zip(names, (json.loads(bytes(part)) for part in parts[:4]), strict=False))
        message = deserialize_binary_message(self.raw) if isinstance(self.raw, bytes) else json.loads(self.raw)
        return message.get("channel") or "shell", message

    @property
    def channel(self) -> str:
        """shell, control or stdin."""
        return self._parts[0]

    @property
    def header(self) -> dict[str, Any]:
        """Its header, as the page wrote it."""
        return self._parts[1].get("header") or {}

    @property
    def content(self) -> dict[str, Any]:
        """What it says."""
        return self._parts[1].get("content") or {}

    @property
    def metadata(self) -> dict[str, Any]:
        """JupyterLab names the cell here."""
        return self._parts[1].get("metadata") or {}

    @property
    def kind(self) -> str:
        """`execute_request` and the like."""
        return str(self.header.get("msg_type", ""))

    @property
    def id(self) -> str:
        """Which its answers name as their parent."""
        return str(self.header.get("msg_id", ""))

    @property
    def is_cell(self) -> bool:
        """Whether a user wants something to be run, and to see what comes of it."""
        return self.kind == "execute_request" and not self.content.get("silent", False)

    def send(self, session: Session, stream: Any) -> None:
        """To the kernel, when the page that it came from has gone and nobody knows any more which form it spoke."""
        if self.subprotocol == V1:
            session.send_raw(stream, deserialize_msg_from_ws_v1(self.raw)[1])
        else:
            session.send(stream, {name: value for name, value in self._parts[1].items() if name != "channel"})

    def cell(self) -> dict[str, Any]:
        """The cell it came from, for a snapshot's note."""
        source = str(self.content.get("code", ""))
        cell = self.metadata.get("cellId")
        return {"id": cell if isinstance(cell, str) else None, "source": source[:2000]}


def outgoing(session: Session, subprotocol: str | None, channel: str, kind: str, content: dict[str, Any], parent: dict[str, Any]):
    """A message to the page in the name of the kernel; the frame, and whether it is binary."""
    message = session.msg(kind, content, parent={"header": parent})
    if subprotocol == V1:
        return serialize_msg_to_ws_v1(message, channel, session.pack), True
    message["channel"] = channel
    return json.dumps(message, default=json_default), False
