"""What the daemon is asked for when Jupyter wants a kernel: its command, its environment, its labels.

Jupyter has worked out the command line and the environment by the time a provisioner is called. Three things about them do not fit a
kernel that will be stopped, copied and brought back, and are put right here:

* the connection file is the daemon's own, inside the session, so its place in the command is left open;
* `JPY_PARENT_PID` would make ipykernel end itself as soon as another process is its parent, which a restore brings about;
* IPython's history database is shared by all kernels of a user and never rolled back, so ipykernel is told to do without.
"""

import functools
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from infinijup import names
from infinijup.daemon import to_wire

PLACEHOLDER = "{connection_file}"
NO_HISTORY = "--HistoryManager.enabled=False"
MAGIC = "--IPKernelApp.extra_extensions=infinijup"
FLAG = "INFINIJUP_SESSION"

# With a number or the kernel's id behind it, it must still fit.
_LONGEST_NAME = 48
# As their packages name them.
_XEUS = r"xpython(_launcher)?|xcpp(\d\d)?|xsqlite|xsql|xr|xlua|xoctave|xrobot|xwren|xnelson|xhaskell|xfortran"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def open_placeholder(command: Iterable[str], connection_file: str) -> list[str]:
    """The command with the daemon's placeholder where Jupyter has put its own connection file."""
    return [word.replace(connection_file, PLACEHOLDER) for word in command]


def is_ipykernel(command: list[str]) -> bool:
    """Whether the command is ipykernel's: `python -m ipykernel_launcher` or `python -m ipykernel`."""
    return any(word in ("ipykernel_launcher", "ipykernel") or word.endswith("/ipykernel_launcher.py") for word in command)


def unfit(command: list[str]) -> str | None:
    """Why a kernel must not be a session, if so.

    After a dump, CRIU lets a `poll` that the freeze interrupted return EINTR, which POSIX allows at any time. Kernels made with xeus take
    that for the end of the world (xeus-python 0.19: `terminate called after throwing an instance of 'zmq::error_t'`), so the first snapshot
    of one, an automatic one perhaps, would be its death.
    """
    programs = {os.path.basename(command[0])} | {module for flag, module in zip(command, command[1:], strict=False) if flag == "-m"}
    if any(re.fullmatch(_XEUS, program) for program in programs):
        return "kernels made with xeus end when a snapshot is taken of them"
    return None


def prepared(command: list[str], env: Mapping[str, str]) -> list[str]:
    """The command as the session runs it."""
    if not is_ipykernel(command):
        return command
    more = []
    if not any(word.startswith("--HistoryManager.enabled") for word in command):
        more.append(NO_HISTORY)
    # The list on the command line replaces one from a configuration file, so it is only given if it helps. Behind a launcher of
    # somebody else's, such as nb_conda_kernels', it is anybody's guess which Python it will be.
    is_direct = command[1:2] == ["-m"] and is_ipykernel(command[2:3])
    if is_direct and not any("extra_extensions" in word for word in command) and has_package(command[0], env):
        more.append(MAGIC)
    return [*command, *more]


def has_package(python: str, env: Mapping[str, str]) -> bool:
    """Whether kernels of this Python can import us."""
    if python == sys.executable and env.get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
        return importlib.util.find_spec("infinijup") is not None
    return _can_import(python, env.get("PYTHONPATH", ""), env.get("PATH", ""))


@functools.lru_cache(maxsize=64)
def _can_import(python: str, python_path: str, path: str) -> bool:
    # Not isolated (-I), which would leave PYTHONPATH out; in a directory where nothing lies that could be imported by mistake.
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('infinijup.magic') is None)"
    try:
        env = {"PYTHONPATH": python_path, "PATH": path}
        done = subprocess.run([python, "-c", probe], env=env, cwd="/", capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def environment(env: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """The environment on the wire."""
    own = {**env, FLAG: name}
    own.pop("JPY_PARENT_PID", None)
    return [{"name": to_wire(key), "value": to_wire(value)} for key, value in own.items()]


def free_name(wish: str, taken: Iterable[str], kernel_id: str) -> str:
    """A name for people, unique among the user's sessions: that of the notebook, if it can be had."""
    stem = names.session_like(wish, _LONGEST_NAME) or "kernel"
    used = set(taken)
    candidates = (stem, *(f"{stem}-{number}" for number in range(2, 100)))
    return next((name for name in candidates if name not in used), f"{stem}-{kernel_id[:8]}")


def size(text: int | str | None) -> int | None:
    """`8G` in bytes."""
    if text is None or isinstance(text, int):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, flags=re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r} is not a size: say 8G, 512M or a number of bytes")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def files_wish(wish: str | dict[str, Any]) -> dict[str, Any]:
    """`workspace`, `open`, `tree` or `none`, or all of the daemon's policy."""
    if isinstance(wish, dict):
        return wish
    if wish not in ("workspace", "open", "tree", "none"):
        raise ValueError(f"files can be workspace, open, tree or none, not {wish!r}")
    return {"type": wish}


def gpus_wish(wish: str | list[str | int]) -> dict[str, Any]:
    """`all`, `none`, or indices and UUIDs as a list or with commas between them."""
    if wish in ("all", "none"):
        return {"type": wish}
    given = wish.split(",") if isinstance(wish, str) else wish
    return {"type": "list", "gpus": [str(gpu).strip() for gpu in given]}
