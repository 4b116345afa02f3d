"""Snapshots: what there is, what lies between two, names for them, and the end of them."""

from typing import Any

from infinijup.daemon import DaemonError, target
from infinijup.serverextension import cells
from infinijup.serverextension.branches import document_of
from infinijup.serverextension.handlers.base import Handler, answers, changes, given
from infinijup.serverextension.hub import PATH


class HistoryHandler(Handler):
    """The graph of one notebook: its own snapshots and those of all its branches."""

    @answers
    async def get(self) -> dict[str, Any]:
        view = await self._session()
        if view is None:
            return {"session": None, "kernel_id": None, "commits": [], "threads": []}
        limit = self.get_query_argument("limit", None)
        answer = await self.daemon.get(target("sessions", view["id"], "history", limit=limit, family=True))
        threads = [self._thread(thread) for thread in answer.get("threads", [])]
        shown = self.hub.shown(view)
        return {"session": shown, "kernel_id": shown["kernel_id"], "commits": answer["commits"], "threads": threads}

    async def _session(self) -> dict[str, Any] | None:
        kernel_id = self.get_query_argument("kernel_id", None)
        if kernel_id:
            return await self.hub.get(self.hub.session_id(kernel_id))
        view = self.extension.offers.session_of(self.query("path"))
        return await self.hub.get(view["id"]) if view else None

    def _thread(self, thread: dict[str, Any]) -> dict[str, Any]:
        view = self.hub.views.get(thread.get("session") or "", {})
        of = {"kernel_id": self.hub.kernel_of(view.get("id")), "path": (view.get("labels") or {}).get(PATH)}
        return {**thread, "state": view.get("state"), **of}


class TagsHandler(Handler):
    """A name for a snapshot."""

    @changes
    async def post(self) -> Any:
        body = self.body("commit", "name")
        return await self.daemon.post("/v1/tags", given(body, "commit", "name", "move"), wait=False)


class TagHandler(Handler):
    """The name is taken away; the snapshot stays."""

    @changes
    async def delete(self, name: str) -> Any:
        return await self.daemon.delete(target("tags", name), wait=False)


class ForgetHandler(Handler):
    """Snapshots leave the history."""

    @changes
    async def post(self) -> Any:
        body = self.body()
        return await self.daemon.post("/v1/forget", {"commits": body.get("commits") or [], "force": bool(body.get("force"))})


class GcHandler(Handler):
    """What no snapshot needs any more is deleted."""

    @changes
    async def post(self) -> Any:
        return await self.daemon.post("/v1/gc")


class DiffHandler(Handler):
    """What lies between two snapshots."""

    @answers
    async def get(self) -> dict[str, Any]:
        a, b = self.query("a"), self.query("b")
        answer = await self.daemon.get(target("diff", a=a, b=b))
        before, after = await self._document(a), await self._document(b)
        return {**answer, "cells": cells.diff(before, after)}

    async def _document(self, commit: str) -> dict[str, Any] | None:
        try:
            return await document_of(self.hub, commit)
        except DaemonError:
            return None


class NotebookHandler(Handler):
    """The document of a snapshot."""

    @answers
    async def get(self) -> dict[str, Any]:
        return {"content": await document_of(self.hub, self.query("commit"))}


class VariablesHandler(Handler):
    """The variables that a snapshot holds."""

    @answers
    async def get(self) -> Any:
        return await self.daemon.get(target("commits", self.query("commit"), "variables"))
