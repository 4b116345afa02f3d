"""The servers that a kernel runs: a dashboard, an application that a cell has started."""

from typing import Any

from infinijup.daemon import target
from infinijup.serverextension.handlers.base import Handler, answers

PROXY = "jupyter_server_proxy"


class ServersHandler(Handler):
    """Which there are, and whether this server leads to them at `<base_url>/proxy/PORT/`."""

    _track_activity = False

    @answers
    async def get(self, session_id: str) -> dict[str, Any]:
        answer = await self.daemon.get(target("sessions", session_id, "servers"))
        return {"servers": answer["servers"], "proxied": self._proxied()}

    def _proxied(self) -> bool:
        extension = self.serverapp.extension_manager.extensions.get(PROXY)
        return extension is not None and extension.enabled
