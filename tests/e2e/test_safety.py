"""What people and programs choose as names is shown as text. Nothing of it becomes part of the page."""

from harness import proc
from lab.history import History

IMAGE = "<img src=x onerror=window.broken=1>"


def test_names_with_html_are_text(lab, open_notebook):
    path = f"{IMAGE} & <b>bold<b>.ipynb"
    notebook = open_notebook(lab, path, f"x = 1\nopen({IMAGE!r}, 'w').write('file')")
    tab, history = notebook.tab, History(notebook.tab).open()
    notebook.execute(f"%infinijup mark label='{IMAGE} label'")
    tab.press_toolbar("infinijup-snapshot")
    first = history.wait_card(f"{IMAGE} label", 60)
    notebook.run(0)
    notebook.execute(f"text = {IMAGE!r} * 3")
    known = history.commits()
    tab.press_toolbar("infinijup-snapshot")
    history.wait_newer(known, 60)
    history.action(first, "compare")
    compare = tab.page.locator("[data-infinijup-compare]")
    proc.until("the file is named as it is", lambda: IMAGE in compare.inner_text())
    history.action(first, "restore")
    dialog = tab.dialog("restore")
    tab.shot("dialog")
    dialog.locator(".jp-mod-reject").click()
    tab.shot("names")
    assert tab.page.evaluate("() => window.broken === undefined"), "a name became part of the page"
    assert tab.page.locator('[data-infinijup-panel] img[src="x"], [data-infinijup-compare] img[src="x"]').count() == 0


def test_errors_are_text(lab, open_notebook):
    """An answer that quotes what was asked for."""
    notebook = open_notebook(lab, "errors.ipynb", "x = 1")
    history = History(notebook.tab).open()
    notebook.tab.press_toolbar("infinijup-snapshot")
    commit = history.wait_newer(set(), 60)
    history.action(commit, "tag")
    dialog = notebook.tab.dialog("tag")
    dialog.locator("input").first.fill(f"{IMAGE}/../x y")
    dialog.locator(".jp-mod-accept").click()
    notebook.tab.wait_notice("(?i)tag|name")
    notebook.tab.shot("error")
    assert notebook.tab.page.evaluate("() => window.broken === undefined")
