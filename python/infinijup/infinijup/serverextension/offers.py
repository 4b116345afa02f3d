"""What opening a notebook should offer: the last snapshot of a kernel that is not there any more.

By the time the user interface asks, Jupyter has often started the notebook's kernel anew, in the same session. So how a session *was*
is remembered when it is found or becomes dead, and holds until it is brought back from a snapshot, another snapshot is taken, or the
user says that it is not wanted.
"""

from typing import Any

from infinijup.daemon import DaemonError, target
from infinijup.serverextension.hub import PATH, Hub, moment
from infinijup.serverextension.keeper import Keeper

_DEAD = ("failed", "ended")


def boot_time() -> float:
    """When this machine was started."""
    with open("/proc/stat", encoding="ascii") as file:
        return next(float(line.split()[1]) for line in file if line.startswith("btime"))


class Offers:
    """The offers of one server."""

    def __init__(self, hub: Hub, keeper: Keeper):
        self.hub, self.keeper = hub, keeper
        # Session to the head that it had when it died, and how it was.
        self._dead: dict[str, tuple[str, str]] = {}
        hub.news.listen(self._hear)

    async def of(self, path: str) -> dict[str, Any] | None:
        """For the notebook at a path of the contents manager."""
        view = self.session_of(path)
        if view is None:
            return None
        head, state = self._dead.get(view["id"], (view.get("head"), view["state"]))
        if head is None or (state not in _DEAD and state != "suspended"):
            return None
        try:
            commit = await self.hub.daemon.get(target("commits", head))
        except DaemonError:
            return None
        reason = state if state in ("ended", "suspended") else self._why_failed(commit)
        return {"session": self.hub.shown(view), "commit": commit, "reason": reason}

    def dismiss(self, session: str) -> None:
        """It is not wanted."""
        self._dead.pop(session, None)

    def session_of(self, path: str) -> dict[str, Any] | None:
        """The notebook's session; if it had several, the one that a kernel of now has, or the newest with a snapshot."""
        found = [view for view in self.hub.views.values() if (view.get("labels") or {}).get(PATH) == path and self.keeper.is_ours(view)]
        found.sort(key=lambda view: (self.hub.kernel_of(view["id"]) is not None, view.get("head") is not None, view["created"]))
        return found[-1] if found else None

    @staticmethod
    def _why_failed(commit: dict[str, Any]) -> str:
        return "reboot" if moment(commit.get("time")) < boot_time() else "crash"

    def _hear(self, event: dict[str, Any]) -> None:
        view = event.get("session")
        if event["type"] == "session" and view:
            died = self._dead.get(view["id"])
            if view["state"] in _DEAD and view.get("head"):
                self._dead[view["id"]] = (view["head"], view["state"])
            elif died and (view["state"] == "suspended" or view.get("head") != died[0]):
                self.dismiss(view["id"])
        elif event["type"] in ("restored", "resumed") and event.get("kernel_id"):
            session = self.hub.kernels().get(event["kernel_id"])
            if session:
                self.dismiss(session)
