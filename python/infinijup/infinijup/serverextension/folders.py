"""A branch's files, where people look for them: a folder beside its notebook.

The files of a branch are a copy that the daemon keeps in a place of its own. In the notebook's directory a link leads there, so that
the file browser shows them, and they can be opened, downloaded and copied like any others. The link goes with the branch; what it leads
to is never removed here.
"""

import os
from typing import Any

from infinijup.daemon import from_wire
from infinijup.serverextension.hub import Hub

# In a session's labels: where the link is, for the contents manager.
FOLDER = "jupyter.files"


class Folders:
    """The links of one server."""

    def __init__(self, hub: Hub, contents: Any):
        self.hub = hub
        # Without files on this machine there is nothing to link beside.
        self._file = getattr(contents, "_get_os_path", None)
        hub.leaving.append(self.unlink)

    def link(self, path: str, view: dict[str, Any]) -> str | None:
        """Makes the link for the branch whose notebook is at `path`; where it is. None if there can be none, which nobody needs to hear."""
        workspace = view.get("workspace")
        if self._file is None or workspace is None:
            return None
        stem = os.path.splitext(path)[0]
        for number in range(1, 100):
            folder = f"{stem} files" if number == 1 else f"{stem} files {number}"
            try:
                os.symlink(from_wire(workspace), self._file(folder))
            except FileExistsError:
                continue
            except OSError as error:
                self.hub.log.info("infinijup: no link to the files of %s: %s", path, error)
                return None
            return folder
        return None

    def unlink(self, view: dict[str, Any]) -> None:
        """A branch is no more: its link goes, if it is still the link that was made."""
        folder, workspace = (view.get("labels") or {}).get(FOLDER), view.get("workspace")
        if not folder or workspace is None or self._file is None:
            return
        link = self._file(folder)
        try:
            if os.readlink(link) == from_wire(workspace):
                os.unlink(link)
        except OSError:
            # Somebody else has moved it or put something in its place.
            return
