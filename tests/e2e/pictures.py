"""The pictures of the documents, from the real thing: somebody does what the notebook of `infinijup demo` says, and is filmed.

`scripts/pictures.sh` runs it; the gate does not.
"""

import os
from pathlib import Path

import pytest

from lab.demo import Visitor
from lab.recording import Recording

pytest_plugins = ["test_demo"]
WIDTH, HEIGHT = 1280, 800
LIMIT = 2_000_000
# What is kept as a picture of its own, and for how long each moment is seen in the recording, in seconds.
KEPT = {"undone": "undo", "two-ideas": "branch", "compared": "compare"}
SECONDS = {"opened": 1.5, "picture": 1.5, "pointing": 0.9, "mistake": 2.0, "undone": 2.5, "two-ideas": 2.5, "compared": 3.5, "awake": 3.0}

# A pointer, which screenshots leave out.
POINTER = """
addEventListener('mousemove', event => {
  let pointer = document.getElementById('pointer');
  if (!pointer) {
    pointer = document.createElement('div');
    pointer.id = 'pointer';
    pointer.style.cssText = 'position:fixed;z-index:100000;width:26px;height:26px;border-radius:15px;margin:-15px;pointer-events:none;' +
      'background:rgba(230,81,0,.12);border:2px solid rgb(230,81,0)';
    document.body.append(pointer);
  }
  pointer.style.left = event.clientX + 'px';
  pointer.style.top = event.clientY + 'px';
}, true);
"""


@pytest.mark.timeout(400)
def test_pictures(demo, make_tab, browser):
    target = Path(os.environ["INFINIJUP_PICTURES"])
    demo.start()
    tab = make_tab(demo, viewport={"width": WIDTH, "height": HEIGHT})
    tab.page.add_init_script(POINTER)
    recording, kept = Recording(), {}

    def look(name):
        shot = tab.page.screenshot(animations="disabled")
        recording.add(shot, SECONDS.get(name, 1.2))
        if name in KEPT:
            kept[KEPT[name]] = shot

    visitor = Visitor(tab, look)
    # Room for what is shown: the files are not.
    tab.press("Control+b")
    visitor.walk()
    picture = recording.picture(browser.new_page())
    assert len(picture) < LIMIT, f"the recording has {len(picture)} bytes"
    target.mkdir(parents=True, exist_ok=True)
    (target / "demo.png").write_bytes(picture)
    for name, shot in kept.items():
        (target / f"{name}.png").write_bytes(shot)
