"""`infinijup demo` in a browser, fed with lines as browser.py is. `VENV USER` are where it is installed and who uses it."""

import sys

from harness.users import User
from lab.demo import Demo, Visitor
from lab.fed import answer_lines
from lab.tab import Tab


class Bench:
    """The demo, and somebody who does what its notebook says."""

    def __init__(self, browser, venv: str, user: User):
        self.browser, self.venv, self.user, self.demo = browser, venv, user, None

    def start(self, pause_ms):
        """The command, until it has said where the notebook is and JupyterLab answers. Settings are those of a first time, unless a pause is given."""
        told = {"PATH": f"{self.venv}/bin:{self.user.environment()['PATH']}", "VIRTUAL_ENV": self.venv}
        settings = {"snapshotPauseMilliseconds": pause_ms} if pause_ms else {}
        self.demo = Demo(self.user, [f"{self.venv}/bin/infinijup"], told, settings)
        return self.demo.start().told

    def first_undo(self):
        """Opens the address and does everything up to the first undo; fails unless each step shows what it should."""
        tab = Tab(self.browser.new_context(viewport={"width": 1280, "height": 800}), self.demo, "demo")
        tab.page.set_default_timeout(60_000)
        Visitor(tab).walk("Click **Undo the Last Cell**")
        return {"commits": len(self.demo.history("demo.ipynb")["commits"])}

    def close(self):
        """Ctrl-C."""
        if self.demo and self.demo.process:
            self.demo.end()


def main() -> None:
    venv, name = sys.argv[1:]
    answer_lines(lambda browser: Bench(browser, venv, User(name)))


main()
