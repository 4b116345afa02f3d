"""Brings a Python process with GPU work to rest before infinijup snapshots it, and back to work afterwards.

Nothing here imports a GPU library: what is not loaded has nothing to bring to rest. See docs/quiesce.md.
"""

from infinijup.rest import (
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
    "QuiesceError",
    "ResumeError",
    "listen",
    "on_quiesce",
    "on_resume",
    "quiesce",
    "quiesced",
    "register",
    "resume",
    "uninterrupted",
]


def load_ipython_extension(_shell):
    """`%load_ext infinijup` in a notebook: snapshots with `--quiesce …/infinijup-quiesce` find this kernel."""
    listen()
