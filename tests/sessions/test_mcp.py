"""`infinijup mcp`, driven by the official client of the Model Context Protocol as a coding assistant would."""

import base64

import pytest
from mcp import MCPError

from harness import proc
from harness.assistant import assistant

# A picture of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def helper(commands, user):
    """An assistant of the user's, at work in a directory."""
    with assistant(commands, cwd=user.mkdir(user.home / "work")) as helper:
        yield helper


@pytest.mark.timeout(300)
def test_ideas_are_tried_in_branches_and_the_best_is_kept(helper, commands, user):
    assert helper.ask("list_sessions")["sessions"] == []
    started = helper.ask("start_kernel", name="study", files="tree")
    assert (started["session"], started["state"], started["directory"]) == ("study", "running", str(user.home / "work"))
    assert helper.run("study", "data = [3, 1, 2]\nprint('loaded', len(data))\nsum(data)") == "loaded 3\n6\n"

    taken = helper.ask("snapshot", session="study", message="loaded", tag="start")
    assert taken["paused_ms"] > 0 and taken["new_bytes"] > 0 and taken["memory_bytes"] > 1 << 20, taken
    branched = helper.ask("branch", session="study", count=3, name="try", **{"from": "start"})
    names = [branch["session"] for branch in branched["branches"]]
    assert names == ["try-1", "try-2", "try-3"] and branched["snapshot"] == taken["snapshot"]
    for name, idea in zip(names, ("sorted(data)", "data[::-1]", "[n * n for n in data]"), strict=True):
        helper.run(name, f"answer = {idea}\nopen('answer.txt', 'w').write(str(answer))")
    assert [helper.run(name, "answer") for name in names] == ["[1, 2, 3]\n", "[2, 1, 3]\n", "[9, 1, 4]\n"]
    # The original is none the wiser.
    ran = helper.ask("run_cell", session="study", code="answer")
    assert ran["status"] == "error" and ran["raised"]["name"] == "NameError"
    assert "Traceback" in ran["output"] and "\x1b" not in ran["output"], ran
    assert not (user.home / "work/answer.txt").exists()

    for name in names[:2]:
        helper.ask("snapshot", session=name)
    compared = helper.ask("compare", a="try-1", b="try-2")
    differs = {line["name"]: (line["change"], line["before"], line["after"]) for line in compared["variables"]}
    assert differs["answer"][0] == "changed" and "data" not in differs, compared
    since = helper.ask("compare", a="start", b="try-1")
    assert {(line["name"], line["change"]) for line in since["variables"]} == {("answer", "added")}, since

    kept = helper.ask("keep_best", session="try-1")
    assert kept["kept"]["session"] == "try-1", kept
    # Whatever was in no snapshot is in the last one: nothing is in the way.
    assert kept["refused"] == [] and [gone["session"] for gone in kept["removed"]] == ["try-2", "try-3"], kept
    assert set(commands.sessions()) == {"study", "try-1"}
    assert helper.run("try-1", "answer") == "[1, 2, 3]\n"
    # One that was removed has its snapshot, and lives again in a branch of that.
    again = helper.ask("branch", session="study", name="again", **{"from": kept["removed"][1]["snapshot"]})
    assert helper.run(again["branches"][0]["session"], "answer, open('answer.txt').read()") == "([9, 1, 4], '[9, 1, 4]')\n"

    helper.run("study", "data = 'ruined'; open('late.txt', 'w').write('late')")
    restored = helper.ask("restore", session="study", to="start")
    assert helper.run("study", "data") == "[3, 1, 2]\n" and not (user.home / "work/late.txt").exists()
    helper.ask("restore", session="study", to=restored["before"])
    assert helper.run("study", "data, open('late.txt').read()") == "('ruined', 'late')\n"
    past = helper.ask("history", session="study")["snapshots"]
    assert [line["message"] for line in past if "start" in line["tags"]] == ["loaded"], past
    assert past[0]["back_to"] == restored["before"] and len(helper.ask("history", session="study", limit=1)["snapshots"]) == 1

    assert helper.ask("remove", session="study")["snapshot"]
    assert set(commands.sessions()) == {"try-1", "again"}


def test_sleep_and_a_cell_that_wakes(helper, commands):
    helper.ask("start_kernel", name="sleeper")
    helper.run("sleeper", "x = 41")
    slept = helper.ask("suspend", session="sleeper")
    assert slept["freed_bytes"] > 1 << 20 and commands.sessions()["sleeper"]["state"] == "suspended"
    assert helper.ask("suspend", session="sleeper")["snapshot"] == slept["snapshot"]
    assert helper.run("sleeper", "x + 1") == "42\n"
    assert helper.ask("resume", session="sleeper")["state"] == "running"
    helper.ask("suspend", session="sleeper")
    assert helper.ask("resume", session="sleeper")["state"] == "running"
    assert helper.run("sleeper", "x") == "41\n"


def test_files_of_a_branch_that_is_removed_are_kept(helper, commands, user):
    helper.ask("start_kernel", name="one")
    helper.ask("branch", session="one", name="idea")
    helper.run("idea", "length = open('result.txt', 'w').write('precious')")
    gone = helper.ask("remove", session="idea")
    assert set(commands.sessions()) == {"one"} and gone["files"], gone
    commands.run("files", "--at", gone["files"], "--to", user.home / "found")
    assert [path.read_text() for path in (user.home / "found").rglob("result.txt")] == ["precious"]


