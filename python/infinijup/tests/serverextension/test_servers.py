"""The servers of a kernel, and whether the page can be led to them."""

import types

import pytest

pytestmark = pytest.mark.timeout(240)


async def test_servers_are_passed_on_with_the_way_to_them(notebook, rest, jp_serverapp):
    kernel = (await notebook())["kernel"]["id"]
    session = (await rest("GET", f"kernels/{kernel}"))[1]["session"]["id"]
    known = jp_serverapp.extension_manager.extensions
    known.pop("jupyter_server_proxy", None)
    servers = [{"port": 8050, "outside_port": 40123}]
    assert await rest("GET", f"sessions/{session}/servers") == (200, {"servers": servers, "proxied": False})
    for enabled in (True, False):
        known["jupyter_server_proxy"] = types.SimpleNamespace(enabled=enabled)
        answer = await rest("GET", f"sessions/{session}/servers")
        del known["jupyter_server_proxy"]
        assert answer[1]["proxied"] is enabled
    assert (await rest("GET", "sessions/nobody/servers"))[0] == 404
