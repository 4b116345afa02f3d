"""A second container beside one that lives: made by their runtime from the specification that the first has now."""

import os

import pytest

from harness import proc
from harness.operation import killed_after, moments, seconds_of
from runtimes.base import LEAP
from runtimes.saved import Branch, Saved, commands_of, inside_of

# Of each runtime.
KILLS = max(3, int(os.environ.get("INFINIJUP_CONTAINER_KILLS", "6")) // 2)
ALL = ["runc", "containerd-overlayfs", "containerd-native", "podman"]


def own_network(specification):
    """As containerd and podman have it."""
    specification["linux"]["namespaces"].append({"type": "network"})


def counter(runtime, **more):
    return runtime.counter(**more, **({"change": own_network} if runtime.kind == "runc" else {}))


def branch(root, running, *words):
    told = root.run("branch", "--container", running.name, *running.runtime.options(), *words).one("branched")["branches"]
    assert len(told) == 1
    return Branch(root, running.runtime, told[0])


def known(runtime):
    """All containers and layers that the runtime has."""
    if runtime.kind == "runc":
        return runtime.call("list", "--quiet").stdout.split()
    if runtime.kind == "podman":
        return runtime.podman("ps", "--all", "--format", "{{.Names}}").stdout.split()
    layers = runtime.ctr("snapshots", "--snapshotter", runtime.snapshotter, "list").stdout.splitlines()[1:]
    return [*runtime.ctr("containers", "list", "--quiet").stdout.split(), *(line.split()[0] for line in layers)]


@pytest.mark.parametrize("other", ALL, indirect=True)
def test_two_of_one_snapshot_live_beside_each_other(make_daemon, other, tmp_path, shown):
    root = commands_of(make_daemon, other, {})
    data = tmp_path / "data"
    data.mkdir()
    running = counter(other, mounts=[(data, "/data")])
    saved, before = Saved(root, running), known(other)
    kept, first, at = saved.hash(), running.pid, running.count()
    inside_of(first, "/tmp/written").write_text("by the first\n")
    inside_of(first, "/tmp/gone").write_text("")
    inside_of(first, "/tmp/gone").unlink()
    commit = saved.snapshot()["commit"]
    running.leap()
    second = branch(root, running, "--from", commit, "--name", "idea")

    # Each goes on by itself from the same number, with the same bytes.
    begun = second.count()
    assert at <= begun < LEAP <= running.count()
    second.counts()
    assert second.hash() == kept == saved.hash()
    assert (running.pid, running.status, second.status) == (first, "running", "running")
    running.counts()

    # What one writes the other does not see, in its layer as in the volume that has a file open.
    for pid, word in ((first, "first"), (second.pid, "second")):
        assert inside_of(pid, "/tmp/written").read_text() == "by the first\n"
        inside_of(pid, "/tmp/own").write_text(word)
        inside_of(pid, "/work/own").write_text(word)
    for pid, word in ((first, "first"), (second.pid, "second")):
        assert inside_of(pid, "/tmp/own").read_text() == inside_of(pid, "/work/own").read_text() == word
    assert (running.work / "own").read_text() == "first"
    # A volume in which nothing is open belongs to both, and that is said.
    assert second.told["shared"] == ["/data"]
    inside_of(first, "/data/common").write_text("both")
    assert second.path("/data/common").read_text() == "both"

    for namespace in ("net", "pid", "mnt"):
        assert proc.link(first, f"ns/{namespace}") != proc.link(second.pid, f"ns/{namespace}"), namespace
    groups = [proc.read(pid, "cgroup") for pid in (first, second.pid)]
    assert groups[0] != groups[1]

    # It can do what the first one can.
    for _ in range(2):
        root.run("suspend", "idea")
        assert second.status != "running" and running.status == "running"
        root.run("resume", "idea")
        second.counts()
    assert second.hash() == kept

    # It goes with all that was made for it, and what no snapshot has is kept; the first one goes on.
    second.path("/work/result").write_text("of the second\n")
    root.run("stop", "--grace", "0", "idea")
    kept_files = root.run("rm", "idea").one("removed")["session"]["kept_files"]
    assert {"/work/result", "/tmp/own"} <= {one["path"] for one in kept_files["files"]}, kept_files
    assert second.status == "gone" and known(other) == before
    assert (running.pid, running.status) == (first, "running")
    assert (running.work / "own").read_text() == "first"
    running.counts()
    shown(other, "branch")


def test_what_it_sees_of_the_machine_is_said_by_its_specification_alone(root, runc, tmp_path):
    running = counter(runc)
    saved, before = Saved(root, running), known(runc)
    saved.snapshot()
    error = root.fails("branch", *saved.words, "--map", f"/work={tmp_path}")
    assert error["code"] == "IJ-L015" and "specification" in error["message"], error
    assert known(runc) == before
    running.counts()


def test_a_network_that_somebody_made_has_no_second(root, runc):
    def joined(specification):
        specification["linux"]["namespaces"].append({"type": "network", "path": f"/proc/{os.getpid()}/ns/net"})

    running = runc.counter(change=joined)
    before = known(runc)
    Saved(root, running).snapshot()
    sessions = set(root.sessions())
    error = root.fails("branch", "--container", running.name, *runc.options())
    assert error["code"] == "IJ-O040" and "network" in error["message"], error
    assert set(root.sessions()) == sessions and known(runc) == before
    running.counts()


def time_of_a_branch(root, taken):
    """How long one takes that nothing interrupts, so that kills fall into one."""
    took = seconds_of(lambda: root.run("branch", taken["session"], "--from", taken["commit"], "--name", "whole"))
    root.run("stop", "--grace", "0", "whole")
    root.run("rm", "--discard-files", "whole")
    return took


@pytest.mark.parametrize("other", ["runc", "containerd-overlayfs", "podman"], indirect=True)
def test_a_daemon_killed_at_any_moment_leaves_a_second_one_or_nothing(make_daemon, other):
    root = commands_of(make_daemon, other, {})
    running = counter(other)
    saved = Saved(root, running)
    taken = saved.snapshot()
    before, sessions = known(other), set(root.sessions())
    pid, cut_short = running.pid, 0
    for number, moment in enumerate(moments(KILLS, time_of_a_branch(root, taken), seed=11)):
        body = {"from": taken["commit"], "name": f"try-{number}"}
        cut_short += killed_after(moment, root.daemon, f"/v1/sessions/{taken['session']}/branch", body)
        root.daemon.start()
        new = [view for name, view in root.sessions().items() if name not in sessions]
        if new:
            second = Branch(root, other, {"session": new[0]})
            assert new[0]["state"] == "running" and second.status == "running", (number, new)
            second.counts()
            root.run("stop", "--grace", "0", second.name)
            root.run("rm", "--discard-files", second.name)
        assert known(other) == before, number
        assert (running.pid, running.status) == (pid, "running")
        running.counts()
    assert cut_short, "nothing was ever cut short"
