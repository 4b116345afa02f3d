"""A branch, as a notebook: a copy of the document beside the original, on a kernel that goes on from the snapshot."""

import json
import os
import uuid
from typing import Any

from jupyter_core.utils import ensure_async

from infinijup import names
from infinijup.daemon import DaemonError, target, to_wire
from infinijup.serverextension import refusal
from infinijup.serverextension.folders import FOLDER
from infinijup.serverextension.hub import KERNEL_ID, KERNEL_NAME, PATH, Hub
from infinijup.serverextension.keeper import NAME, ROOT, SESSION_ID, TYPE, Keeper

_TRIES = 1000


async def branch(hub: Hub, keeper: Keeper, asked: dict[str, Any]) -> dict[str, Any]:
    """Makes one of the kernel `asked` names; `notebook` is the document as the page has it now."""
    original = hub.session_id(asked["kernel_id"])
    hub.branching.append(original)
    try:
        # From now, the page knows its document better than the file does; from a snapshot, that has its own.
        page = asked.get("notebook") if asked.get("from") is None else None
        request = {name: asked[name] for name in ("from", "name") if asked.get(name) is not None}
        if page is not None:
            request["notebook"] = json.dumps(page, ensure_ascii=False)
        made = (await hub.post(target("sessions", original, "branch"), request))["branches"][0]
        return await _open(hub, keeper, await hub.get(original), made["session"], made["commit"], page, made.get("warnings", []))
    finally:
        hub.branching.remove(original)


async def open_new(hub: Hub, keeper: Keeper, original: str) -> None:
    """Opens the branches of a kernel that somebody else made: the magic, or the command."""
    if original in hub.branching or hub.kernel_of(original) is None:
        return
    await hub.refresh_all()
    for view in list(hub.views.values()):
        parent = view.get("parent") or {}
        # Those of `infinijup.fork` run one cell, and nobody looks at them.
        is_new = view["state"] == "running" and not (view.get("labels") or {}).get(KERNEL_ID) and not names.is_of_a_fork(view["name"])
        if parent.get("session") == original and is_new:
            opened = await _open(hub, keeper, hub.views[original], view, parent["commit"], None, [])
            hub.news.tell({"type": "branched", "kernel_id": hub.kernel_of(original), "branch": opened})


async def _open(
    hub: Hub, keeper: Keeper, original: dict[str, Any], made: dict[str, Any], commit: str, page: dict[str, Any] | None, warnings: list[str]
) -> dict[str, Any]:
    """A document, a kernel and a Jupyter session for a session that was branched off."""
    labels, warnings = original.get("labels") or {}, list(warnings)
    path = await _copy(hub, keeper, labels.get(PATH), commit, page, warnings)
    kernel_id, session_id = str(uuid.uuid4()), keeper.sessions.new_session_id()
    kernel_name = labels.get(KERNEL_NAME) or (original.get("kernel") or {}).get("kernel_name") or "python3"
    own = {KERNEL_ID: kernel_id, KERNEL_NAME: kernel_name, ROOT: keeper.root, "jupyter.provisioned": "1"}
    own |= {PATH: path, NAME: os.path.basename(path), TYPE: labels.get(TYPE) or "notebook", SESSION_ID: session_id}
    folder = keeper.folders.link(path, made)
    if folder:
        own[FOLDER] = folder
    change: dict[str, Any] = {"labels": own}
    if document := keeper.document(path):
        change["notebook"] = to_wire(document)
    hub.keep(await hub.daemon.patch(target("sessions", made["id"]), change))
    await keeper.start_kernel(kernel_id, kernel_name, path)
    await keeper.save_session(session_id, path, own[NAME], own[TYPE], kernel_id)
    hub.news.tell({"type": "history", "kernel_id": hub.kernel_of(original["id"])})
    answer = {"kernel_id": kernel_id, "kernel_name": kernel_name, "session_id": session_id, "path": path}
    return {**answer, "folder": folder, "session": hub.shown(await hub.get(made["id"])), "warnings": warnings}


async def document_of(hub: Hub, commit: str) -> dict[str, Any]:
    """The document that went with a snapshot."""
    raw = await hub.daemon.read(target("commits", commit, "notebook"))
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise refusal.not_found("the document of this snapshot is not a notebook")
    return document


async def _copy(hub: Hub, keeper: Keeper, path: str | None, commit: str, page: dict[str, Any] | None, warnings: list[str]) -> str:
    """Writes the copy and returns its path."""
    document = page
    if document is None:
        try:
            document = await document_of(hub, commit)
        except DaemonError as error:
            warnings.append(f"the copy has the document as it is now: {error.message}")
    if document is None and path:
        document = (await ensure_async(keeper.contents.get(path, content=True, type="notebook")))["content"]
    if document is None:
        document = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    to = await _free_path(keeper, path or "Untitled.ipynb")
    await ensure_async(keeper.contents.save({"type": "notebook", "format": "json", "content": document}, to))
    return to


async def _free_path(keeper: Keeper, path: str) -> str:
    """`name (branch).ipynb`, `name (branch 2).ipynb` … A branch of a branch is no `(branch) (branch)`."""
    stem, extension = os.path.splitext(path)
    base, _, rest = stem.rpartition(" (branch")
    if base and rest.endswith(")") and rest[:-1].strip().isdigit() | (rest == ")"):
        stem = base
    for number in range(1, _TRIES):
        candidate = f"{stem} (branch{'' if number == 1 else f' {number}'}){extension or '.ipynb'}"
        if not await ensure_async(keeper.contents.exists(candidate)):
            return candidate
    raise refusal.bad_request(f"there are {_TRIES} branches beside {path}")
