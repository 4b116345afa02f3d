"""Cells go to the kernel one at a time, so that there is a moment between two of them for a snapshot.

A notebook sends all cells of *Run All* at once and the kernel works through them. Between two of them nobody else gets a turn, so the
queue is kept here. What the kernel does with its own queue is done here too: when a cell fails, the ones behind it are not run, and when
the page goes, all of them are.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from infinijup.serverextension.messages import Incoming

Before = Callable[[dict[str, Any], bool], Awaitable[None]]
After = Callable[[dict[str, Any], bool], None]


class CellGate:
    """The queue of one page.

    `before` waits until a cell may run; it is told whether there is to be a snapshot first. `after` is told of a cell that has ended, and
    whether others wait. Neither raises: a snapshot that fails must not stop anybody's cell.
    """

    def __init__(self, send: Callable[[Incoming], None], abort: Callable[[Incoming], None], before: Before, after: After):
        self._send, self._abort, self._before, self._after = send, abort, before, after
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
            self._abort_queue()

    def ended(self, msg_id: str, cell: dict[str, Any] | None) -> None:
        """The cell has ended. What is known of it by now has its number."""
        if self.running is None or self.running.id != msg_id:
            return
        message, self.running = self.running, None
        if self.after:
            # Whoever wants one before each cell, too, has decided what is worth waiting for.
            self._after(cell or message.cell(), bool(self.queue) and not self.before)
        self.pump()

    def lost(self, msg_id: str) -> None:
        """Nobody will ever say how the cell ended."""
        if self.running is not None and self.running.id == msg_id:
            self.running = None
            self.pump()

    def put_back(self, message: Incoming) -> bool:
        """It could not go, and is the first of those that wait; `pump` lets it go. False if it had not waited here."""
        if self.running is not message:
            return False
        self.running = None
        self.queue.appendleft(message)
        return True

    def cut(self, keep: set[str]) -> None:
        """The process is another one, which has only these requests. What waits behind a cell that it has not is lost with it."""
        if self.running is None or self.running.id not in keep:
            self.running = None
            self._abort_queue()

    def drop(self) -> list[Incoming]:
        """Forgets everything; what was waiting."""
        waiting, self.queue, self.running = list(self.queue), deque(), None
        return waiting

    def _abort_queue(self) -> None:
        waiting, self.queue = list(self.queue), deque()
        for message in waiting:
            self._abort(message)

    async def _next(self) -> None:
        try:
            if self.queue:
                await self._before(self.queue[0].cell(), self.before)
        finally:
            self._task = None
        # An error of the cell before, or a lost page, may have emptied it meanwhile.
        if self.queue:
            self.running = self.queue.popleft()
            self._send(self.running)
