"""One kernel as the server sees it: the pages that are connected, whether its process is being exchanged, what was under way when.

A swap is held open by *reasons*: the request that began it here, or the daemon's job if somebody else did. Messages of all pages are
held from the first reason to the last, and then until each page's own sockets are known to work again.
"""

import asyncio
import json
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from infinijup.serverextension.ledger import Ledger, Request

if TYPE_CHECKING:
    from infinijup.serverextension.connection import SwapAwareConnection

_COMMITS = 2048


class Desk:
    """What is known of one kernel."""

    def __init__(self, kernel_id: str):
        self.kernel_id = kernel_id
        self.connections: set[SwapAwareConnection] = set()
        self.ledgers: dict[str, Ledger] = {}
        self.reasons: dict[str, str] = {}
        self.asleep = False
        # How often the process was exchanged: sockets that are older lead nowhere.
        self.era = 0
        self.waking: asyncio.Task[None] | None = None
        self.kernel_info: dict[str, Any] | None = None
        # Message ids of our own requests: no page is to see what comes of them.
        self.own: OrderedDict[str, None] = OrderedDict()
        self.flights: OrderedDict[str, tuple[float, float, dict[str, Request]]] = OrderedDict()
        self.snapshots: dict[str, float] = {}
        # Cells sent, and how many had been when the last snapshot for a cell was taken.
        self.cells = 0
        self.snapshot_at: int | None = None
        self.turn = asyncio.Lock()
        self.warned = False

    @property
    def swapping(self) -> bool:
        """Whether the process is being exchanged."""
        return bool(self.reasons)

    def begin(self, reason: str, kind: str) -> bool:
        """Messages are held from now on. True if they were not before."""
        first = not self.reasons
        self.reasons[reason] = kind
        return first

    def end(self, reason: str) -> bool:
        """One reason less. True if it was the last."""
        return self.reasons.pop(reason, None) is not None and not self.reasons

    def ledger(self, key: str) -> Ledger:
        """Of one page; it outlives the page's connection, for the page may come back."""
        if key not in self.ledgers:
            # A page that was reloaded has another key, and whoever had this one will not return.
            alive = {connection.session_key for connection in self.connections}
            self.ledgers = {name: ledger for name, ledger in self.ledgers.items() if name in alive}
            self.ledgers[key] = Ledger()
        return self.ledgers[key]

    def note_own(self, msg_id: str) -> None:
        """A request of ours."""
        self.own[msg_id] = None
        while len(self.own) > 512:
            self.own.popitem(last=False)

    def snapshot_began(self, job: str, when: float) -> None:
        """A job began that may take a snapshot."""
        self.snapshots[job] = when
        while len(self.snapshots) > 64:
            del self.snapshots[next(iter(self.snapshots))]

    def snapshot_taken(self, commit: str, job: str | None, when: float) -> None:
        """Remembers what was under way while it was taken."""
        begin = self.snapshots.get(job or "", when - 1.0)
        flying: dict[str, Request] = {}
        for ledger in self.ledgers.values():
            flying.update(ledger.in_flight(begin, when))
        self.flights[commit] = (begin, when, flying)
        while len(self.flights) > _COMMITS:
            self.flights.popitem(last=False)

    def flight(self, commit: str | None) -> tuple[float, float, dict[str, Request]]:
        """What was under way when a snapshot was taken, and when that was."""
        now = time.time()
        return self.flights.get(commit or "", (now, now, {}))

    def cells_open(self) -> list[Request]:
        """Cells of all pages that the kernel has."""
        return [request for ledger in self.ledgers.values() for request in ledger.cells()]

    def info_label(self) -> str | None:
        """The kernel's description of itself, short enough for a label."""
        if not self.kernel_info:
            return None
        short = {name: value for name, value in self.kernel_info.items() if name != "banner"} | {"banner": ""}
        text = json.dumps(short, separators=(",", ":"))
        if len(text.encode()) > 4000:
            text = json.dumps({**short, "help_links": []}, separators=(",", ":"))
        return text if len(text.encode()) <= 4000 else None
