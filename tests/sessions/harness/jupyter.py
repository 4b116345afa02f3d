"""A Jupyter server's kernel manager that runs as a user, and the package as the user has it installed."""

import itertools
import json
import queue
import shutil
import signal
import subprocess
import threading
import uuid
from pathlib import Path

from harness.users import PYTHON

SOURCES = Path(__file__).parents[3] / "python/infinijup/infinijup"
MANAGER = Path(__file__).with_name("manager.py").read_text()
ENTRY_POINTS = "[jupyter_client.kernel_provisioners]\ninfinijup = infinijup.provisioner:InfinijupProvisioner\n"


class Refused(AssertionError):
    """What was asked for raised an exception over there."""


def install(user):
    """The package for a user, without pip: what matters is that it can be imported and that its entry point is found."""
    place = user.mkdir(user.home / "package")
    shutil.copytree(SOURCES, place / "infinijup", ignore=shutil.ignore_patterns("__pycache__", "labextension"))
    facts = place / "infinijup-0.1.0.dist-info"
    user.mkdir(facts)
    user.write(facts / "METADATA", "Metadata-Version: 2.1\nName: infinijup\nVersion: 0.1.0\n")
    user.write(facts / "entry_points.txt", ENTRY_POINTS)
    return place


class Jupyter:
    """One server, as far as kernels are concerned. `start` and the rest are the verbs of `manager.py`."""

    def __init__(self, user, daemon, package, environment=None):
        self.user, self.daemon = user, daemon
        own = {"INFINIJUP_SOCKET": str(daemon.socket), "PYTHONPATH": str(package)}
        self.root = user.mkdir(user.home / "work")
        self.log = user.home / f"jupyter-{uuid.uuid4().hex[:6]}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                user.words([PYTHON, "-c", MANAGER]),
                env={**user.environment(), **own, **(environment or {})},
                cwd=self.root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.numbers, self.answers, self.guard = itertools.count(1), {}, threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.answers[answer["id"]].put(answer)

    def send(self, do, *, kernel_id=None, **arguments):
        """Asks for something; the number by which `wait` knows it."""
        number = next(self.numbers)
        self.answers[number] = queue.Queue()
        order = {"id": number, "do": do, **({"kernel_id": kernel_id} if kernel_id else {}), **arguments}
        with self.guard:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        return number

    def wait(self, number, seconds=100):
        """What came of it."""
        try:
            answer = self.answers[number].get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no answer in {seconds} s:\n{self.log_tail()}") from None
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    def kernel(self, name="python3", kernel_id=None, **options):
        """Starts a kernel, or finds it."""
        kernel = JupyterKernel(self, kernel_id or str(uuid.uuid4()))
        kernel.first_look = self.wait(self.send("start", kernel_id=kernel.id, name=name, **options))
        kernel.do("ready")
        return kernel

    def leave(self):
        """Ends as a server does that lets its kernels live."""
        self.wait(self.send("leave"))
        self.process.stdin.close()
        self.process.wait(30)

    def kill(self):
        """The worst that can happen to it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def close(self):
        """At the end of a test. Kernels end with the daemon."""
        if self.process.poll() is None:
            self.kill()

    def log_tail(self, lines=40):
        """The end of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class JupyterKernel:
    """One kernel of it."""

    def __init__(self, jupyter, kernel_id):
        self.jupyter, self.id, self.first_look = jupyter, kernel_id, None

    def send(self, do, **arguments):
        """Begins something."""
        return self.jupyter.send(do, kernel_id=self.id, **arguments)

    def do(self, what, **arguments):
        """Does something to its end."""
        return self.jupyter.wait(self.send(what, **arguments))

    def run(self, code, **options):
        """A cell that must not raise; what it printed."""
        answer = self.do("run", code=code, **options)
        assert answer["status"] == "ok", answer
        return answer["printed"]

    def look(self):
        """What the manager knows of it."""
        return self.do("look")

    @property
    def session(self):
        """Of the daemon."""
        return self.first_look["session_id"]
