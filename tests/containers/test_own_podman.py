"""A user's own podman: its containers are found by the user who has them, and by nobody else."""

import subprocess

import pytest

from runtimes.podman import Podman


@pytest.fixture
def own(record, image, make_user):
    user = make_user()
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
