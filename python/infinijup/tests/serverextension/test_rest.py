"""Every route, against a daemon that answers and one that refuses."""

import asyncio
import json
import time

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from infinijup.serverextension import offers

pytestmark = pytest.mark.timeout(240)
NOBODY = "00000000-0000-0000-0000-000000000000"


async def test_the_room_that_histories_take(extension, rest):
    assert await rest("GET", "store") == (200, {"used_bytes": 1200, "allowed_bytes": 4600, "remote": None})


async def test_status_and_doctor(extension, rest, daemon):
    assert await rest("GET", "doctor") == (200, {"works": True, "findings": []})
    status, answer = await rest("GET", "status")
    assert status == 200
    assert (answer["daemon"], answer["why_not"], answer["transport"], answer["every_kernel"]) == ("0.1.0", None, "events", True)


async def test_a_kernel_that_is_not_there(extension, rest):
    for method, path, body in (
        ("GET", f"kernels/{NOBODY}", None),
        ("POST", "snapshot", {"kernel_id": NOBODY}),
        ("POST", "restore", {"kernel_id": NOBODY, "to": "x"}),
        ("POST", "branch", {"kernel_id": NOBODY}),
        ("POST", "suspend", {"kernel_id": NOBODY}),
        ("POST", "resume", {"kernel_id": NOBODY}),
    ):
        status, answer = await rest(method, path, body)
        assert (status, answer["code"]) == (404, "no-kernel"), path


async def test_a_kernel_without_history_says_why(notebook, rest, daemon):
    await daemon.stop()
    kernel = (await notebook())["kernel"]["id"]
    status, answer = await rest("GET", f"kernels/{kernel}")
    assert status == 200 and answer["session"] is None and "infinijupd" in answer["why_not"]
    status, answer = await rest("POST", "snapshot", {"kernel_id": kernel})
    assert (status, answer["code"]) == (409, "not-a-session")
    await daemon.start()


async def test_requests_that_make_no_sense(extension, rest):
    for method, path, body in (
        ("POST", "snapshot", {}),
        ("POST", "restore", {"kernel_id": "x"}),
        ("POST", "tag", {"name": "x"}),
        ("PUT", "policy", {"policy": {"cull": "maybe"}}),
        ("PUT", "policy", {"policy": {"snapshot_every_s": -1}}),
        ("PUT", "policy", {"policy": 3}),
        ("GET", "diff", None),
        ("GET", "offer", None),
    ):
        status, answer = await rest(method, path, body)
        assert (status, answer["code"]) == (400, "bad-request"), (path, answer)


