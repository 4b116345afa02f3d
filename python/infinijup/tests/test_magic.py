"""The magic in a real kernel."""

import os
from pathlib import Path

import pytest

pytest.importorskip("ipykernel")
pytest.importorskip("jupyter_client")

from daemons_part import COMMIT, VIEW, Played

TAKEN = {"commit": COMMIT, "frozen_us": 12_345, "new_bytes": 3 << 20, "not_captured": [], "warnings": ["<b>mind</b>"]}
LOGGED = {"id": COMMIT, "time": "2026-11-15T09:12:09Z", "reason": "manual", "message": None, "label": "<b>one</b>", "tags": ["good"]}


@pytest.fixture(scope="module")
def kernel():
    package = str(Path(__file__).parents[1])
    played = Played({**os.environ, "PYTHONPATH": package, "INFINIJUP_SESSION": "analysis"})
    played.run("%load_ext infinijup")
    yield played
    played.close()


@pytest.fixture(autouse=True)
def anew(kernel):
    kernel.answers = {"status": VIEW, "log": {"commits": [LOGGED]}, "snapshot": TAKEN}
    kernel.run("from infinijup import magic; magic._magics.forget_names()")
    kernel.asked.clear()


def test_status_is_printed_and_returned(kernel):
    printed, reply = kernel.run("answer = %infinijup status\nassert answer['name'] == 'analysis'")
    assert reply["status"] == "ok"
    assert printed == "session analysis: running, 64.0 MiB; no snapshot yet\n"


def test_a_snapshot_carries_label_and_tag(kernel):
    printed, reply = kernel.run('%infinijup snapshot label="first epoch" tag=good')
    assert reply["status"] == "ok"
    asked = kernel.asked[-1]
    assert {name: asked[name] for name in ("do", "label", "tag")} == {"do": "snapshot", "label": "first epoch", "tag": "good"}
    assert "message" not in asked
    assert printed.startswith(f"snapshot {COMMIT[:12]}: 3.0 MiB new, stood still for 12 ms\n")
    assert "warning: <b>mind</b>" in printed


def test_a_mark_expands_variables_as_magics_do(kernel):
    kernel.answers["mark"] = VIEW
    kernel.run("epoch = 7")
    kernel.run('%infinijup mark label="epoch {epoch}"')
    assert kernel.asked[-1]["mark"] == "epoch 7"


def test_the_log_is_text(kernel):
    printed, _ = kernel.run("%infinijup log 5")
    assert kernel.asked[-1]["limit"] == 5
    assert printed == f"{COMMIT[:12]}  2026-11-15 09:12:09  <b>one</b>  #good\n"
    _, reply = kernel.run("%infinijup log many")
    assert "not `many`" in reply["evalue"]


def test_a_refusal_is_an_error_without_a_traceback(kernel):
    kernel.answers["tag"] = ("IJ-C013", "the tag `good` is taken", "choose another name")
    _, reply = kernel.run("%infinijup tag good")
    assert (reply["status"], reply["ename"]) == ("error", "NoResult")
    assert reply["traceback"] == ["infinijup: the tag `good` is taken [IJ-C013]\nchoose another name"]


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("`infinijup history` lists them", "`%infinijup log` lists them"),
        ("`infinijup rollback --force` goes back", "`%infinijup restore --force` goes back"),
        ("free some space, or run `infinijup gc`", "free some space, or run `infinijup gc` in a terminal"),
    ],
)
def test_advice_is_what_can_be_typed_into_a_cell(kernel, hint, said):
    kernel.answers["branch"] = ("IJ-L061", "no snapshot `x`", hint)
    _, reply = kernel.run("%infinijup branch")
    assert reply["traceback"] == [f"infinijup: no snapshot `x` [IJ-L061]\n{said}"]


def test_a_label_leads_to_the_newest_snapshot_that_has_it(kernel):
    unknown = ("IJ-L061", "no snapshot `<b>one</b>`", None)
    kernel.answers["tag"] = lambda asked: LOGGED if asked["commit"] == COMMIT else unknown
    printed, reply = kernel.run("%infinijup tag best commit='<b>one</b>'")
    assert reply["status"] == "ok" and printed == f"best is {COMMIT[:12]}\n"
    _, reply = kernel.run("%infinijup tag best commit=other")
    assert reply["status"] == "error" and "no snapshot" in reply["evalue"]


def test_mistakes_ask_nobody(kernel):
    _, reply = kernel.run("%infinijup snapshto")
    assert "did you mean `snapshot`" in reply["evalue"]
    assert kernel.asked == []


def test_what_nobody_heard_is_said_again_with_the_same_id(kernel):
    kernel.answers["status"] = lambda _: VIEW if len(kernel.asked) > 1 else None
    _, reply = kernel.run("%infinijup status")
    assert reply["status"] == "ok"
    first, second = kernel.asked
    assert first == second


