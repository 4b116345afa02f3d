"""Containers that root's own daemon saves and brings back."""

import json
import os
import signal
from pathlib import Path

from harness import proc
from harness.session import Commands
from harness.users import User


def commands_of(make_daemon, runtime, environment, first_in_path=None):
    """Root's own daemon, which finds the runtime in its path, or before that what a test puts in its place; and `infinijup` as root."""
    root = User("root")
    found = {**environment, **runtime.env()}
    if first_in_path:
        found["PATH"] = f"{first_in_path}:{found['PATH']}"
    # That is the daemon's own.
    del found["INFINIJUP_RUN"]
    return Commands(make_daemon(found, user=root), root, environment)


class Saved:
    """A container, and what can be done to it."""

    def __init__(self, commands, running):
        self.commands, self.running = commands, running
        self.words = ["--container", running.name, *running.runtime.options()]

    def do(self, verb, *more, kind):
        return self.commands.run(verb, *self.words, *more).one(kind)

    def snapshot(self, *more):
        return self.do("snapshot", *more, kind="snapshot_taken")

    def suspend(self):
        return self.do("suspend", kind="suspended")

    def resume(self):
        return self.do("resume", kind="resumed")["session"]

    def hash(self):
        """What the container says of the bytes that it keeps."""
        told = self.running.work / "hash"
        told.unlink(missing_ok=True)
        os.kill(self.running.pid, signal.SIGUSR1)
        return proc.until("it tells its hash", lambda: told.exists() and told.read_text(), seconds=20)


class Branch:
    """A second container, that a snapshot became."""

    def __init__(self, root, runtime, told):
        self.root, self.runtime, self.told = root, runtime, told
        self.name = told["session"]["name"]
        # As it is called in its runtime.
        self.container = f"{self.name}-{told['session']['id']}"

    @property
    def pid(self):
        return self.root.sessions()[self.name]["pid"]

    @property
    def status(self):
        return self.runtime.status(self.container)

    def path(self, inside):
        return inside_of(self.pid, inside)

    def count(self):
        return int(self.path("/work/count").read_text())

    def counts(self):
        before = self.count()
        return proc.until("the second one counts on", lambda: self.count() > before and self.count(), seconds=20)

    def hash(self):
        told = self.path("/work/hash")
        told.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        return proc.until("it tells its hash", lambda: told.exists() and told.read_text(), seconds=20)


def inside_of(pid, path):
    """A file as a container sees it."""
    return Path(f"/proc/{pid}/root{path}")


def is_over(pid):
    """Whether a process has ended. Whoever is the parent of it may not have noticed yet."""
    found = proc.stat(pid)
    return found is None or found["state"] == "Z"


def is_free(pid):
    """Neither stopped nor traced."""
    return proc.stat(pid)["state"] not in "tT" and proc.status(pid, "TracerPid") in ("", "0")


def lives(running):
    """runc sees a running container: it can be listed, entered and signalled."""
    runtime = running.runtime
    assert running.status == "running"
    runtime.call("kill", running.name, "0")
    listed = {one["id"]: one for one in json.loads(runtime.call("list", "--format", "json").stdout)}
    assert listed[running.name]["pid"] == running.pid
    assert runtime.call("exec", running.name, "/bin/cat", "/proc/1/comm").stdout.strip() == "python3"
    running.counts()
