"""One notebook on the GPU from the first cell to the last click: snapshot, label, restore, branch, compare, suspend, tag, delete."""

import pytest

from harness import proc
from lab.gpu_cells import setup
from lab.history import History
from lab.notebook import Notebook

MIB = 512
# Files that are open for writing belong to a snapshot.
KEEP = "file = open('idea.txt', 'w'); file.write(idea); file.flush()"


@pytest.fixture
def gpu(make_gpu):
    return make_gpu(gpus=1, memory="8GiB")


@pytest.fixture
def lab(gpu, make_daemon, make_user, make_lab):
    return make_lab(make_daemon(gpu.env()), make_user(), gpu.env())


@pytest.mark.timeout(600)
def test_the_story_of_a_notebook(gpu, lab, open_notebook):
    notebook = open_notebook(lab, "train.ipynb", setup(MIB), "train(300, pause=0.02)\nprint(epoch, loss(), whole())")
    tab, history = notebook.tab, History(notebook.tab).open()
    assert notebook.run(0, 120) == f"on the GPU: {MIB} MiB"
    assert gpu.bytes_held() >= MIB << 20

    # A snapshot in the middle of a loop; the loop goes on and comes to the same end.
    loop = notebook.start(1)
    proc.until("the loop runs", notebook.running)
    before = history.commits()
    tab.press_toolbar("infinijup-snapshot")
    during = history.wait_newer(before, 60)
    tab.shot("snapshot-in-the-loop")
    assert notebook.running(), "the loop was over before the snapshot was there"
    assert notebook.finish(loop, 120).split()[::2] == ["300", "True"]

    # A label by the magic, a snapshot that bears it, and work that will be undone.
    notebook.execute('%infinijup mark label="three hundred epochs"')
    tab.press_toolbar("infinijup-snapshot")
    labelled = history.wait_card("three hundred epochs", 60)
    assert labelled != during
    assert notebook.execute("train(20); note = 'to be undone'; print(epoch)") == "320"
    cells = len(notebook.cells())

    # Back to the label, from the graph, with the notebook.
    history.restore(labelled, "both")
    tab.shot("restored")
    notebook.quiet()
    assert len(notebook.cells()) < cells, "the notebook did not go back"
    assert notebook.execute("print(epoch, loss() < 0.5, whole(), 'note' in globals())", 120) == "300 True True False"
    assert gpu.bytes_held() >= MIB << 20

    # A branch beside it, with a copy of the notebook.
    history.branch(labelled)
    path = proc.until("a copy of the notebook opens", lambda: next((path for path in tab.notebooks() if path != notebook.path), None), 60)
    branch = Notebook(tab, path).connected()
    tab.shot("branched")
    assert branch.kernel()["id"] != notebook.kernel()["id"]
    assert gpu.bytes_held() >= 2 * MIB << 20

    # Both work on, each with its own values and its own files.
    assert branch.execute(f"idea = 'branch'; train(50); {KEEP}; print(epoch)", 120) == "350"
    assert notebook.execute(f"idea = 'main'; train(10); {KEEP}; print(epoch)", 120) == "310"
    assert branch.execute("print(epoch, open('idea.txt').read(), whole())", 120) == "350 branch True"
    assert notebook.execute("print(epoch, open('idea.txt').read(), whole())", 120) == "310 main True"
    tab.shot("side-by-side")

    # What changed since the label, by name.
    notebook.activate()
    known = history.commits()
    tab.press_toolbar("infinijup-snapshot")
    now = history.wait_newer(known, 60)
    history.action(labelled, "compare")
    compare = tab.page.locator("[data-infinijup-compare]")
    compare.locator('[data-infinijup-variable="idea"][data-infinijup-change="added"]').wait_for()
    compare.locator('[data-infinijup-variable="epoch"][data-infinijup-change="changed"]').wait_for()
    compare.locator('[data-infinijup-file*="idea.txt"]').first.wait_for()
    tab.shot("compare")

    # The branch sleeps: its memory on the GPU is free. A cell wakes it.
    branch.activate()
    tab.press_toolbar("infinijup-suspend")
    proc.until("the branch's memory is free", lambda: gpu.bytes_held() < 2 * MIB << 20, 90)
    proc.until("the status bar says so", lambda: tab.page.locator('[data-infinijup-status="suspended"]').count())
    tab.shot("suspended")
    assert branch.execute("print(epoch, open('idea.txt').read(), whole())", 120) == "350 branch True"
    assert gpu.bytes_held() >= 2 * MIB << 20
    assert notebook.execute("print(epoch)") == "310"

    # A tag, and a deletion.
    notebook.activate()
    history.tag(now, "paper")
    proc.until("the card shows the tag", lambda: "paper" in history.card(now).inner_text())
    history.delete(during)
    proc.until("the card is gone", lambda: not history.card(during).count())
    tab.shot("tagged-and-deleted")
    commits = {commit["id"]: commit for commit in lab.history("train.ipynb")["commits"]}
    assert during not in commits
    assert "paper" in commits[now]["tags"]
