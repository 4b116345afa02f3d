"""What a page shows, in a file, for snapshots that others take.

What is asked for here carries the document as the page shows it. A snapshot by the daemon's own schedule, or one that somebody asks for
in a terminal, does not come by here, and would have the notebook as it was saved last. So there is a draft of each notebook: the saved
file and over it what its cells show (see `shown`), written a moment after a cell has shown something. The daemon knows where it is, and
takes it for as long as it is newer than the notebook.

Writing it takes time that kernels' messages could have had: a twentieth of the time at most.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from infinijup.daemon import to_wire

if TYPE_CHECKING:
    from infinijup.serverextension.desk import Desk
    from infinijup.serverextension.hub import Hub

SOON = 0.5
SHARE = 20


class Draft:
    """That of one kernel's notebook."""

    def __init__(self, hub: "Hub", desk: "Desk"):
        self.hub, self.desk = hub, desk
        self._took = 0.0
        self._task: asyncio.Task[None] | None = None
        self._known: str | None = None

    def wanted(self) -> None:
        """A cell has shown something."""
        if self._task is None and self.hub.drafts is not None and self.hub.is_session(self.desk.kernel_id):
            self._task = self.hub.spawn(self._write_soon())

    def outdated(self) -> None:
        """The kernel is another one: what was shown is not so any more."""
        if self.hub.drafts is not None and self.hub.is_session(self.desk.kernel_id):
            self._file().unlink(missing_ok=True)

    async def _write_soon(self) -> None:
        await asyncio.sleep(max(SOON, SHARE * self._took))
        # What is shown from now on is for the next one.
        self._task = None
        if self.desk.swapping or self.desk.asleep or not self.hub.is_session(self.desk.kernel_id):
            return
        began = time.monotonic()
        content = await self.hub.document_shown(self.desk.kernel_id)
        if content is not None:
            file = self._file()
            await asyncio.to_thread(_write, file, content)
            await self._tell(str(file))
        self._took = time.monotonic() - began

    async def _tell(self, file: str) -> None:
        if self._known != file:
            self._known = file
            await self.hub.patch(self.hub.session_id(self.desk.kernel_id), {"shown": to_wire(file)})

    def _file(self) -> Path:
        return self.hub.drafts / f"{self.hub.session_id(self.desk.kernel_id)}.ipynb"


def sweep(drafts: Path, sessions: set[str]) -> None:
    """Removes those of sessions that are no more."""
    for file in drafts.glob("*.ipynb"):
        if file.stem not in sessions:
            file.unlink(missing_ok=True)


def _write(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_suffix(".new")
    new.write_text(content)
    new.chmod(0o600)
    os.replace(new, file)
