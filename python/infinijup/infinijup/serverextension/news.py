"""What the user interface is told: numbered, kept for a while, handed to whoever listens."""

from collections import deque
from collections.abc import Callable
from typing import Any

KEPT = 2000
Listener = Callable[[dict[str, Any]], None]


class News:
    """The events of one server. Those who cannot keep a stream open ask for what came since a number."""

    def __init__(self, kept: int = KEPT):
        self._kept: deque[dict[str, Any]] = deque(maxlen=kept)
        self._listeners: set[Listener] = set()
        self.last = 0

    def tell(self, event: dict[str, Any]) -> None:
        """To everybody."""
        self.last += 1
        numbered = {**event, "n": self.last}
        self._kept.append(numbered)
        for listener in list(self._listeners):
            listener(numbered)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` with each event from now on, until the function is called that this returns."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def since(self, number: int) -> dict[str, Any]:
        """What came after event `number`. `missed` if some of it is not kept any more, or belongs to an earlier server."""
        oldest = self._kept[0]["n"] if self._kept else self.last + 1
        missed = number > self.last or (number + 1 < oldest and self.last > 0)
        events = [event for event in self._kept if missed or event["n"] > number]
        return {"events": events, "next": self.last, "missed": missed}
