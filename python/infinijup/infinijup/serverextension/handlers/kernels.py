"""Kernels and their sessions: looking at them, and everything that exchanges their process."""

from typing import Any

from infinijup.daemon import from_wire, target
from infinijup.serverextension import refusal
from infinijup.serverextension.branches import branch
from infinijup.serverextension.handlers.base import Handler, answers, as_text, changes, given
from infinijup.serverextension.hub import PATH


class KernelHandler(Handler):
    """Whether a kernel has a history, and why not."""

    _track_activity = False

    @answers
    async def get(self, kernel_id: str) -> dict[str, Any]:
        if kernel_id not in self.kernel_manager:
            raise refusal.no_kernel(kernel_id)
        provisioner = self.hub.provisioner(kernel_id)
        session = getattr(provisioner, "session_id", None)
        if session is None:
            why_not = getattr(provisioner, "why_not", None) or "this kernel was not started by infinijup"
            return {"kernel_id": kernel_id, "session": None, "why_not": why_not, "path": None}
        view = await self.hub.get(session)
        path = (view.get("labels") or {}).get(PATH)
        return {"kernel_id": kernel_id, "session": self.hub.shown(view), "why_not": None, "path": path}


class SessionsHandler(Handler):
    """All sessions of this user, also those that sleep or have ended."""

    @answers
    async def get(self) -> dict[str, Any]:
        views = (await self.daemon.get("/v1/sessions"))["sessions"]
        return {"sessions": [self.hub.shown(view) for view in views]}


class SessionHandler(Handler):
    """The end of a session. Its snapshots stay in the history."""

    @changes
    async def delete(self, session_id: str) -> Any:
        kernel = self.hub.kernel_of(session_id)
        if kernel is not None:
            await self.kernel_manager.shutdown_kernel(kernel, now=True)
        view = await self.daemon.get(target("sessions", session_id))
        if view["state"] in ("running", "starting"):
            await self.daemon.post(target("sessions", session_id, "stop"), {"grace_ms": 0})
        answer = await self.daemon.delete(target("sessions", session_id))
        self.hub.removed(session_id)
        return answer


class SnapshotHandler(Handler):
    """Takes a snapshot."""

    @changes
    async def post(self) -> Any:
        body = self.body("kernel_id")
        request = given(body, "message", "tag", "label", "cell", "reason")
        if body.get("notebook") is not None:
            request["notebook"] = as_text(body["notebook"])
        return await self.hub.post(target("sessions", self.hub.session_id(body["kernel_id"]), "snapshot"), request)


class RestoreHandler(Handler):
    """Back to a snapshot. How things are now becomes one first, with the document as the page has it."""

    @changes
    async def post(self) -> Any:
        body = self.body("kernel_id", "to")
        request = given(body, "to", "force", "files")
        if body.get("notebook") is not None:
            request["notebook"] = as_text(body["notebook"])
        outcome = await self.hub.swaps.operate(body["kernel_id"], "rollback", request)
        # The notebook was saved by this server, for the page that asks.
        ours = self.hub.document(body["kernel_id"])
        return {**outcome, "spared": [path for path in outcome.get("spared") or [] if from_wire(path) != ours]}


class BranchHandler(Handler):
    """A copy of the notebook, on a kernel that goes on from a snapshot."""

    @changes
    async def post(self) -> dict[str, Any]:
        return await branch(self.hub, self.extension.keeper, self.body("kernel_id"))


class SuspendHandler(Handler):
    """Puts a kernel to sleep."""

    @changes
    async def post(self) -> Any:
        body = self.body("kernel_id")
        request = given(body, "message", "label")
        if body.get("notebook") is not None:
            request["notebook"] = as_text(body["notebook"])
        return await self.hub.swaps.operate(body["kernel_id"], "suspend", request)


class ResumeHandler(Handler):
    """Wakes it."""

    @changes
    async def post(self) -> Any:
        body = self.body("kernel_id")
        return await self.hub.swaps.operate(body["kernel_id"], "resume", given(body, "gpus", "force"))


class OfferHandler(Handler):
    """What opening a notebook should offer."""

    @answers
    async def get(self) -> dict[str, Any] | None:
        return await self.extension.offers.of(self.query("path"))

    @changes
    async def delete(self) -> dict[str, Any]:
        view = self.extension.offers.session_of(self.query("path"))
        if view:
            self.extension.offers.dismiss(view["id"])
        return {}
