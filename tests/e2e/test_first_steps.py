"""The first steps of README.md, word for word, as somebody does them who has never seen any of it and may do nothing special here.

The commands are typed as they stand there, by a new user in a shell in a new virtual environment; pip takes our wheels instead of the
released ones, and everything else from the index. Nobody starts a daemon: JupyterLab does. What is to be done in the browser is a
numbered list; the table below says how each sentence of it is done, and a sentence that is not in the table fails the test.
"""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from harness import proc
from lab.notebook import Notebook
from lab.server import Lab

README = Path(__file__).parents[2] / "README.md"
GUIDE = README.with_name("docs") / "jupyter.md"
# The last command: it goes on running while people work.
JUPYTER_LAB = "jupyter lab"


def section():
    """The part of the readme that is tried here: the one that ends by starting JupyterLab."""
    parts = re.split(r"^## ", README.read_text(), flags=re.MULTILINE)
    found = [part for part in parts if re.search(rf"^\$ {JUPYTER_LAB}$", part, re.MULTILINE)]
    assert len(found) == 1, f"README.md has {len(found)} parts that end with `{JUPYTER_LAB}`"
    return found[0]


def commands():
    """Its commands, in their order."""
    block = next(block for block in re.findall(r"```console\n(.*?)```", section(), re.DOTALL) if JUPYTER_LAB in block)
    assert not re.search("^# ", block, re.MULTILINE), "somebody would need to be root"
    lines = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    assert lines[-1] == JUPYTER_LAB
    return lines


def steps():
    """Its sentences."""
    return re.findall(r"^\d+\. (.*)$", section(), re.MULTILINE)


