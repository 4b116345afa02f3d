"""The History panel with more snapshots than anybody wants to take for a test: what is drawn, keys, folds, search, both themes."""

import pytest

from harness import proc
from lab.history import History
from lab.many import HTML, Many
from lab.notebook import Notebook

LENGTH = 2000
LINES = ".jp-InfinijupHistory-row"


@pytest.fixture
def open_panel(lab, make_tab):
    """Opens a notebook and its panel, with a made-up history."""

    def open_(name, length=LENGTH, threads=6, **options):
        path = lab.write_notebook(f"{name}.ipynb", "x = 1")
        tab = make_tab(lab, name, **options)
        many = Many(tab, length, threads)
        tab.goto(path)
        Notebook(tab, path).connected()
        panel = History(tab).open()
        panel.panel.locator("[data-infinijup-commit]").first.wait_for()
        return many, panel

    return open_


def focused(panel) -> str | None:
    """What a screen reader says of the thing with the focus."""
    return panel.page.evaluate("() => document.activeElement.getAttribute('aria-label')")


def scroll(panel, top) -> None:
    """Scrolls the list; `top` in pixels, or `Infinity`. Ends when the list has drawn what is there."""
    panel.page.evaluate(
        """async top => {
          const list = document.querySelector('[data-infinijup-scroll]');
          list.scrollTop = top === null ? list.scrollHeight : top;
          const frame = () => new Promise(done => requestAnimationFrame(done));
          await frame();
          await frame();
        }""",
        top,
    )


def test_only_rows_in_sight_are_drawn(open_panel):
    many, panel = open_panel("long")
    rows = panel.panel.locator(LINES)
    assert 5 < rows.count() < 60
    current = panel.panel.locator("[data-infinijup-current=true]")
    assert current.get_attribute("data-infinijup-commit") == many.session()["head"]
    scroll(panel, None)
    assert panel.card(many.commits[-1]["id"]).is_visible()
    assert rows.count() < 60
    assert panel.panel.locator(".jp-InfinijupHistory-foot").inner_text().startswith(f"{LENGTH} snapshots")
    assert panel.panel.locator("img, b").count() == 0
    scroll(panel, 0)
    panel.tab.shot("light")


def test_an_idle_panel_asks_for_nothing_and_hears_news(open_panel):
    many, panel = open_panel("idle", length=60, threads=2)

    def asked():
        """The whole of it; its end may be asked for by the status bar before, if that was faster."""
        panel.page.wait_for_timeout(1000)
        return [line for line in panel.tab.requests if "/infinijup/history" in line and "limit=" not in line]

    assert len(proc.until("the whole history is asked for", asked)) == 1
    before = len(panel.tab.requests)
    head = many.session()["head"]
    fresh = {**many.commits[0], "id": "f" * 40, "parents": [head], "thread": many.thread, "tags": [], "label": HTML}
    many.say(type="job", job={"id": "1", "kind": "snapshot", "state": "running", "step": "store memory", "done": 1, "total": 4})
    bar = panel.panel.locator("[data-infinijup-job=snapshot] [role=progressbar]")
    bar.wait_for()
    assert panel.panel.locator("[data-infinijup-job=snapshot]").inner_text().strip() == "Saving now …"
    assert int(bar.get_attribute("aria-valuenow")) == 38
    panel.tab.shot("job")
    many.say(type="job", job={"id": "1", "kind": "snapshot", "state": "done"})
    many.say(type="snapshot", commit=fresh)
    panel.card(fresh["id"]).wait_for()
    assert panel.card(fresh["id"]).get_attribute("data-infinijup-current") == "true"
    assert HTML in panel.card(fresh["id"]).inner_text()
    bar.wait_for(state="detached")
    # Long enough for anything that asks regularly to be seen.
    panel.page.wait_for_timeout(3000)
    ours = [line for line in panel.tab.requests[before:] if "/infinijup/" in line]
    assert ours == []


