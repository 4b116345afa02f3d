"""infinijup for Python: what runs inside kernels, and what runs in the Jupyter server.

Inside a kernel, this package takes snapshots and makes branches (docs/python.md), brings GPU work to rest before a snapshot and back to
work afterwards (docs/quiesce.md), and gives IPython the magic `%infinijup` (docs/jupyter.md). Nothing that is imported here imports a GPU
library, Jupyter or httpx: kernels may have none of them. The parts for the Jupyter server are `provisioner`, `daemon` and
`serverextension`.
"""

from infinijup.forking import BranchError, fork, gather
from infinijup.moments import RolledBack, Snapshot, attempt, snapshot
from infinijup.quiescing import (
    QuiesceError,
    ResumeError,
    on_quiesce,
    on_resume,
    quiesce,
    quiesced,
    register,
    resume,
    uninterrupted,
)
from infinijup.server import listen

__version__ = "0.1.0"
__all__ = [
    "BranchError",
    "QuiesceError",
    "ResumeError",
    "RolledBack",
    "Snapshot",
    "attempt",
    "fork",
    "gather",
    "listen",
    "on_quiesce",
    "on_resume",
    "quiesce",
    "quiesced",
    "register",
    "resume",
    "snapshot",
    "uninterrupted",
]


def load_ipython_extension(shell):
    """`%load_ext infinijup` in a notebook: the magic, and snapshots with `--quiesce …/infinijup-quiesce` find this kernel."""
    from infinijup import magic

    listen()
    magic.load(shell)


def unload_ipython_extension(shell):
    """`%unload_ext infinijup`: without the magic again."""
    from infinijup import magic

    magic.unload(shell)


def _jupyter_server_extension_points():
    from infinijup.serverextension.app import InfinijupExtension

    return [{"module": "infinijup.serverextension.app", "app": InfinijupExtension}]


def _jupyter_labextension_paths():
    return [{"src": "labextension", "dest": "infinijup"}]