def test_a_cell_has_a_time_and_its_output_a_limit(helper, commands):
    session = commands.session(helper.ask("start_kernel", name="busy") | {"id": "busy", "name": "busy"})
    helper.run("busy", "x = 1")
    ran = helper.ask("run_cell", session="busy", code="print('begun', flush=True)\nwhile True: x += 1", timeout_seconds=2)
    assert (ran["status"], ran["still_running"], ran["output"].split()[0]) == ("timed_out", False, "begun"), ran
    assert 2 <= ran["seconds"] < 7 and ran["raised"]["name"] == "KeyboardInterrupt", ran
    assert helper.run("busy", "x > 1") == "True\n"

    # A cell of somebody else's is not interrupted, and nothing is queued behind it.
    page = session.connect()
    page.client.execute("import time; time.sleep(4); theirs = 'done'")
    proc.until("it is busy", lambda: session.view()["activity"]["state"] == "busy", 10)
    error, text = helper.refused("run_cell", session="busy", code="ours = 1", timeout_seconds=1)
    assert error["code"] == "IJ-J031" and "busy" in text and "hint: " in text
    proc.until("it is idle", lambda: session.view()["activity"]["state"] == "idle", 30)
    assert helper.run("busy", "theirs, 'ours' in globals()") == "('done', False)\n"

    ran = helper.ask("run_cell", session="busy", code="for n in range(100_000): print('line', n)\nprint('the end')", max_characters=1000)
    assert ran["output"].startswith("line 0\n") and ran["output"].endswith("the end\n"), ran
    assert len(ran["output"]) < 1100 and ran["left_out"] > 1_000_000, (len(ran["output"]), ran["left_out"])
    bar = "import sys, time\nfor n in range(50): print(f'\\r{n}%', end='')\nprint('\\r100%')"
    assert helper.run("busy", bar) == "100%\n"

    shown = f"import base64\nfrom IPython.display import Image, display\ndisplay(Image(data=base64.b64decode('{PIXEL}')))"
    size = len(base64.b64decode(PIXEL))
    without = helper.call("run_cell", session="busy", code=shown)
    assert [block.type for block in without.content] == ["text"] and PIXEL not in without.content[0].text
    assert without.structured_content["pictures"] == [{"type": "image/png", "bytes": size}]
    asked = helper.call("run_cell", session="busy", code=shown, pictures=True)
    assert [block.type for block in asked.content] == ["text", "image"] and asked.content[1].data == PIXEL


def test_a_cell_that_is_called_off_is_interrupted_and_one_that_kills_its_kernel_says_so(helper, commands):
    session = commands.session(helper.ask("start_kernel", name="short") | {"id": "short", "name": "short"})
    helper.run("short", "x = 1")
    with pytest.raises(MCPError):
        helper.call("run_cell", 2, session="short", code="while True: x += 1")
    proc.until("it is idle", lambda: session.view()["activity"]["state"] == "idle", 15)
    assert helper.run("short", "x > 1") == "True\n"
    error, text = helper.refused("run_cell", session="short", code="import os; os._exit(7)")
    assert error["code"] == "IJ-J030" and "the cell was cut off" in text, text
    proc.until("it has ended", lambda: session.state == "ended", 15)
    assert "short is ended, status 7" in helper.refused("run_cell", session="short", code="1")[1]


def test_what_is_refused_says_why(helper, commands):
    error, text = helper.refused("run_cell", session="nobody", code="1")
    assert error["code"] == "IJ-L010" and error["hint"] and text.startswith("error[IJ-L010]: no session `nobody`")
    commands.start("plain", "sleep", "1000")
    assert "no kernel" in helper.refused("run_cell", session="plain", code="1")[1]
    assert "1 to 8" in helper.refused("branch", session="plain", count=9)[1]
    assert "no branch" in helper.refused("keep_best", session="plain")[1]
    assert "unknown field" in helper.call("history", nonsense=1).content[0].text
    assert set(commands.sessions()) == {"plain"}


def test_tools_say_what_they_are(commands):
    # By the handshake that clients of before 2026 know.
    with assistant(commands, mode="legacy") as old:
        tools = old.tools()
        assert old.ask("list_sessions")["sessions"] == []
    reads = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert reads == {"list_sessions", "history", "compare"}
    destroys = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    assert destroys == {"run_cell", "restore", "remove", "keep_best"}
    assert all("Cost: " in tool.description for tool in tools.values())
    assert tools["branch"].input_schema["properties"]["count"]["maximum"] == 8


def test_nobody_gets_in_without_the_socket(commands, make_user, user):
    nowhere = commands.run("mcp", check=False, environment={"INFINIJUP_SOCKET": str(user.home / "none.sock")})
    assert (nowhere.code, nowhere.out) == (16, "") and nowhere.error["code"] == "IJ-C030"
    assert "cannot reach the daemon" in nowhere.error["message"] and nowhere.error["hint"]
    stranger = make_user()
    refused = stranger.run(
        [commands.daemon.bin / "infinijup", "--json", "mcp"],
        check=False,
        environment={"INFINIJUP_SOCKET": str(commands.daemon.socket)},
    )
    assert (refused.code, refused.out, refused.error["code"]) == (16, "", "IJ-C030")
    # A client that goes before it has said anything is no failure.
    assert commands.run("mcp").out == ""
