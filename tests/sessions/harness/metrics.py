"""What a daemon counts."""

import re

from harness.wire import UnixConnection


def figures(daemon):
    """What the daemon has counted, by name and label."""
    connection = UnixConnection(daemon.socket, 60)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {name: float(value) for name, value in re.findall(r"^infinijup_(\S+) (\S+)$", text, re.MULTILINE)}


def copied(daemon, when=None):
    """Bytes that were copied while sessions ran."""
    counted = figures(daemon)
    return sum(counted[f'copied_bytes_total{{when="{name}"}}'] for name in ("dump", "rest") if when in (None, name))
