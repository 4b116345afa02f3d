"""What all handlers have in common: who may ask, and how a refusal looks.

Everything needs Jupyter's own authentication, and its authoriser is asked about the resource `infinijup`. Whatever changes something
also needs `execute` on `kernels`: who may restore a kernel decides what it runs.
"""

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from infinijup.daemon import Daemon, DaemonError
from infinijup.serverextension import refusal
from infinijup.serverextension.hub import Hub

RESOURCE = "infinijup"
Method = Callable[..., Awaitable[Any]]


def answers(method: Method) -> Method:
    """A verb of a handler: authenticated, authorised, its result sent as JSON, its refusals in one form."""

    @functools.wraps(method)
    async def verb(self: "Handler", *args: Any, **kwargs: Any) -> None:
        try:
            result = await method(self, *args, **kwargs)
        except DaemonError as error:
            self.set_status(error.status if 400 <= error.status < 600 else 500)
            result = error.body
        self.finish(json.dumps(result))

    return web.authenticated(authorized(verb))


def changes(method: Method) -> Method:
    """A verb that changes something: `execute` on `kernels` as well."""

    @functools.wraps(method)
    async def guarded(self: "Handler", *args: Any, **kwargs: Any) -> Any:
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "execute", "kernels")):
            raise web.HTTPError(403, "this needs permission to execute kernels")
        await self.daemon.ensure()
        return await method(self, *args, **kwargs)

    return answers(guarded)


class Handler(APIHandler):
    """Of this extension."""

    auth_resource = RESOURCE

    @property
    def hub(self) -> Hub:
        """The server's."""
        return self.settings["infinijup_hub"]

    @property
    def daemon(self) -> Daemon:
        """The daemon's client."""
        return self.hub.daemon

    @property
    def extension(self) -> Any:
        """The extension itself."""
        return self.settings["infinijup"]

    def body(self, *needed: str) -> dict[str, Any]:
        """The request's object, which must have the fields that are `needed`, each a text."""
        body = self.get_json_body() or {}
        if not isinstance(body, dict):
            raise refusal.bad_request("the request must be an object")
        for name in needed:
            if not isinstance(body.get(name), str):
                raise refusal.bad_request(f"`{name}` is missing")
        return body

    def query(self, name: str) -> str:
        """An argument of the address that must be there."""
        value = self.get_query_argument(name, "")
        if not value:
            raise refusal.bad_request(f"`{name}` is missing")
        return value


def given(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """Those fields of a request that are there, to be passed on."""
    return {name: body[name] for name in names if body.get(name) is not None}


def as_text(document: Any) -> str:
    """A notebook as the daemon keeps it."""
    if not isinstance(document, dict):
        raise refusal.bad_request("`notebook` must be the document, an object")
    return json.dumps(document, ensure_ascii=False)
