"""Kernels that outlive the server, renames, culling."""

import asyncio
import json

import pytest

pytestmark = pytest.mark.timeout(240)


async def reborn(extension, serverapp):
    """The same server, as it finds things when it is started again: no kernels, no sessions."""
    manager = serverapp.kernel_manager
    for kernel in list(extension.hub.kernels()):
        await extension.keeper._detach(kernel)
    serverapp.session_manager.cursor.execute("DELETE FROM session")
    extension.hub.views.clear()
    extension.hub.desks.clear()
    assert manager.list_kernel_ids() == []


async def test_kernels_and_sessions_come_back_under_their_ids(notebook, page, extension, jp_serverapp, jp_fetch, daemon):
    model = await notebook()
    opened = await page(model["kernel"]["id"])
    await opened.run("kept = 41")
    opened.close()
    await reborn(extension, jp_serverapp)
    assert await extension.keeper.adopt_all() == 1
    (session,) = json.loads((await jp_fetch("api", "sessions")).body)
    assert (session["id"], session["path"], session["kernel"]["id"]) == (model["id"], model["path"], model["kernel"]["id"])
    assert session["kernel"]["execution_state"] == "idle"
    again = await page(model["kernel"]["id"], session=opened.session)
    assert (await again.run("print(kept + 1)")).text == "42\n"
    assert len(daemon.sessions) == 1


async def test_a_suspended_kernel_comes_back_too(notebook, page, extension, jp_serverapp, rest):
    model = await notebook()
    kernel = model["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    info = opened.send("kernel_info_request", {})
    await asyncio.wait_for(info.done.wait(), 60)
    await rest("POST", "suspend", {"kernel_id": kernel})
    opened.close()
    await reborn(extension, jp_serverapp)
    assert await extension.keeper.adopt_all() == 1
    again = await asyncio.wait_for(page(kernel), 15)
    answer = again.send("kernel_info_request", {})
    await asyncio.wait_for(answer.done.wait(), 60)
    assert answer.reply["language_info"] == info.reply["language_info"]
    assert (await again.run("print(1)")).text == "1\n"


async def test_a_kernel_in_the_middle_of_a_cell_lets_its_page_in(notebook, page, extension, jp_serverapp, daemon, until, tmp_path):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("import pathlib, time")
    opened.send("kernel_info_request", {})
    (view,) = daemon.sessions.values()
    await until("it is known what the kernel is", lambda: "jupyter.kernel_info" in view["labels"])
    go = tmp_path / "go"
    waits = f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    running = opened.execute(f"print('begun', flush=True)\n{waits}\nprint('ended')")
    await until("the cell runs", lambda: running.text)
    view["activity"] = {"state": "busy", "since": "2026-01-01T00:00:00Z"}
    opened.close()
    await reborn(extension, jp_serverapp)
    assert await extension.keeper.adopt_all() == 1
    # Not only when the cell ends, nor when Jupyter gives up after a minute.
    again = await asyncio.wait_for(page(kernel, session=opened.session), 45)
    again.answers = opened.answers
    (connection,) = extension.hub.desk(kernel).connections
    await until("it is connected", lambda: connection.settled)
    go.touch()
    await asyncio.wait_for(running.done.wait(), 60)
    assert (running.status, running.text) == ("ok", "begun\nended\n")


async def test_sessions_of_other_directories_are_left_alone(notebook, extension, jp_serverapp, daemon, until):
    await notebook()
    (view,) = daemon.sessions.values()
    await until("it is labelled", lambda: "jupyter.session_id" in view["labels"])
    await reborn(extension, jp_serverapp)
    view["labels"]["jupyter.root"] = "/somewhere/else"
    assert await extension.keeper.adopt_all() == 0


async def test_a_rename_is_followed(notebook, extension, jp_fetch, daemon, until, jp_root_dir):
    model = await notebook()
    (jp_root_dir / "a.ipynb").rename(jp_root_dir / "b.ipynb")
    body = json.dumps({"path": "b.ipynb", "name": "b.ipynb", "type": "notebook"})
    await jp_fetch("api", "sessions", model["id"], method="PATCH", body=body)
    (view,) = daemon.sessions.values()
    await until("the label follows", lambda: view["labels"]["jupyter.path"] == "b.ipynb")
    assert view["notebook"] == str(jp_root_dir / "b.ipynb") and view["labels"]["jupyter.session_id"] == model["id"]


async def test_a_name_that_only_looks_like_a_path_is_not_one(notebook, extension, jp_fetch, daemon, until):
    """As JupyterLab begins: the path comes with a second request."""
    await notebook()
    model = {"path": "a.ipynb-jvsn-1234", "name": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    answer = await jp_fetch("api", "sessions", method="POST", body=json.dumps(model), request_timeout=90)
    session = extension.hub.session_id(json.loads(answer.body)["kernel"]["id"])
    await until("it is labelled", lambda: "jupyter.session_id" in daemon.sessions[session]["labels"])
    assert daemon.sessions[session]["labels"]["jupyter.path"] == "a.ipynb"


async def test_culling_suspends(notebook, extension, jp_serverapp, daemon):
    model = await notebook()
    manager = jp_serverapp.kernel_manager
    manager.cull_idle_timeout = 1
    kernel = manager.get_kernel(model["kernel"]["id"])
    (view,) = daemon.sessions.values()
    await manager.cull_kernel_if_idle(model["kernel"]["id"])
    assert view["state"] == "running"
    kernel.last_activity = kernel.last_activity.replace(year=2000)
    kernel.execution_state = "idle"
    await manager.cull_kernel_if_idle(model["kernel"]["id"])
    assert view["state"] == "suspended" and model["kernel"]["id"] in manager
    # Once is enough.
    await manager.cull_kernel_if_idle(model["kernel"]["id"])


async def test_kernels_outlive_the_server(notebook, extension, jp_serverapp, daemon):
    await notebook()
    await extension.stop_extension()
    await jp_serverapp.kernel_manager.shutdown_all()
    (view,) = daemon.sessions.values()
    assert view["state"] == "running" and daemon.processes[view["id"]].returncode is None
