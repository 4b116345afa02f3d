"""The exchange of a kernel's process, from this server's side: who must wait, until when, and what is lost.

Operations that were asked for here are bracketed here: the pages are held before the daemon is asked. Those that somebody else asked
for (the command, another server, the daemon's own scheduler) are seen by their events, a moment later. Events of our own operations
arrive too, perhaps after all is over; they are known by their time, which lies in a window that is remembered for each operation.
"""

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infinijup.daemon import DaemonAway, DaemonError, target
from infinijup.serverextension import make_way
from infinijup.serverextension.connection import BUSY_LIMIT, SETTLE_LIMIT, SwapAwareConnection
from infinijup.serverextension.ledger import Request

if TYPE_CHECKING:
    from infinijup.serverextension.hub import Hub

# Jobs that end or exchange the process.
KINDS = frozenset({"rollback", "suspend", "resume", "restart"})
# Jobs that may take a snapshot.
TAKES = frozenset({"snapshot", "rollback", "suspend", "branch", "restart"})
RESTART_LIMIT = 60.0
_PAUSE = 0.5


@dataclass
class Window:
    """The time of an operation that was asked for here."""

    begin: float
    end: float | None = None

    def covers(self, moment: float) -> bool:
        """Whether an event of that time belongs to it."""
        return self.begin <= moment and (self.end is None or moment <= self.end)


