"""A user's own podman: its containers are found by the user who has them, and by nobody else."""

import subprocess

import pytest

from harness.session import Commands
from runtimes.podman import Podman


@pytest.fixture(scope="module")
def own(record, image, module_make_user):
    user = module_make_user()
    # With no numbers beside their own podman needs no setuid program.
    subprocess.run(["usermod", "--del-subuids=1-4294967294", "--del-subgids=1-4294967294", user.name], check=True, timeout=20)
    runtime = Podman(record, image, user=user).import_image()
    yield runtime
    runtime.close()


def test_users_look_at_their_own_containers(own, runtimes, ours):
    running = own.counter()
    report = ours.detect(own, running.name)
    assert report["container"]["pid"] == running.pid
    assert report["container"]["runtime"]["kind"] == "podman"
    assert report["held"] == []
    assert ours.detect(own, str(running.pid))["container"]["id"] == report["container"]["id"]
    # Root's podman has a store of its own, and knows nothing of it.
    ours.fails(runtimes("podman"), "IJ-O002", running.name)


def test_what_podman_gives_no_user_we_do_not_promise(own, make_daemon):
    """Without root podman neither checkpoints nor restores: a container of a user's own could be saved, and would never come back. It is
    refused before anything is done."""
    running = own.counter()
    for verb in ("checkpoint", "restore"):
        said = own.podman("container", verb, running.name, check=False)
        assert said.returncode != 0 and "root" in said.stderr, said.stderr
    user = Commands(make_daemon({**own.env()}, user=own.user), own.user, own.env())
    for verb in ("snapshot", "suspend", "branch"):
        error = user.fails(verb, "--container", running.name, *own.options())
        assert error["code"] == "IJ-L015" and "root" in error["message"], error
    running.counts()
