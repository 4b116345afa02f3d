"""Snapshots from Python code: `infinijup.snapshot` and `infinijup.attempt` (docs/python.md).

A snapshot that code takes of its own process is taken while it waits for the answer. So whatever is restored from it begins in the midst
of that wait, hears that it lives again (`asking.Restored`), and goes on from there: the same line is executed in two lives, and has to
tell which one it is in.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any

from infinijup import asking

_LONGEST_NOTE = 1000


@dataclass(frozen=True)
class Snapshot:
    """A moment that can be gone back to."""

    commit: str
    # Whether this is a process that was brought back to it, and the rest then.
    restored: bool = False
    session: str | None = None
    note: str | None = None


class RolledBack(Exception):
    """The body of `attempt` raised, and everything is as it was before; `reason` is what it raised."""

    def __init__(self, commit: str, reason: str):
        super().__init__(f"rolled back to snapshot {commit[:12]}, because it raised {reason}")
        self.commit, self.reason = commit, reason


def snapshot(label: str | None = None, *, message: str | None = None, tag: str | None = None) -> Snapshot:
    """Takes a snapshot of this kernel. Returns again, with `restored`, in every process that is brought back from it."""
    line = asking.line()
    line.ask("status", asking.SHORT)
    try:
        taken = line.ask_long("snapshot", label=label, message=message, tag=tag)
    except asking.Restored as restored:
        return Snapshot(restored.commit, True, restored.session, restored.note)
    return Snapshot(taken["commit"])


class attempt:  # noqa: N801 - it is used like a function
    """`with infinijup.attempt():` takes a snapshot, and rolls back to it if the body raises.

    The process that raised ends. The one that is brought back comes out of the same `with`, without its body, by `RolledBack`.
    """

    def __init__(self, label: str | None = None, *, force: bool = False):
        self.label, self.force = label, force
        self.snapshot: Snapshot | None = None

    def __enter__(self) -> Snapshot:
        self.snapshot = snapshot(self.label or "attempt")
        if self.snapshot.note is not None:
            raise RolledBack(self.snapshot.commit, self.snapshot.note)
        # Somebody else went back to it: then the body comes next, as it did the first time.
        return self.snapshot

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or self.snapshot is None:
            return
        wish: dict[str, Any] = {"to": self.snapshot.commit, "force": self.force, "files": True}
        # Answered only if it fails: otherwise nobody is here any more.
        asking.line().ask_long("restore", **wish, note=f"{type(error).__name__}: {error}"[:_LONGEST_NOTE])