class Swaps:
    """The swaps of all kernels."""

    def __init__(self, hub: "Hub"):
        self.hub = hub
        self._numbers = itertools.count(1)
        self._windows: dict[str, list[Window]] = {}
        self._pids: dict[str, int | None] = {}
        self._rolled_back: dict[str, str] = {}

    # Asked for here.

    async def operate(self, kernel_id: str, kind: str, body: dict[str, Any]) -> Any:
        """Has the daemon do it, with all pages of the kernel held, and returns when they work again."""
        session = self.hub.session_id(kernel_id)
        if kind == "suspend" and "notebook" not in body and (document := await self.hub.document_shown(kernel_id)):
            body = {**body, "notebook": document}
        reason, window = f"here:{next(self._numbers)}", Window(time.time())
        windows = self._windows.setdefault(session, [])
        windows[:] = [*windows[-7:], window]
        self.begin(kernel_id, reason, kind)
        commit = None
        try:
            result = await self.hub.post(target("sessions", session, kind), body)
            commit = result.get("commit") if isinstance(result, dict) else None
            if kind == "rollback":
                commit = await self._gone_back_to(session, commit, body.get("to"))
        except DaemonAway:
            # The job goes on without us. The pages are held until the daemon says how it ended.
            self.hub.spawn(self._follow(kernel_id, reason, kind, window))
            raise
        except DaemonError:
            window.end = time.time()
            await self.end(kernel_id, reason, kind, None)
            raise
        window.end = time.time()
        await self.end(kernel_id, reason, kind, commit)
        return result

    async def wake(self, kernel_id: str) -> None:
        """Resumes; a failure is told to the cells that wait."""
        desk = self.hub.desk(kernel_id)
        while desk.asleep:
            try:
                await self.operate(kernel_id, "resume", {})
            except DaemonError as error:
                if error.code == make_way.GPU_IS_FULL and await make_way.suspend_idlest(self.hub, kernel_id):
                    continue
                if desk.asleep:
                    self.hub.warn(kernel_id, error)
                    for connection in list(desk.connections):
                        connection.refuse_held_cells(error)
                return

    async def _follow(self, kernel_id: str, reason: str, kind: str, window: Window) -> None:
        session = self.hub.session_id(kernel_id)
        while True:
            await asyncio.sleep(_PAUSE)
            try:
                if (await self.hub.get(session)).get("operation") is None:
                    break
            except DaemonAway:
                continue
            except DaemonError:
                break
        window.end = time.time()
        await self.end(kernel_id, reason, kind, await self._gone_back_to(session, self._rolled_back.pop(session, None)))

    async def _gone_back_to(self, session: str, commit: str | None, asked: str | None = None) -> str | None:
        """The snapshot whose process runs now. Being back at it is a commit of its own, with that one as its last parent."""
        if asked and len(asked) == 64 or commit is None:
            return asked
        card = await self.hub.commit(commit, session) or {"parents": []}
        return card.get("back_to") or (card["parents"][-1] if len(card["parents"]) == 2 else commit)

    # Seen by its events.

    def job_began(self, kernel_id: str, job: dict[str, Any], session: str, when: float) -> None:
        """A job on a kernel's session."""
        if job["kind"] in TAKES:
            self.hub.desk(kernel_id).snapshot_began(when)
        if job["kind"] in KINDS and not self._is_ours(session, when):
            self.begin(kernel_id, f"job:{job['id']}", job["kind"])

    def job_ended(self, kernel_id: str, job: dict[str, Any], session: str) -> None:
        """Its end."""
        reason = f"job:{job['id']}"
        if reason in self.hub.desk(kernel_id).reasons:
            commit = self._rolled_back.pop(session, None) if job["state"] == "done" else None
            self.hub.spawn(self._end_job(kernel_id, reason, job["kind"], commit))

    async def _end_job(self, kernel_id: str, reason: str, kind: str, commit: str | None) -> None:
        await self.end(kernel_id, reason, kind, await self._gone_back_to(self.hub.session_id(kernel_id), commit))

    def rolled_back(self, session: str, commit: str) -> None:
        """A session is at this snapshot now."""
        self._rolled_back[session] = commit

    def compare(self, views: list[dict[str, Any]]) -> None:
        """After events were missed: jobs that are not under way any more have ended."""
        for view in views:
            kernel = self.hub.kernel_of(view["id"])
            if kernel and not view.get("operation"):
                for reason, kind in list(self.hub.desk(kernel).reasons.items()):
                    if reason.startswith("job:"):
                        self.hub.spawn(self._end_job(kernel, reason, kind, self._rolled_back.pop(view["id"], None)))

    def state_is(self, kernel_id: str, state: str) -> None:
        """A session has this state, whatever we know of how it came to it."""
        desk = self.hub.desk(kernel_id)
        if not desk.swapping:
            was, desk.asleep = desk.asleep, state == "suspended"
            if was and state == "running":
                # Woken by somebody else, and we did not see it.
                self.begin(kernel_id, "seen", "resume")
                self.hub.spawn(self.end(kernel_id, "seen", "resume", None))

    def _is_ours(self, session: str, when: float) -> bool:
        return any(window.covers(when) for window in self._windows.get(session, []))

    # Both.

    def begin(self, kernel_id: str, reason: str, kind: str) -> None:
        """Holds the pages."""
        desk = self.hub.desk(kernel_id)
        if desk.begin(reason, kind):
            provisioner = self.hub.provisioner(kernel_id)
            self._pids[kernel_id] = (getattr(provisioner, "view", None) or {}).get("pid")
            if provisioner is not None:
                provisioner.swapping = True
            for connection in list(desk.connections):
                connection.swap_began()

    async def end(self, kernel_id: str, reason: str, kind: str, commit: str | None) -> None:
        """One reason less; after the last, the pages are brought up again and let go."""
        desk = self.hub.desk(kernel_id)
        view, card = await asyncio.gather(self._view(kernel_id), self._card(kernel_id, kind, commit))
        if not desk.end(reason):
            return
        provisioner = self.hub.provisioner(kernel_id)
        if provisioner is not None:
            provisioner.swapping = False
        state = (view or {}).get("state", "running")
        desk.asleep = state == "suspended"
        exchanged = view is None or view.get("pid") is None or view.get("pid") != self._pids.get(kernel_id)
        if desk.asleep:
            self._close_watcher(kernel_id)
        if desk.asleep or not exchanged:
            limit = 0.0 if desk.asleep else BUSY_LIMIT if desk.cells_open() else SETTLE_LIMIT
            await asyncio.gather(*(connection.swap_ended([], [], limit, renew=False) for connection in list(desk.connections)))
        else:
            alive = state in ("running", "starting")
            if alive and provisioner is not None:
                provisioner.find_ports()
            await self._bring_up(kernel_id, kind, commit, card, alive)
        if desk.asleep and any(not request.begun for request in desk.cells_open()):
            # A cell that was sent when the kernel was as good as asleep.
            self.hub.wake(kernel_id)

    async def _view(self, kernel_id: str) -> dict[str, Any] | None:
        try:
            return await self.hub.get(self.hub.session_id(kernel_id))
        except DaemonError:
            return None

    async def _card(self, kernel_id: str, kind: str, commit: str | None) -> dict[str, Any] | None:
        """Of the snapshot that was gone back to."""
        if kind != "rollback" or commit is None:
            return None
        try:
            return await self.hub.commit(commit, self.hub.session_id(kernel_id))
        except DaemonError:
            return None

    async def _bring_up(self, kernel_id: str, kind: str, commit: str | None, card: dict[str, Any] | None, alive: bool) -> None:
        desk = self.hub.desk(kernel_id)
        desk.snapshot_at = None
        desk.snapshots.forget()
        if kind == "rollback":
            desk.shown.gone_back(commit)
            desk.draft.outdated()
        desk.era += 1
        flight = desk.flight(commit)
        open_now = {request.id: request for ledger in desk.ledgers.values() for request in ledger.open.values()}
        if not alive or kind == "restart":
            keep: dict[str, Request] = {}
        elif kind == "rollback" and commit is not None:
            keep = flight.requests
        else:
            # It went to sleep with them, or came back from a snapshot that was taken for this very operation.
            keep = open_now
        # Comms and completions of then are nobody's business any more; cells are.
        cells = [request for request in keep.values() if request.kind == "execute_request"]
        again = [request for request in cells if request.id not in open_now and request.id in flight.certain]
        for request in again:
            self._take_again(desk, request)
        running = next((request for request in cells if request.id in flight.certain or (keep is open_now and request.begun)), None)
        limit = 0.0 if not alive else BUSY_LIMIT if running else RESTART_LIMIT if kind == "restart" else SETTLE_LIMIT
        self._note_activity(kernel_id, busy=running is not None)
        cut: dict[SwapAwareConnection, list[Request]] = {}
        by_key = {connection.session_key: connection for connection in desk.connections}
        for key, ledger in desk.ledgers.items():
            lost = ledger.cut(keep)
            if key in by_key:
                cut[by_key[key]] = lost
                if keep is not open_now:
                    by_key[key].gate.cut(set(keep))
            else:
                ledger.owed.extend(lost)
        if kind == "rollback" and commit is not None:
            # Before the kernel is heard again: a page attaches itself to the cell that goes on.
            self._tell_restored(kernel_id, commit, bool((card or {}).get("has_notebook")), running)
        await asyncio.gather(
            *(connection.swap_ended(cut.get(connection, []), again, limit, alive) for connection in list(desk.connections))
        )
        for connection in list(desk.connections):
            mine = [request for request in cells if request.id in connection.ledger.open]
            connection.ask_again([question for r in mine if (question := r.open_question(flight.begin, flight.end))])
        if keep and desk.connections and not desk.swapping:
            resend = kind in ("resume", "suspend")
            self.hub.spawn(self._watch(kernel_id, next(iter(desk.connections)), set(keep), resend))
        if kind == "resume":
            self.hub.news.tell({"type": "resumed", "kernel_id": kernel_id})

    async def _watch(self, kernel_id: str, connection: SwapAwareConnection, doubtful: set[str], resend: bool) -> None:
        if await connection.watch_doubtful(doubtful, resend):
            self._note_activity(kernel_id, busy=bool(self.hub.desk(kernel_id).cells_open()))

    def _take_again(self, desk: Any, request: Request) -> None:
        for ledger in desk.ledgers.values():
            if request in ledger.finished:
                ledger.take_again(request)

    def _note_activity(self, kernel_id: str, busy: bool) -> None:
        """What Jupyter's own watcher believes: it has lost the end of what was cut off, and its socket is as dead as the others."""
        manager = self.hub.kernel_manager
        if kernel_id not in manager:
            return
        self._close_watcher(kernel_id)
        manager.start_watching_activity(kernel_id)
        manager.get_kernel(kernel_id).execution_state = "busy" if busy else "idle"

    def _close_watcher(self, kernel_id: str) -> None:
        if kernel_id in self.hub.kernel_manager:
            kernel = self.hub.kernel_manager.get_kernel(kernel_id)
            stream, kernel._activity_stream = getattr(kernel, "_activity_stream", None), None
            if stream is not None and not stream.closed():
                stream.close(linger=0)

    def _tell_restored(self, kernel_id: str, commit: str, has_notebook: bool, running: Request | None) -> None:
        cell = {"cell_id": (running.cell or {}).get("id"), "msg_id": running.id} if running else None
        told = {"type": "restored", "kernel_id": kernel_id, "commit": commit, "notebook": has_notebook, "running_cell": cell}
        self.hub.news.tell(told)
        self.hub.news.tell({"type": "history", "kernel_id": kernel_id})
