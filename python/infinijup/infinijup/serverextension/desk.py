"""One kernel as the server sees it: the pages that are connected, whether its process is being exchanged, what was under way when.

A swap is held open by *reasons*: the request that began it here, or the daemon's job if somebody else did. Messages of all pages are
held from the first reason to the last, and then until each page's own sockets are known to work again.
"""

import asyncio
import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infinijup.serverextension.drafts import Draft
from infinijup.serverextension.ledger import Ledger, Request
from infinijup.serverextension.shown import Shown
from infinijup.serverextension.snapshots import CellSnapshots

if TYPE_CHECKING:
    from infinijup.serverextension.connection import SwapAwareConnection
    from infinijup.serverextension.hub import Hub

_COMMITS = 2048


@dataclass
class Flight:
    """Requests that the kernel may have had when a snapshot was taken, and those of them that it had begun for certain."""

    begin: float
    end: float
    requests: dict[str, Request] = field(default_factory=dict)
    certain: set[str] = field(default_factory=set)


class Desk:
    """What is known of one kernel."""

    def __init__(self, kernel_id: str, hub: "Hub"):
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
        self.flights: OrderedDict[str, Flight] = OrderedDict()
        self.freeze: tuple[float, float | None] = (0.0, None)
        # Cells sent, and how many had been when the last snapshot for a cell was taken.
        self.cells = 0
        self.snapshot_at: int | None = None
        self.shown = Shown()
        self.draft = Draft(hub, self)
        self.snapshots = CellSnapshots(hub, self)

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

    def snapshot_began(self, when: float) -> None:
        """A job began that may take a snapshot; a session has one at a time."""
        self.freeze = (when, None)

    def froze(self, when: float, over: bool) -> None:
        """The processes stand still from now on, or did until now."""
        self.freeze = (self.freeze[0], when) if over else (when, None)
        if over:
            self.snapshots.thawed(when)

    def snapshot_taken(self, commit: str, when: float) -> None:
        """Remembers what was under way while it was taken."""
        self.snapshots.left_out_is(None)
        begin, end = self.freeze
        begin, end = min(begin, when), end if end is not None else when
        flight = Flight(begin, end)
        for ledger in self.ledgers.values():
            flight.requests.update(ledger.in_flight(begin, end))
        # What stands still says nothing: an end that was heard of before the thaw had come before the freeze.
        flight.certain = {
            name for name, request in flight.requests.items() if request.begun and (request.idle is None or request.idle > end)
        }
        self.flights[commit] = flight
        if not self.shown.is_known(commit):
            self.shown.taken(commit, self.shown.now(until=end))
        while len(self.flights) > _COMMITS:
            self.flights.popitem(last=False)

    def flight(self, commit: str | None) -> "Flight":
        """What was under way when a snapshot was taken, and when that was."""
        now = time.time()
        return self.flights.get(commit or "", Flight(now, now))

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
