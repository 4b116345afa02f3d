"""What is noticed in daily use: names, limits that are kept, notifications that do not pile up, and documents as they were seen."""

import pytest

from harness import proc
from harness.wire import request
from lab.by_itself import numbers, run, undo
from lab.history import History


def notebook_of(lab, commit: str) -> dict:
    """The document of a snapshot, by the ids of its cells."""
    return {cell["id"]: cell for cell in lab.get(f"/infinijup/notebook?commit={commit}")["content"]["cells"]}


LARGE = "large = b'x' * (400 << 20)"


@pytest.mark.timeout(300)
def test_a_pause_that_would_be_too_long_is_not_made_and_said(make_daemon, user, make_lab, open_notebook):
    """Settings as they come: 100 ms. Without copying ahead a kernel stands still for as long as its memory takes."""
    lab = make_lab(make_daemon({"INFINIJUP_COPY_AHEAD": "off"}, user), user, by_itself={})
    notebook = open_notebook(lab, "limit.ipynb", "x = 1", LARGE, "del large")
    history = History(notebook.tab).open()
    said = history.panel.locator("[data-infinijup-left-out]")
    run(notebook, 0, 1)
    assert said.count() == 0
    notebook.run(1)
    said.wait_for()
    assert "No snapshot was taken after [2]" in said.inner_text() and "100 ms" in said.inner_text()
    notebook.tab.shot("left-out")
    assert numbers(notebook) == [1]
    run(notebook, 2, 3)
    said.wait_for(state="detached")
    assert numbers(notebook) == [1, 3]


def test_a_kernel_that_the_daemon_suspends_has_the_notebook_as_it_was_seen(lab, open_notebook):
    notebook = open_notebook(lab, "seen.ipynb", "print('seen')")
    bar = notebook.tab.page.locator("#jp-main-statusbar")
    notebook.run(0)
    session = lab.history(notebook.path)["session"]["id"]
    drafts = lab.user.home / ".local/share/jupyter/infinijup/shown"
    proc.until("what is shown is written down", lambda: (drafts / f"{session}.ipynb").exists(), 20)
    assert not lab.read_notebook(notebook.path)["cells"][0]["outputs"], "it was saved"
    policy = {"suspend_after_idle_s": 1, "suspend_only_gpu": False}
    status, answer = request(lab.daemon.socket, "PATCH", f"/v1/sessions/{session}", {"policy": policy})
    assert status == 200, answer
    proc.until("it sleeps", lambda: lab.history(notebook.path)["session"]["state"] == "suspended", 60)
    head = lab.history(notebook.path)["session"]["head"]
    assert notebook_of(lab, head)["cell-0"]["outputs"][0]["text"] in ("seen\n", ["seen\n"])
    # And nobody had to say that there is a snapshot now.
    proc.until("the status bar knows of it", lambda: "Last snapshot" in bar.inner_text(), 20)


def test_a_snapshot_is_named_afterwards(lab, open_notebook):
    notebook = open_notebook(lab, "named.ipynb", "x = 1", "x = 2")
    tab, history = notebook.tab, History(notebook.tab).open()
    made = []
    for index in (0, 1):
        notebook.run(index)
        known = history.commits()
        history.panel.locator(".jp-InfinijupHistory-toolbar [data-infinijup-action=snapshot]").click()
        made.append(history.wait_newer(known, 60))

    def title(commit):
        return history.card(commit).locator(".jp-InfinijupHistory-title").inner_text()

    def answer(name):
        dialog = tab.dialog("tag")
        dialog.locator("input").first.fill(name)
        tab.press("Enter")
        dialog.wait_for(state="detached")

    history.menu(made[0]).get_by_text("Name…").click()
    answer("first try")
    proc.until("the card is called so", lambda: title(made[0]) == "first try")
    tab.shot("named")
    # By keyboard, another name in place of it.
    history.card(made[0]).focus()
    tab.press("F2")
    assert tab.dialog("tag").locator("input").first.input_value() == "first try"
    answer("baseline")
    proc.until("it has the other name", lambda: title(made[0]) == "baseline")
    tags = {commit["id"]: commit["tags"] for commit in lab.history(notebook.path)["commits"]}
    assert tags[made[0]] == ["baseline"]
    # A name leads to one snapshot; it can go to another.
    history.card(made[1]).focus()
    tab.press("F2")
    answer("baseline")
    question = tab.page.locator(".jp-Dialog", has_text="is the name of another snapshot")
    question.get_by_role("button", name="Move the Name Here").click()
    proc.until("the name has moved", lambda: title(made[1]) == "baseline" and title(made[0]) == "x = 1")


@pytest.mark.timeout(300)
def test_undos_do_not_pile_up_and_blame_nobody_for_the_notebook(daemon, user, make_lab, open_notebook):
    lab = make_lab(daemon, user, by_itself={"snapshotPauseMilliseconds": 3000})
    notebook = open_notebook(lab, "undos.ipynb", "a = 1", "b = 2", "c = 3")
    for index in range(3):
        run(notebook, index, index + 1)
    notebook.save()
    for number in (3, 2):
        undo(notebook, number)
        seen = notebook.tab.page.locator(".Toastify__toast")
        proc.until("the one before has gone", lambda seen=seen: seen.count() == 1, 10)
        assert "someone else" not in seen.inner_text(), seen.inner_text()
    notebook.tab.shot("one")
