"""Who may ask. The routes are those of the extension's own table: a new one is tested without being named here."""

import json
import re
import subprocess
import sys
import warnings

import pytest
from jupyter_server.auth.authorizer import Authorizer
from jupyter_server.utils import JupyterServerAuthWarning
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from infinijup.serverextension.handlers import ROUTES

pytestmark = pytest.mark.timeout(240)
VERBS = ("get", "post", "put", "patch", "delete")


def concrete(pattern):
    """A path that the pattern matches."""
    return re.sub(r"\(\?P<kernel_id>[^)]*\)", "1-2-3-4-5", re.sub(r"\(\?P<(name|session_id)>[^)]*\)", "x", pattern))


def verbs(handler):
    """Those that the handler itself has."""
    return [verb for verb in VERBS if any(verb in vars(base) for base in handler.__mro__ if base.__module__.startswith("infinijup."))]


EVERYTHING = [(verb.upper(), concrete(pattern), handler) for pattern, handler in ROUTES for verb in verbs(handler)]


class Allows(Authorizer):
    """Allows what a test says."""

    allowed: set = set()
    asked: list = []

    def is_authorized(self, handler, user, action, resource):
        self.asked.append((action, resource))
        return (action, resource) in self.allowed


@pytest.fixture
def jp_server_config(daemon, request):
    config = {"ServerApp": {"jpserver_extensions": {"infinijup": True}, "allow_unauthenticated_access": False}}
    if "authoriser" in request.fixturenames:
        config["ServerApp"]["authorizer_class"] = Allows
    return config


@pytest.fixture
def authoriser():
    Allows.allowed, Allows.asked = set(), []
    return Allows


@pytest.fixture
def plain(http_server_client, jp_base_url):
    """A request without any token."""

    async def ask(method, path, body=None, headers=None):
        return await http_server_client.fetch(
            f"{jp_base_url}{path}", method=method, headers=headers or {}, body=body, allow_nonstandard_methods=True, raise_error=False
        )

    return ask


def test_every_route_has_a_verb():
    assert len(EVERYTHING) >= len(ROUTES)
    assert {concrete(pattern) for pattern, _ in ROUTES} == {path for _, path, _ in EVERYTHING}


async def test_nothing_answers_without_a_token(extension, plain):
    for method, path, _ in EVERYTHING:
        answer = await plain(method, path, "{}" if method in ("POST", "PUT", "PATCH") else None)
        assert answer.code == 403, (method, path, answer.code, answer.body)


async def test_the_authoriser_is_asked_everywhere(authoriser, extension, jp_fetch):
    for method, path, _ in EVERYTHING:
        body = "{}" if method in ("POST", "PUT", "PATCH") else None
        answer = await jp_fetch(*path.split("/"), method=method, body=body, raise_error=False, allow_nonstandard_methods=True)
        assert answer.code == 403, (method, path)
    assert {resource for _, resource in authoriser.asked} == {"infinijup"}


async def test_changes_also_need_execute_on_kernels(authoriser, extension, jp_fetch):
    authoriser.allowed = {("read", "infinijup"), ("write", "infinijup"), ("execute", "infinijup")}
    for method, path, _ in EVERYTHING:
        body = "{}" if method in ("POST", "PUT", "PATCH") else None
        answer = await jp_fetch(*path.split("/"), method=method, body=body, raise_error=False, allow_nonstandard_methods=True)
        assert (answer.code == 403) == (method != "GET"), (method, path, answer.code)


async def test_a_cookie_alone_cannot_change_anything(extension, jp_serverapp, plain):
    """Cross-site requests carry cookies, but not the token of Jupyter's forms."""
    token = jp_serverapp.identity_provider.token
    for method, path, _ in EVERYTHING:
        if method == "GET":
            continue
        login = await plain("GET", f"tree?token={token}")
        cookies = "; ".join(cookie.split(";")[0] for cookie in login.headers.get_list("Set-Cookie") if not cookie.startswith("_xsrf"))
        assert cookies
        answer = await plain(method, path, "{}" if method in ("POST", "PUT", "PATCH") else None, {"Cookie": cookies})
        assert answer.code == 403 and b"xsrf" in answer.body.lower(), (method, path, answer.code, answer.body)


@pytest.mark.parametrize(("origin", "code"), [(None, None), ("http://evil.example", 403)])
async def test_the_origin_of_the_stream(extension, http_server_port, jp_serverapp, plain, jp_base_url, origin, code):
    """A page of another site has the cookie, too. A token in the header is no page's, and may come from anywhere, as in Jupyter."""
    login = await plain("GET", f"tree?token={jp_serverapp.identity_provider.token}")
    cookies = "; ".join(cookie.split(";")[0] for cookie in login.headers.get_list("Set-Cookie"))
    url = f"ws://127.0.0.1:{http_server_port[-1]}{jp_base_url}infinijup/events"
    request = HTTPRequest(url, headers={"Cookie": cookies, **({"Origin": origin} if origin else {})})
    if code:
        with pytest.raises(HTTPClientError) as refused:
            await websocket_connect(request)
        assert refused.value.code == code
    else:
        stream = await websocket_connect(request)
        assert json.loads(await stream.read_message())["type"] == "hello"
        stream.close()


async def test_the_stream_needs_a_token_and_execute(authoriser, extension, http_server, http_server_port, jp_base_url, jp_auth_header):
    url = f"ws://127.0.0.1:{http_server_port[-1]}{jp_base_url}infinijup/events"
    for headers, allowed in (({}, {("execute", "infinijup")}), (jp_auth_header, {("read", "infinijup")})):
        authoriser.allowed = allowed
        with pytest.raises(HTTPClientError) as refused:
            await websocket_connect(HTTPRequest(url, headers=dict(headers)))
        assert refused.value.code == 403


def test_no_endpoint_of_ours_is_open(extension, jp_serverapp):
    """What jupyter_server itself checks when it adds handlers, with `allow_unauthenticated_access=False`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", JupyterServerAuthWarning)
        jp_serverapp.web_app.add_handlers(".*$", [(f"/again/{pattern}", handler) for pattern, handler in ROUTES])


def test_kernels_do_not_import_the_server():
    code = "import sys, infinijup; print([name for name in ('jupyter_server', 'tornado', 'httpx', 'traitlets') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
