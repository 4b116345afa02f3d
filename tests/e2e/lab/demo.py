"""`infinijup demo`, and somebody who does what its notebook says.

What is to be done stands in the notebook as numbered lists. `Visitor.steps` says how each item is done, and what must be seen then;
one that it does not know fails.
"""

import json
import re
import signal
import subprocess
import urllib.parse
from pathlib import Path

from harness import proc
from lab.history import History
from lab.notebook import Notebook
from lab.server import Lab

NOTEBOOK = "demo.ipynb"
SOURCE = Path(__file__).parents[3] / "crates/cli/src/commands/demo/files" / NOTEBOOK


def instructions() -> list[str]:
    """Each numbered item, in their order."""
    cells = json.loads(SOURCE.read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return [item for text in texts for item in re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)]


class Demo(Lab):
    """The server that `infinijup demo` starts. `words` is how the command is called, `environment` what it is told."""

    def __init__(self, user, words, environment, by_itself=None):
        super().__init__(None, user, environment, by_itself=by_itself or {})
        self.words, self.told = words, None
        # The tests ask JupyterLab questions.
        user.write(user.home / ".jupyter/jupyter_lab_config.py", "c.LabApp.expose_app_in_browser = True\n")

    def start(self) -> "Demo":
        """Until it has said where the notebook is."""
        environment = {**self.user.environment(), **self.environment, "JUPYTER_PORT": str(self.port), "JUPYTER_TOKEN": self.token}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.user.words([*self.words, "demo", "--json", "--no-browser"], "--no-new-privs"), env=environment, cwd=self.user.home,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.told = proc.until("the demo says where it is", self.started, 150, pause=0.05)
        self.root = Path(self.told["directory"])
        address = urllib.parse.urlsplit(self.told["address"])
        assert (address.port, address.path) == (self.port, f"/lab/tree/{NOTEBOOK}"), self.told
        assert urllib.parse.parse_qs(address.query) == {"token": [self.token]}
        proc.until("JupyterLab answers", self.answers, 60, pause=0.1)
        return self

    def started(self) -> dict | None:
        """What it said on stdout; fails at once if it has ended."""
        text = self.log.read_text(errors="replace")
        assert self.process.poll() is None, f"it ended with {self.process.poll()}: {text[-3000:]}"
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return next((line for line in lines if line["message_type"] == "demo"), None)

    def end(self) -> int:
        """Ctrl-C; how it ended."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


class Visitor:
    """Somebody who has opened the address, and knows nothing but what the notebook says. `look` is called after each step."""

    def __init__(self, tab, look=lambda name: None):
        self.tab, self.look = tab, look
        tab.goto(NOTEBOOK)
        self.notebook = Notebook(tab, NOTEBOOK).connected(120)
        self.other, self.mine = None, []

    def walk(self, until: str | None = None) -> None:
        """Everything that the notebook says, or all up to an instruction that begins so."""
        known = self.steps()
        for item in instructions():
            assert item in known, f"nobody knows how to do: {item}"
            known.pop(item)()
            if until and item.startswith(until):
                return
        assert not known, f"the notebook leaves out: {list(known)}"

    def steps(self) -> dict:
        """By the words of the notebook."""
        return {
            "Run the cell below. You see a year of temperatures.": self.load,
            "Run the next cell. It prints the mean of the year.": self.mean,
            "Run it. Most of the curve is gone, and so is most of the file.": self.mistake,
            "Click **Undo the Last Cell** in the toolbar above: the arrow over a cell. A message says that all is back to before "
            "that cell, and the short curve disappears.": self.undo,
            "Run the next cell. All 365 days are there again, in the kernel and in the file.": self.whole,
            "Click **Branch** in the toolbar: the fork. A copy of this notebook opens beside it.": self.branch,
            "In the copy, find the cell below, change `days = 7` to `days = 60`, and run it there. Then press **Esc**, **S**, **S**: a "
            "snapshot of your own, with the notebook as you see it.": self.other_idea,
            "Run the cell in this notebook, too, as it is, and press **Esc**, **S**, **S** again.": self.first_idea,
            "Click the clock at the right edge of the window. The history opens, with a colour for each of the two kernels.": self.history,
            "Click the upper `days = 7` there, then hold **Ctrl** and click the upper `days = 60`.": self.choose,
            "Click **Compare both**. You see both curves side by side, and the line that differs.": self.compare,
            "Come back to this notebook and click **Suspend** in its toolbar: the moon, behind **…** if there is little room. The kernel "
            "is written to the disk, and its memory is free for others.": self.suspend,
            "Run the next cell. The kernel wakes up where it was, and answers.": self.wake,
        }

    def place(self, name: str, notebook=None) -> int:
        """Where the cell with an id is."""
        return [cell["id"] for cell in (notebook or self.notebook).cells()].index(name)

    def run(self, name: str, notebook=None) -> str:
        """A cell; its output. Then waits as people do who look at it: meanwhile its snapshot is taken."""
        notebook = notebook or self.notebook
        notebook.activate()
        place = self.place(name, notebook)
        output = notebook.run(place)
        number = notebook.cells()[place]["count"]

        def taken():
            commits = self.tab.lab.history(notebook.path)["commits"]
            return any(commit["reason"] == "after-cell" and commit["cell"]["number"] == number for commit in commits)

        proc.until(f"there is a snapshot after [{number}]", taken, 30, pause=0.05)
        return output

    def picture(self, name: str, notebook=None) -> str:
        """That a cell shows, as text."""
        outputs = (notebook or self.notebook).cells()[self.place(name, notebook)]["outputs"]
        assert [list(output["data"]) for output in outputs] == [["image/png", "text/plain"]], outputs
        return outputs[0]["data"]["image/png"]

    def days_in_file(self) -> int:
        return len((self.tab.lab.root / "measurements.csv").read_text().splitlines()) - 1

    def load(self):
        self.look("opened")
        self.run("load")
        self.picture("load")
        self.look("picture")

    def mean(self):
        said = self.run("mean")
        assert re.fullmatch(r"\d+\.\d °C on average, 365 days", said), said

    def mistake(self):
        self.run("mistake")
        assert self.picture("mistake") != self.picture("load")
        assert self.days_in_file() == 10
        self.look("mistake")

    def click(self, item):
        """A button of the toolbar; the pointer is seen on it first."""
        button = self.tab.toolbar(item)
        button.hover()
        self.look("pointing")
        button.click()

    def undo(self):
        self.tab.forget_notices()
        self.click("infinijup-undo-cell")
        self.tab.wait_notice(r"are back to before \[3\]", 60)
        self.notebook.quiet()
        assert self.notebook.cells()[self.place("mistake")]["outputs"] == []
        assert self.days_in_file() == 365
        self.look("undone")

    def whole(self):
        assert self.run("whole") == "365 days in the kernel, 365 in the file"
        self.look("whole")

    def branch(self):
        self.click("infinijup-branch")
        paths = lambda: [path for path in self.tab.notebooks() if path != NOTEBOOK]  # noqa: E731
        self.other = Notebook(self.tab, proc.until("a copy opens", paths, 60)[0]).connected(60)
        left, right = (self.panel(path).bounding_box() for path in (NOTEBOOK, self.other.path))
        assert left["x"] + left["width"] <= right["x"], "it is not beside"
        self.look("branched")

    def panel(self, path):
        """The notebook on the screen."""
        return self.tab.page.locator(f'[id="{self.tab.page.evaluate("path => window.tests.widget(path)", path)}"]')

    def other_idea(self):
        place = self.place("smooth", self.other)
        source = self.other.cells()[place]["source"]
        assert "days = 7\n" in source
        self.other.set_source(place, source.replace("days = 7", "days = 60"))
        self.run("smooth", self.other)
        self.snapshot(self.other)

    def snapshot(self, notebook):
        """By the keyboard."""
        self.tab.forget_notices()
        self.tab.press("Escape", "s", "s")
        self.tab.wait_notice("Snapshot", 60)
        notebook.quiet()
        commits = lambda: [one for one in self.tab.lab.history(notebook.path)["commits"] if one["reason"] == "manual"]  # noqa: E731
        self.mine.append(proc.until("it is there", lambda: len(found := commits()) > len(self.mine) and found[0]["id"], 30))

    def first_idea(self):
        self.run("smooth")
        self.snapshot(self.notebook)
        assert self.picture("smooth") != self.picture("smooth", self.other)
        for notebook in (self.notebook, self.other):
            notebook.ask("scrollTo", self.place("smooth", notebook))
        self.look("two-ideas")

    def history(self):
        self.tab.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="infinijup-history"]').click()
        cards = History(self.tab).open().cards()
        self.cards = [next(card["commit"] for card in cards if f"days = {days}\n" in card["text"]) for days in (7, 60)]
        assert set(self.cards) == set(self.mine), "others are above them"
        self.look("history")

    def choose(self):
        history = History(self.tab)
        first, second = (history.card(commit).locator(".jp-InfinijupHistory-title") for commit in self.cards)
        first.click()
        second.click(modifiers=["Control"])

    def compare(self):
        History(self.tab).panel.get_by_role("button", name="Compare both").click()
        cell = self.tab.page.locator("[data-infinijup-compare] [data-infinijup-cell][data-infinijup-change=changed]", has_text="days = 60")
        before, after = (cell.get_by_role("group", name=f"Output {when}").locator("img") for when in ("before", "after"))
        left, right = before.bounding_box(), after.bounding_box()
        assert left["x"] + left["width"] <= right["x"], "they are not side by side"
        assert before.get_attribute("src") != after.get_attribute("src")
        assert "days = 7" in cell.inner_text()
        cell.scroll_into_view_if_needed()
        self.look("compared")

    def suspend(self):
        self.notebook.activate()
        self.click("infinijup-suspend")
        self.tab.wait_notice("Kernel suspended", 60)
        bar = self.tab.page.locator("#jp-main-statusbar")
        proc.until("the status bar says so", lambda: "Kernel suspended" in bar.inner_text())
        self.look("asleep")

    def wake(self):
        said = self.run("awake")
        assert re.fullmatch(r"Still \d+\.\d °C on average\.", said), said
        self.look("awake")
