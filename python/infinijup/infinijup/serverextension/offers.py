"""What opening a notebook should offer: the last snapshot of a kernel that is not there any more.

By the time the user interface asks, Jupyter has often started the notebook's kernel anew, in the same session. So how a session *was*
is remembered when it is found or becomes dead, and holds until it is brought back from a snapshot, another snapshot is taken, or the
user says that it is not wanted.
"""

from dataclasses import dataclass
from typing import Any

from infinijup.serverextension.hub import PATH, Hub, moment
from infinijup.serverextension.keeper import Keeper

_DEAD = ("failed", "ended")


def boot_time() -> float:
    """When this machine was started."""
    with open("/proc/stat", encoding="ascii") as file:
        return next(float(line.split()[1]) for line in file if line.startswith("btime"))


@dataclass
class Death:
    """How a session was when it had no processes any more."""

    head: str
    state: str
    wanted: bool
    kernel: str | None


class Offers:
    """The offers of one server."""

    def __init__(self, hub: Hub, keeper: Keeper):
        self.hub, self.keeper = hub, keeper
        self._dead: dict[str, Death] = {}
        # Sessions that somebody is ending, and those that died without anybody doing so.
        self._stopping: set[str] = set()
        self._crashed: set[str] = set()
        hub.hooks.append(self._hear_first)
        hub.news.listen(self._hear)

    async def of(self, path: str) -> dict[str, Any] | None:
        """For the notebook at a path of the contents manager."""
        view = self.session_of(path)
        if view is None:
            return None
        death = self._dead.get(view["id"])
        head = death.head if death else view.get("head")
        if head is None or (death is None and view["state"] != "suspended"):
            return None
        commit = await self.hub.commit(head, view["id"])
        if commit is None:
            return None
        return {"session": self.hub.shown(view), "commit": commit, "reason": _reason(death, commit)}

    def dismiss(self, session: str) -> None:
        """It is not wanted."""
        self._dead.pop(session, None)

    def session_of(self, path: str) -> dict[str, Any] | None:
        """The notebook's session; if it had several, the one that a kernel of now has, or the newest with a snapshot."""
        found = [view for view in self.hub.views.values() if (view.get("labels") or {}).get(PATH) == path and self.keeper.is_ours(view)]
        found.sort(key=lambda view: (self.hub.kernel_of(view["id"]) is not None, view.get("head") is not None, view["created"]))
        return found[-1] if found else None

    def _hear_first(self, event: dict[str, Any]) -> None:
        """The daemon's own events, in their order: Jupyter tidies up after a dead kernel at once, and that stops nobody."""
        session, kind = event.get("session"), event.get("kind")
        if session is None:
            return
        if kind == "job_began" and (event.get("job") or {}).get("kind") in ("stop", "restart"):
            self._stopping.add(session)
        elif kind == "session_state" and event.get("state") == "running":
            self._stopping.discard(session)
        elif kind == "session_state" and event.get("state") in _DEAD and session not in self._stopping:
            self._crashed.add(session)

    def _hear(self, event: dict[str, Any]) -> None:
        view = event.get("session")
        if event["type"] == "session" and view:
            self._look(view)
        elif event["type"] in ("restored", "resumed") and event.get("kernel_id"):
            session = self.hub.kernels().get(event["kernel_id"])
            if session:
                self.dismiss(session)

    def _look(self, view: dict[str, Any]) -> None:
        session, death = view["id"], self._dead.get(view["id"])
        if view["state"] in _DEAD:
            if view.get("head") and death is None:
                stopped = session in self._stopping and session not in self._crashed
                wanted = view["state"] == "ended" and (stopped or view.get("exit") in (None, 0))
                self._dead[session] = Death(view["head"], view["state"], wanted, self.hub.kernel_of(session))
            return
        self._crashed.discard(session)
        if death is None:
            return
        # Restarted by the user: the same kernel, with nothing in it, is what was asked for.
        restarted = death.wanted and view["state"] == "running" and death.kernel is not None and death.kernel == self.hub.kernel_of(session)
        if restarted or view["state"] == "suspended" or view.get("head") != death.head:
            self.dismiss(session)


def _reason(death: Death | None, commit: dict[str, Any]) -> str:
    if death is None:
        return "suspended"
    if death.wanted:
        return "ended"
    return "reboot" if moment(commit.get("time")) < boot_time() else "crash"
