"""What cells show, beyond the file of their notebook."""

import json
import os
import time

import pytest

from infinijup.serverextension.shown import LARGEST, Shown, document


def notebook(path, *cells, saved=-60.0):
    """A file that was saved then, counted from now."""
    path.write_text(json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    os.utime(path, (time.time() + saved,) * 2)
    return str(path)


def code(cell, source="", *outputs):
    return {"cell_type": "code", "id": cell, "metadata": {}, "source": source, "execution_count": None, "outputs": list(outputs)}


def say(shown, cell, kind, **content):
    shown.heard(cell, kind, json.dumps(content).encode())


def cells(path, shown):
    return json.loads(document(path, shown.now()))["cells"]


def picture(data, display):
    return {"data": {"image/png": data}, "metadata": {}, "transient": {"display_id": display}}


def test_outputs_of_every_kind(tmp_path):
    path, shown = notebook(tmp_path / "a.ipynb", code("a"), {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "text"}), Shown()
    shown.began("a", "plot()")
    say(shown, "a", "execute_input", code="plot()", execution_count=7)
    say(shown, "a", "stream", name="stdout", text="one ")
    say(shown, "a", "stream", name="stdout", text="two")
    say(shown, "a", "stream", name="stderr", text="careful")
    say(shown, "a", "display_data", **picture("then", "d1"))
    say(shown, "a", "execute_result", data={"text/plain": "42"}, metadata={}, execution_count=7)
    say(shown, "a", "error", ename="E", evalue="v", traceback=["t"])
    say(shown, "a", "comm_open", whatever=1)
    first, second = cells(path, shown)
    assert (first["source"], first["execution_count"], second["source"]) == ("plot()", 7, "text")
    kinds = [(one["output_type"], one.get("text")) for one in first["outputs"]]
    assert kinds[:2] == [("stream", "one two"), ("stream", "careful")]
    assert [kind for kind, _ in kinds[2:]] == ["display_data", "execute_result", "error"]
    # Another cell changes it, also in what was taken down before.
    before = shown.now()
    shown.began("b", "update()")
    say(shown, "b", "update_display_data", **picture("now", "d1"))
    assert cells(path, shown)[0]["outputs"][2]["data"] == {"image/png": "now"}
    assert json.loads(document(path, before))["cells"][0]["outputs"][2]["data"] == {"image/png": "then"}


def test_what_is_cleared_is_gone(tmp_path):
    path, shown = notebook(tmp_path / "a.ipynb", code("a")), Shown()
    shown.began("a", "")
    for number in range(3):
        say(shown, "a", "clear_output", wait=True)
        say(shown, "a", "stream", name="stdout", text=str(number))
    assert [one["text"] for one in cells(path, shown)[0]["outputs"]] == ["2"]
    say(shown, "a", "clear_output", wait=False)
    assert cells(path, shown)[0]["outputs"] == []


def test_what_was_saved_since_counts(tmp_path):
    shown = Shown()
    shown.began("a", "x")
    say(shown, "a", "stream", name="stdout", text="shown")
    assert document(notebook(tmp_path / "a.ipynb", code("a"), saved=60.0), shown.now()) is None


def test_cells_that_the_file_does_not_have_follow_the_one_before(tmp_path):
    path, shown = notebook(tmp_path / "a.ipynb", code("a"), code("z")), Shown()
    for cell in ("a", "b", "c"):
        shown.began(cell, cell)
    assert [cell["id"] for cell in cells(path, shown)] == ["a", "b", "c", "z"]


@pytest.mark.parametrize("saved", ["{", "[]", '{"cells": 1}', '{"cells": [{"cell_type": "code"}]}', '{"cells": [{"id": []}]}'])
def test_a_file_that_is_no_notebook_with_ids_is_left_alone(tmp_path, saved):
    path, shown = tmp_path / "a.ipynb", Shown()
    path.write_text(saved)
    os.utime(path, (1, 1))
    shown.began("a", "x")
    assert document(str(path), shown.now()) is None
    assert document(str(tmp_path / "none.ipynb"), shown.now()) is None


def test_a_cell_that_shows_too_much_stays_as_it_was_saved(tmp_path):
    path, shown = notebook(tmp_path / "a.ipynb", code("a", "saved"), code("b")), Shown()
    shown.began("a", "now")
    shown.began("b", "b")
    say(shown, "a", "stream", name="stdout", text="x" * LARGEST)
    assert [cell["source"] for cell in cells(path, shown)] == ["saved", "b"]


def test_back_at_a_snapshot_cells_show_what_they_did_then():
    shown = Shown()
    shown.began("a", "1")
    shown.taken("then", shown.now())
    say(shown, "a", "stream", name="stdout", text="later")
    shown.began("b", "2")
    shown.gone_back("then")
    assert {cell: (run.source, run.outputs) for cell, run in shown.now().items()} == {"a": ("1", [])}
    shown.gone_back("unknown")
    assert shown.now() == {}


def test_copies_for_many_snapshots_share_what_they_hold():
    shown = Shown()
    shown.began("a", "1")
    for _ in range(3):
        say(shown, "a", "stream", name="stdout", text="x" * 1000)
    first, second = shown.now(), shown.now()
    assert first["a"].outputs[0]["text"][0] is second["a"].outputs[0]["text"][0]
    say(shown, "a", "stream", name="stdout", text="more")
    assert first["a"].outputs[0]["text"] == ["x" * 3000] == second["a"].outputs[0]["text"]
