"""Snapshots before and after each cell: cells go to the kernel one at a time, with a snapshot in between.

A notebook sends all cells of *Run All* at once and the kernel works through them. Between two of them nobody else gets a turn, so with
these settings the queue is kept here. What the kernel does with its own queue is done here too: when a cell fails, the ones behind it
are not run.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from infinijup.serverextension.messages import Incoming

Snapshot = Callable[[str, dict[str, Any]], Awaitable[None]]


class CellGate:
    """The queue of one page. `snapshot` never raises: a snapshot that fails must not stop anybody's cell."""

    def __init__(self, send: Callable[[Incoming], None], abort: Callable[[Incoming], None], snapshot: Snapshot):
        self._send, self._abort, self._snapshot = send, abort, snapshot
        self.queue: deque[Incoming] = deque()
        self.running: Incoming | None = None
        self.before = self.after = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether a cell must wait its turn."""
        return self.before or self.after or bool(self.queue) or self.running is not None or self._task is not None

    def offer(self, message: Incoming) -> None:
        """A cell wants to be run."""
        self.queue.append(message)
        self.pump()

    def pump(self) -> None:
        """Lets the next one go, if it is its turn."""
        if self._task is None and self.running is None and self.queue:
            self._task = asyncio.ensure_future(self._next())

    def failed(self, msg_id: str) -> None:
        """The cell raised: those that wait behind it are not run."""
        if self.running is not None and self.running.id == msg_id and self.running.content.get("stop_on_error", True):
            waiting, self.queue = list(self.queue), deque()
            for message in waiting:
                self._abort(message)

    def ended(self, msg_id: str) -> None:
        """The cell has ended, or was cut off."""
        if self.running is None or self.running.id != msg_id:
            return
        message, self.running = self.running, None
        if self.after and self._task is None:
            self._task = asyncio.ensure_future(self._after(message))
        else:
            self.pump()

    def drop(self) -> list[Incoming]:
        """Forgets everything; what was waiting."""
        waiting, self.queue, self.running = list(self.queue), deque(), None
        return waiting

    async def _next(self) -> None:
        try:
            if self.before and self.queue:
                await self._snapshot("before-cell", self.queue[0].cell())
        finally:
            self._task = None
        # An error of the cell before, or a lost page, may have emptied it meanwhile.
        if self.queue:
            self.running = self.queue.popleft()
            self._send(self.running)

    async def _after(self, message: Incoming) -> None:
        try:
            await self._snapshot("after-cell", message.cell())
        finally:
            self._task = None
        self.pump()
