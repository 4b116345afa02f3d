"""A container that somebody holds still is captured only if its user says `--thaw`, and is found afterwards as it was.

What is frozen cannot be locked on a GPU, so it is let go first, by the same means by which it was frozen, and then held again by these.
"""

import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import proc
from harness.operation import Operation
from runtimes.base import LEAP
from runtimes.saved import Saved, commands_of, is_over

# How often it is tried to kill the daemon in the moment that counts.
TRIES = 5
# It has a process that a snapshot cannot hold: one in a user namespace of its own.
STRANGER = """
import ctypes, os, time
if os.fork() == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    open("/work/is-there", "w").close()
number = 0
while True:
    if os.getpid() == 1:
        number += 1
        open("/work/count.new", "w").write(str(number))
        os.rename("/work/count.new", "/work/count")
    time.sleep(0.01)
"""


def pause(running):
    """As the runtime's own user does."""
    running.runtime.pause(running.name)


def freeze(running):
    """Past the runtime."""
    freezer = running.freezer()
    freezer.write_text("FROZEN" if freezer.name == "freezer.state" else "1")


HELD = [("podman", pause), ("containerd-overlayfs", pause), ("runc", pause), ("runc", freeze), ("podman", freeze)]


@contextmanager
def unchanged(running, ours):
    """Whoever held it holds it afterwards, by the same means, and nothing of it runs."""

    def held():
        report = ours.detect(running.runtime, running.name)
        return report["container"]["status"], report["held"]

    before = held()
    assert before[1], before
    yield before
    assert held() == before
    at = running.count()
    time.sleep(0.2)
    assert running.count() == at


def let_go(running):
    """By hand, by the means by which it was held; it counts on."""
    freezer = running.freezer()
    if running.status == "paused":
        running.runtime.resume(running.name)
    else:
        freezer.write_text("THAWED" if freezer.name == "freezer.state" else "0")
    running.counts()


@pytest.mark.parametrize(("other", "hold"), HELD, indirect=["other"])
def test_it_is_let_go_for_a_snapshot_and_held_again(make_daemon, other, hold, ours, shown):
    root = commands_of(make_daemon, other, {})
    running = other.counter()
    saved = Saved(root, running)
    first, pid = saved.snapshot()["commit"], running.pid
    hold(running)
    at = running.count()
    with unchanged(running, ours) as (_, held):
        error = root.fails("snapshot", *saved.words)
        assert error["code"] == "IJ-O022" and held[0]["how"] in error["message"] and "--thaw" in error["hint"], error
        assert running.count() == at
    with unchanged(running, ours):
        taken = saved.snapshot("--thaw")
        assert [said for said in taken["warnings"] if "is held again as it was" in said], taken
        # It ran for as long as it took, and no longer: not for the while in which memory went into the store.
        assert at <= running.count() < at + 1000 and running.pid == pid
    let_go(running)
    # The snapshot is one like any other.
    root.run("rollback", *saved.words, taken["commit"]).one("rolled_back")
    running.counts()
    assert first != taken["commit"]
    shown(other, "let go and held again")


@pytest.mark.parametrize(("other", "hold"), HELD, indirect=["other"])
def test_it_is_let_go_and_put_to_sleep(make_daemon, other, hold):
    root = commands_of(make_daemon, other, {})
    running = other.counter()
    saved = Saved(root, running)
    kept, pid = saved.hash(), running.pid
    hold(running)
    assert root.fails("suspend", *saved.words)["code"] == "IJ-O022"
    saved.do("suspend", "--thaw", kind="suspended")
    assert is_over(pid) and running.status not in ("running", "paused")
    asleep_at = running.count()
    saved.resume()
    # What comes back runs.
    assert running.status == "running" and asleep_at < running.counts() < LEAP
    assert saved.hash() == kept


def test_its_gpu_is_locked_after_it_was_let_go_and_is_free_when_it_is_held_again(make_daemon, runtimes, gpu, ours):
    other = runtimes("containerd-overlayfs")
    root = commands_of(make_daemon, other, gpu.env())
    running = other.gpu_work(gpu, gpus=2, mib=4)
    saved, held = Saved(root, running), gpu.bytes_held()
    other.pause(running.name)
    before = ours.detect(other, running.name)["held"]
    taken = saved.snapshot("--thaw")
    assert taken["vram_bytes"] >= 2 * 4 << 20 and running.status == "paused"
    assert ours.detect(other, running.name)["held"] == before
    # A lock would outlast the pause: nobody but us could undo it.
    assert gpu.state(running.pid) == "running" and gpu.bytes_held() == held
    other.resume(running.name)
    running.check()
    other.remove(running.name)
    other.made.remove(running.name)


def test_one_that_cannot_be_captured_is_held_again(root, runc, ours):
    running = runc.run(runc.new_name("odd"), ["/usr/bin/python3", "-c", STRANGER])
    running.counts()
    proc.until("its child is where a snapshot cannot have it", lambda: (running.work / "is-there").exists())
    saved = Saved(root, running)
    runc.pause(running.name)
    with unchanged(running, ours):
        error = root.fails("snapshot", *saved.words, "--thaw")
        assert error["code"] == "IJ-L040", error
    with unchanged(running, ours):
        assert root.fails("suspend", *saved.words, "--thaw")["code"] == "IJ-L040"
    let_go(running)


def test_what_others_share_is_never_let_go(root, runc, ours):
    running, neighbour = runc.counter(), runc.counter()
    saved = Saved(root, running)
    own = running.freezer()
    above = Path(own.parent.parent / own.name)
    above.write_text("FROZEN" if above.name == "freezer.state" else "1")
    try:
        with unchanged(running, ours):
            at = neighbour.count()
            error = root.fails("snapshot", *saved.words, "--thaw")
            assert error["code"] == "IJ-O023" and "above its own" in error["message"], error
            assert neighbour.count() == at
    finally:
        above.write_text("THAWED" if above.name == "freezer.state" else "0")
    running.counts()
    neighbour.counts()


def test_a_daemon_that_is_killed_in_between_leaves_it_running(root, runc):
    """Nobody knows any more who had paused it. Running is the way round in which nothing is lost."""
    running = runc.counter()
    saved = Saved(root, running)
    kept, session = saved.hash(), saved.snapshot()["session"]
    for _ in range(TRIES):
        runc.pause(running.name)
        at = running.count()
        work = Operation(root.daemon, f"/v1/sessions/{session}/snapshot", {"thaw": True})
        work.start()
        proc.until("it was let go", lambda at=at: running.count() > at, seconds=20)
        root.daemon.kill()
        work.join(20)
        root.daemon.start()
        if work.answer is None and running.status == "running":
            break
        # The daemon was quicker than we.
        assert running.status == "paused"
        let_go(running)
    else:
        raise AssertionError(f"it was never killed in between, in {TRIES} tries")
    running.counts()
    assert saved.hash() == kept
    saved.snapshot()