def test_keys_reach_everything(open_panel):
    many, panel = open_panel("keys")
    panel.card(many.session()["head"]).focus()
    assert "current snapshot of this kernel" in focused(panel)
    panel.tab.press("End")
    oldest = panel.card(many.commits[-1]["id"])
    proc.until("the oldest has the focus", lambda: oldest.evaluate("node => node === document.activeElement"))
    panel.tab.press("PageUp", "Home", "ArrowDown", "PageDown", "ArrowUp")
    # A fold is a row too, and has nothing to open.
    while panel.page.evaluate("() => document.activeElement.dataset.infinijupFold !== undefined"):
        panel.tab.press("ArrowDown")
    where = focused(panel)
    assert where, "nothing has the focus"
    scroll(panel, 20_000)
    assert focused(panel) == where, "the row with the focus stays when the list is scrolled"
    panel.tab.press("Enter")
    actions = panel.panel.locator(".jp-InfinijupHistory-details")
    actions.wait_for()
    panel.tab.press("Tab")
    assert panel.page.evaluate("() => document.activeElement.dataset.infinijupAction") == "restore"
    panel.tab.shot("open")
    panel.tab.press("Escape")
    actions.wait_for(state="detached")
    panel.tab.press("Home", "Shift+F10")
    panel.page.locator(".jp-InfinijupHistory-menu").wait_for()
    panel.tab.press("Escape")


def test_folds_open_and_the_search_finds(open_panel):
    many, panel = open_panel("search")
    foot = panel.panel.locator(".jp-InfinijupHistory-foot")
    proc.until("the whole history is drawn", lambda: foot.inner_text().startswith(f"{LENGTH} snapshots"))
    fold = panel.panel.locator("[data-infinijup-fold]").first
    hidden = int(fold.get_attribute("data-infinijup-fold"))
    assert fold.get_attribute("aria-expanded") == "false"
    before = folded(foot.inner_text())
    fold.click()
    proc.until("the fold is open", lambda: fold.get_attribute("aria-expanded") == "true")
    proc.until("its snapshots no longer count as folded", lambda: before - folded(foot.inner_text()) == hidden)
    panel.tab.shot("unfolded")
    box = panel.panel.locator(".jp-InfinijupHistory-search input")
    box.fill("<b>bold onerror")
    wanted = sum(HTML in (one["label"] or "") for one in many.commits)
    proc.until("the search is done", lambda: foot.inner_text() == f"{wanted} of {LENGTH} snapshots")
    # A snapshot that has a tag is called by it, not by its label. Which of them are in sight depends on where midnight was.
    found = panel.cards()
    assert found and all(HTML in card["infinijupLabel"] for card in found)
    panel.tab.shot("found")
    box.fill("nothing is called like that")
    panel.panel.get_by_role("button", name="Show all").click()
    panel.panel.locator(".jp-InfinijupHistory-filter").select_option("tagged")
    tagged = sum(bool(one["tags"]) for one in many.commits)
    proc.until("tags only", lambda: foot.inner_text() == f"{tagged} of {LENGTH} snapshots")
    panel.tab.shot("tagged")


def folded(foot: str) -> int:
    """How many snapshots are folded, as the foot of the panel says."""
    return int(foot.rsplit("·", 1)[1].split()[0])


def test_two_are_compared_in_both_themes_and_little_room(open_panel):
    _, panel = open_panel("compare", viewport={"width": 1024, "height": 768})
    cards = [card["commit"] for card in panel.cards()]
    panel.card(cards[1]).click()
    panel.panel.locator(".jp-InfinijupHistory-details").wait_for()
    panel.tab.shot("light-1024")
    panel.card(cards[2]).scroll_into_view_if_needed()
    panel.card(cards[2]).locator(".jp-InfinijupHistory-title").click(modifiers=["Control"])
    panel.panel.get_by_role("button", name="Compare both").click()
    compared = panel.page.locator("[data-infinijup-compare]")
    compared.locator("[data-infinijup-file]").first.wait_for()
    assert compared.locator("img").count() == 0
    assert compared.locator("[data-infinijup-cell][data-infinijup-change=added]").inner_text().endswith(HTML)
    assert "Variables were not recorded" in compared.inner_text()
    panel.tab.shot("compare-light")
    panel.page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    panel.page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    panel.page.locator("#jupyterlab-splash").wait_for(state="detached")
    panel.tab.shot("compare-dark")
