"""What is answered for a kernel that is suspended.

The page must not notice: its kernel is idle. What can be answered without the kernel is; what only makes the page more comfortable is
declined; a cell wakes it. Requests that extensions send by themselves must not: a panel that asks for variables every few seconds would
keep every kernel awake.
"""

from typing import Any

from infinijup.serverextension.messages import Incoming

_EMPTY: dict[str, dict[str, Any]] = {
    "comm_info_request": {"status": "ok", "comms": {}},
    "complete_request": {"status": "aborted", "matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}},
    "inspect_request": {"status": "aborted", "found": False, "data": {}, "metadata": {}},
    "history_request": {"status": "aborted", "history": []},
    "is_complete_request": {"status": "unknown"},
    "interrupt_request": {"status": "ok"},
}


def wakes(message: Incoming) -> bool:
    """Whether this is a reason to resume the kernel."""
    return message.is_cell


def reply(message: Incoming, kernel_info: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Type and content of the reply; None for what has none."""
    if not message.kind.endswith("_request"):
        return None
    kind = message.kind.removesuffix("_request") + "_reply"
    if message.kind == "kernel_info_request":
        return kind, kernel_info
    return kind, _EMPTY.get(message.kind, {"status": "aborted"})


def made_up_info(language: str | None, kernel_name: str) -> dict[str, Any]:
    """For a kernel that was never asked for it: suspended before this server was started."""
    name = language or "unknown"
    return {
        "status": "ok",
        "protocol_version": "5.3",
        "implementation": kernel_name,
        "implementation_version": "",
        "language_info": {"name": name, "version": "", "mimetype": "text/plain", "file_extension": ".txt"},
        "banner": "",
        "help_links": [],
    }
