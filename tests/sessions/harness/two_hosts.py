"""Two machines and an object store that both can reach: what is pushed on one is cloned on the other."""

import json

from harness.history import History
from harness.host import Host
from harness.object_store import KEYS, ObjectStore, Proxy
from harness.session import Commands

MIB = 1 << 20
NOTEBOOK = json.dumps({"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "where it was"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


class TwoHosts:
    """`here` and `there`, each with a disk of its own more, a daemon of the same user's, and a way to the store."""

    def __init__(self, record, user, make_daemon, environment=None):
        environment = environment or {}
        self.store = ObjectStore(record.base / "object-store", user)
        self.hosts = [Host("mount -t tmpfs here /mnt"), Host("mount -t tmpfs there /media")]
        self.here, self.there = self.hosts
        self.ways = [Proxy(self.store.port, host.listener()) for host in self.hosts]
        self.users = [host.user(user) for host in self.hosts]
        daemons = [make_daemon(environment, user=one) for one in self.users]
        self.commands = [Commands(*pair, {**environment, **KEYS}) for pair in zip(daemons, self.users, strict=True)]

    def kernel(self, name):
        """A kernel here, with a notebook in its workspace."""
        user, commands = self.users[0], self.commands[0]
        workspace = user.mkdir(user.home / "work")
        user.write(workspace / "paper.ipynb", NOTEBOOK)
        view = commands.run("kernel", "start", "--name", name, "--files", "workspace", cwd=workspace).one("session")
        session = commands.session(view["session"])
        self.here.value(session, "1")
        History(commands.daemon, user).patch(session, notebook=str(workspace / "paper.ipynb"))
        return session

    def push(self, prefix):
        """Twice: the second time, what was pushed before is not sent again. Gives what was new, and what was sent for it."""
        first, way = self.commands[0], self.ways[0]
        if first.run("remote", "list").messages("remote") == []:
            first.run("remote", "add", "origin", way.address(prefix))
            first.run("push", "--unencrypted")
            return None
        new, before = first.run("push", "--dry-run").one("pushed")["bytes"], way.sent
        first.run("push")
        return new, way.sent - before

    def clone(self, prefix):
        """There."""
        self.commands[1].run("clone", self.ways[1].address(prefix))

    def come_up(self, tag):
        """A session of a snapshot that was cloned, after the verdict."""
        second = self.commands[1]
        said = second.run("check", tag).one("check")
        assert said["fits"] and [one["item"] for one in said["findings"] if one["state"] == "warn"] == ["origin"], said
        made = second.run("branch", tag, "--force").one("branched")["branches"][0]
        assert made["warnings"] == []
        return second.session(made["session"])

    def notebook(self, tag):
        """The document that went with a snapshot, as the second machine has it."""
        return History(self.commands[1].daemon, self.users[1]).notebook(tag)

    def close(self):
        """Nothing runs there any more."""
        for way in self.ways:
            way.close()
        for host in self.hosts:
            host.close()
        self.store.close()
