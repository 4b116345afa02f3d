"""`infinijup demo`, and its notebook word for word."""

import os

import pytest

from harness import proc
from harness.daemon import criu
from lab.demo import NOTEBOOK, SOURCE, Demo, Visitor
from lab.server import VENV


@pytest.fixture
def demo(daemon, user, request):
    """As after an install: the command is in the path, and so is JupyterLab."""
    path = f"{daemon.bin}:{VENV}/bin:{os.environ['PATH']}"
    told = {"INFINIJUP_SOCKET": str(daemon.socket), "INFINIJUP_STATE": str(daemon.state), "INFINIJUP_CRIU": criu(), "PATH": path}
    # On a machine that tests keep busy a kernel stands for longer than the 100 ms that are allowed by themselves.
    demo = Demo(user, [daemon.bin / "infinijup"], told, {"snapshotPauseMilliseconds": 3000})
    yield demo
    if getattr(request.node, "failed", False):
        print(f"---- the demo ----\n{demo.log_tail()}\n---- JupyterLab ----\n")
        print((daemon.state / "demo.log").read_text(errors="replace")[-4000:])
    demo.stop()


@pytest.mark.timeout(300)
def test_the_demo_word_for_word(demo, daemon, make_tab):
    demo.start()
    assert demo.root == demo.user.home / "infinijup-demo" and not demo.told["known"]
    tab = make_tab(demo, viewport={"width": 1280, "height": 800})
    Visitor(tab, tab.shot).walk()

    # Ctrl-C: nothing runs any more, and nothing is lost.
    tab.page.close()
    assert demo.end() == 0
    states = {session["name"]: session["state"] for session in daemon.get("/v1/sessions")[1]["sessions"]}
    assert len(states) == 2 and set(states.values()) == {"suspended"}, states

    # Another day: the notebook as it was left, and its kernel wakes up.
    demo.start()
    assert demo.told["known"] and demo.root == demo.user.home / "infinijup-demo"
    assert (demo.root / NOTEBOOK).read_text() != SOURCE.read_text(), "somebody began anew"
    tab = make_tab(demo, "again").goto(NOTEBOOK)
    proc.until("the history is there", lambda: tab.lab.history(NOTEBOOK)["commits"], 30)
