"""CRIU for infinijup, with the libraries that it needs. `path()` says where it is; `infinijup-criu` runs it."""

from importlib.metadata import distribution
from pathlib import Path

__all__ = ["path"]

PROGRAM = "infinijup-criu"


def path() -> Path:
    """The program to start, as `criu` is started. It was installed with this module, which need not be beside it."""
    for file in distribution("infinijup-criu").files or ():
        if file.name == PROGRAM:
            return Path(file.locate()).resolve()
    raise FileNotFoundError(f"{PROGRAM} is not among the installed files; install infinijup-criu again")
