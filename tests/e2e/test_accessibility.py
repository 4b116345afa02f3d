"""Without a mouse, in the dark, in a narrow window, and by what a screen reader is told."""

import json

import pytest

from harness import proc
from lab.history import History

# Everything that can be pressed must have a name.
NAMELESS = """
root => Array.from(root.querySelectorAll('button, [role=button], jp-button, input, select, [tabindex="0"]'))
  .filter(node => node.offsetParent !== null)
  .filter(node => !(node.getAttribute('aria-label') || node.getAttribute('aria-labelledby') || node.title || node.innerText.trim()
    || (node.labels && node.labels.length)))
  .map(node => node.outerHTML.slice(0, 200))"""


def test_snapshot_and_restore_by_keyboard(lab, open_notebook):
    notebook = open_notebook(lab, "keys.ipynb", "x = 1")
    tab, history = notebook.tab, History(notebook.tab)
    notebook.run(0)
    notebook.select(0)
    tab.press("h", "h")
    history.panel.wait_for(state="visible")
    notebook.select(0)
    tab.press("s", "s")
    commit = history.wait_newer(set(), 60)
    notebook.execute("x = 2")
    # Into the panel, to the card, open it, and to its Restore, with the keys alone.
    notebook.select(0)
    tab.press("h", "h")
    reach(tab, f'[data-infinijup-commit="{commit}"]', "Tab")
    tab.press("Enter")
    reach(tab, f'[data-infinijup-commit="{commit}"] [data-infinijup-action="restore"]', "Tab")
    tab.shot("focus")
    tab.press("Enter")
    tab.dialog("restore")
    proc.until("the question has the focus", lambda: tab.page.evaluate("() => document.activeElement.matches('.jp-Dialog .jp-mod-accept')"))
    tab.press("Enter")
    tab.wait_notice(r"(?i)restored|back", 60)
    notebook.quiet()
    assert notebook.execute("print(x)") == "1"


def reach(tab, selector, key):
    """Presses a key until the focus is there."""
    for _ in range(40):
        if tab.page.evaluate("selector => !!document.activeElement && document.activeElement.matches(selector)", selector):
            return
        tab.press(key)
    raise AssertionError(f"{selector} cannot be reached with {key}")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"])
def test_themes(lab, open_notebook, theme):
    setting = lab.user.home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    lab.user.write(setting, json.dumps({"theme": theme}))
    notebook = open_notebook(lab, "theme.ipynb", "x = 1")
    history = History(notebook.tab).open()
    notebook.tab.press_toolbar("infinijup-snapshot")
    history.wait_newer(set(), 60)
    notebook.tab.shot(theme.lower().replace(" ", "-"))
    ratio = history.panel.evaluate(CONTRAST)
    assert ratio >= 4.5, f"text of the cards has a contrast of {ratio:.1f} only"
    assert history.panel.evaluate(NAMELESS) == []


# The contrast of WCAG 2 between the text of the first card and what is behind it.
CONTRAST = """
root => {
  const card = root.querySelector('[data-infinijup-commit]');
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = card, back = null;
  while (behind && !back) {
    const colour = numbers(getComputedStyle(behind).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.5) back = colour;
    behind = behind.parentElement;
  }
  const [a, b] = [light(numbers(getComputedStyle(card).color)), light(back || [255, 255, 255])].sort((p, q) => q - p);
  return (a + 0.05) / (b + 0.05);
}"""


def test_a_window_of_1024_pixels(lab, open_notebook):
    notebook = open_notebook(lab, "narrow.ipynb", "x = 1", viewport={"width": 1024, "height": 700})
    tab, history = notebook.tab, History(notebook.tab).open()
    tab.command("Snapshot")
    commit = history.wait_newer(set(), 60)
    tab.shot("narrow")
    width = history.panel.evaluate("root => [root.scrollWidth, root.clientWidth]")
    assert width[0] <= width[1], f"the panel is wider than its place: {width}"
    history.action(commit, "restore")
    dialog = tab.dialog("restore")
    box = dialog.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 1024
    tab.shot("narrow-dialog")
    dialog.locator(".jp-mod-reject").click()
    proc.until("it is closed", lambda: not dialog.is_visible())
