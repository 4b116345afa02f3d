"""A day with a history that nobody thinks of: many cells over much data, with files and plots.

No snapshot is ever asked for, and each value, file and output is right after every way back, in every branch, and in a comparison.
"""

import statistics

import pytest

from harness import proc
from lab.by_itself import after_cells, look, run, undo
from lab.day import CHECK, Reference, cells, size
from lab.history import History
from lab.notebook import Notebook

COUNT, MEGABYTES = size()
pytestmark = pytest.mark.timeout(240 + 20 * COUNT)


@pytest.fixture
def day(daemon, user, make_lab, open_notebook):
    # On a machine that tests keep busy a kernel stands for longer than the 100 ms that are allowed by themselves.
    lab = make_lab(daemon, user, by_itself={"snapshotPauseMilliseconds": 3000})
    return open_notebook(lab, "day.ipynb", *cells(COUNT, MEGABYTES), CHECK, "", viewport={"width": 1280, "height": 800})


def pictures(outputs):
    return [output["data"]["image/png"].strip() for output in outputs if "image/png" in output.get("data", {})]


def is_at(notebook, moments, number, results):
    """Everything is as it was once `number` cells had run: each output, the file, and what the kernel knows."""
    shows(notebook, moments, number)
    assert results.read_text() == moments[number - 1].results
    # A cell of its own looks, and is taken back.
    assert run(notebook, COUNT, number + 1) == moments[number - 1].check
    undo(notebook, number + 1)
    shows(notebook, moments, number)


def shows(notebook, moments, number):
    """The outputs of so many cells, and none below."""
    shown = notebook.cells()
    for index, moment in enumerate(moments[:number]):
        assert (notebook.output(index) if moment.text else "") == moment.text, f"[{index + 1}] says something else"
        assert pictures(shown[index]["outputs"]) == moment.pictures, f"[{index + 1}] shows something else"
    assert all(not cell["outputs"] and cell["count"] is None for cell in shown[number:]), "a cell that was undone shows something"


def test_a_day(day, tmp_path):
    reference, results = Reference(tmp_path), day.lab.root / "results.csv"
    moments = [reference.run(code) for code in cells(COUNT, MEGABYTES)]
    for index in range(COUNT):
        run(day, index, index + 1)
    commits = day.lab.history(day.path)["commits"]
    assert {commit["reason"] for commit in commits} == {"after-cell"}, "somebody asked for a snapshot"
    pauses = [commit["frozen_us"] / 1000 for commit in after_cells(day)]
    print(f"{COUNT} cells, {MEGABYTES} MB: pauses of {statistics.median(pauses):.0f} ms in the median, {max(pauses):.0f} ms at most")
    after = look(day)[:COUNT]
    is_at(day, moments, COUNT, results)

    # The last cell, and then three.
    undo(day, COUNT)
    is_at(day, moments, COUNT - 1, results)
    for number in (COUNT - 1, COUNT - 2, COUNT - 3):
        undo(day, number)
    is_at(day, moments, COUNT - 4, results)

    # From the fifth cell on, again: by the arrow beside it.
    mark = day.tab.page.locator(".infinijup-CellMark[title*='before [5]']")
    day.select(4)
    mark.first.click()
    day.tab.page.locator(".lm-Menu-item", has_text="Run from Here Again").click()
    proc.until("all of them have run", lambda: day.cells()[COUNT]["count"] == COUNT + 1 and not day.running(), 120)
    assert look(day)[:COUNT] == after
    assert day.output(COUNT) == moments[-1].check
    assert results.read_text() == moments[-1].results

    # Two branches. Between them the original shows another plot.
    one = branch(day)
    is_right(one, moments[-1])
    last = next(index for index in reversed(range(COUNT)) if moments[index].pictures)
    changed = cells(COUNT, MEGABYTES)[last].replace("** 2", "** 3")
    day.activate()
    day.set_source(last, changed)
    moment = reference.run(changed)
    run(day, last, COUNT + 2)
    assert pictures(day.cells()[last]["outputs"]) == moment.pictures != moments[last].pictures
    other = branch(day)
    is_right(other, moment)

    # What is done in one is not seen in another.
    one.set_source(COUNT + 1, "data[:] = 0\nopen('results.csv', 'w').close()\nprint(data.sum())")
    assert one.run(COUNT + 1, 120) == "0.0"
    is_right(other, moment)
    assert results.read_text() == moment.results
    is_right(day, moment)

    # Both moments side by side.
    compare(day, moments[last].pictures[0], moment.pictures[0])


def branch(day) -> Notebook:
    """By the toolbar; the copy."""
    tab, known = day.tab, set(day.tab.notebooks())
    day.activate()
    tab.press_toolbar("infinijup-branch")
    path = proc.until("a copy opens", lambda: next(iter(set(tab.notebooks()) - known), None), 90)
    return Notebook(tab, path).connected(90)


def is_right(notebook, moment):
    """What the kernel knows and what is in its files."""
    notebook.activate()
    assert notebook.run(COUNT, 120) == moment.check


def compare(day, before, after):
    """The two moments at which branches began."""
    # By the keyboard: after so many undos, notifications stand before the tab in the side bar.
    day.select(COUNT)
    day.tab.press("h", "h")
    history = History(day.tab).open()
    history.unfold()
    commits = [commit["id"] for commit in day.lab.history(day.path)["commits"] if commit["reason"] == "branch"]
    assert len(commits) == 2
    history.scroll_to(commits[1]).locator(".jp-InfinijupHistory-title").click()
    history.scroll_to(commits[0]).locator(".jp-InfinijupHistory-title").click(modifiers=["Control"])
    history.scroll_to(commits[1])
    history.panel.get_by_role("button", name="Compare both").click()
    cell = day.tab.page.locator("[data-infinijup-compare] [data-infinijup-cell][data-infinijup-change=changed]", has_text="** 3")
    for when, picture in (("before", before), ("after", after)):
        source = cell.get_by_role("group", name=f"Output {when}").locator("img").get_attribute("src")
        assert source.partition("base64,")[2].strip() == picture, f"another picture {when}"
    day.tab.shot("compared")
