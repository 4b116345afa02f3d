"""Who freezes a container first can never lock its GPUs: shown on containerd, whose ordinary client does just that.

`ctr tasks checkpoint`, like everything that uses containerd's client library, pauses a container before it asks for the checkpoint.
CRIU then has its plugin lock the GPU, which needs the container's own threads, and those are frozen: the lock times out and the checkpoint
fails. The plugin here (criu/lock_plugin.c) does what CRIU's own for NVIDIA's GPUs does, by the stand-in's `cuda-checkpoint`.

Locked while it runs, as we do it, the same container is dumped by the same command.
"""

import subprocess
from pathlib import Path

import pytest

from harness import proc
from harness.daemon import programs
from runtimes.programs import Failed

SOURCE = Path(__file__).parent / "criu/lock_plugin.c"
# What the lock is given. CRIU's plugin has 10 s; a lock that succeeds takes milliseconds.
LOCK_LIMIT_MS = 2000
HOOK = """#!/bin/sh
# What the freezer says at the moment of the lock, then the lock.
state=$(cat "/sys/fs/cgroup/freezer$(sed -n 's/^[0-9]*:freezer://p' "/proc/$1/cgroup")/freezer.state")
echo "freezer $state" >> {log}
begun=$(date +%s%3N)
CUDA_SIM_DIR={server} {cuda_sim} cuda-checkpoint --action lock --pid "$1" --timeout {limit} >> {log} 2>&1
code=$?
echo "lock $code $(($(date +%s%3N) - begun))" >> {log}
exit $code
"""


class Plugin:
    """The plugin in a directory of its own, and what its hook has seen."""

    def __init__(self, directory, gpu):
        self.directory, self.log = directory / "plugins", directory / "hook.log"
        self.directory.mkdir()
        hook = directory / "hook"
        hook.write_text(HOOK.format(log=self.log, server=gpu.server, cuda_sim=programs() / "cuda-sim", limit=LOCK_LIMIT_MS))
        hook.chmod(0o755)
        words = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f'-DHOOK="{hook}"', "-o", self.directory / "lock_plugin.so", SOURCE]
        subprocess.run([str(word) for word in words], check=True, timeout=60)

    def lines(self):
        """What the hook has written."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def plugin(tmp_path, gpu):
    return Plugin(tmp_path, gpu)


@pytest.fixture
def containerd(runtimes):
    made = runtimes("containerd-overlayfs")
    yield made
    for name in list(made.made):
        made.remove(name)
        made.made.remove(name)


def cuda_checkpoint(gpu, action, pid, *more):
    """The stand-in's `cuda-checkpoint`, from outside of the container, as an administrator would run it."""
    words = [programs() / "cuda-sim", "cuda-checkpoint", "--action", action, "--pid", pid, *more]
    done = subprocess.run([str(word) for word in words], env={"CUDA_SIM_DIR": str(gpu.server)}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def checkpoint(containerd, name, directory):
    """`ctr tasks checkpoint`, into a directory."""
    images, work = directory / "images", directory / "work"
    for path in (images, work):
        path.mkdir(parents=True)
    containerd.ctr("tasks", "checkpoint", "--image-path", images, "--work-path", work, name, limit=60)
    return images


def test_the_ordinary_client_freezes_first_and_the_lock_times_out(containerd, gpu, plugin, criu_settings, tmp_path):
    settings = criu_settings("network-lock skip", f"libdir {plugin.directory}")
    running = containerd.gpu_work(gpu, gpus=2, mib=4, annotations=settings)
    held = gpu.bytes_held()
    with pytest.raises(Failed):
        checkpoint(containerd, running.name, tmp_path / "dump")
    assert plugin.lines()[0] == "freezer FROZEN", plugin.lines()
    _, code, milliseconds = plugin.lines()[-1].split()
    assert code != "0" and int(milliseconds) >= LOCK_LIMIT_MS, plugin.lines()
    assert not list((tmp_path / "dump/images").glob("pages-*.img"))
    # It goes on, with its work on the GPUs where it was.
    proc.until("it is thawed", lambda: running.freezer().read_text().strip() == "THAWED")
    proc.until("its GPUs are not locked", lambda: gpu.state(running.pid) == "running")
    assert gpu.bytes_held() == held
    running.check()


def test_a_paused_container_cannot_be_locked_and_is_refused_before(containerd, gpu, ours):
    running = containerd.gpu_work(gpu, gpus=1, mib=4)
    containerd.pause(running.name)
    code, said = cuda_checkpoint(gpu, "lock", running.pid, "--timeout", LOCK_LIMIT_MS)
    assert code != 0, said
    report = ours.detect(containerd, running.name)
    assert not report["can_be_captured"]
    assert report["held"][0]["by"] == "runtime"
    containerd.resume(running.name)
    proc.until("its GPU is not locked", lambda: gpu.state(running.pid) == "running")
    running.check()


def test_locked_while_it_runs_the_same_container_is_dumped(containerd, gpu, plugin, criu_settings, tmp_path):
    # The plugin is kept out: its directory is another one.
    empty = tmp_path / "no-plugins"
    empty.mkdir()
    settings = criu_settings("network-lock skip", f"libdir {empty}")
    running = containerd.gpu_work(gpu, gpus=2, mib=4, annotations=settings)
    held, pid = gpu.bytes_held(), running.pid
    assert running.freezer().read_text().strip() == "THAWED"
    for action, more in (("lock", ("--timeout", LOCK_LIMIT_MS)), ("checkpoint", ())):
        code, said = cuda_checkpoint(gpu, action, pid, *more)
        assert code == 0, said
    assert gpu.bytes_held() == 0
    images = checkpoint(containerd, running.name, tmp_path / "dump")
    assert list(images.glob("pages-*.img"))
    assert plugin.lines() == []
    for action in ("restore", "unlock"):
        code, said = cuda_checkpoint(gpu, action, pid)
        assert code == 0, said
    assert gpu.bytes_held() == held
    running.check()


@pytest.mark.parametrize("label", ["runc", "podman"])
def test_runc_and_podman_do_not_freeze_first(label, runtimes, gpu, plugin, criu_settings, tmp_path):
    runtime = runtimes(label)
    settings = criu_settings("network-lock skip", f"libdir {plugin.directory}")
    running = runtime.gpu_work(gpu, gpus=1, mib=4, annotations=settings)
    # It fails later: this plugin locks, and does not take anything off the GPU.
    if label == "runc":
        runtime.call(
            "checkpoint", "--leave-running", "--image-path", tmp_path / "i", "--work-path", tmp_path / "w", running.name, check=False
        )
    else:
        runtime.podman("container", "checkpoint", "--leave-running", running.name, check=False)
    assert plugin.lines()[0] == "freezer THAWED", plugin.lines()
    assert plugin.lines()[-1].startswith("lock 0 "), plugin.lines()
    code, said = cuda_checkpoint(gpu, "unlock", running.pid)
    assert code == 0, said
    running.check()
    runtime.remove(running.name)
