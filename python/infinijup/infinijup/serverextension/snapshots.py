"""Snapshots of one kernel between its cells: a history that nobody has to think of.

After a cell the daemon is asked for a snapshot, and nobody waits for it. It copies memory while the kernel runs, has the kernel stand still
for a moment, and stores what it has. Only the first two parts matter to the next cell: it must not run before the kernel has stood still,
or the snapshot would hold some of it. So a cell that comes early waits:

* until the kernel stands no longer, which the daemon's events tell; storing goes on beside;
* `GRACE` at most for that moment to begin. Then the snapshot is given up: the daemon says whether it still could be;
* `PATIENCE` in all, whatever happens.

Of cells that wait in a queue, as after *Run All*, only some have a snapshot: a tenth of their time may be spent on that, so that quick
cells stay quick. One that ends while the last snapshot is still being stored has its own when that is done, if no other cell has
begun by then.

If a snapshot is left out (`skipped`) because the daemon expects too long a pause, the panel says so until there is one again; that somebody
else was at work is told nowhere. A failure is told once, and then it is not tried for a while.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from infinijup.daemon import DaemonAway, DaemonError, target

if TYPE_CHECKING:
    from infinijup.serverextension.desk import Desk
    from infinijup.serverextension.hub import Hub

GRACE = 0.4
PATIENCE = 1.0
# So many times as long as a queue has waited, it does not wait again.
SHARE = 10
AFTER_FAILURE = 60.0

BEFORE, AFTER = "before-cell", "after-cell"


class CellSnapshots:
    """Those of one kernel."""

    def __init__(self, hub: "Hub", desk: "Desk"):
        self.hub, self.desk = hub, desk
        # Done when the kernel does not stand still for a snapshot any more; None if nobody asked for one.
        self.standing: asyncio.Future[None] | None = None
        # How long cells have waited so far, for whoever wants to know what all of this costs.
        self.waited: list[float] = []
        self._asked = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wanted: tuple[dict[str, Any], int] | None = None
        self._queue_not_before = self._not_before = 0.0
        self._warned = False
        self.left_out: dict[str, Any] | None = None

    @property
    def is_taking(self) -> bool:
        """Whether the daemon has been asked for one and has not answered yet."""
        return self._task is not None

    # What cells tell and ask.

    def after(self, cell: dict[str, Any], queued: bool) -> None:
        """A cell has ended. `queued` if others wait behind it."""
        if not (queued and time.monotonic() < self._queue_not_before):
            self._wanted = cell, self.desk.cells
            self._begin()

    async def before(self, cell: dict[str, Any]) -> None:
        """A cell is about to run, and its user wants a snapshot first, however long that takes."""
        await self._over()
        if self.desk.snapshot_at != self.desk.cells:
            self._start(BEFORE, cell, self.desk.cells)
            await self._stands_no_longer(None)

    async def clear(self) -> None:
        """Waits until a cell may run."""
        if self.standing is None or self.standing.done():
            return
        began = time.monotonic()
        if not await self._stands_no_longer(GRACE) and not await self._give_up():
            await self._stands_no_longer(began + PATIENCE - time.monotonic())
        waited = time.monotonic() - began
        self.waited = [*self.waited[-999:], waited]
        self._queue_not_before = time.monotonic() + SHARE * waited

    def thawed(self, when: float) -> None:
        """The processes stood still until then. What is told of the snapshot before this one may come late."""
        if when >= self._asked:
            self._let_go()

    def forget(self) -> None:
        """The process is another one."""
        self._wanted = None
        self._let_go()
        self.left_out_is(None)

    def left_out_is(self, left_out: dict[str, Any] | None) -> None:
        """After which cell there is no snapshot, because the kernel would have stood still for too long; None if there is one again."""
        if left_out != self.left_out:
            self.left_out = left_out
            if view := self.hub.views.get(self.hub.session_id(self.desk.kernel_id)):
                self.hub.tell_session(view)

    # What is asked of the daemon.

    def _begin(self) -> None:
        """What is wanted, if it is its turn and no other cell runs by now."""
        if self._wanted is None or self._task is not None:
            return
        (cell, at), self._wanted = self._wanted, None
        if at == self.desk.cells and at != self.desk.snapshot_at and time.monotonic() >= self._not_before:
            self._start(AFTER, cell, at)

    def _start(self, reason: str, cell: dict[str, Any], at: int) -> None:
        if not (self.desk.asleep or self.desk.swapping):
            self.standing = asyncio.get_running_loop().create_future()
            self._asked = time.time()
            self._task = self.hub.spawn(self._take(reason, cell, at))

    async def _take(self, reason: str, cell: dict[str, Any], at: int) -> None:
        request: dict[str, Any] = {"reason": reason, "cell": cell}
        if reason == AFTER:
            # Asking for variables takes the kernel's time.
            request |= {"within_ms": self.hub.policy.server.pause_ms, "variables": False}
        shown = self.desk.shown.now()
        try:
            if notebook := await self.hub.document_shown(self.desk.kernel_id, shown):
                request["notebook"] = notebook
            result = await self.hub.post(target("sessions", self.hub.session_id(self.desk.kernel_id), "snapshot"), request)
            if result.get("type") != "skipped":
                self.desk.snapshot_at, self._warned = at, False
                self.desk.shown.taken(result["commit"], shown)
                self.left_out_is(None)
            elif result.get("why") == "too_long":
                self.left_out_is({"number": cell.get("number"), "pause_ms": request.get("within_ms")})
        except DaemonAway:
            pass
        except DaemonError as error:
            self._not_before = time.monotonic() + AFTER_FAILURE
            if not self._warned:
                self._warned = True
                self.hub.warn(self.desk.kernel_id, error)
        finally:
            self._task = None
            self._let_go()
        self._begin()

    async def _give_up(self) -> bool:
        """Whether the daemon has given up a snapshot for which nothing stood still yet. It is let know in any case."""
        asked = self.hub.spawn(self._ask_to_give_up())
        done, _ = await asyncio.wait({asked}, timeout=PATIENCE - GRACE)
        return bool(done) and asked.result()

    async def _ask_to_give_up(self) -> bool:
        try:
            session = self.hub.session_id(self.desk.kernel_id)
            answer = await self.hub.daemon.post(target("sessions", session, "give-up"), wait=False)
        except DaemonError:
            return False
        return bool(answer.get("given_up"))

    def _let_go(self) -> None:
        if self.standing is not None and not self.standing.done():
            self.standing.set_result(None)

    async def _stands_no_longer(self, seconds: float | None) -> bool:
        """Waits; False if that took too long."""
        if self.standing is not None and not self.standing.done():
            await asyncio.wait({self.standing}, timeout=seconds if seconds is None else max(0.0, seconds))
        return self.standing is None or self.standing.done()

    async def _over(self) -> None:
        """Waits for the end of what is being stored: the daemon does one thing at a time."""
        while self._task is not None:
            await asyncio.wait({self._task})
