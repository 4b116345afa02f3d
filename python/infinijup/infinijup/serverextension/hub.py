"""The middle of it: which kernel is which session, how each session is, and who wants to know.

There is one hub for a server. It reads the daemon's events (see `sources`), keeps a view of every session of this user, tells the user
interface (see `news`), and hands what concerns a running kernel to `swaps`.
"""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Callable, Coroutine
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from infinijup.daemon import Daemon, DaemonAway, DaemonError, from_wire, target
from infinijup.serverextension import asleep, refusal
from infinijup.serverextension.desk import Desk
from infinijup.serverextension.drafts import sweep
from infinijup.serverextension.news import News
from infinijup.serverextension.policy import PolicyKeeper
from infinijup.serverextension.shown import Runs, document
from infinijup.serverextension.swaps import Swaps
from infinijup.wire import CommitView, Event, SessionPatch, SessionView

KERNEL_ID, KERNEL_NAME, PATH = "jupyter.kernel_id", "jupyter.kernel_name", "jupyter.path"
KERNEL_INFO = "jupyter.kernel_info"
# What makes a snapshot nicer to look at, and can be done without.
OPTIONAL = frozenset({"reason", "label", "cell", "notebook", "variables"})
# The daemon does not know a field of the request.
UNKNOWN_FIELD = "IJ-D017"


