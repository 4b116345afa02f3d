"""Kernels are exchanged under a page that works: nothing is lost, no cell stays at `[*]`, nobody takes the kernel for dead."""

import threading

import pytest

from harness import proc
from lab.history import History
from lab.notebook import Notebook, text_of

ROLLBACKS = 50


def restore(lab, notebook, commit):
    """A rollback as the page asks for one."""
    return lab.post("/infinijup/restore", {"kernel_id": notebook.kernel()["id"], "to": commit})


def snapshot(lab, notebook, **more):
    """A snapshot as the page asks for one; its commit."""
    return lab.post("/infinijup/snapshot", {"kernel_id": notebook.kernel()["id"], **more})["commit"]


class Rollbacks(threading.Thread):
    """Goes back again and again, at once after each time, while the page submits cells."""

    def __init__(self, lab, kernel_id, commit, times):
        super().__init__(daemon=True)
        self.lab, self.kernel_id, self.commit, self.times = lab, kernel_id, commit, times
        self.done, self.problem = 0, None

    def run(self):
        try:
            for _ in range(self.times):
                self.lab.post("/infinijup/restore", {"kernel_id": self.kernel_id, "to": self.commit})
                self.done += 1
        except (AssertionError, OSError) as problem:
            self.problem = problem


@pytest.mark.timeout(900)
def test_rollbacks_under_cells(lab, open_notebook):
    notebook = open_notebook(lab, "load.ipynb", "x = 1")
    notebook.run(0)
    commit = snapshot(lab, notebook)
    back = Rollbacks(lab, notebook.kernel()["id"], commit, ROLLBACKS)
    place = notebook.add("print('not yet')")
    back.start()
    answered = cut_off = number = 0
    while back.is_alive():
        number += 1
        notebook.select(place)
        # Another text each time, so that an answer cannot be that of the cell before.
        notebook.set_source(place, f"print('answer', {number} * x)")
        said = notebook.run(place, 60)
        if said == "":
            # It met the swap and was cut off, and the page says so: the prompt is empty. Run again, it answers.
            cell = notebook.cells()[place]
            assert cell["count"] is None, f"no answer to {number} after {back.done} rollbacks: {cell}"
            cut_off += 1
        else:
            assert said == f"answer {number}", f"after {back.done} rollbacks"
            answered += 1
    back.join()
    assert back.problem is None, back.problem
    assert back.done == ROLLBACKS
    notebook.quiet()
    assert notebook.execute("print(x)") == "1"
    assert answered >= ROLLBACKS // 2, f"{answered} answers, {cut_off} cut off"
    assert "restarting kernel" not in lab.log.read_text()
    print(f"{answered} answered, {cut_off} cut off by one of {ROLLBACKS} rollbacks")


def test_cells_that_wait_in_the_queue(lab, open_notebook):
    """A cell that runs is cut off and its prompt cleared, and so are those behind it; what comes after runs."""
    notebook = open_notebook(lab, "queue.ipynb", "x = 1", "import time\ntime.sleep(600)", "print('behind')")
    notebook.run(0)
    commit = snapshot(lab, notebook)
    notebook.start(1)
    notebook.start(2)
    proc.until("two cells wait", lambda: len(notebook.running()) == 2)
    restore(lab, notebook, commit)
    notebook.quiet(30)
    assert notebook.execute("print('after', x)") == "after 1"
    notebook.tab.shot("queue")


def test_interrupt_after_a_swap(lab, open_notebook):
    notebook = open_notebook(lab, "interrupt.ipynb", "x = 1")
    notebook.run(0)
    restore(lab, notebook, snapshot(lab, notebook))
    started = notebook.begin("import time\nwhile True:\n    time.sleep(0.05)")
    proc.until("the cell runs", notebook.running)
    notebook.tab.press("Escape", "i", "i")
    assert "KeyboardInterrupt" in notebook.finish(started, 30)
    assert notebook.execute("print(x)") == "1"


def test_input(lab, open_notebook):
    """`input()` works after a swap. A swap while it asks takes the question away."""
    notebook = open_notebook(lab, "input.ipynb", "x = 1", "name = input('who? ')\nprint('hello', name)")
    question = notebook.tab.page.locator(".jp-Stdin-input")
    notebook.run(0)
    commit = snapshot(lab, notebook)
    notebook.start(1)
    question.wait_for()
    restore(lab, notebook, commit)
    notebook.quiet(30)
    started = notebook.start(1)
    question.last.wait_for()
    question.last.fill("world")
    notebook.tab.press("Enter")
    assert notebook.finish(started, 30).endswith("hello world")


def test_a_snapshot_in_the_middle_of_a_cell(lab, open_notebook):
    """Going back into a running loop: it goes on from there, and its end is seen."""
    notebook = open_notebook(lab, "middle.ipynb", "import time\nfor n in range(60):\n    time.sleep(0.1)\nprint('end', n)")
    started = notebook.start(0)
    proc.until("the cell runs", notebook.running)
    commit = snapshot(lab, notebook)
    assert notebook.finish(started, 60).endswith("end 59")
    restore(lab, notebook, commit)
    proc.until("the restored cell has ended", lambda: lab.session_of(notebook.path)["kernel"]["execution_state"] == "idle", 60)
    notebook.quiet(60)
    assert notebook.execute("print(n)") == "59"


