"""A real JupyterHub of the tests' own. Root runs it, as on a machine that many share; each user's server runs as that user.

One installation serves all of them, and nothing is set up for a single user: that each finds a daemon of their own is what is tested.
"""

import json
import os
import secrets
import signal
import subprocess
import urllib.error
import urllib.request

from harness import proc
from harness.daemon import criu
from lab.server import VENV, Lab, free_port

# Root's configuration. Passwords are not what is tested; that users are those of the machine is.
CONFIG = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.command = ["{proxy}"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = set({users})
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = ["{venv}/bin/jupyterhub-singleuser"]
c.Spawner.args = {arguments}
c.Spawner.notebook_dir = "~/work"
c.Spawner.environment = {environment}
c.Spawner.http_timeout = c.Spawner.start_timeout = 90
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
scopes = ["admin:users", "admin:servers", "tokens"]
c.JupyterHub.load_roles = [{{"name": "tests", "services": ["tests"], "scopes": scopes}}]
"""


class Hub:
    """One hub with its proxy. It can be stopped and started again with the same ports, users and tokens."""

    def __init__(self, record, users, arguments=(), venv=VENV):
        self.venv, self.port, self.token = venv, free_port(), secrets.token_hex(16)
        proxy = venv / "proxy/node_modules/.bin/configurable-http-proxy"
        assert proxy.exists(), f"needs {proxy} (scripts/lab-python.sh)"
        self.directory = record.base / "hub"
        self.directory.mkdir(mode=0o700)
        self.log, self.config = self.directory / "hub.log", self.directory / "config.py"
        environment = {"INFINIJUP_CRIU": criu(), "INFINIJUP_DAEMON": str(record.base / "bin/infinijupd"), "LC_ALL": "C.UTF-8"}
        facts = {"hub_port": free_port(), "proxy_port": free_port(), "environment": environment, "arguments": list(arguments)}
        users = [user.name for user in users]
        self.config.write_text(CONFIG.format(port=self.port, proxy=proxy, token=self.token, venv=venv, users=users, **facts))
        self.process = None

    def start(self) -> "Hub":
        """Starts it and waits until it answers."""
        environment = {"PATH": f"{self.venv}/bin:{os.environ['PATH']}", "HOME": str(self.directory), "LC_ALL": "C.UTF-8"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.venv / "bin/jupyterhub", "-f", self.config], env=environment, cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        proc.until("JupyterHub answers", self.answers, seconds=90, pause=0.1)
        return self

    def answers(self) -> bool:
        """Whether it answers; fails at once if it has ended."""
        code = self.process.poll()
        assert code is None, f"JupyterHub ended with {code}:\n{self.log_tail()}"
        try:
            return bool(self.ask("GET", ""))
        except (OSError, AssertionError):
            return False

    def stop(self) -> None:
        """SIGTERM, as a service manager ends it: the servers of all users and the proxy end with it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            # The proxy, too.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"JupyterHub did not end on SIGTERM:\n{self.log_tail()}") from None

    def ask(self, method: str, path: str, body=None):
        """One request to the hub's own interface."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/hub/api/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')[:2000]}") from error
        return json.loads(text) if text else {}

    def servers(self, users) -> "list[HubServer]":
        """The servers of users, started as if they had all logged in at the same moment."""
        known = [one["name"] for one in self.ask("GET", "users")]
        for user in users:
            if user.name not in known:
                self.ask("POST", f"users/{user.name}")
            self.ask("POST", f"users/{user.name}/server")
        for user in users:
            proc.until(f"the server of {user.name} is ready", lambda user=user: self.is_ready(user), seconds=120, pause=0.1)
        tokens = [self.ask("POST", f"users/{user.name}/tokens", {"note": "tests"})["token"] for user in users]
        return [self.server_of(user, token) for user, token in zip(users, tokens, strict=True)]

    def server_of(self, user, token: str) -> "HubServer":
        """A server that runs, with somebody's token."""
        return HubServer(self, user, token)

    def is_ready(self, user) -> bool:
        """Whether the server of a user is."""
        servers = self.ask("GET", f"users/{user.name}")["servers"]
        return bool(servers.get("", {}).get("ready"))

    def log_tail(self, lines: int = 60) -> str:
        """The end of its log, with those of the servers."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class HubServer(Lab):
    """The server of one user, as their browser reaches it: through the proxy, with a token of theirs."""

    def __init__(self, hub, user, token):
        self.hub, self.user, self.token, self.root = hub, user, token, user.home / "work"

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.hub.port}/user/{self.user.name}"
