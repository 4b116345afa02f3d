"""A JupyterLab server of the tests' own, as a user has it: own home, own settings, own port, a token, no privileges."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from harness import proc

VENV = Path(os.environ.get("INFINIJUP_LAB_VENV", "/opt/infinijup/lab-venv"))
# The question whether to fetch news covers the corner where our notifications are.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false", "checkForUpdates": False},
}
# A test of what people do wants no snapshots but those that it takes.
OURS = ".jupyter/lab/user-settings/infinijup/plugin.jupyterlab-settings"
NOTHING_BY_ITSELF = {
    OURS: {"snapshotAfterCell": False},
    ".local/share/jupyter/infinijup/policy.json": {"after_cell": False},
}


def free_port() -> int:
    """A port that nobody has now. It is kept by nobody either, so a server says at once if it was taken meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def notebook(*cells: str) -> dict:
    """A notebook of Python with these cells."""
    made = [
        {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "execution_count": None, "outputs": [], "source": cell}
        for number, cell in enumerate(cells)
    ]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": made, "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5}


class Lab:
    """One server. It can be killed and started again on the same port, with the same token, as the same user."""

    def __init__(self, daemon, user, environment=None, options=(), venv: Path = VENV, by_itself: dict | None = None):
        self.daemon, self.user, self.venv = daemon, user, venv
        self.environment, self.options = environment or {}, list(options)
        self.token = secrets.token_hex(8)
        self.port = free_port()
        self.root = user.mkdir(user.home / "work")
        self.log = user.home / "lab.log"
        self.process = None
        settings = {f".jupyter/lab/user-settings/{name}": content for name, content in SETTINGS.items()}
        for name, content in {**settings, **(NOTHING_BY_ITSELF if by_itself is None else {OURS: by_itself})}.items():
            path = user.home / name
            user.mkdir(path.parent)
            user.write(path, json.dumps(content))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Lab":
        """Starts it and waits until it answers."""
        words = [str(self.venv / "bin/jupyter-lab"), "--no-browser", "--expose-app-in-browser", f"--ServerApp.root_dir={self.root}"]
        words += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"]
        # It would look for language servers with npm and node at each start, a quarter of all that it does then.
        words += ["--LanguageServerManager.autodetect=False", *self.options]
        # Not on the command line, where everybody could read it.
        environment = {**self.user.environment(), "JUPYTER_TOKEN": self.token, "INFINIJUP_SOCKET": str(self.daemon.socket)}
        environment["PATH"] = f"{self.venv}/bin:{environment['PATH']}"
        environment["PYTHONFAULTHANDLER"] = "1"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.user.words(words), env={**environment, **self.environment}, cwd=self.root, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        proc.until("JupyterLab answers", self.answers, seconds=180, pause=0.1)
        return self

    def answers(self) -> bool:
        """Whether it answers; fails at once if it has ended."""
        code = self.process.poll()
        assert code is None, f"JupyterLab ended with {code}:\n{self.log_tail()}"
        try:
            self.get("/api/status")
            return True
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9: it can say goodbye to nobody."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, as a service manager ends it. Its kernels are the daemon's and stay."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            # It writes to its log what its threads are doing.
            self.process.send_signal(signal.SIGABRT)
            proc.until("it has ended", lambda: self.process.poll() is not None, 20)
            if self.waited_for_anyio():
                return
            raise AssertionError(f"JupyterLab did not end on SIGTERM:\n{self.log_tail()}") from None

    def waited_for_anyio(self) -> bool:
        """Whether all that kept it was a thread of anyio's with nothing to do. Nobody ends those if the loop stops within a request, as
        that of Jupyter's server does on SIGTERM, and Python waits for them for ever (anyio 4.16). Nothing of ours is in that."""
        stacks = self.log.read_text(errors="replace").rpartition("Fatal Python error: Aborted")[2]
        files = re.findall(r'  File "([^"]+)"', stacks)
        return any("/anyio/" in file for file in files) and all("/anyio/" in file or file.startswith("/usr/lib/python3") for file in files)

    def request(self, method: str, path: str, body=None, token=True):
        """One request to its REST interface; the decoded answer."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"token {self.token}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=110) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')[:2000]}") from error
        return json.loads(text) if text else None

    def get(self, path: str):
        """GET."""
        return self.request("GET", path)

    def post(self, path: str, body=None):
        """POST."""
        return self.request("POST", path, body if body is not None else {})

    def history(self, path: str) -> dict:
        """What the History panel of a notebook is told."""
        return self.get(f"/infinijup/history?path={urllib.parse.quote(path)}")

    def session_of(self, path: str) -> dict | None:
        """Jupyter's own record of the kernel of a notebook."""
        return next((session for session in self.get("/api/sessions") if session["path"] == path), None)

    def write_notebook(self, path: str, *cells: str) -> str:
        """A new notebook; its path."""
        self.user.mkdir((self.root / path).parent)
        self.user.write(self.root / path, json.dumps(notebook(*cells)))
        return path

    def read_notebook(self, path: str) -> dict:
        """As it is on the disk."""
        return json.loads((self.root / path).read_text())

    def log_tail(self, lines: int = 60) -> str:
        """The end of its log, for a message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""
