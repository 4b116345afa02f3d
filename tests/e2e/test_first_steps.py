"""The first steps of README.md, word for word, as somebody does them who has never seen any of it.

The commands are run as they stand there: those after `#` as root, those after `$` as a user. What is to be done in the browser is
a numbered list; the table below says how each sentence of it is done, and a sentence that is not in the table fails the test.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import leftovers, proc
from harness.daemon import Daemon
from lab.history import History
from lab.notebook import Notebook
from lab.server import Lab, free_port

README = Path(__file__).parents[2] / "README.md"
HEADING = "## In JupyterLab"


def section():
    """The part of the readme that is tried here."""
    text = README.read_text()
    assert HEADING in text, f"README.md has no part `{HEADING}`"
    return re.split(r"\n## ", text.partition(HEADING)[2])[0]


def commands():
    """Its commands, in their order: who runs it, and what."""
    block = re.search(r"```console\n(.*?)```", section(), re.DOTALL).group(1)
    return [(line[0], line[2:]) for line in block.splitlines() if line]


def steps():
    """Its sentences."""
    return re.findall(r"^\d+\. (.*)$", section(), re.MULTILINE)


class Installed(Lab):
    """A server that somebody else started, as the readme says."""

    def adopt(self, process):
        self.process = process
        return self


class Machine:
    """A shell of root's and one of the user's, in which the commands are typed."""

    def __init__(self, record, user, wheel):
        self.record, self.user = record, user
        self.daemon = Daemon(record, f"d{os.urandom(2).hex()}")
        self.lab = Installed(self.daemon, user)
        shutil.copy(wheel, user.home)
        # The browser is ours to start, and the tests ask JupyterLab questions.
        user.write(user.home / ".jupyter/jupyter_lab_config.py", "c.LabApp.expose_app_in_browser = True\n")
        # Only what the new environment brings along.
        shutil.rmtree(user.home / ".local/share/jupyter/kernels")

    def type(self, who, line):
        """One command line. What ends with `&`, and the last one, goes on running."""
        if who == "#":
            assert line == "infinijupd &", f"the test does not know how root does `{line}`"
            self.daemon.start()
            return
        assert who == "$"
        if not line.endswith("jupyter lab"):
            self.user.run(["/bin/sh", "-c", line], seconds=600)
            return
        port = free_port()
        self.lab.port = port
        environment = {**self.user.environment(), "JUPYTER_TOKEN": self.lab.token, "JUPYTER_PORT": str(port), "BROWSER": "true"}
        environment["INFINIJUP_SOCKET"] = str(self.daemon.socket)
        with self.lab.log.open("ab") as log:
            words = self.user.words(["/bin/sh", "-c", f"exec {line}"])
            process = subprocess.Popen(
                words, env=environment, cwd=self.user.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        proc.until("JupyterLab answers", self.lab.adopt(process).answers, 120, pause=0.2)


@pytest.fixture
def machine(record, user):
    wheel = Path(os.environ.get("INFINIJUP_WHEEL", ""))
    assert wheel.is_file(), "INFINIJUP_WHEEL must name the wheel (scripts/build-wheel.sh)"
    machine = Machine(record, user, wheel)
    yield machine
    machine.lab.stop()
    machine.daemon.close()
    leftovers.unmount(machine.daemon.run)


class Person:
    """What is done in the browser."""

    def __init__(self, tab):
        self.tab, self.history = tab, History(tab)
        self.notebook = None

    def open_notebook(self):
        self.tab.page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text="Python 3 (ipykernel)").click()
        path = proc.until("a notebook opens", lambda: next(iter(self.tab.notebooks()), None), 60)
        self.notebook = Notebook(self.tab, path).connected(120)

    def snapshot(self):
        self.tab.toolbar("infinijup-snapshot").click()
        self.tab.wait_notice("Snapshot .* taken", 60)
        self.tab.shot("first-snapshot")

    def restore(self):
        self.history.open()
        card = self.history.wait_newer(set())
        self.history.action(card, "restore")
        self.tab.shot("question")
        self.history.answer_restore()
        self.tab.shot("first-restore")

    def steps(self):
        """By the words of the readme."""
        return {
            "Under *Notebook*, click **Python 3 (ipykernel)**.": self.open_notebook,
            "Type `x = 1` and press Shift+Enter.": lambda: self.notebook.execute("x = 1"),
            "Click **Snapshot** in the notebook's toolbar.": self.snapshot,
            "Type `x = 2` and press Shift+Enter.": lambda: self.notebook.execute("x = 2"),
            "Click **Kernel history** on the right, the snapshot, and **Restore**; say **Restore** once more.": self.restore,
            "Type `x` and press Shift+Enter: it is 1 again.": lambda: self.expect(self.notebook.execute("x"), "1"),
        }

    @staticmethod
    def expect(found, wanted):
        assert found == wanted


@pytest.mark.timeout(900)
def test_the_first_steps(machine, make_tab):
    for who, line in commands():
        machine.type(who, line)
    person = Person(make_tab(machine.lab).goto())
    known = person.steps()
    assert steps(), "the readme says nothing about the browser"
    for sentence in steps():
        assert sentence in known, f"the test does not know how to do: {sentence}"
        known.pop(sentence)()
    assert not known, f"the readme leaves out: {list(known)}"
