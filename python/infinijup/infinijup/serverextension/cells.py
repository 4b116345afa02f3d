"""What changed between two documents, cell by cell.

Cells are matched by id where both documents have ids, which notebooks have since format 4.5; otherwise by the order of their sources.
Outputs and execution counts are no change: what is compared is what the user wrote.
"""

import difflib
from typing import Any


def diff(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, list[Any]] | None:
    """Cells that were added, removed and changed; None if one of the documents is not known."""
    if before is None or after is None:
        return None
    old, new = _cells(before), _cells(after)
    if all(cell["id"] for cell in [*old, *new]):
        return _by_id(old, new)
    return _by_order(old, new)


def _cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    cells = document.get("cells")
    cells = cells if isinstance(cells, list) else []
    return [_cell(cell, index) for index, cell in enumerate(cells) if isinstance(cell, dict)]


def _cell(cell: dict[str, Any], index: int) -> dict[str, Any]:
    source = cell.get("source", "")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return {"id": cell.get("id"), "index": index, "type": cell.get("cell_type", "code"), "source": text}


def _by_id(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> dict[str, list[Any]]:
    was, now = {cell["id"]: cell for cell in old}, {cell["id"]: cell for cell in new}
    both = [(was[identity], cell) for identity, cell in now.items() if identity in was]
    return {
        "added": [cell for cell in new if cell["id"] not in was],
        "removed": [cell for cell in old if cell["id"] not in now],
        "changed": [{"before": a, "after": b} for a, b in both if (a["source"], a["type"]) != (b["source"], b["type"])],
    }


def _by_order(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {"added": [], "removed": [], "changed": []}
    matcher = difflib.SequenceMatcher(
        None, [(c["type"], c["source"]) for c in old], [(c["type"], c["source"]) for c in new], autojunk=False
    )
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        pairs = min(b - a, d - c)
        result["changed"] += [{"before": old[a + n], "after": new[c + n]} for n in range(pairs)]
        result["removed"] += old[a + pairs : b]
        result["added"] += new[c + pairs : d]
    return result
