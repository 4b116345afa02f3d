"""One container of a pod is saved and comes back, while the others run on in the same network."""

import pytest

from harness import proc
from runtimes.base import COUNTER
from runtimes.saved import Saved, commands_of


def two_in(pod, runtime):
    """A container that only holds namespaces open, and two that join them, as podman and Kubernetes do it."""
    if runtime.kind == "podman":
        holder = ["--infra-image", runtime.image.name, "--infra-command", "/usr/bin/python3 /app/counter.py /tmp"]
        runtime.podman("pod", "create", "--name", pod, "--network", "none", "--share", "net,ipc,uts", *holder)
        return [runtime.in_pod(pod, COUNTER) for _ in range(2)]
    labels = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "science", "io.cri-containerd.kind": "sandbox"}
    holder = runtime.run(runtime.new_name("sandbox"), ["/bin/sh", "-c", "sleep 1000"], labels=labels)
    joined = [f"--with-ns={kind}:/proc/{holder.pid}/ns/{name}" for kind, name in (("network", "net"), ("ipc", "ipc"), ("uts", "uts"))]
    labels["io.cri-containerd.kind"] = "container"
    return [runtime.run(runtime.new_name("member"), COUNTER, labels=labels, options=joined) for _ in range(2)]


@pytest.fixture
def pod(other):
    """The name of one, which is gone at the end with all that is in it."""
    name = other.new_name("pod")
    yield name
    if other.kind == "podman":
        other.podman("pod", "rm", "--force", "--time", "0", name, check=False)


@pytest.mark.parametrize("other", ["containerd-overlayfs", "podman"], indirect=True)
def test_one_of_a_pod_sleeps_and_comes_back(make_daemon, other, pod, shown):
    beside, running = two_in(pod, other)
    running.counts()
    beside.counts()
    network = proc.link(running.pid, "ns/net")
    root = commands_of(make_daemon, other, {})
    saved = Saved(root, running)
    kept, others = saved.hash(), beside.pid
    saved.snapshot()
    running.counts()
    saved.suspend()
    assert running.status != "running"
    beside.counts()
    saved.resume()
    running.counts()
    assert saved.hash() == kept and running.status == "running"
    assert beside.pid == others and beside.status == "running"
    # It is where it was: whoever else is in the pod still reaches it.
    assert proc.link(running.pid, "ns/net") == network
    # Nobody who looks after a pod knows of a second one in it.
    error = root.fails("branch", *saved.words, "--name", "second")
    assert error["code"] == "IJ-O040", error
    beside.counts()
    shown(other, "in a pod")
