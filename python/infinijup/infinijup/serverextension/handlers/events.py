"""The stream of events, for those who can keep one open and for those who cannot."""

import json
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from infinijup.serverextension.handlers.base import RESOURCE


class EventsHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """`events` as a websocket, and `events?since=N` without one."""

    auth_resource = RESOURCE
    # Asking for news is no sign that somebody works here.
    _track_activity = False
    _unlisten = None

    def set_default_headers(self) -> None:
        """Those of JupyterHandler are for pages."""

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """As Jupyter's own kernel channels: origin, token, then `execute`; looking needs `read`."""
        upgrades = self.request.headers.get("Upgrade", "").lower() == "websocket"
        action = "execute" if upgrades else "read"
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, action, RESOURCE)):
            raise web.HTTPError(403)
        if upgrades:
            await super().get(*args, **kwargs)
            return
        try:
            since = int(self.get_query_argument("since", "0"))
        except ValueError as error:
            raise web.HTTPError(400, "`since` must be a number") from error
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(self.settings["infinijup_hub"].news.since(since)))

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begins with `hello`; its number is where polling could go on from."""
        super().open(*args, **kwargs)
        news = self.settings["infinijup_hub"].news
        self._write({"type": "hello", "n": news.last})
        self._unlisten = news.listen(self._write)

    def on_message(self, message: str | bytes) -> None:
        """Nothing is said in this direction."""

    def on_close(self) -> None:
        if self._unlisten is not None:
            self._unlisten()
        super().on_close()

    def _write(self, event: dict[str, Any]) -> None:
        try:
            self.write_message(json.dumps(event))
        except WebSocketClosedError:
            if self._unlisten is not None:
                self._unlisten()
