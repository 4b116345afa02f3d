"""`infinijup.fork` and `infinijup.gather`: live branches of this kernel that go on by themselves, and bring back what they found.

`fork` takes a snapshot and has branches made of it. Each wakes up waiting for that snapshot, hears the name of its session, and knows its
number by that. It executes the rest of the cell, with memory of its own and a copy of the workspace, and ends with it: no further
cell comes to it.

Results go by files. A branch sees the file systems of the machine as the original does, but for the workspace. So a directory outside of
that, made by the original and open to its user only, is the same for all of them. A result is there whole or not at all, as
`NUMBER.pickle`. A cell that fails, or ends without `gather`, leaves its error there. Whoever can write into that directory is the user
whose code is running here anyway, so pickle gives nobody more than they have.
"""

import contextlib
import os
import pickle
import shutil
import sys
import tempfile
import time
import traceback
import uuid
from dataclasses import dataclass, field
from typing import Any

from infinijup import asking, names

# Most branches of one fork, and bytes of one result.
MOST = 64
LARGEST = 1 << 30
_NAP = 0.05
_PLACES = ("/tmp", "/var/tmp")


class BranchError(Exception):
    """The code of a branch raised. `number` says which, `traceback` where; `results` has those of the others, by number."""

    def __init__(self, number: int, reason: str, trace: str, results: dict[int, Any]):
        super().__init__(f"branch {number}: {reason}")
        self.number, self.reason, self.traceback, self.results = number, reason, trace, results


class BranchDone(BaseException):
    """Ends the cell of a branch that has handed in its result."""

    def _render_traceback_(self) -> list[str]:
        return ["infinijup: this branch has handed in its result"]


@dataclass
class _Family:
    name: str
    place: str
    count: int
    # 0 for the original.
    number: int = 0
    branches: list[str] = field(default_factory=list)

    def path(self, number: int) -> str:
        return os.path.join(self.place, f"{number}.pickle")


_family: _Family | None = None


def fork(count: int, label: str | None = None) -> int:
    """Makes `count` live branches of this kernel. Returns 0 here, and 1 to `count` in the branches."""
    global _family
    if not 1 <= count <= MOST:
        raise ValueError(f"there can be 1 to {MOST} branches, not {count}")
    if _family is not None and _family.number:
        raise RuntimeError("a branch cannot fork again")
    line = asking.line()
    family = _new_family(count, line.ask("status", asking.SHORT))
    try:
        commit = line.ask_long("snapshot", label=label or f"fork into {count}")["commit"]
        # A branch asks for the snapshot again if it is told too late that it is one, and gets an answer.
        number = names.fork_number(line.ask("status", asking.SHORT)["name"], family.name)
        if number is not None:
            return _is_branch(family, number)
    except asking.Restored as restored:
        number = names.fork_number(restored.session or "", family.name)
        if number is not None:
            return _is_branch(family, number)
        # Somebody went back to here: the branches of then are not ours any more.
        family, commit = _new_family(count, line.ask("status", asking.SHORT)), restored.commit
    try:
        made = line.ask("branch", asking.LONG, **{"from": commit, "name": family.name, "count": count})
    except BaseException:
        shutil.rmtree(family.place, ignore_errors=True)
        raise
    family.branches = [branch["session"]["id"] for branch in made["branches"]]
    _family = family
    return 0


def gather(value: Any = None, timeout: float | None = None, keep: bool = False) -> list[Any]:
    """In a branch: hands in `value` and ends the cell. In the original: the values of all branches, in order.

    Waits for at most `timeout` seconds of running. The branches are removed then, unless `keep` is true.
    """
    global _family
    if _family is None:
        raise RuntimeError("there are no branches: `infinijup.fork` makes some")
    if _family.number:
        _hand_in(_family, value)
        raise BranchDone
    family = _family
    results, errors = _wait(family, timeout)
    _family = None
    shutil.rmtree(family.place, ignore_errors=True)
    if not keep:
        asking.line().ask("remove", asking.LONG, branches=family.branches)
    if errors:
        number = min(errors)
        raise BranchError(number, *errors[number], results)
    return [results[number] for number in range(1, family.count + 1)]


def _is_branch(family: _Family, number: int) -> int:
    global _family
    _family, family.number = family, number
    _tell_of_the_end(family)
    return number


def _new_family(count: int, view: dict[str, Any]) -> _Family:
    name = names.new_fork(uuid.uuid4().hex)
    workspace = view.get("workspace") or view["cwd"]
    return _Family(name, tempfile.mkdtemp(prefix=f"infinijup-{name}-", dir=_shared_place(workspace)), count)


def _shared_place(workspace: str | dict[str, str]) -> str:
    """A directory that branches do not get a copy of."""
    inside = os.path.realpath(os.fsdecode(bytes.fromhex(workspace["hex"])) if isinstance(workspace, dict) else workspace)
    for place in _PLACES:
        if os.path.commonpath([os.path.realpath(place), inside]) != inside and os.access(place, os.W_OK):
            return place
    raise RuntimeError(f"branches have a copy of {inside}, and there is no place outside of it for their results")


def _hand_in(family: _Family, value: Any) -> None:
    try:
        content = pickle.dumps((True, value), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - whatever an object does when it is pickled
        return _hand_in_error(family, f"its result cannot be pickled: {type(error).__name__}: {error}", "")
    if len(content) > LARGEST:
        return _hand_in_error(family, f"its result has {len(content)} bytes, and {LARGEST} are the most", "")
    return _write(family, content)


def _hand_in_error(family: _Family, reason: str, trace: str) -> None:
    _write(family, pickle.dumps((False, (reason, trace))))


def _write(family: _Family, content: bytes) -> None:
    path = family.path(family.number)
    with open(f"{path}.new", "wb") as file:
        file.write(content)
    os.replace(f"{path}.new", path)


def _tell_of_the_end(family: _Family) -> None:
    """When the cell of a branch ends and nothing was handed in, the original is told why."""
    shell = sys.modules["IPython"].get_ipython()

    def ended(result: Any = None) -> None:
        with contextlib.suppress(ValueError):
            shell.events.unregister("post_run_cell", ended)
        if os.path.exists(family.path(family.number)):
            return
        error = getattr(result, "error_in_exec", None)
        if error is None:
            return _hand_in_error(family, "its cell ended without `infinijup.gather`", "")
        trace = "".join(traceback.format_exception(error))
        return _hand_in_error(family, f"{type(error).__name__}: {error}", trace)

    shell.events.register("post_run_cell", ended)


def _wait(family: _Family, timeout: float | None) -> tuple[dict[int, Any], dict[int, tuple[str, str]]]:
    """What all branches have handed in. Naps are counted: time that this kernel spends on disk does not count."""
    naps = 0
    while missing := [number for number in range(1, family.count + 1) if not os.path.exists(family.path(number))]:
        if timeout is not None and naps * _NAP >= timeout:
            raise TimeoutError(f"no result of branch {', '.join(map(str, missing))} within {timeout:g} s; `infinijup.gather` waits again")
        time.sleep(_NAP)
        naps += 1
    results, errors = {}, {}
    for number in range(1, family.count + 1):
        with open(family.path(number), "rb") as file:
            is_value, content = pickle.load(file)
        (results if is_value else errors)[number] = content
    return results, errors