class Machine:
    """A user's shell, in which the commands are typed."""

    def __init__(self, record, user, wheels):
        self.user = user
        self.lab = Lab(None, user, by_itself={})
        self.told = user.home / "shell.log"
        # The browser is ours to start, and the tests ask JupyterLab questions.
        user.write(user.home / ".jupyter/jupyter_lab_config.py", "c.LabApp.expose_app_in_browser = True\n")
        # Only what the new environment brings along.
        shutil.rmtree(user.home / ".local/share/jupyter/kernels")
        user.run(["python3", "-m", "venv", user.home / "venv"])
        self.wheels = [Path(shutil.copy(wheel, user.home)) for wheel in wheels]
        # As after a login.
        runtime = record.run / f"user-{user.uid}"
        runtime.mkdir(mode=0o700)
        os.chown(runtime, user.uid, user.gid)
        environment = {
            **user.environment(),
            "PATH": f"{user.home}/venv/bin:{user.environment()['PATH']}",
            "VIRTUAL_ENV": str(user.home / "venv"),
            "XDG_RUNTIME_DIR": str(runtime),
            "PIP_FIND_LINKS": str(user.home),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "JUPYTER_TOKEN": self.lab.token,
            "JUPYTER_PORT": str(self.lab.port),
            "BROWSER": "true",
        }
        with self.told.open("ab") as told:
            self.shell = subprocess.Popen(
                user.words(["/bin/bash"], "--no-new-privs"), env=environment, cwd=user.home, stdin=subprocess.PIPE, stdout=told,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip

    def type(self, line, seconds=600):
        """One command line, and waits for its end. What it printed."""
        before = len(self.said())
        self.shell.stdin.write(f'{line}\necho "ended with $?"\n')
        self.shell.stdin.flush()
        ended = proc.until(f"`{line}` ends", lambda: re.search(r"^ended with (\d+)$", self.said()[before:], re.MULTILINE), seconds)
        said = self.said()[before:]
        assert ended.group(1) == "0", f"`{line}` ended with {ended.group(1)}:\n{said[-3000:]}"
        return said

    def said(self):
        """Everything so far."""
        return self.told.read_text(errors="replace")

    def end_daemon(self):
        """As if the machine had been started anew since: JupyterLab must start the daemon itself."""
        self.type("infinijup daemon stop")
        proc.until("there is no daemon", lambda: "infinijupd" not in self.names())

    def start_lab(self):
        """The last command."""
        self.shell.stdin.write(f"exec {JUPYTER_LAB}\n")
        self.shell.stdin.flush()
        self.lab.log, self.lab.process = self.told, self.shell
        proc.until("JupyterLab answers", self.lab.answers, 120, pause=0.2)

    def processes(self):
        """All of the user's."""
        return [pid for pid in proc.pids() if proc.status(pid, "Uid").split()[:1] == [str(self.user.uid)]]

    def names(self):
        """What runs."""
        return {proc.status(pid, "Name") for pid in self.processes()}

    def check_rights(self):
        """Nobody of the user's may do more than the user, and nothing that was installed says otherwise."""
        ours = os.stat("/proc/self/ns/user").st_ino
        assert {"infinijupd", "infinijup-box"} <= self.names(), self.names()
        for pid in self.processes():
            is_outside = proc.link(pid, "ns/user") == f"user:[{ours}]"
            facts = proc.facts(pid)
            # It has ended since it was found.
            if not facts:
                continue
            who = f"{pid} ({facts['Name']})"
            assert facts["NoNewPrivs"] == "1", f"{who} could gain privileges"
            if is_outside:
                assert int(facts["CapPrm"], 16) == 0, f"{who} has capabilities"
        for path in (self.user.home / "venv").rglob("*"):
            if not path.is_symlink():
                assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
                assert "security.capability" not in os.listxattr(path), path


def test_the_guide_begins_with_the_same_commands():
    """So that what is tried below holds for it, too."""
    first = GUIDE.read_text().partition("## First steps")[2]
    block = re.search(r"```sh\n(.*?)```", first, re.DOTALL)[1]
    assert [line.partition("#")[0].strip() for line in block.splitlines()] == commands()


@pytest.fixture
def machine(record, user, request):
    wheels = [Path(os.environ.get(variable, "")) for variable in ("INFINIJUP_WHEEL", "INFINIJUP_CRIU_WHEEL")]
    assert all(map(Path.is_file, wheels)), "INFINIJUP_WHEEL and INFINIJUP_CRIU_WHEEL must name them (scripts/build-wheel.sh)"
    machine = Machine(record, user, wheels)
    yield machine
    if getattr(request.node, "failed", False):
        print(f"---- the shell ----\n{machine.said()[-6000:]}")
        for log in user.home.glob(".local/share/infinijup/*.log"):
            print(f"---- {log.name} ----\n{log.read_text(errors='replace')[-4000:]}")
    machine.shell.stdin.close()
    machine.lab.stop()


class Person:
    """What is done in the browser."""

    def __init__(self, tab):
        self.tab, self.notebook = tab, None

    def open_notebook(self):
        self.tab.page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text="Python 3 (ipykernel)").click()
        path = proc.until("a notebook opens", lambda: next(iter(self.tab.notebooks()), None), 60)
        self.notebook = Notebook(self.tab, path).connected(120)

    def first_cell(self):
        self.notebook.execute("x = 1")
        # People are slower than a snapshot; a test is not.
        proc.until("a snapshot of it is there", lambda: self.tab.lab.history(self.notebook.path)["commits"], 60, pause=0.2)

    def undo(self):
        self.tab.forget_notices()
        self.tab.press_toolbar("infinijup-undo-cell")
        self.tab.wait_notice(r"are back to before \[2\]", 60)
        self.notebook.quiet()
        self.tab.shot("first-undo")

    def steps(self):
        """By the words of the readme."""
        return {
            "Under *Notebook*, click **Python 3 (ipykernel)**.": self.open_notebook,
            "Type `x = 1` and press Shift+Enter.": self.first_cell,
            "Type `x = 2` and press Shift+Enter.": lambda: self.notebook.execute("x = 2"),
            "Click **Undo the Last Cell** in the notebook's toolbar.": self.undo,
            "Type `x` and press Shift+Enter: it is 1 again.": lambda: self.expect(self.notebook.execute("x"), "1"),
        }

    @staticmethod
    def expect(found, wanted):
        assert found == wanted


@pytest.mark.timeout(900)
def test_the_first_steps(machine, make_tab):
    *before, _ = commands()
    for line in before:
        machine.type(line)
    for wheel in machine.wheels:
        assert f"Processing ./{wheel.name}" in machine.said(), "pip took another one"
    machine.end_daemon()
    machine.start_lab()
    person = Person(make_tab(machine.lab).goto())
    known = person.steps()
    assert steps(), "the readme says nothing about the browser"
    for sentence in steps():
        assert sentence in known, f"the test does not know how to do: {sentence}"
        known.pop(sentence)()
    assert not known, f"the readme leaves out: {list(known)}"
    machine.check_rights()
