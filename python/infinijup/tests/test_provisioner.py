"""Kernels under the provisioner, by way of the managers that a Jupyter server uses. The daemon is a fake; the kernels are real."""

import asyncio
import json
import os
import signal
import sys

import pytest

pytest.importorskip("httpx")
pytest.importorskip("ipykernel")
pytest.importorskip("jupyter_client")

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from tiny_daemon import FakeDaemon, Refusal

from infinijup.daemon import DaemonError
from infinijup.provisioner import NAME, InfinijupProvisioner

KERNEL_ID = "6d2f4a7e-0000-4000-8000-0123456789ab"
SPEC = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python", "language": "python"}


class EntryPoint:
    """As the installed package would have it."""

    name, value, group = NAME, "infinijup.provisioner:InfinijupProvisioner", KernelProvisionerFactory.GROUP_NAME

    @staticmethod
    def load():
        return InfinijupProvisioner


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    fake = FakeDaemon(tmp_path)
    monkeypatch.setenv("INFINIJUP_SOCKET", fake.socket)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    yield fake
    fake.close()


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A manager of kernels as a server has it, with a root directory and our provisioner for everything."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    write_spec(tmp_path, "py", SPEC)
    KernelProvisionerFactory.clear_instance()
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint
    factory.default_provisioner_name = NAME
    yield lambda: make_manager(tmp_path)
    KernelProvisionerFactory.clear_instance()


def make_manager(tmp_path):
    manager = AsyncMultiKernelManager()
    # As jupyter_server's has it.
    manager.root_dir = str(tmp_path)
    manager.kernel_spec_manager = KernelSpecManager(kernel_dirs=[str(tmp_path / "share/kernels")])
    return manager


def write_spec(tmp_path, name, spec):
    directory = tmp_path / "share/kernels" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(spec))


async def start(manager, **options):
    options = {"kernel_name": "py", "kernel_id": KERNEL_ID, **options}
    await manager.start_kernel(**options)
    kernel = manager.get_kernel(options["kernel_id"])
    return kernel, kernel.provisioner


async def value(kernel, expression, seconds=30):
    client = kernel.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=seconds)
        reply = await client.execute_interactive("", user_expressions={"v": expression}, timeout=seconds, output_hook=lambda _: None)
        return reply["content"]["user_expressions"]["v"]["data"]["text/plain"]
    finally:
        client.stop_channels()


async def until_not_none(ask, seconds=30):
    async with asyncio.timeout(seconds):
        while (found := await ask()) is None:
            await asyncio.sleep(0.05)
        return found


def test_a_kernel_is_a_session_with_its_labels_and_document(daemon, kernels, tmp_path):
    async def story():
        (tmp_path / "work").mkdir()
        notebook = tmp_path / "work/My first study.ipynb"
        notebook.write_text("{}")
        env = {**os.environ, "JPY_SESSION_NAME": str(notebook), "JPY_PARENT_PID": "1"}
        manager = kernels()
        kernel, provisioner = await start(manager, env=env, cwd=str(tmp_path / "work"))
        view = daemon.sessions[provisioner.session_id]
        assert (view["name"], provisioner.state, provisioner.why_not) == ("My-first-study", "running", None)
        assert view["notebook"] == str(notebook)
        assert view["labels"] == {
            "jupyter.kernel_id": KERNEL_ID,
            "jupyter.kernel_name": "py",
            "jupyter.provisioned": "1",
            "jupyter.root": str(tmp_path),
            "jupyter.path": "work/My first study.ipynb",
        }
        assert await value(kernel, "__import__('os').getcwd()") == repr(str(tmp_path / "work"))
        assert await value(kernel, "__import__('os').environ.get('INFINIJUP_SESSION')") == "'My-first-study'"
        assert await value(kernel, "__import__('os').environ.get('JPY_PARENT_PID')") == "None"
        assert await value(kernel, "get_ipython().history_manager.enabled") == "False"
        assert kernel.connection_file != view["kernel"]["connection_file"]
        await manager.shutdown_all(now=True)
        assert view["state"] == "ended"

    asyncio.run(story())


