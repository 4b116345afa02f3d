"""What the panel, notifications and the comparison say while people work: names, moons, pictures, tabs, and nothing that is over."""

import re

import pytest

from harness import proc
from lab.history import History
from lab.notebook import Notebook

# A picture of one colour, and a line about it, without a library that draws.
PICTURE = """
import struct, zlib
from IPython.display import Image, display
def picture(red, green, blue):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = (b'\\0' + bytes([red, green, blue]) * 160) * 90
    head = struct.pack('>IIBBBBB', 160, 90, 8, 2, 0, 0, 0)
    return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
"""
RED = "# how it looks\nscores = [1, 2, 3]\ndisplay(Image(picture(200, 40, 40)))\nprint('mean', sum(scores) / 3)"
HASH = re.compile(r"\b[0-9a-f]{10,}\b")


def snapshot(history) -> str:
    """By the panel's own button, which never hides in a narrow toolbar; the new card's commit."""
    before = history.commits()
    history.panel.locator(".jp-InfinijupHistory-toolbar [data-infinijup-action=snapshot]").click()
    return history.wait_newer(before, 60)


def theme(page, name: str) -> None:
    """Another theme, once it is there."""
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
    light = "false" if "Dark" in name else "true"
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=light)
    page.locator("#jupyterlab-splash").wait_for(state="detached")


