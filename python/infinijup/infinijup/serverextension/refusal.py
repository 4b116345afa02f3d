"""What the server itself refuses, in the form in which the daemon's refusals come."""

from infinijup.daemon import DaemonError


def no_kernel(kernel_id: str) -> DaemonError:
    """There is no such kernel here."""
    return DaemonError("no-kernel", f"there is no kernel `{kernel_id}` on this server", "open the notebook again", 404)


def not_a_session(why_not: str | None) -> DaemonError:
    """The kernel has no history."""
    return DaemonError(
        "not-a-session", why_not or "this kernel was not started by infinijup", "restart the kernel once infinijup works", 409
    )


def bad_request(message: str) -> DaemonError:
    """The request makes no sense."""
    return DaemonError("bad-request", message, None, 400)


def not_found(message: str) -> DaemonError:
    """It is not there."""
    return DaemonError("not-found", message, None, 404)
