"""Trees of several processes with GPU state: all of them or none, and what cannot be dumped is refused before anything is locked."""

import json

import pytest

from harness.gpu_session import Target
from harness.session import Commands


@pytest.fixture
def commands(gpu, make_daemon, make_user):
    return Commands(make_daemon(gpu.env()), make_user(), gpu.env())


def test_a_parent_and_two_children_with_contexts(commands, gpu):
    target = Target.start(commands, "tree", "--gpus", 2, "--mib", 8, "--children", 2, processes=3)
    held = gpu.bytes_held()
    assert held >= 3 * 2 * (8 << 20)

    taken = target.session.snapshot()
    assert taken["vram_bytes"] >= held * 9 // 10
    target.check()
    target.session.rollback(taken["commit"])
    target.check()
    target.session.suspend()
    assert gpu.bytes_held() == 0
    target.session.resume()
    target.check()


def test_a_forked_child_that_never_calls_cuda_is_refused_before_any_lock(commands, gpu):
    """It has the parent's device files open, and CRIU cannot dump those; nothing can close them from outside."""
    target = Target.start(commands, "fork", "--gpus", 1, "--mib", 2, "--children", 2, "--idle-fork", processes=3)
    before = gpu.status()["calls"]

    error = commands.fails("snapshot", "fork")

    assert error["code"] == "IJ-L040", error
    said = json.dumps(error)
    assert "/dev/nvidia" in said and "fork" in said, said
    after = gpu.status()["calls"]
    assert after.get("lock", 0) == before.get("lock", 0), "something was locked before the refusal"
    target.check()