def test_silence_ends(kernel):
    kernel.answers["status"] = None
    _, reply = kernel.run("magic.InfinijupMagics.ask.__defaults__ = (0.5,)\n%infinijup snapshot")
    kernel.run("magic.InfinijupMagics.ask.__defaults__ = (20,)")
    assert "gave no answer within 0.5 s" in reply["evalue"]
    # Nobody listens, so what may take hours was not even asked for.
    assert kernel.verbs() == ["status"]


def test_a_kernel_outside_of_sessions_says_so(kernel):
    kernel.run("import os; name = os.environ.pop('INFINIJUP_SESSION')")
    _, reply = kernel.run("%infinijup status")
    kernel.run("os.environ['INFINIJUP_SESSION'] = name")
    assert "not a session of infinijup" in reply["evalue"]


def test_a_kernel_that_wakes_up_in_the_middle_of_a_snapshot_goes_on(kernel):
    kernel.answers["snapshot"] = lambda _: kernel.restore()
    printed, reply = kernel.run("answer = %infinijup snapshot\nprint(answer['restored'], 'goes on')")
    assert reply["status"] == "ok"
    assert printed == f"restored: session analysis, snapshot {COMMIT[:12]}\n{COMMIT} goes on\n"


def test_what_is_said_to_all_does_not_disturb_who_does_not_wait(kernel):
    kernel.restore()
    printed, reply = kernel.run("%infinijup status")
    assert reply["status"] == "ok" and "session analysis" in printed


def test_a_try_that_goes_well_is_only_a_snapshot(kernel):
    printed, reply = kernel.run("%%infinijup try\nvalue = 40 + 2\nprint(value)")
    assert reply["status"] == "ok" and "42" in printed
    assert kernel.verbs() == ["status", "snapshot"]
    assert kernel.asked[-1]["label"] == "try: value = 40 + 2"


def test_a_try_that_raises_asks_for_the_way_back(kernel):
    """The process would be gone then; here it is refused, which must be told."""
    kernel.answers["restore"] = ("IJ-L021", "others changed data.csv", "use --force")
    _, reply = kernel.run("%%infinijup try careful\nraise ValueError('bad news')")
    asked = kernel.asked[-1]
    assert (asked["do"], asked["to"], asked["note"], asked["files"]) == ("restore", COMMIT, "ValueError: bad news", True)
    assert reply["status"] == "error"
    assert "was not rolled back: others changed data.csv" in reply["evalue"]


def test_the_other_life_of_a_try_says_what_happened(kernel):
    kernel.run("ran = 0")
    kernel.answers["snapshot"] = lambda _: kernel.restore("ValueError: bad news")
    printed, reply = kernel.run("%%infinijup try\nran += 1")
    assert reply["status"] == "ok"
    assert printed == f"rolled back to snapshot {COMMIT[:12]}, as before this cell, because it raised ValueError: bad news\n"
    printed, _ = kernel.run("print(ran)")
    assert printed == "0\n"
    _, reply = kernel.run("%%infinijup try --raise\nran += 1")
    assert reply["status"] == "error" and "because it raised ValueError" in reply["evalue"]


def test_a_cell_that_cannot_be_parsed_needs_no_way_back(kernel):
    kernel.run("%%infinijup try\nnot python at all (")
    assert kernel.verbs() == ["status", "snapshot"]


def test_an_interrupt_ends_the_waiting(kernel):
    kernel.answers["snapshot"] = lambda _: kernel.manager.interrupt_kernel()
    _, reply = kernel.run("%infinijup snapshot")
    assert reply["ename"] == "KeyboardInterrupt"
    _, reply = kernel.run("assert magic._magics.line.waiting == {}")
    assert reply["status"] == "ok"


def test_completion(kernel):
    assert set(kernel.complete("%infinijup s")) == {"status", "snapshot", "suspend"}
    assert kernel.complete("%infinijup restore ")[:2] == ["good", COMMIT[:12]]
    assert kernel.complete("%infinijup restore go") == ["good"]
    assert kernel.complete("%%infinijup t") == ["try"]
    assert "--force" in kernel.complete("%%infinijup try --")
    assert kernel.complete("x = 1\ny = %infinijup tag best commit=go") == ["commit=good"]
    assert "print" in kernel.complete("pri")


def test_it_can_be_loaded_twice_and_unloaded(kernel):
    _, reply = kernel.run("%reload_ext infinijup\n%infinijup status")
    assert reply["status"] == "ok"
    _, reply = kernel.run("%unload_ext infinijup\n%infinijup status")
    assert reply["status"] == "error"
    kernel.run("%load_ext infinijup")