async def test_a_snapshot_has_the_document_and_the_history_shows_it(notebook, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    document = {"cells": [{"id": "c1", "cell_type": "code", "source": "x = 2"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    status, taken = await rest("POST", "snapshot", {"kernel_id": kernel, "message": "<b>first</b>", "label": "l", "notebook": document})
    assert status == 200
    assert (await rest("GET", "notebook", commit=taken["commit"])) == (200, {"content": document})
    for how in ({"kernel_id": kernel}, {"path": "a.ipynb"}):
        status, answer = await rest("GET", "history", **how)
        assert status == 200
        assert [commit["message"] for commit in answer["commits"]] == ["<b>first</b>"]
        assert answer["threads"][0]["kernel_id"] == kernel and answer["threads"][0]["path"] == "a.ipynb"
        assert answer["threads"][0]["state"] == "running"
    assert (await rest("GET", "history", path="nothing.ipynb"))[1] == {"session": None, "kernel_id": None, "commits": [], "threads": []}


async def test_cells_between_two_snapshots(notebook, rest):
    kernel = (await notebook())["kernel"]["id"]
    commits = []
    for source in ("x = 1", "x = 2"):
        document = {"cells": [{"id": "c1", "cell_type": "code", "source": source}], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
        commits.append((await rest("POST", "snapshot", {"kernel_id": kernel, "notebook": document}))[1]["commit"])
    _, answer = await rest("GET", "diff", a=commits[0], b=commits[1])
    (changed,) = answer["cells"]["changed"]
    assert (changed["before"]["source"], changed["after"]["source"]) == ("x = 1", "x = 2")
    without = (await rest("POST", "snapshot", {"kernel_id": kernel}))[1]["commit"]
    assert (await rest("GET", "diff", a=commits[0], b=without))[1]["cells"] is None


async def test_a_restore_sends_the_document_of_the_page(notebook, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    document = {"cells": [], "metadata": {"mine": True}, "nbformat": 4, "nbformat_minor": 5}
    _, back = await rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"], "notebook": document})
    assert json.loads(daemon.documents[back["automatic"]]) == document


async def test_refusals_keep_all_that_the_daemon_said(notebook, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    body = {"code": "IJ-L030", "message": "files changed", "causes": ["a"], "hint": "force", "exit": 14, "files": ["data.csv"]}
    daemon.refuse["POST .*/rollback"] = (409, body)
    status, answer = await rest("POST", "restore", {"kernel_id": kernel, "to": "x"})
    assert status == 409 and answer["files"] == ["data.csv"] and answer["hint"] == "force"


async def test_a_branch_is_a_notebook_beside_the_original(notebook, rest, daemon, page, jp_root_dir, jp_fetch, extension):
    original = await notebook("dir name.ipynb")
    kernel = original["kernel"]["id"]
    document = {"cells": [], "metadata": {"mine": 1}, "nbformat": 4, "nbformat_minor": 5}
    status, made = await rest("POST", "branch", {"kernel_id": kernel, "notebook": document})
    assert status == 200, made
    assert made["path"] == "dir name (branch).ipynb" and made["kernel_id"] != kernel
    assert json.loads((jp_root_dir / made["path"]).read_text())["metadata"]["mine"] == 1
    sessions = json.loads((await jp_fetch("api", "sessions")).body)
    assert {session["id"]: session["path"] for session in sessions} == {
        original["id"]: "dir name.ipynb",
        made["session_id"]: made["path"],
    }
    labels = daemon.sessions[made["session"]["id"]]["labels"]
    assert labels["jupyter.kernel_id"] == made["kernel_id"] and labels["jupyter.session_id"] == made["session_id"]
    assert daemon.sessions[made["session"]["id"]]["notebook"] == str(jp_root_dir / made["path"])
    assert (await (await page(made["kernel_id"])).run("print('branch')")).text == "branch\n"
    # A branch of the branch, from the snapshot, has another name of the same kind.
    _, second = await rest("POST", "branch", {"kernel_id": made["kernel_id"], "from": made["session"]["head"]})
    assert second["path"] == "dir name (branch 2).ipynb"
    assert json.loads((jp_root_dir / second["path"]).read_text())["metadata"]["mine"] == 1


async def test_a_branch_that_somebody_else_made_is_opened_too(notebook, extension, jp_fetch, daemon, until):
    kernel = (await notebook())["kernel"]["id"]
    seen = []
    extension.hub.news.listen(seen.append)
    await extension.hub.daemon.post(f"/v1/sessions/{extension.hub.session_id(kernel)}/branch", {"name": "idea"})
    (told,) = await until("it is opened", lambda: [event for event in seen if event["type"] == "branched"])
    assert told["kernel_id"] == kernel and told["branch"]["path"] == "a (branch).ipynb"
    paths = [session["path"] for session in json.loads((await jp_fetch("api", "sessions")).body)]
    assert paths == ["a.ipynb", "a (branch).ipynb"]


async def test_tags_forgetting_and_gc(notebook, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    commit = (await rest("POST", "snapshot", {"kernel_id": kernel}))[1]["commit"]
    assert (await rest("POST", "tag", {"commit": commit, "name": "a/b <i>"}))[1]["tags"] == ["a/b <i>"]
    assert await rest("DELETE", "tag/good") == (200, {})
    assert (await rest("POST", "forget", {"commits": [commit]}))[1]["forgotten"] == [commit]
    assert (await rest("POST", "gc", {}))[1]["freed_bytes"] == 0
    assert ("DELETE", "/v1/tags/good", None) in daemon.requests


async def test_policy_is_kept_and_given_to_all_kernels(notebook, rest, daemon, extension):
    await notebook("one.ipynb")
    policy = {"snapshot_every_s": 60, "keep": {"last": 3}, "before_restart": True, "suspend_after_idle_s": 0, "unknown": 1}
    status, answer = await rest("PUT", "policy", {"policy": policy})
    assert status == 200 and answer["policy"]["suspend_after_idle_s"] is None
    wanted = {"snapshot_every_s": 60, "snapshot_after_idle_s": None, "suspend_after_idle_s": None, "suspend_only_gpu": True}
    wanted |= {"keep": {"last": 3, "hourly": 0, "daily": 0}}
    later = await notebook("two.ipynb")
    assert (await rest("GET", f"kernels/{later['kernel']['id']}"))[0] == 200
    await asyncio.sleep(0)
    assert [view["policy"] for view in daemon.sessions.values()] == [wanted, wanted]
    assert (await rest("GET", "policy"))[1]["policy"]["before_restart"] is True
    assert json.loads(extension.hub.policy.file.read_text())["snapshot_every_s"] == 60


async def test_sessions_are_listed_and_removed(notebook, rest, daemon, jp_fetch):
    kernel = (await notebook())["kernel"]["id"]
    (session,) = (await rest("GET", "sessions"))[1]["sessions"]
    assert session["kernel_id"] == kernel and session["path"] == "a.ipynb"
    assert (await rest("DELETE", f"sessions/{session['id']}"))[0] == 200
    assert daemon.sessions == {}
    assert json.loads((await jp_fetch("api", "kernels")).body) == []


async def test_events_as_they_happen_and_afterwards(notebook, rest, extension, http_server_port, jp_base_url, jp_auth_header):
    url = f"ws://127.0.0.1:{http_server_port[-1]}{jp_base_url}infinijup/events"
    stream = await websocket_connect(HTTPRequest(url, headers=dict(jp_auth_header)))
    assert json.loads(await stream.read_message())["type"] == "hello"
    kernel = (await notebook())["kernel"]["id"]
    commit = (await rest("POST", "snapshot", {"kernel_id": kernel}))[1]["commit"]
    seen = []
    while not any(event["type"] == "snapshot" for event in seen):
        seen.append(json.loads(await asyncio.wait_for(stream.read_message(), 60)))
    stream.close()
    snapshot = seen[-1]
    assert snapshot["kernel_id"] == kernel and snapshot["commit"]["id"] == commit
    jobs = [event["job"]["kind"] for event in seen if event["type"] == "job" and event["job"]["state"] == "running"]
    assert jobs == ["start", "snapshot"]
    _, later = await rest("GET", "events", since=seen[0]["n"])
    assert later["events"][: len(seen) - 1] == seen[1:] and not later["missed"]
    assert (await rest("GET", "events", since=later["next"]))[1]["events"] == []
    assert (await rest("GET", "events", since=10**9))[1]["missed"]


async def test_the_last_snapshot_of_a_dead_kernel_is_offered(notebook, rest, daemon, extension, until, monkeypatch):
    model = await notebook()
    session = extension.hub.session_id(model["kernel"]["id"])
    assert (await rest("GET", "offer", path="a.ipynb")) == (200, None)
    commit = (await rest("POST", "snapshot", {"kernel_id": model["kernel"]["id"]}))[1]["commit"]
    assert (await rest("GET", "offer", path="a.ipynb")) == (200, None)
    await daemon.end(session)
    daemon.set(session, state="failed", pid=None, exit=137)
    await until("it is noticed", lambda: extension.hub.views[session]["state"] == "failed")
    _, offer = await rest("GET", "offer", path="a.ipynb")
    assert (offer["commit"]["id"], offer["reason"]) == (commit, "crash")
    with monkeypatch.context() as later:
        later.setattr(offers, "boot_time", lambda: time.time() + 60)
        assert (await rest("GET", "offer", path="a.ipynb"))[1]["reason"] == "reboot"
    # Jupyter starts it anew by itself; the offer stands until it is taken or declined.
    await until("it was restarted", lambda: extension.hub.views[session]["state"] == "running")
    assert (await rest("GET", "offer", path="a.ipynb"))[1]["commit"]["id"] == commit
    assert (await rest("POST", "restore", {"kernel_id": model["kernel"]["id"], "to": commit}))[0] == 200
    assert (await rest("GET", "offer", path="a.ipynb")) == (200, None)


async def test_what_the_user_ended_is_offered_as_ended_and_a_restart_offers_nothing(notebook, rest, extension, jp_fetch, until):
    model = await notebook()
    kernel = model["kernel"]["id"]
    session = extension.hub.session_id(kernel)
    await rest("POST", "snapshot", {"kernel_id": kernel})
    await jp_fetch("api", "kernels", kernel, "restart", method="POST", body="{}", request_timeout=60)
    await until("it runs", lambda: extension.hub.views[session]["state"] == "running")
    assert (await rest("GET", "offer", path="a.ipynb")) == (200, None)
    await jp_fetch("api", "sessions", model["id"], method="DELETE")
    await until("it has ended", lambda: extension.hub.views[session]["state"] == "ended")
    assert (await rest("GET", "offer", path="a.ipynb"))[1]["reason"] == "ended"
    # Opened again, it goes on in the same session, and the offer stands until it is declined.
    again = await notebook()
    assert extension.hub.session_id(again["kernel"]["id"]) == session
    assert (await rest("GET", "offer", path="a.ipynb"))[1]["reason"] == "ended"
    assert (await rest("DELETE", "offer", path="a.ipynb"))[0] == 200
    assert (await rest("GET", "offer", path="a.ipynb")) == (200, None)