@pytest.mark.parametrize("width", [1280, 1024])
def test_a_comparison_has_outputs_and_pictures_side_by_side(lab, open_notebook, width):
    notebook = open_notebook(lab, f"pictures-{width}.ipynb", PICTURE, RED, viewport={"width": width, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.run(0)
    notebook.run(1)
    notes = lab.user.write(lab.root / f"notes-{width}.txt", "one\ntwo\nlast\n")
    first = snapshot(history)
    assert history.card(first).locator(".jp-InfinijupHistory-title").inner_text() == "scores = [1, 2, 3]"
    lab.user.write(notes, "one\nthree\nlast\n")
    notebook.set_source(1, RED.replace("200, 40, 40", "40, 40, 200").replace("3]", "3, 3]"))
    notebook.run(1)
    snapshot(history)
    history.open_card(first)
    tab.shot("card-light")
    history.action(first, "compare")
    compare = tab.page.locator("[data-infinijup-compare]")
    cell = compare.locator("[data-infinijup-cell][data-infinijup-change=changed]")
    cell.locator("img").nth(1).wait_for()
    before, after = (cell.get_by_role("group", name=f"Output {when}") for when in ("before", "after"))
    assert "mean 2.0" in before.inner_text() and "mean 3.0" in after.inner_text()
    left, right = before.locator("img").bounding_box(), after.locator("img").bounding_box()
    assert left["x"] + left["width"] <= right["x"] and abs(left["y"] - right["y"]) < 2, "not side by side"
    compare.locator('[data-infinijup-variable="scores"][data-infinijup-change="changed"]').wait_for()
    assert not compare.get_by_text("Mapping").is_visible(), "memory is folded"
    compare.locator(f'[data-infinijup-file$="{notes.name}"] button').click()
    lines = compare.locator(f'[data-infinijup-text$="{notes.name}"]')
    lines.get_by_text("- two").wait_for()
    assert [line.strip() for line in lines.inner_text().splitlines() if line.strip()] == ["one", "- two", "+ three", "last"]
    lines.scroll_into_view_if_needed()
    tab.shot("file-lines")
    title = tab.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="↔").inner_text()
    assert "scores = [1, 2" in title and not HASH.search(title + compare.inner_text())
    tab.shot("compare-light")
    theme(tab.page, "JupyterLab Dark")
    tab.shot("compare-dark")
    notebook.activate()
    tab.shot("card-dark")
    theme(tab.page, "JupyterLab Light")


def test_a_suspended_kernel_has_a_moon_and_is_not_idle(lab, open_notebook):
    notebook = open_notebook(lab, "moon.ipynb", "x = 1", viewport={"width": 1280, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    bar = tab.page.locator("#jp-main-statusbar")
    notebook.run(0)
    proc.until("it is idle", lambda: "Idle" in bar.inner_text())
    tab.press_toolbar("infinijup-suspend")
    tab.wait_notice("Kernel suspended", 60)
    proc.until("the status bar says so", lambda: "Kernel suspended" in bar.inner_text())
    bar.locator(".jp-Infinijup-moon svg").wait_for()
    proc.until("nobody calls it idle", lambda: "Idle" not in bar.inner_text())
    proc.until("the last snapshot is that of now", lambda: re.search(r"Last snapshot \d", bar.inner_text()))
    panel = tab.page.locator(".jp-NotebookPanel")
    ring = panel.locator(".jp-Notebook-ExecutionIndicator")
    mask = "node => getComputedStyle(node, '::before').maskImage"
    proc.until("a moon is where the ring was", lambda: ring.evaluate(mask).startswith("url("))
    history.panel.get_by_text("This kernel is suspended").wait_for()
    history.panel.get_by_role("img", name="This kernel is suspended").wait_for()
    tab.page.locator('.jp-SideBar [data-id="jp-running-sessions"]').click()
    tab.page.locator(".jp-RunningSessions-item.jp-Infinijup-suspended svg").first.wait_for()
    tab.shot("asleep")
    assert notebook.execute("print(x)") == "1"
    proc.until("the notification is withdrawn", lambda: not any("Kernel suspended" in text for text in tab.notices()))
    proc.until("it is idle again", lambda: "Idle" in bar.inner_text())
    proc.until("the ring is back", lambda: ring.evaluate(mask) == "none")
    tab.shot("awake")


def test_branches_are_tabs_and_name_their_own_cells(lab, open_notebook):
    notebook = open_notebook(lab, "family.ipynb", "import math", "scores = [math.pi]", viewport={"width": 1280, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.run(0)
    notebook.run(1)
    first = snapshot(history)
    for number in (2, 3):
        notebook.activate()
        history.action(first, "branch")
        path = proc.until("a copy opens", lambda number=number: len(tab.notebooks()) == number and tab.notebooks()[-1], 60)
        branch = Notebook(tab, path).connected()
        areas = tab.page.locator("#jp-main-dock-panel .lm-DockPanel-tabBar:visible")
        assert areas.count() == 2, f"{areas.count()} areas with {number - 1} branches"
    tab.shot("branches")
    # The cursor of a fresh branch is in its first cell, and nothing has run in this page.
    branch.activate()
    fresh = snapshot(history)
    assert history.card(fresh).locator(".jp-InfinijupHistory-title").inner_text() == "scores = [math.pi]"


def test_files_that_go_with_a_branch_are_named_before(lab, open_notebook):
    """Its trash, and 'Delete All', say which files no snapshot has; the last snapshot has them afterwards."""
    notebook = open_notebook(lab, "trash.ipynb", "x = 1", viewport={"width": 1280, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.run(0)
    history.action(snapshot(history), "branch")
    path = proc.until("a copy opens", lambda: len(tab.notebooks()) == 2 and tab.notebooks()[-1], 60)
    Notebook(tab, path).connected().activate()
    tab.press_toolbar("infinijup-suspend")
    tab.wait_notice("Kernel suspended", 60)
    # The snapshot that it sleeps in has what it wrote before.
    for number in range(7):
        lab.user.write(lab.root / "trash (branch) files" / f"result {number}.csv", "only here")
    tab.page.locator('.jp-SideBar [data-id="jp-running-sessions"]').click()
    item = tab.page.locator(".jp-RunningSessions-item.jp-Infinijup-suspended", has_text="trash (branch)")
    item.hover()
    item.locator(".jp-RunningSessions-itemShutdown").click()
    dialog = tab.dialog("forget")
    words = dialog.inner_text()
    assert "7 files are in no snapshot" in words and "result 0.csv (9 B)" in words and "and 1 more" in words, words
    tab.shot("trash")
    dialog.locator(".jp-mod-reject").click()
    dialog.wait_for(state="detached")
    with tab.page.expect_response(lambda answer: "/files" in answer.url):
        tab.page.locator("#jp-running-sessions").get_by_title("Refresh List").click()
    tab.page.locator(".lm-AccordionPanel-title", has_text="Suspended kernels").get_by_text("Delete All").click()
    question = tab.dialog()
    assert re.search(r"saved in a last one: result 0.csv \(9 B\), .* and 4 more", question.inner_text()), question.inner_text()
    tab.shot("delete-all")
    question.locator(".jp-mod-accept, .jp-mod-warn").last.click()
    tab.wait_notice("7 files of the branch were saved in a last snapshot", 60)


KEPT = "file = open('notes.txt', 'w')\nfile.write('by the kernel'); file.flush()"
REFUSED = {"code": "IJ-L030", "message": "files were changed by somebody else", "files": ["/work/notes.txt"], "causes": []}


def test_files_that_others_changed_can_be_kept(lab, open_notebook):
    """A daemon that refuses to overwrite them: the question has a choice that leaves all files as they are."""
    notebook = open_notebook(lab, "keep.ipynb", KEPT, "x = 1", viewport={"width": 1280, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.run(0)
    notebook.run(1)
    first = snapshot(history)
    notebook.execute("x = 2; file.close()")
    # As long as before: what is open at the snapshot must have its size.
    lab.user.write(lab.root / "notes.txt", "by a stranger")
    answers = [lambda route: route.fulfill(status=409, json=REFUSED), lambda route: route.continue_()]
    tab.page.route("**/infinijup/restore*", lambda route: answers.pop(0)(route))
    history.action(first, "restore")
    dialog = tab.dialog("restore")
    assert not HASH.search(dialog.inner_text())
    dialog.locator(".jp-mod-accept").click()
    asked = tab.dialog("force", 30)
    assert "notes.txt" in asked.inner_text()
    tab.shot("conflict")
    asked.get_by_role("button", name="Keep These Files").click()
    said = tab.wait_notice(r"back at", 60)
    assert not HASH.search(said)
    assert (lab.root / "notes.txt").read_text() == "by a stranger"
    notebook.quiet()
    assert notebook.execute("print(x)") == "1"


def test_files_of_a_snapshot_are_copied_beside_the_notebook(lab, open_notebook):
    notebook = open_notebook(lab, "copies.ipynb", KEPT.replace("notes", "copied"), viewport={"width": 1280, "height": 800})
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.run(0)
    first = snapshot(history)
    notebook.execute("file.write(', and more'); file.close()")
    history.menu(first).locator('[data-command="infinijup:copy-files"]').click()
    dialog = tab.dialog("copy-files")
    assert "copied.txt" in dialog.inner_text()
    tab.shot("copy")
    dialog.locator(".jp-mod-accept").click()
    tab.wait_notice("copied beside the notebook")
    found = {path.name: path.read_text() for path in lab.root.glob("copied*")}
    assert found.pop("copied.txt") == "by the kernel, and more"
    assert list(found.values()) == ["by the kernel"]


def test_notifications_leave_the_panel_free_and_go_when_they_are_over(own_lab, open_notebook):
    notebook = open_notebook(own_lab, "notes.ipynb", "x = 1", viewport={"width": 1024, "height": 700})
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.run(0)
    snapshot(history)
    said = tab.wait_notice("taken")
    assert "x = 1" in said and "paused" in said and not HASH.search(said)
    toast = tab.page.locator(".Toastify__toast").first.bounding_box()
    panel = history.panel.bounding_box()
    tab.shot("beside")
    assert toast["x"] + toast["width"] <= panel["x"], "a notification covers the panel"
    tab.forget_notices()
    own_lab.daemon.stop()
    notebook.select(0)
    tab.page.evaluate("() => window.jupyterapp.commands.execute('infinijup:doctor')")
    tab.wait_notice("does not answer")
    tab.shot("away")
    own_lab.daemon.start()
    proc.until("the error goes", lambda: not any("does not answer" in text for text in tab.notices()), 60)


def test_the_doctor_folds_what_works(lab, open_notebook):
    notebook = open_notebook(lab, "doctor.ipynb", "x = 1", viewport={"width": 1024, "height": 700})
    notebook.tab.page.evaluate("() => { window.jupyterapp.commands.execute('infinijup:doctor'); }")
    dialog = notebook.tab.dialog("doctor", 60)
    notebook.tab.shot("doctor")
    fold = dialog.locator("details")
    assert fold.get_attribute("open") is None
    fold.locator("summary").click()
    wide = dialog.evaluate("node => [node, ...node.querySelectorAll('*')].filter(one => one.scrollWidth > one.clientWidth + 1 && "
                           "['auto', 'scroll'].includes(getComputedStyle(one).overflowX)).map(one => one.className)")  # fmt: skip
    notebook.tab.shot("unfolded")
    assert wide == [], f"scrolls sideways: {wide}"
