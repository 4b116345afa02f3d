"""How code in a kernel asks the daemon for something, and hears what came of it.

There is no way from a session to the daemon's socket, and there must not be: whoever can make the kernel run something would hold it.
But the daemon listens to the kernel's own iopub channel, as a notebook does. So a request is a message of the type `infinijup_request`
there, done by the daemon for this very session, and the answer is a message of the type `infinijup_reply` on the control channel, which
ipykernel reads in a thread of its own while a cell runs.

Waiting must be safe to be copied. A snapshot is taken of the kernel while it waits for the answer to that very request, so whatever is
restored from it wakes up waiting, for an answer that was given in another life. The daemon therefore tells every kernel that it has
restored so, by a reply with the id `*`, which ends every wait with `Restored`. And no wait may look at the clock to see whether it has
lasted too long: it counts short naps, because the time on disk does not count.
"""

import os
import sys
import threading
import uuid
from typing import Any

REQUEST, REPLY = "infinijup_request", "infinijup_reply"
EVERYBODY = "*"
# Seconds of running that an answer may take. The long one is for snapshots of much memory; an interrupt ends it earlier.
SHORT, LONG = 10.0, 6 * 3600.0
_NAP = 0.25
# Nobody hears what is said on iopub before they have subscribed, so a request is said again. The daemon knows it by its id.
_NAPS_BETWEEN = 12
PROBE = "kernel_info_request"
# Whose questions are not those of a client.
DAEMON = "infinijup"
# How long clients have to connect again to a kernel that was restored, and how long they must have been silent since the last probe.
_LISTENERS, _SILENCE = 1.5, 0.15


class AskError(Exception):
    """The daemon refused or failed: message, code and the way out."""

    def __init__(self, message: str, code: str = "", hint: str | None = None):
        super().__init__(message)
        self.message, self.code, self.hint = message, code, hint

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]" if self.code else self.message
        return f"{text}\n{self.hint}" if self.hint else text


class Unheard(AskError):
    """Nobody answered in time."""


class Restored(Exception):
    """This is a kernel that was brought back from a snapshot taken while it waited."""

    def __init__(self, commit: str, session: str | None, note: str | None):
        super().__init__(f"restored from {commit[:12]}")
        self.commit, self.session, self.note = commit, session, note


def line_of(kernel: Any) -> "Line | None":
    """The line of a kernel, which has one; `None` if it is not ipykernel's."""
    if not hasattr(kernel, "control_handlers"):
        return None
    if getattr(kernel, "infinijup_line", None) is None:
        kernel.infinijup_line = Line(kernel)
    return kernel.infinijup_line


def line() -> "Line":
    """The line of the kernel that this code runs in."""
    # Programs without IPython can import this package, too.
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    found = line_of(getattr(shell, "kernel", None))
    if found is None:
        raise Unheard("only kernels of ipykernel can ask for snapshots from within")
    return found


class Line:
    """The line to the daemon of one ipykernel."""

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self.guard = threading.Condition()
        self.waiting: dict[str, Any] = {}
        self.probes = 0
        self.answer_probe = kernel.control_handlers[PROBE]
        kernel.control_handlers |= {REPLY: self.hear, PROBE: self.count_probe}

    def close(self) -> None:
        """Hears nothing any more."""
        self.kernel.infinijup_line = None
        self.kernel.control_handlers.pop(REPLY, None)
        self.kernel.control_handlers[PROBE] = self.answer_probe

    def count_probe(self, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        """Somebody asks who we are, as clients do when they have connected again."""
        if message["header"].get("username") != DAEMON:
            with self.guard:
                self.probes += 1
                self.guard.notify_all()
        return self.answer_probe(stream, ident, message)

    def hear(self, _stream: Any, _ident: Any, message: dict[str, Any]) -> None:
        """A reply, in the thread of the control channel."""
        content = message["content"]
        with self.guard:
            for asked in list(self.waiting) if content.get("id") == EVERYBODY else [content.get("id")]:
                if asked in self.waiting:
                    self.waiting[asked] = content
            self.guard.notify_all()

    def ask(self, do: str, seconds: float, /, **arguments: Any) -> Any:
        """Asks, and gives the result. `seconds` are those of running."""
        if not os.environ.get("INFINIJUP_SESSION"):
            raise Unheard(
                "this kernel is not a session of infinijup, so it has no history",
                "",
                "`infinijup doctor` says whether snapshots work here; docs/jupyter.md says which kernels have a history",
            )
        asked = uuid.uuid4().hex
        with self.guard:
            self.waiting[asked] = None
        try:
            content = {"id": asked, "do": do, **{name: value for name, value in arguments.items() if value is not None}}
            answer = self._wait(content, seconds)
        finally:
            with self.guard:
                del self.waiting[asked]
        if answer is None:
            raise Unheard(f"the daemon gave no answer within {seconds:g} s", "", "Does the daemon run? `infinijup daemon status` tells.")
        if answer["id"] == EVERYBODY:
            result = answer["result"]
            self._wait_for_listeners()
            raise Restored(result["restored"], result.get("session"), result.get("note"))
        if not answer.get("ok"):
            error = answer.get("error") or {}
            raise AskError(error.get("message", "no reason was given"), error.get("code", ""), error.get("hint"))
        return answer.get("result")

    def ask_long(self, do: str, /, **arguments: Any) -> Any:
        """The same for what may take long and stop this process, or copy it. That somebody listens should be known by then."""
        # What was printed before must be out: a kernel that is restored here would print it again.
        sys.stdout.flush()
        sys.stderr.flush()
        return self.ask(do, LONG, **arguments)

    def _wait(self, content: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        naps, most = 0, max(1, round(seconds / _NAP))
        while naps < most:
            if naps % _NAPS_BETWEEN == 0:
                self._send(content)
            with self.guard:
                if (answer := self.waiting[content["id"]]) is not None:
                    return answer
                # Woken up by somebody else's answer is no nap, and no reason to say it again.
                while self.guard.wait(_NAP) and self.waiting[content["id"]] is None:
                    pass
            naps += 1
        return self.waiting[content["id"]]

    def _wait_for_listeners(self) -> None:
        """What is said on iopub before clients are there again is lost to them, the end of the cell included.

        Nobody can tell how many will come. A Jupyter server with our extension asks on the control channel until its iopub hears the
        kernel, so when it has stopped asking, it is there. Without any question, time must do.
        """
        with self.guard:
            before, left = self.probes, _LISTENERS
            while left > 0:
                seen = self.probes
                self.guard.wait(_SILENCE)
                left -= _SILENCE
                if self.probes == seen > before:
                    return

    def _send(self, content: dict[str, Any]) -> None:
        parent = self.kernel.get_parent()
        self.kernel.session.send(self.kernel.iopub_socket, REQUEST, content, parent=parent, ident=REQUEST.encode())
