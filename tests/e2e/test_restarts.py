"""The server is killed, or the whole machine: kernels are found again, or come back from their last snapshots."""

import pytest

from harness import leftovers, proc
from lab.history import History
from lab.notebook import Notebook

# Ticks until the test says that it may end.
FILES = "import pathlib, time\ngo, done = pathlib.Path('go').absolute(), pathlib.Path('done').absolute()"
LONG = "while not go.exists():\n    print('.', end='', flush=True)\n    time.sleep(0.1)\nprint(' ended')\nx = 41\ndone.touch()"


def test_a_killed_server(own_lab, open_notebook):
    """kill -9 of the Jupyter server: the page finds its kernel again, with variables, and with a cell that went on meanwhile."""
    notebook = open_notebook(own_lab, "server.ipynb", "x = 41", "import time\ntime.sleep(3)\ny = x + 1")
    notebook.run(0)
    notebook.start(1)
    proc.until("the cell runs", notebook.running)
    notebook.save()
    kernel_id = notebook.kernel()["id"]
    own_lab.kill()
    own_lab.start()
    notebook.tab.goto("server.ipynb")
    notebook.connected()
    assert notebook.kernel()["id"] == kernel_id
    assert own_lab.session_of("server.ipynb")["kernel"]["id"] == kernel_id
    assert notebook.execute("print(x, y)") == "41 42"
    notebook.tab.shot("server-again")


def test_an_open_page_finds_its_kernel_again(own_lab, open_notebook):
    """Without a reload: JupyterLab connects again by itself."""
    notebook = open_notebook(own_lab, "open.ipynb", "x = 41")
    notebook.run(0)
    own_lab.kill()
    own_lab.start()
    notebook.connected(90)
    assert notebook.execute("print(x + 1)") == "42"


def test_a_cell_that_ends_while_the_server_is_away(own_lab, open_notebook):
    """Nobody heard its end: the page that finds the kernel idle ends it, says so, and works. A cell behind it too."""
    notebook = open_notebook(own_lab, "away.ipynb", FILES, LONG, "y = x + 1")
    notebook.run(0)
    first, second = notebook.start(1), notebook.start(2)
    proc.until("the cell runs", lambda: notebook.output(1))
    own_lab.kill()
    (own_lab.root / "go").touch()
    proc.until("it has ended", (own_lab.root / "done").exists)
    own_lab.start()
    notebook.connected(90)
    said = notebook.finish(first), notebook.finish(second)
    assert all("The connection to the kernel was lost" in text for text in said), said
    notebook.tab.shot("unheard")
    assert notebook.execute("print(x)") == "41"


def test_a_cell_that_outlasts_the_server(own_lab, open_notebook):
    """It goes on in the page that finds it again, to its end."""
    notebook = open_notebook(own_lab, "outlasts.ipynb", FILES, LONG)
    notebook.run(0)
    started = notebook.start(1)
    proc.until("the cell runs", lambda: notebook.output(1))
    own_lab.kill()
    own_lab.start()
    before = notebook.output(1)
    proc.until("the page hears it again", lambda: len(notebook.output(1)) > len(before), 90)
    (own_lab.root / "go").touch()
    said = notebook.finish(started)
    assert said.endswith(". ended") and "lost" not in said, said
    assert notebook.execute("print(x)") == "41"


def reboot(daemon, lab):
    """Every process ends at once; what is in memory only is gone; disks are kept. Then daemon and server start."""
    daemon.kill()
    lab.kill()
    lab.daemon.record.kill_processes(daemon.name)
    leftovers.unmount(daemon.run)
    daemon.start()
    lab.start()


def accept(tab):
    """Says yes to the offer of the last snapshot, and to the question what of it."""
    tab.press_notice("You can restore", "Restore", 60)
    History(tab).answer_restore("kernel")


@pytest.mark.timeout(400)
def test_a_reboot(daemon, own_lab, open_notebook, make_tab):
    """Two notebooks; each is offered its own last snapshot and comes back from it."""
    paths = ["one.ipynb", "two.ipynb"]
    for number, path in enumerate(paths):
        notebook = open_notebook(own_lab, path, f"x = {number + 1}; import os; os.environ['WHO'] = '{path}'")
        notebook.run(0)
        notebook.save()
        own_lab.post("/infinijup/snapshot", {"kernel_id": notebook.kernel()["id"], "label": f"kept {path}"})
        notebook.execute("x = 'after the snapshot'")
        notebook.tab.page.close()
    reboot(daemon, own_lab)
    for number, path in enumerate(paths):
        tab = make_tab(own_lab, f"again-{number}")
        tab.goto(path)
        tab.wait_notice("You can restore", 60)
        tab.shot("offer")
        accept(tab)
        notebook = Notebook(tab, path).connected(90)
        assert notebook.execute("print(x, os.environ['WHO'])") == f"{number + 1} {path}"
        assert f"kept {path}" in [commit.get("label") for commit in own_lab.history(path)["commits"]]


def test_a_crash_of_the_kernel(own_lab, open_notebook, make_tab):
    """A kernel that ended by itself: opening its notebook offers the last snapshot."""
    notebook = open_notebook(own_lab, "crash.ipynb", "x = 1")
    notebook.run(0)
    notebook.save()
    own_lab.post("/infinijup/snapshot", {"kernel_id": notebook.kernel()["id"]})
    session = own_lab.get(f"/infinijup/kernels/{notebook.kernel()['id']}")["session"]
    notebook.tab.page.close()
    own_lab.stop()
    status, answer = own_lab.daemon.post(f"/v1/sessions/{session['id']}/stop?wait=true", {"grace_ms": 0})
    assert status == 200, answer
    own_lab.start()
    tab = make_tab(own_lab, "again")
    tab.goto("crash.ipynb")
    accept(tab)
    assert Notebook(tab, "crash.ipynb").connected(90).execute("print(x)") == "1"
