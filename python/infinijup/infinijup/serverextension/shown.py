"""What the cells of a notebook show that is not in its file yet.

A page keeps what it shows to itself until it is saved, by its user or every two minutes. A snapshot that a user asks for comes with the
page's document. One that is taken by itself comes without: the page is not asked, and the file may be as old as that. But everything that
a cell shows comes through this server. So it is taken down here, by cell, and put over the saved document when a snapshot is taken: what is
then in the history is what the page showed.

Only cells that have run since the file was saved count. A cell that the file does not have yet goes behind the one that ran before it.
Files without ids for their cells (before format 4.5) are left as they are, and so is what a cell shows if that is very large.
"""

import json
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from nbformat.v4 import output_from_msg

# Of one cell. More is not taken down, and the cell stays as it was saved.
LARGEST = 2 << 20
# A larger file would take too long between two cells.
LARGEST_FILE = 4 << 20
KINDS = frozenset({"stream", "display_data", "execute_result", "error", "execute_input", "update_display_data", "clear_output"})
_COMMITS = 256


@dataclass
class Run:
    """A cell that ran, and what it has shown."""

    source: str
    began: float
    changed: float
    number: int | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)
    # Which output has which `display_id`, for what changes it later.
    displays: dict[int, str] = field(default_factory=dict)
    bytes: int = 0
    clear_first: bool = False

    def show(self, output: dict[str, Any], display: str | None) -> None:
        """One more."""
        if self.clear_first:
            self.clear()
        last = self.outputs[-1] if self.outputs else {}
        if output["output_type"] == "stream" and (last.get("output_type"), last.get("name")) == ("stream", output["name"]):
            last["text"].append(output["text"])
            return
        if output["output_type"] == "stream":
            output = {**output, "text": [output["text"]]}
        elif display is not None:
            self.displays[len(self.outputs)] = display
        self.outputs.append(output)

    def clear(self) -> None:
        """All of it goes."""
        self.outputs, self.displays, self.clear_first = [], {}, False

    def copy(self) -> "Run":
        """As it is now. All copies share their texts: there is one for each snapshot."""
        for one in self.outputs:
            if one["output_type"] == "stream":
                one["text"] = ["".join(one["text"])]
        outputs = [{**one, "text": list(one["text"])} if one["output_type"] == "stream" else one for one in self.outputs]
        return replace(self, outputs=outputs, displays=dict(self.displays))

    def over(self, cell: dict[str, Any]) -> dict[str, Any]:
        """The cell with what it shows."""
        outputs = [{**one, "text": "".join(one["text"])} if one["output_type"] == "stream" else one for one in self.outputs]
        return {**cell, "source": self.source, "execution_count": self.number, "outputs": outputs}


Runs = dict[str, Run]


class Shown:
    """What the cells of one kernel's notebook show; by cell, in the order in which they ran."""

    def __init__(self) -> None:
        self._runs: Runs = {}
        self._at: OrderedDict[str, Runs] = OrderedDict()

    # What happens in the page.

    def began(self, cell: str | None, source: str) -> None:
        """A cell is sent to the kernel."""
        if cell is not None:
            self._runs.pop(cell, None)
            self._runs[cell] = Run(source, time.time(), time.time())

    def heard(self, cell: str | None, kind: str, content: bytes) -> None:
        """The kernel says something about a cell."""
        run = self._runs.get(cell or "")
        if run is None or kind not in KINDS:
            return
        run.changed, run.bytes = time.time(), run.bytes + len(content)
        if run.bytes > LARGEST:
            del self._runs[cell or ""]
            return
        said = json.loads(bytes(content))
        if kind == "execute_input":
            run.number = said.get("execution_count")
        elif kind == "clear_output":
            run.clear_first = True
            if not said.get("wait"):
                run.clear()
        elif kind == "update_display_data":
            self._update(said)
        else:
            run.show(_output(kind, said), (said.get("transient") or {}).get("display_id"))

    def _update(self, said: dict[str, Any]) -> None:
        display = (said.get("transient") or {}).get("display_id")
        for run in self._runs.values():
            for index, known in run.displays.items():
                if known == display:
                    run.outputs[index] = {**run.outputs[index], "data": said.get("data", {}), "metadata": said.get("metadata", {})}
                    run.changed = time.time()

    # What snapshots want.

    def now(self, until: float | None = None) -> Runs:
        """As it is; only what had begun then."""
        return {cell: run.copy() for cell, run in self._runs.items() if until is None or run.began <= until}

    def taken(self, commit: str, runs: Runs) -> None:
        """A snapshot was taken when this was shown."""
        self._at[commit] = runs
        while len(self._at) > _COMMITS:
            self._at.popitem(last=False)

    def is_known(self, commit: str) -> bool:
        """Whether it is known what was shown when a snapshot was taken."""
        return commit in self._at

    def gone_back(self, commit: str | None) -> None:
        """The kernel is back at a snapshot; so is what the history will say that its cells show."""
        self._runs = {cell: run.copy() for cell, run in self._at.get(commit or "", {}).items()}


def document(path: str, runs: Runs) -> str | None:
    """The notebook in a file with what its cells show beyond that; None if the file says it all, or cannot be used."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > LARGEST_FILE:
                return None
            saved = json.loads(file.read(LARGEST_FILE + 1))
    except (OSError, ValueError):
        return None
    later = {cell: run for cell, run in runs.items() if run.changed > status.st_mtime}
    cells = saved.get("cells") if isinstance(saved, dict) else None
    if not later or not isinstance(cells, list) or not all(isinstance(cell, dict) and isinstance(cell.get("id"), str) for cell in cells):
        return None
    return json.dumps({**saved, "cells": _over(cells, runs, later)}, ensure_ascii=False)


def _over(cells: list[dict[str, Any]], runs: Runs, later: Runs) -> list[dict[str, Any]]:
    put = [later[cell["id"]].over(cell) if cell["id"] in later and cell.get("cell_type") == "code" else cell for cell in cells]
    behind = None
    for identity in runs:
        places = {cell["id"]: place for place, cell in enumerate(put)}
        if identity in later and identity not in places:
            new = later[identity].over({"cell_type": "code", "id": identity, "metadata": {}})
            put.insert(places.get(behind, len(put) - 1) + 1, new)
        behind = identity
    return put


def _output(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return dict(output_from_msg({"header": {"msg_type": kind}, "content": content}))
