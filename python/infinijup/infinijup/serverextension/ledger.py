"""What a page has asked of a kernel and not yet had an answer to.

This is bookkeeping only: no sockets, no clock of its own. It answers the two questions of a swap:

*Which requests are lost?* A request that was under way when the process was exchanged will be answered only if the process that came
back had it already. So for every snapshot it is remembered which requests were under way while it was taken (`in_flight`). After a
rollback to it, those stay open and all others are cut off (`cut`).

*Which of those that stay open are lost all the same?* The moment of a snapshot is known only roughly, and a request may have been in
a socket's buffer, which no snapshot holds. A *fence* settles it: a harmless request on the shell channel, which the kernel answers
after all that were there before it. ZeroMQ takes turns between connections, so a fence may overtake what is queued on an older one; but
then something was answered meanwhile. A fence that comes back with no progress since it was sent proves that nothing is left
(`Fence.passed`).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# Asking twice does no harm, and the page is better served by an answer than by an excuse.
REPEATABLE = frozenset(
    {"kernel_info_request", "comm_info_request", "complete_request", "inspect_request", "history_request", "is_complete_request"}
)
# These have no reply, only the status that says they were dealt with.
SILENT = frozenset({"comm_open", "comm_msg", "comm_close"})
_FINISHED = 256


@dataclass
class Question:
    """`input()`: the kernel asks the user."""

    asked: float
    message: Any
    answered: float | None = None


@dataclass
class Request:
    """One message from the page that wants an answer."""

    header: dict[str, Any]
    channel: str
    sent: float
    raw: Any = None
    cell: dict[str, Any] | None = None
    stops_others: bool = False
    begun: bool = False
    replied: bool = False
    idle: float | None = None
    questions: list[Question] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its message id."""
        return str(self.header.get("msg_id", ""))

    @property
    def kind(self) -> str:
        """Its message type."""
        return str(self.header.get("msg_type", ""))

    @property
    def reply_kind(self) -> str | None:
        """The type of its reply, if it has one."""
        return self.kind.removesuffix("_request") + "_reply" if self.kind.endswith("_request") else None

    def is_answered(self) -> bool:
        """Whether nothing more will come."""
        return self.idle is not None and (self.replied or self.reply_kind is None)

    def open_question(self, begin: float, end: float) -> Question | None:
        """The question that was open in this time and has been answered since: the kernel will wait for the answer again."""
        for question in self.questions:
            if question.asked <= end and question.answered is not None and question.answered >= begin:
                return question
        return None


class Ledger:
    """The requests of one page."""

    def __init__(self) -> None:
        self.open: dict[str, Request] = {}
        self.finished: deque[Request] = deque(maxlen=_FINISHED)
        # Cut off; whether the page has heard of it is known only of a page that never went away.
        self.owed: deque[Request] = deque(maxlen=_FINISHED)
        self.progress = 0

    def sent(self, request: Request) -> None:
        """A request goes to the kernel."""
        if request.kind.endswith("_request") or request.kind in SILENT:
            self.open[request.id] = request

    def began(self, parent: str) -> None:
        """The kernel says `busy` for it."""
        if request := self.open.get(parent):
            request.begun = True
            self.progress += 1

    def replied(self, parent: str, now: float) -> Request | None:
        """The kernel has replied to it."""
        request = self.open.get(parent)
        if request:
            request.replied = True
            self.progress += 1
            self._close_if_answered(request, now)
        return request

    def ended(self, parent: str, now: float) -> Request | None:
        """The kernel says `idle` for it."""
        request = self.open.get(parent)
        if request:
            request.idle = now
            self.progress += 1
            self._close_if_answered(request, now)
        return request

    def asked(self, parent: str, message: Any, now: float) -> None:
        """The kernel wants input from the user."""
        if request := self.open.get(parent):
            request.questions.append(Question(now, message))

    def told(self, now: float) -> None:
        """The user has given it. The reply does not say to whom; there is only one question at a time."""
        for request in self.open.values():
            for question in request.questions:
                if question.answered is None:
                    question.answered = now

    def in_flight(self, begin: float, end: float) -> dict[str, Request]:
        """Requests that may have been with the kernel at a moment between these two."""
        both = [*self.open.values(), *self.finished]
        return {request.id: request for request in both if request.sent <= end and (request.idle is None or request.idle >= begin)}

    def cut(self, keep: Iterable[str]) -> list[Request]:
        """Closes all that the process of now knows nothing of, and returns them in the order in which they were sent."""
        kept = set(keep)
        lost = [request for request in self.open.values() if request.id not in kept]
        for request in lost:
            del self.open[request.id]
        return lost

    def take_again(self, request: Request) -> bool:
        """The kernel is at work on a request that was answered long ago: it went back to the middle of it. False if it is open still."""
        if request.id in self.open:
            return False
        request.idle, request.replied = None, False
        self.open[request.id] = request
        return True

    def cells(self) -> list[Request]:
        """Cells that run or wait in the kernel, in order."""
        return [request for request in self.open.values() if request.kind == "execute_request"]

    def _close_if_answered(self, request: Request, now: float) -> None:
        if request.is_answered():
            del self.open[request.id]
            request.raw = None
            self.finished.append(request)


class Fence:
    """Whether requests that should be answered still can be."""

    def __init__(self, ledgers: Iterable[Ledger], doubtful: Iterable[str]) -> None:
        self.ledgers = list(ledgers)
        self.doubtful = set(doubtful)
        self.mark = self._progress()

    def left(self) -> list[str]:
        """Those that are still open."""
        return [msg_id for ledger in self.ledgers for msg_id in ledger.open if msg_id in self.doubtful]

    def passed(self) -> bool:
        """The fence was answered. True if that proves that what is left is lost; else it must be sent once more."""
        before, self.mark = self.mark, self._progress()
        return before == self.mark

    def _progress(self) -> int:
        return sum(ledger.progress for ledger in self.ledgers)