def test_restart_keeps_the_session_and_its_ports(daemon, kernels):
    async def story():
        manager = kernels()
        kernel, provisioner = await start(manager)
        session, ports = provisioner.session_id, kernel.ports
        first = await value(kernel, "__import__('os').getpid()")
        await kernel.restart_kernel(now=False)
        assert (provisioner.session_id, kernel.ports) == (session, ports)
        assert await value(kernel, "__import__('os').getpid()") != first
        await kernel.restart_kernel(now=True)
        assert (provisioner.session_id, kernel.ports, len(daemon.sessions)) == (session, ports, 1)
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_a_crash_is_seen_and_the_session_goes_on(daemon, kernels):
    async def story():
        manager = kernels()
        kernel, provisioner = await start(manager)
        await value(kernel, "1")
        daemon.processes[provisioner.session_id].kill()
        assert await until_not_none(provisioner.poll) == 137
        # As the restarter does.
        await kernel.restart_kernel(now=True)
        assert await value(kernel, "2") == "2"
        assert len(daemon.sessions) == 1
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_nothing_but_an_end_is_an_end(daemon, kernels):
    async def story():
        manager = kernels()
        kernel, provisioner = await start(manager)
        await value(kernel, "1")
        view = daemon.sessions[provisioner.session_id]
        view["state"] = "suspended"
        assert await provisioner.poll() is None and await kernel.is_alive()
        view.update(state="ended", exit=0, operation="rollback")
        assert await provisioner.poll() is None
        view["operation"] = None
        provisioner.swapping = True
        assert await provisioner.poll() is None
        provisioner.swapping = False
        assert await provisioner.poll() == 0
        daemon.stop()
        assert await provisioner.poll() is None
        daemon.start()
        view.update(state="running", exit=None)
        assert await provisioner.poll() is None
        daemon.sessions.clear()
        assert await provisioner.poll() == 1 and provisioner.session_id is None
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_interrupts_go_through_the_daemon_and_wait_for_a_swap(daemon, kernels):
    async def story():
        manager = kernels()
        kernel, provisioner = await start(manager)
        client = kernel.client()
        client.start_channels()
        await client.wait_for_ready(30)
        asked = client.execute("import time\nwhile True: time.sleep(0.01)")
        while (await client.get_iopub_msg(timeout=30))["msg_type"] != "execute_input":
            pass
        busy = Refusal(409, "IJ-L013", "a rollback is under way", 11)
        daemon.refuse = {"POST .*/signal": busy}
        waiting = asyncio.create_task(kernel.interrupt_kernel())
        while not any("signal" in path for _, path, _ in daemon.asked):
            await asyncio.sleep(0.02)
        daemon.refuse = {}
        await waiting
        while (reply := await client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != asked:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        client.stop_channels()
        # To one that does not run it is no error.
        daemon.sessions[provisioner.session_id]["state"] = "suspended"
        await provisioner.send_signal(signal.SIGINT)
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_shutting_down_a_sleeping_kernel_leaves_it_asleep(daemon, kernels):
    async def story():
        manager = kernels()
        _, provisioner = await start(manager)
        view = daemon.sessions[provisioner.session_id]
        view["state"] = "suspended"
        async with asyncio.timeout(2):
            await manager.shutdown_kernel(KERNEL_ID)
        assert view["state"] == "suspended"

    asyncio.run(story())


def test_a_later_server_gets_the_kernel_as_it_is(daemon, kernels):
    async def story():
        manager = kernels()
        kernel, provisioner = await start(manager)
        process = daemon.processes[provisioner.session_id]
        provisioner.detach()
        await manager.shutdown_all()
        assert process.poll() is None
        later = kernels()
        kernel, found = await start(later)
        assert (found.session_id, daemon.processes[found.session_id]) == (provisioner.session_id, process)
        assert await value(kernel, "40 + 2") == "42"
        assert not any(path.endswith("restart?wait=true") for _, path, _ in daemon.asked)
        await later.shutdown_all(now=True)

    asyncio.run(story())


def test_a_notebook_goes_on_with_the_history_it_has(daemon, kernels, tmp_path):
    async def story():
        notebook = tmp_path / "study.ipynb"
        notebook.write_text("{}")
        env = {**os.environ, "JPY_SESSION_NAME": "study.ipynb"}
        manager = kernels()
        _, first = await start(manager, env=env)
        other = "11111111-0000-4000-8000-0123456789ab"
        # While somebody uses it, another kernel of the same document is another session.
        _, second = await start(manager, env=env, kernel_id=other)
        assert second.session_id != first.session_id
        await manager.shutdown_all(now=True)
        third = "22222222-0000-4000-8000-0123456789ab"
        _, later = await start(manager, env=env, kernel_id=third)
        assert later.session_id == second.session_id
        assert daemon.sessions[later.session_id]["labels"]["jupyter.kernel_id"] == third
        await manager.shutdown_all(now=True)
        daemon.refuse = {"POST .*/restart.*": Refusal(500, "IJ-L099", "it is broken")}
        _, fresh = await start(manager, env=env, kernel_id="33333333-0000-4000-8000-0123456789ab")
        assert fresh.session_id not in (first.session_id, second.session_id)
        assert "jupyter.kernel_id" not in daemon.sessions[later.session_id]["labels"]
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_a_name_that_somebody_took_meanwhile_is_no_obstacle(daemon, kernels):
    async def story():
        manager = kernels()
        first = Refusal(409, "IJ-L012", "the name is in use", 14)
        answer = daemon.answer

        def once(method, path, body):
            if method == "POST" and body["name"] == "py":
                raise first
            return answer(method, path, body)

        daemon.answer = once
        _, provisioner = await start(manager)
        assert daemon.sessions[provisioner.session_id]["name"] == f"py-{KERNEL_ID[:8]}"
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_without_a_daemon_kernels_start_as_ever_and_say_why(daemon, kernels):
    async def story():
        daemon.stop()
        manager = kernels()
        kernel, provisioner = await start(manager)
        assert provisioner.session_id is None and "infinijupd does not run" in provisioner.why_not
        assert await value(kernel, "40 + 2") == "42"
        assert await provisioner.poll() is None
        # It is back: the next life is a session.
        daemon.start()
        await kernel.restart_kernel(now=True)
        assert provisioner.session_id is not None and provisioner.why_not is None
        assert await value(kernel, "40 + 2") == "42"
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_a_start_that_fails_is_done_without_the_daemon(daemon, kernels):
    async def story():
        daemon.refuse = {"POST /v1/sessions.*": Refusal(500, "IJ-S001", "no namespaces here")}
        manager = kernels()
        kernel, provisioner = await start(manager)
        assert "no namespaces here" in provisioner.why_not and provisioner.why_not.endswith(". Do otherwise.")
        assert await value(kernel, "40 + 2") == "42"
        await manager.shutdown_all(now=True)

    asyncio.run(story())


def test_a_kernelspec_that_asks_for_us_is_never_started_otherwise(daemon, kernels, tmp_path):
    async def story():
        config = {"network": "host", "files": "tree", "gpus": "0, 1", "memory_limit": "2G"}
        metadata = {"kernel_provisioner": {"provisioner_name": NAME, "config": config}}
        write_spec(tmp_path, "ours", {**SPEC, "metadata": metadata})
        manager = kernels()
        await start(manager, kernel_name="ours")
        body = next(body for method, path, body in daemon.asked if method == "POST" and path == "/v1/sessions?wait=true")
        assert (body["network"], body["outside"], body["files"]) == ("host", False, {"type": "tree"})
        assert (body["gpus"], body["memory_limit"]) == ({"type": "list", "gpus": ["0", "1"]}, 2 << 30)
        await manager.shutdown_all(now=True)
        daemon.stop()
        with pytest.raises(RuntimeError, match="under infinijup: infinijupd does not run.*infinijup daemon start"):
            await start(kernels(), kernel_name="ours", kernel_id="44444444-0000-4000-8000-0123456789ab")

    asyncio.run(story())


def test_a_daemon_that_is_away_does_not_stand_in_the_way_of_shutting_down(daemon, kernels):
    async def story():
        manager = kernels()
        kernel, provisioner = await start(manager)
        await value(kernel, "1")
        daemon.stop()
        # The kernel hears the request to end by itself; that it has, nobody can tell.
        async with asyncio.timeout(30):
            await manager.shutdown_kernel(KERNEL_ID)
        assert not provisioner.has_process or provisioner.session_id

    asyncio.run(story())


def test_errors_keep_what_the_daemon_said():
    error = DaemonError.from_body(409, {"code": "IJ-L021", "message": "m", "hint": "h", "causes": ["c"], "exit": 11, "files": ["a"]})
    assert (error.code, error.status, error.body["files"], str(error)) == ("IJ-L021", 409, ["a"], "m: c [IJ-L021]. h")
    assert DaemonError.from_body(502, None).code == "bad-answer"
