"""A Jupyter server with the extension, in front of a daemon that the tests made up."""

import asyncio
import importlib.util
import json
import sys

import pytest

if importlib.util.find_spec("pytest_jupyter") is None or importlib.util.find_spec("jupyter_server") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from fake_daemon import FakeDaemon
    from jupyter_client.provisioning import KernelProvisionerFactory
    from jupyter_page import Page
    from pytest_jupyter.jupyter_server import *  # noqa: F403

    @pytest.fixture
    def daemon(jp_asyncio_loop, tmp_path_factory, monkeypatch):
        """In the same event loop as the server."""
        daemon = FakeDaemon(tmp_path_factory.mktemp("d"))
        monkeypatch.setenv("INFINIJUP_SOCKET", str(daemon.socket))
        monkeypatch.delenv("INFINIJUP_REDIS", raising=False)
        jp_asyncio_loop.run_until_complete(daemon.start())
        yield daemon
        jp_asyncio_loop.run_until_complete(daemon.close())

    @pytest.fixture
    def jp_server_config(daemon):
        return {
            "ServerApp": {"jpserver_extensions": {"infinijup": True}, "allow_unauthenticated_access": False},
            "MappingKernelManager": {"kernel_info_timeout": 60},
        }

    @pytest.fixture
    def kernelspec(jp_environ, jp_data_dir):
        """`python3`, whatever the machine has."""
        spec = jp_data_dir / "kernels" / "python3"
        spec.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (spec / "kernel.json").write_text(json.dumps({"argv": words, "display_name": "Python 3", "language": "python"}))

    @pytest.fixture
    def extension(jp_serverapp, kernelspec, jp_asyncio_loop):
        """The extension, started as a server starts it."""
        (app,) = jp_serverapp.extension_manager.extension_apps["infinijup"]
        jp_asyncio_loop.run_until_complete(app._start_jupyter_server_extension(jp_serverapp))
        yield app
        jp_asyncio_loop.run_until_complete(app.stop_extension())
        jp_asyncio_loop.run_until_complete(jp_serverapp.kernel_manager.shutdown_all(now=True))
        # There is one in a process, and the extension has made every kernel ours in it: later tests want plain ones.
        KernelProvisionerFactory.clear_instance()

    @pytest.fixture
    def rest(jp_fetch):
        """`await rest("POST", "snapshot", {…})`: status and answer."""

        async def ask(method, path, body=None, /, **params):
            answer = await jp_fetch(
                *f"infinijup/{path}".split("/"),
                method=method,
                params=params,
                body=None if body is None else json.dumps(body),
                allow_nonstandard_methods=True,
                raise_error=False,
                request_timeout=90,
            )
            return answer.code, json.loads(answer.body) if answer.body else None

        return ask

    @pytest.fixture
    def notebook(jp_root_dir, extension, jp_fetch):
        """A notebook with a kernel: its Jupyter session."""

        async def start(name="a.ipynb"):
            cells = [{"cell_type": "code", "id": "c1", "source": "x = 1", "metadata": {}, "outputs": [], "execution_count": None}]
            document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            (jp_root_dir / name).write_text(json.dumps(document))
            model = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
            answer = await jp_fetch("api", "sessions", method="POST", body=json.dumps(model), request_timeout=90)
            return json.loads(answer.body)

        return start

    @pytest.fixture
    def page(jp_serverapp, http_server_port, jp_auth_header, jp_base_url, jp_asyncio_loop, extension):
        """Opens pages on kernels; they are closed in the end."""
        pages = []

        async def open_page(kernel_id, **more):
            url = f"ws://127.0.0.1:{http_server_port[-1]}{jp_base_url}api/kernels/{kernel_id}/channels"
            opened = await Page.open(url, jp_auth_header, **more)
            pages.append(opened)
            return opened

        yield open_page
        for opened in pages:
            opened.close()

    @pytest.fixture
    def until():
        """Waits for something to become true."""

        async def wait(what, condition, seconds=60.0):
            deadline = asyncio.get_running_loop().time() + seconds
            while not (value := condition()):
                assert asyncio.get_running_loop().time() < deadline, f"not in {seconds} s: {what}"
                await asyncio.sleep(0.01)
            return value

        return wait
