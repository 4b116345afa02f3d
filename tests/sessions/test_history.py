"""What a snapshot carries beside processes and files, and how a history is listed."""

NOTEBOOK = '{\n "cells": [{"source": "x = 1 # ä <b>\\u2028", "id": "c1"}],\n "nbformat": 4\n}\n'


def test_what_a_snapshot_says_of_itself(commands, history, user):
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))
    session.kernel.run("x = bytearray(b'7' * (8 << 20))")
    body = {
        "reason": "after-cell",
        "label": "<b>half way</b>",
        "notebook": NOTEBOOK,
        "cell": {"id": "c1", "number": 7, "source": "x" * 3000},
        "message": "first",
    }
    taken = history.job(f"/v1/sessions/{session.id}/snapshot", body)
    commit = history.commit(taken["commit"][:12])
    assert commit["id"] == taken["commit"]
    assert (commit["reason"], commit["automatic"], commit["label"]) == ("after-cell", True, "<b>half way</b>")
    assert commit["cell"] == {"id": "c1", "number": 7, "source": "x" * 2000}
    for figure in ("new_bytes", "memory_bytes", "vram_bytes", "frozen_us", "gpu_paused_us"):
        assert commit[figure] == taken[figure], figure
    assert commit["memory_bytes"] > 8 << 20 and commit["bytes"] >= commit["memory_bytes"]
    assert commit["session"] == session.id and commit["has_notebook"]
    assert history.of(session)["commits"] == [commit]
    assert history.notebook(commit["id"]) == NOTEBOOK
    assert history.ask("GET", f"/v1/commits/{'0' * 64}", status=404)["code"] == "IJ-L061"
    error = history.ask("POST", f"/v1/sessions/{session.id}/snapshot?wait=true", {"reason": "rollback"}, status=400)
    assert error["code"] == "IJ-L015"


def test_the_file_of_the_notebook_goes_with_each_snapshot(commands, history, user):
    session = commands.start("w", "sleep", "1000", cwd=user.mkdir(user.home / "work"))
    path = user.write(user.home / "work/n.ipynb", NOTEBOOK)
    assert not history.commit(session.snapshot()["commit"])["has_notebook"]
    history.patch(session, notebook=str(path))
    first = session.snapshot()["commit"]
    user.write(path, NOTEBOOK + "\n")
    second = session.snapshot()["commit"]
    assert [history.notebook(commit) for commit in (first, second)] == [NOTEBOOK, NOTEBOOK + "\n"]
    # What is no document of theirs is no document: it is neither read nor waited for.
    path.unlink()
    user.run(["mkfifo", str(path)])
    taken = session.snapshot()
    assert "is not a plain file" in " ".join(taken["warnings"])
    path.unlink()
    user.run(["ln", "-s", "/proc/self/environ", str(path)])
    assert not history.commit(session.snapshot()["commit"])["has_notebook"]
    path.unlink()
    user.run(["ln", "-s", "/etc/shadow", str(path)])
    taken = session.snapshot()
    assert "Permission denied" in " ".join(taken["warnings"])
    assert not history.commit(taken["commit"])["has_notebook"]
    error = history.ask("GET", f"/v1/commits/{taken['commit']}/notebook", status=404)
    assert error["code"] == "IJ-L063"


def test_a_mark_labels_the_next_snapshot_and_no_other(commands, history):
    session = commands.start("w", "sleep", "1000")
    assert history.patch(session, mark="here")["mark"] == "here"
    first = session.snapshot()["commit"]
    second = session.snapshot()["commit"]
    assert [history.commit(commit)["label"] for commit in (first, second)] == ["here", None]
    assert session.view()["mark"] is None


def test_the_family_of_a_session_is_the_whole_graph(commands, history):
    session = commands.start("w", "sleep", "1000")
    other = commands.start("other", "sleep", "1000")
    other.snapshot()
    first = session.snapshot()["commit"]
    branch, _ = session.branch("twig", "--from", first)
    on_branch = branch.snapshot()["commit"]
    back = session.rollback(first)
    found = history.of(branch, family=True)
    ids = {commit["id"]: commit for commit in found["commits"]}
    assert set(ids) == {first, on_branch, back["commit"], back["automatic"]}
    assert ids[back["commit"]]["back_to"] == first
    assert ids[back["automatic"]]["automatic"] and ids[back["automatic"]]["reason"] == "before-rollback"
    threads = {thread["name"]: (thread["head"], thread["session"]) for thread in found["threads"]}
    assert threads == {"w": (back["commit"], session.id), "twig": (on_branch, branch.id)}
    assert history.of(session, family=True) == found
    newest = history.of(session, family=True, limit=2)["commits"]
    assert newest == found["commits"][:2]
    alone = history.of(branch)
    assert [commit["id"] for commit in alone["commits"]] == [on_branch, first] and alone["threads"] == []


def test_tags(commands, history):
    session = commands.start("w", "sleep", "1000")
    first, second = session.snapshot()["commit"], session.snapshot()["commit"]
    name = "paper/fig 3 <i>"
    assert history.ask("POST", "/v1/tags", {"name": name, "commit": first})["tags"] == [name]
    assert history.ask("POST", "/v1/tags", {"name": name, "commit": second}, status=409)
    moved = history.ask("POST", "/v1/tags", {"name": name, "commit": "w", "move": True})
    assert (moved["id"], moved["tags"]) == (second, [name])
    assert history.commit(first)["tags"] == []
    history.ask("DELETE", "/v1/tags/paper%2Ffig%203%20%3Ci%3E")
    assert history.commit(second)["tags"] == []
    assert history.ask("DELETE", "/v1/tags/none", status=404)["code"] == "IJ-L061"
    assert commands.run("tag", "good", first).one("tag_created")["commit"] == first
    assert commands.run("tag", "--list").one("tag")["commit"] == first
    commands.run("tag", "good", "--delete")


def test_variables_are_compared_by_name(commands, history, user):
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))
    session.kernel.run("x = 1; gone = 'a <b>'; same = [1, 2]")
    first = history.with_variables(session)
    session.kernel.run("x = 2.5; new = 3; del gone")
    second = history.with_variables(session)
    names = {one["name"]: one for one in history.ask("GET", f"/v1/commits/{first}/variables")["variables"]}
    assert names["x"]["type"] == "int" and {"gone", "same"} <= set(names)
    changes = {one["name"]: one for one in history.ask("GET", f"/v1/diff?a={first}&b={second}")["variables"]}
    assert {name: one["change"] for name, one in changes.items() if name in ("x", "gone", "new", "same")} == {
        "x": "changed",
        "gone": "removed",
        "new": "added",
    }
    assert (changes["x"]["before"]["type"], changes["x"]["after"]["type"]) == ("int", "float")
    error = history.ask("GET", "/v1/commits/k~99/variables", status=404)
    assert error["code"] == "IJ-L061"