def test_two_tabs(lab, open_notebook, make_tab):
    first = open_notebook(lab, "tabs.ipynb", "x = 1", "print('first', x)", "print('second', x)")
    tab = make_tab(lab, "other")
    tab.goto("tabs.ipynb")
    second = Notebook(tab, "tabs.ipynb").connected()
    assert first.kernel()["id"] == second.kernel()["id"]
    first.run(0)
    commit = snapshot(lab, first)
    for _ in range(3):
        second.execute("x = 2")
        restore(lab, first, commit)
        assert first.run(1) == "first 1"
        assert second.run(2) == "second 1"
    first.quiet()
    second.quiet()


def test_a_reload_in_the_middle(lab, open_notebook):
    """The page is reloaded while the kernel is exchanged, and while a cell runs that is then undone."""
    notebook = open_notebook(lab, "reload.ipynb", "x = 1", "import time\ntime.sleep(600)")
    notebook.run(0)
    notebook.save()
    commit = snapshot(lab, notebook)
    back = Rollbacks(lab, notebook.kernel()["id"], commit, 5)
    back.start()
    notebook.tab.reload()
    back.join()
    assert back.problem is None, back.problem
    notebook.connected()
    assert notebook.execute("print(x)") == "1"
    notebook.save()
    notebook.start(1)
    proc.until("the cell runs", notebook.running)
    notebook.tab.reload()
    lab.post("/infinijup/restore", {"kernel_id": lab.session_of(notebook.path)["kernel"]["id"], "to": commit})
    notebook.connected()
    notebook.quiet()
    assert notebook.execute("print(x)") == "1"


WIDGET = "import ipywidgets\nslider = ipywidgets.IntSlider(value=3, description='depth')\nslider"


def test_widgets(lab, open_notebook):
    """A widget from before the snapshot is the same in the restored kernel: moved in the page, it moves there."""
    notebook = open_notebook(lab, "widgets.ipynb", WIDGET)
    notebook.run(0)
    page = notebook.tab.page
    readout = page.locator(".widget-slider .widget-readout").first
    readout.wait_for()
    commit = snapshot(lab, notebook)
    set_readout(page, readout, 7)
    assert notebook.execute("print(slider.value)") == "7"
    restore(lab, notebook, commit)
    # The page shows what the kernel has.
    proc.until("the page goes back too", lambda: readout.inner_text() == "3", 10)
    assert notebook.execute("print(slider.value)") == "3"
    set_readout(page, readout, 9)
    assert notebook.execute("print(slider.value)") == "9"
    notebook.execute("slider.value = 5")
    proc.until("the page follows", lambda: readout.inner_text() == "5", 10)
    notebook.tab.shot("widgets")


LATER = "later = ipywidgets.IntSlider(value=1, description='later')\nlater"


def test_a_widget_that_the_restored_kernel_does_not_have(lab, open_notebook):
    """Its output says so; running its cell again makes another."""
    notebook = open_notebook(lab, "later.ipynb", WIDGET, LATER)
    notebook.run(0)
    commit = snapshot(lab, notebook)
    notebook.run(1)
    page = notebook.tab.page
    page.locator(".widget-slider").nth(1).wait_for()
    restore(lab, notebook, commit)
    note = page.locator(".jp-Infinijup-stale")
    note.wait_for(timeout=15000)
    assert note.count() == 1 and "does not have this widget" in note.inner_text()
    notebook.tab.shot("stale")
    note.get_by_role("button", name="Run cell again").click()
    note.wait_for(state="detached")
    notebook.quiet()
    assert notebook.execute("print(later.value)") == "1"


def set_readout(page, readout, value):
    """Types a number into the slider's own field."""
    readout.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(str(value))
    page.keyboard.press("Enter")


GIVEN_UP = "The cell that runs now is stopped."


def test_restore_by_click_while_a_cell_runs(lab, open_notebook):
    """From the panel: what runs is cut off, the panel says what is lost before, and an automatic snapshot keeps it."""
    notebook = open_notebook(lab, "click.ipynb", "x = 1", "import time\nx = 2\ntime.sleep(600)")
    notebook.run(0)
    history = History(notebook.tab).open()
    commit = snapshot(lab, notebook, label="before")
    history.wait_card("before")
    history.action(commit, "restore")
    dialog = notebook.tab.dialog("restore")
    assert GIVEN_UP not in dialog.inner_text()
    dialog.locator(".jp-mod-reject").click()
    dialog.wait_for(state="detached", timeout=15000)
    notebook.start(1)
    proc.until("the cell runs", lambda: notebook.running() and notebook.kernel()["status"] == "busy")
    history.action(commit, "restore")
    assert GIVEN_UP in notebook.tab.dialog("restore").inner_text()
    notebook.tab.shot("given-up")
    history.answer_restore("kernel")
    notebook.quiet(30)
    assert notebook.execute("print(x)") == "1"
    kept = [entry for entry in lab.history(notebook.path)["commits"] if entry.get("automatic")]
    assert kept, "nothing was kept of what was lost"
    assert text_of(notebook.cells()[1]["outputs"]) == ""
    notebook.tab.shot("kept")
