"""Files: those of a session that would be lost with it, and those of a snapshot."""

import os
from typing import Any

from infinijup.daemon import from_wire, target, to_wire
from infinijup.serverextension import refusal
from infinijup.serverextension.folders import FOLDER
from infinijup.serverextension.handlers.base import Handler, answers, changes


class SessionFilesHandler(Handler):
    """Where a session's files are, and which of a branch's are in no snapshot."""

    @answers
    async def get(self, session_id: str) -> dict[str, Any]:
        files = await self.daemon.get(target("sessions", session_id, "files"))
        view = self.hub.views.get(session_id) or await self.hub.get(session_id)
        return {**files, "folder": (view.get("labels") or {}).get(FOLDER)}


class FileTextHandler(Handler):
    """The text of one file of a snapshot. The daemon looks it up in what it has stored, and opens nothing."""

    @answers
    async def get(self) -> Any:
        # A name may begin or end with a space.
        path = self.get_query_argument("path", "", strip=False)
        return await self.daemon.get(target("commits", self.query("commit"), "file", path=path))


class SnapshotFilesHandler(Handler):
    """The files of a snapshot: what there is, and copies of them in a folder of the user's."""

    @answers
    async def get(self) -> Any:
        return await self.daemon.get(target("commits", self.query("commit"), "files", limit=self.get_query_argument("limit", None)))

    @changes
    async def post(self) -> dict[str, Any]:
        body = self.body("commit", "folder")
        paths = body.get("paths") or []
        if not isinstance(paths, list):
            raise refusal.bad_request("`paths` must be a list")
        contents = self.extension.keeper.contents
        if not hasattr(contents, "_get_os_path"):
            raise refusal.bad_request("this server keeps no files on this machine to copy to")
        # The contents manager refuses what is outside of its directory.
        directory = contents._get_os_path(body["folder"])
        if not os.path.isdir(directory):
            raise refusal.bad_request(f"there is no folder `{body['folder']}`")
        done = await self.daemon.post(target("commits", body["commit"], "files"), {"to": to_wire(directory), "paths": paths})
        root = contents._get_os_path("")
        return {
            "written": [os.path.relpath(from_wire(file["to"]), root) for file in done["written"]],
            "skipped": [{"path": from_wire(file["path"]), "reason": file["reason"]} for file in done["skipped"]],
        }
