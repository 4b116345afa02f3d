"""Reads the daemon's events, for as long as the server runs, and gives each to whom it concerns.

Nothing here waits: an event that says that a kernel's process is about to go must not stand in a queue behind a question to the daemon.
"""

import asyncio
import contextlib
from typing import Any

from infinijup.daemon import DaemonError
from infinijup.serverextension import sources
from infinijup.serverextension.branches import open_new
from infinijup.serverextension.hub import Hub, moment
from infinijup.serverextension.keeper import Keeper

# The step of a job in which processes stand still.
FREEZE = "freeze and dump"


class Reader:
    """The one reader of a server."""

    def __init__(self, hub: Hub, keeper: Keeper, source: str = "auto", redis_url: str = ""):
        self.hub, self.keeper, self.source, self.redis_url = hub, keeper, source, sources.redis_url(redis_url)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                async for event in self._events():
                    self.take(event)
            except DaemonError as error:
                # It answers, but gives no events: an older one, or too many listeners. Looking works always.
                self.hub.log.warning("infinijup: no stream of events (%s); looking every %s s instead", error, sources.POLL)
                self.source = "polling"
            except Exception as error:  # An event that nobody thought of must not end all others.
                self.hub.log.error("infinijup: an event was not understood: %s", error, exc_info=error)
                await asyncio.sleep(1.0)

    def _events(self) -> sources.Events:
        wants_redis = self.source == "redis" or (self.source == "auto" and self.redis_url)
        if wants_redis and self.redis_url and sources.has_redis():
            self.hub.transport = "redis"
            return sources.from_redis(self.redis_url)
        if wants_redis:
            self.hub.log.warning("infinijup: Redis is configured, but its address or the Python package `redis` is missing")
        if self.source == "polling":
            self.hub.transport = "polling"
            return sources.from_polling(self.hub.daemon)
        self.hub.transport = "events"
        return sources.from_daemon(self.hub.daemon)

    def take(self, event: dict[str, Any]) -> None:
        """One event."""
        kind, hub, session = event.get("kind"), self.hub, event.get("session")
        for hook in hub.hooks:
            hook(event)
        if kind == "away":
            hub.set_away(event.get("detail") or "the daemon cannot be reached")
        elif kind in ("back", "missed"):
            hub.spawn(self._look_at_all())
        elif kind in ("job_began", "job_step", "job_ended"):
            self._job(event)
        elif kind == "snapshot_taken" and session:
            kernel = hub.kernel_of(session)
            if kernel:
                hub.desk(kernel).snapshot_taken(event["commit"], moment(event.get("time")))
            hub.spawn(self._tell_snapshot(kernel, event["commit"], session))
            hub.refresh(session)
        elif kind == "rolled_back" and session:
            hub.swaps.rolled_back(session, event["commit"])
        elif kind == "session_activity" and session in hub.views:
            hub.keep({**hub.views[session], "activity": event.get("activity")})
        elif kind == "session_removed" and session:
            hub.removed(session)
        elif kind == "history_changed":
            hub.news.tell({"type": "history", "kernel_id": hub.kernel_of(session)})
        elif session:
            hub.refresh(session)

    def _job(self, event: dict[str, Any]) -> None:
        job, session = event.get("job") or {}, event.get("session") or (event.get("job") or {}).get("session")
        kernel = self.hub.kernel_of(session)
        if kernel and job:
            identity = self.hub.session_id(kernel)
            if event["kind"] == "job_began":
                self.hub.swaps.job_began(kernel, job, identity, moment(event.get("time")))
            elif event["kind"] == "job_ended":
                self.hub.swaps.job_ended(kernel, job, identity)
                if job["kind"] == "branch" and job["state"] == "done":
                    self.hub.spawn(open_new(self.hub, self.keeper, identity))
        if session and event["kind"] == "job_ended":
            self.hub.refresh(session)
        step = event.get("step") or {}
        if kernel and step.get("name") == FREEZE:
            self.hub.desk(kernel).froze(moment(event.get("time")), over=step.get("micros") is not None)
        told = {
            "id": event.get("job_id") or job.get("id"),
            "kind": event.get("job_kind"),
            "state": job.get("state", "running"),
            "step": step.get("name"),
            "done": step.get("done"),
            "total": step.get("total"),
            "error": job.get("error"),
            "automatic": self.hub.is_automatic(kernel, event.get("job_kind")),
        }
        self.hub.news.tell({"type": "job", "kernel_id": kernel, "session_id": session, "job": told})

    async def _look_at_all(self) -> None:
        try:
            await self.hub.refresh_all()
            self.hub.set_away(None)
        except DaemonError as error:
            self.hub.set_away(error.message)

    async def _tell_snapshot(self, kernel: str | None, commit: str, session: str) -> None:
        try:
            view = await self.hub.commit(commit, session)
        except DaemonError:
            view = None
        # Without the card, the panel asks for the whole history.
        self.hub.news.tell({"type": "snapshot", "kernel_id": kernel, "commit": view} if view else {"type": "history", "kernel_id": kernel})