class Hub:
    """What everything in this server that has to do with infinijup asks and tells."""

    def __init__(self, daemon: Daemon, kernel_manager: Any, policy: PolicyKeeper, log: logging.Logger):
        self.daemon, self.kernel_manager, self.policy, self.log = daemon, kernel_manager, policy, log
        self.news = News()
        # Called with each event of the daemon's, before anything is done about it.
        self.hooks: list[Callable[[Event], None]] = []
        # Called with what a session was, when it is no more.
        self.leaving: list[Callable[[SessionView], None]] = []
        self.views: dict[str, SessionView] = {}
        self.desks: dict[str, Desk] = {}
        # Where notebooks are kept as pages show them; nowhere, if this is None.
        self.drafts: Path | None = None
        self.swaps = Swaps(self)
        # Sessions of which a branch is being made here.
        self.branching: list[str] = []
        self.away: str | None = None
        self.version: str | None = None
        self.transport = "polling"
        self._tasks: set[asyncio.Task[Any]] = set()
        self._refreshing: dict[str, bool] = {}

    # Kernels and sessions.

    def provisioner(self, kernel_id: str) -> Any:
        """Of a kernel of this server; None if there is none."""
        if kernel_id not in self.kernel_manager:
            return None
        return getattr(self.kernel_manager.get_kernel(kernel_id), "provisioner", None)

    def session_id(self, kernel_id: str) -> str:
        """The daemon's session of a kernel; refuses if there is none."""
        if kernel_id not in self.kernel_manager:
            raise refusal.no_kernel(kernel_id)
        provisioner = self.provisioner(kernel_id)
        session = getattr(provisioner, "session_id", None)
        if session is None:
            raise refusal.not_a_session(getattr(provisioner, "why_not", None))
        return session

    def document(self, kernel_id: str) -> str | None:
        """The file of a kernel's notebook, which goes with each snapshot; None if there is none."""
        document = (self.views.get(self.session_id(kernel_id)) or {}).get("notebook")
        return None if document is None else from_wire(document)

    async def document_shown(self, kernel_id: str, runs: Runs | None = None) -> str | None:
        """The notebook of a kernel with what its cells show, now or then; None if its file says it all."""
        path = self.document(kernel_id)
        runs = self.desk(kernel_id).shown.now() if runs is None else runs
        return None if path is None else await asyncio.to_thread(document, path, runs)

    def is_session(self, kernel_id: str) -> bool:
        """Whether a kernel is one of the daemon's."""
        return getattr(self.provisioner(kernel_id), "session_id", None) is not None

    def kernels(self) -> dict[str, str]:
        """Session ids of the kernels of this server, by kernel id."""
        pairs = ((kernel, getattr(self.provisioner(kernel), "session_id", None)) for kernel in self.kernel_manager.list_kernel_ids())
        return {kernel: session for kernel, session in pairs if session}

    def kernel_of(self, session: str | None) -> str | None:
        """The kernel of this server that is this session, given by id or by name."""
        if session is None:
            return None
        for kernel, identity in self.kernels().items():
            if session in (identity, self.views.get(identity, {}).get("name")):
                return kernel
        return None

    def shown(self, view: SessionView) -> dict[str, Any]:
        """A session as the user interface gets it."""
        labels, kernel = view.get("labels") or {}, self.kernel_of(view["id"])
        # What is done by itself keeps nobody from anything: the daemon lets whoever asks wait for its end.
        busy = None if self.is_automatic(kernel, view.get("operation")) else view.get("operation")
        left_out = self.desks[kernel].snapshots.left_out if kernel in self.desks else None
        return {**view, "operation": busy, "kernel_id": kernel, "path": labels.get(PATH), "left_out": left_out}

    def is_automatic(self, kernel_id: str | None, kind: str | None) -> bool:
        """Whether what is under way is a snapshot that nobody asked for."""
        return kind == "snapshot" and kernel_id in self.desks and self.desks[kernel_id].snapshots.is_taking

    def desk(self, kernel_id: str) -> Desk:
        """Of one kernel."""
        if kernel_id not in self.desks:
            self.desks = {known: desk for known, desk in self.desks.items() if known in self.kernel_manager or desk.connections}
            desk = self.desks[kernel_id] = Desk(kernel_id, self)
            provisioner = self.provisioner(kernel_id)
            desk.asleep = getattr(provisioner, "state", None) == "suspended"
        return self.desks[kernel_id]

    # What a kernel says of itself.

    def note_kernel_info(self, kernel_id: str, info: dict[str, Any]) -> None:
        """Kept with the session: it is needed when the kernel is suspended, and after a restart of the server."""
        if info.get("status", "ok") != "ok" or "language_info" not in info:
            return
        desk = self.desk(kernel_id)
        if desk.kernel_info == info or not self.is_session(kernel_id):
            return
        desk.kernel_info = info
        session, label = self.session_id(kernel_id), desk.info_label()
        if label and (self.views.get(session, {}).get("labels") or {}).get(KERNEL_INFO) != label:
            self.spawn(self.patch(session, {"labels": {KERNEL_INFO: label}}))

    def kernel_info(self, kernel_id: str) -> dict[str, Any]:
        """What it would answer to a `kernel_info_request`."""
        desk = self.desk(kernel_id)
        if desk.kernel_info:
            return desk.kernel_info
        view = self.views.get(getattr(self.provisioner(kernel_id), "session_id", None) or "", {})
        with contextlib.suppress(ValueError, TypeError):
            desk.kernel_info = json.loads(view["labels"][KERNEL_INFO]) if KERNEL_INFO in (view.get("labels") or {}) else None
        kernel = view.get("kernel") or {}
        return desk.kernel_info or asleep.made_up_info(kernel.get("language"), kernel.get("kernel_name") or "kernel")

    # Cells.

    def cell_policy(self, kernel_id: str) -> tuple[bool, bool]:
        """Whether snapshots are wanted before and after each cell."""
        if not self.is_session(kernel_id):
            return False, False
        return self.policy.server.before_cell, self.policy.server.after_cell

    def wake(self, kernel_id: str) -> None:
        """Resumes a suspended kernel, because a cell waits for it."""
        desk = self.desk(kernel_id)
        if desk.waking is None or desk.waking.done():
            desk.waking = self.spawn(self.swaps.wake(kernel_id))

    # Sessions, asked for.

    async def get(self, session: str) -> SessionView:
        """A session as it is now."""
        view = await self.daemon.get(target("sessions", session))
        self.keep(view)
        return view

    async def patch(self, session: str, change: SessionPatch) -> None:
        """Changes labels and the like. What cannot be changed now will be when it changes again."""
        try:
            self.keep(await self.daemon.patch(target("sessions", session), change))
        except DaemonError as error:
            self.log.warning("infinijup: session %s was not changed: %s", session, error)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """Asks for something. A daemon older than this package may not know the newest fields: it is asked without them."""
        while True:
            try:
                return await self.daemon.post(path, body)
            except DaemonError as error:
                unknown = error.field if error.code == UNKNOWN_FIELD else None
                if unknown not in OPTIONAL or unknown not in body:
                    raise
                self.log.info("infinijup: the daemon is older and knows no `%s`", unknown)
                body = {name: value for name, value in body.items() if name != unknown}

    async def commit(self, commit: str, session: str) -> CommitView | None:
        """The card of a snapshot of a session; None if it cannot be had."""
        try:
            return await self.daemon.get(target("commits", commit))
        except DaemonAway:
            return None
        except DaemonError:
            commits = (await self.daemon.get(target("sessions", session, "history")))["commits"]
            return next((card for card in commits if card["id"] == commit), None)

    async def refresh_all(self) -> None:
        """Everything anew; those that changed are told."""
        version = await self.daemon.get("/v1/version")
        self.version = version.get("version")
        views = (await self.daemon.get("/v1/sessions"))["sessions"]
        for gone in self.views.keys() - {view["id"] for view in views}:
            self.removed(gone)
        for view in views:
            self.keep(view)
        self.swaps.compare(views)
        if self.drafts is not None:
            sweep(self.drafts, set(self.views))

    def refresh(self, session: str) -> None:
        """One anew, soon. However often this is called, only one question is under way."""
        if session in self._refreshing:
            self._refreshing[session] = True
            return
        self._refreshing[session] = False
        self.spawn(self._refresh(session))

    async def _refresh(self, session: str) -> None:
        try:
            await self.get(session)
        except DaemonAway:
            pass
        except DaemonError as error:
            if error.status == 404:
                self.removed(session)
        finally:
            if self._refreshing.pop(session, False):
                self.refresh(session)

    def keep(self, view: SessionView) -> None:
        """Takes in how a session is, and tells if that is news."""
        before = self.views.get(view["id"])
        self.views[view["id"]] = view
        kernel = self.kernel_of(view["id"])
        if kernel:
            provisioner = self.provisioner(kernel)
            provisioner.notice(view)
            self.swaps.state_is(kernel, view["state"])
            self._apply_policy(view)
        if before is None or _worth_telling(before) != _worth_telling(view):
            self.tell_session(view)

    def tell_session(self, view: SessionView) -> None:
        """How a session is, to the user interface."""
        self.news.tell({"type": "session", "kernel_id": self.kernel_of(view["id"]), "session": self.shown(view)})

    def _apply_policy(self, view: SessionView) -> None:
        """Once for each kernel: who changes a session's policy by other means afterwards means it."""
        wanted = self.policy.instead_of(view.get("policy"))
        if view["id"] in self.policy.given:
            return
        self.policy.given.add(view["id"])
        if not self.policy.is_same(view.get("policy"), wanted):
            self.spawn(self.patch(view["id"], {"policy": wanted}))

    def removed(self, session: str) -> None:
        """A session is no more."""
        view = self.views.pop(session, None)
        if view is not None:
            for leave in self.leaving:
                leave(view)
            self.news.tell({"type": "session", "kernel_id": self.kernel_of(session), "session": None, "id": session})

    # Telling.

    def warn(self, kernel_id: str | None, error: DaemonError) -> None:
        """Something did not work that nobody waits for."""
        self.log.warning("infinijup: %s", error)
        self.news.tell({"type": "warning", "kernel_id": kernel_id, "error": error.body})

    def set_away(self, why: str | None) -> None:
        """Whether the daemon can be reached."""
        if (why is None) != (self.away is None):
            self.news.tell({"type": "daemon", "away": why is not None, "why_not": why})
        self.away = why

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Does something beside; what goes wrong with it is logged."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("infinijup: %s", error, exc_info=error)

    async def close(self) -> None:
        """Ends what it does beside."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.daemon.close()


def _worth_telling(view: SessionView) -> dict[str, Any]:
    """Without what changes all the time and what only this server reads."""
    labels = {name: value for name, value in (view.get("labels") or {}).items() if name != KERNEL_INFO}
    return {**view, "memory_bytes": None, "labels": labels}


def moment(text: str | None) -> float:
    """A time of the daemon's, in seconds since 1970; now, if there is none."""
    if not text:
        return datetime.now(timezone.utc).timestamp()
    whole, _, fraction = text.removesuffix("Z").partition(".")
    digits = re.sub(r"\D.*", "", fraction)
    return datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp() + float(f"0.{digits or 0}")
