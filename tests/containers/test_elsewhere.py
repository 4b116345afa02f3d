"""A container goes on on another machine: of a snapshot in an object store, the image, and a container there that says what it may."""

import os
from pathlib import Path

import pytest

from harness.host import Host
from harness.object_store import KEYS, ObjectStore, Proxy
from harness.session import Commands
from harness.users import User
from runtimes import image as images
from runtimes.base import COUNTER
from runtimes.saved import Branch, Saved, commands_of, inside_of

ALL = ["runc", "containerd-overlayfs", "containerd-native", "podman"]
IDLE = ["/bin/sh", "-c", "sleep 1000"]


class Elsewhere:
    """A second machine: a network of its own, no state of this one's runtimes, and a way to the object store."""

    def __init__(self, record, user):
        # runc below containerd keeps its notes there.
        self.host = Host("mkdir -p /run/containerd", "mount -t tmpfs there /run/containerd")
        self.store = ObjectStore(record.base / "object-store", user)
        self.way_here = Proxy(self.store.port)
        self.way_there = Proxy(self.store.port, self.host.listener())
        self.runtime = None

    def make(self, runtimes, label, make_daemon):
        """The same sort of runtime there, with the same image; and root's own daemon."""
        self.runtime = runtimes.make(label, self.host)
        root = self.host.user(User("root"))
        environment = {**KEYS, **self.runtime.env()}
        del environment["INFINIJUP_RUN"]
        return Commands(make_daemon(environment, user=root), root, KEYS)

    def close(self):
        """Nothing runs there any more."""
        if self.runtime:
            self.runtime.close()
        for way in (self.way_here, self.way_there):
            way.close()
        self.store.close()
        self.host.close()


@pytest.fixture
def elsewhere(record, make_user):
    made = Elsewhere(record, make_user())
    yield made
    made.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("other", ALL, indirect=True)
def test_a_container_goes_on_elsewhere_from_its_snapshot_alone(elsewhere, runtimes, make_daemon, other, shown):
    here = commands_of(make_daemon, other, KEYS)
    running = other.counter()
    saved = Saved(here, running)
    kept, pid = saved.hash(), running.pid
    inside_of(pid, "/tmp/written").write_text("in a layer of its own\n")
    # A file of the image is removed, and another belongs to somebody else.
    inside_of(pid, "/app/keeper.py").unlink()
    os.chown(inside_of(pid, "/tmp/written"), 1234, 5678)
    at = running.count()
    commit = saved.snapshot("--tag", "moved", "--files", "tree")["commit"]
    here.run("remote", "add", "origin", elsewhere.way_here.address("containers"))
    here.run("push", "--unencrypted")
    # The first machine has nothing of it any more.
    other.remove(running.name)
    for path in running.work.iterdir():
        path.unlink()

    there = elsewhere.make(runtimes, other.label, make_daemon)
    runtime = elsewhere.runtime
    there.run("clone", elsewhere.way_there.address("containers"))
    model = runtime.create(runtime.new_name("model"), IDLE)
    was = (runtime.status(model.name), sorted(model.work.iterdir()))
    words = ["branch", "--container", model.name, *runtime.options(), "--from", "moved", "--name", "goes-on"]

    # It is a foreign program, and root's daemon runs none of those by force.
    for force in ([], ["--force"]):
        assert there.fails(*words, *force)["code"] == "IJ-L051"
    assert there.run("trust", "moved").one("trusted")["commit"] == commit
    branch = Branch(there, runtime, there.run(*words).one("branched")["branches"][0])
    # As the new one's first number is not seen, it is not told from a later one; but it never began anew.
    assert at <= branch.count()
    branch.counts()
    assert branch.hash() == kept
    assert branch.path("/tmp/written").read_text() == "in a layer of its own\n"
    assert (branch.path("/tmp/written").stat().st_uid, branch.path("/tmp/written").stat().st_gid) == (1234, 5678)
    assert branch.path("/app/counter.py").exists() and not branch.path("/app/keeper.py").exists()
    assert Path(f"/proc/{branch.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    # What it was made as is as it was, and the volume that was written to is the new one's own.
    assert (runtime.status(model.name), sorted(model.work.iterdir())) == was

    # It is a container like any other there.
    there.run("suspend", "goes-on")
    assert branch.status != "running"
    there.run("resume", "goes-on")
    branch.counts()
    assert branch.hash() == kept
    there.run("stop", "--grace", "0", "goes-on")
    there.run("rm", "--discard-files", "goes-on")
    assert branch.status == "gone"
    shown(other, "on another host")


@pytest.mark.parametrize("other", ["podman"], indirect=True)
def test_a_container_of_another_image_is_no_model(make_daemon, other, image, tmp_path):
    """Its files might not be those that the processes have open."""
    root = commands_of(make_daemon, other, {})
    running = other.counter()
    Saved(root, running).snapshot("--tag", "good")
    name = "localhost/infinijup-other:1"
    digest = images.make_archive(image.layer, tmp_path / "other.tar", IDLE, name)
    other.podman("load", "--quiet", "--input", tmp_path / "other.tar")
    other.podman("create", "--name", "of-another", name, *COUNTER)
    other.made.append("of-another")
    other.podman("init", "of-another")
    before = other.podman("ps", "--all", "--quiet").stdout
    error = root.fails("branch", "--container", "of-another", *other.options(), "--from", "good")
    assert error["code"] == "IJ-O040" and digest in error["message"] and image.digest in error["message"], error
    assert other.podman("ps", "--all", "--quiet").stdout == before
    running.counts()


@pytest.mark.parametrize("other", ["runc"], indirect=True)
def test_only_what_was_a_container_becomes_one(make_daemon, other, make_user):
    root = commands_of(make_daemon, other, {})
    running = other.counter()
    session = root.start("sleeper", "sleep", "1000")
    session.snapshot("--tag", "plain")
    error = root.fails("branch", "--container", running.name, *other.options(), "--from", "plain")
    assert error["code"] == "IJ-L015" and "no container" in error["message"], error
    running.counts()
