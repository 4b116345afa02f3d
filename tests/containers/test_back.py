"""Containers that are saved and come back: by our own dump, and by their runtime's restore from the specification that they have then."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness import proc
from harness.operation import Operation, killed_after, moments, seconds_of
from runtimes import programs
from runtimes.base import LEAP
from runtimes.saved import Saved, commands_of, is_free, is_over, lives

KILLS = int(os.environ.get("INFINIJUP_CONTAINER_KILLS", "6"))
ROUNDS = int(os.environ.get("INFINIJUP_CONTAINER_ROUNDS", "2"))
CUDA = ["/bin/sh", "-c", "exec /usr/bin/python3 -u /app/cuda_target.py --gpus 2 --mib {mib} > /work/said"]
FILTER = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": []}
FILTER["syscalls"].append({"names": ["swapon"], "action": "SCMP_ACT_ERRNO"})


def start_again(runc, running, log="/dev/null"):
    """The same bundle under the same id, from the beginning."""
    words = ["--root", runc.root, "run", "--detach", "--bundle", runc.bundle(running.name), running.name]
    programs.run_detached(runc.bin / runc.kind, *words, env=runc.env(), log=log)


def test_a_snapshot_does_not_stop_it(root, runc, shown):
    running = runc.counter()
    saved = Saved(root, running)
    pid, kept, before = running.pid, saved.hash(), running.count()
    taken = saved.snapshot("--tag", "first")
    assert taken["memory_bytes"] > 1 << 20 and taken["frozen_us"] > 0
    assert (running.pid, saved.hash()) == (pid, kept)
    assert running.counts() > before
    # The second is asked for by the same name, and belongs to the same history.
    assert saved.snapshot()["session"] == taken["session"]
    assert root.sessions()[taken["session"]]["pid"] == pid
    lives(running)
    shown(runc, "snapshot")


def test_it_is_put_to_sleep_and_goes_on_where_it_was(root, runc, shown):
    running = runc.counter()
    saved = Saved(root, running)
    kept, held = saved.hash(), running.held()
    assert held[0] >= 3 and "/work/count" in held[1].values() and "socket" in held[1].values(), held
    for _ in range(ROUNDS):
        pid = running.pid
        saved.suspend()
        asleep_at = running.count()
        assert running.status == "gone" and is_over(pid)
        saved.resume()
        assert running.pid != pid
        # The next number, and not one of another life.
        assert asleep_at < running.counts() < LEAP
        assert running.answer() > asleep_at
        assert (saved.hash(), running.held()) == (kept, held)
        lives(running)
    # It is its runtime's again.
    runc.call("kill", running.name, "KILL")
    proc.until("runc sees its end", lambda: running.status == "stopped")
    proc.until("the session has ended", lambda: root.sessions()[running.name]["state"] != "running")
    assert running.status == "stopped"
    shown(runc, "suspend and resume")


def everything(specification):
    """What specifications of containerd and podman have beside the least."""
    linux = specification["linux"]
    linux["namespaces"] += [{"type": "network"}, {"type": "cgroup"}]
    linux["maskedPaths"] = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/acpi", "/sys/firmware"]
    linux["readonlyPaths"] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
    linux["seccomp"] = FILTER
    specification["mounts"] += [
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
    ]


def without_cgroup_namespace(specification):
    """As Docker has it on machines with the first version of cgroups: each hierarchy is bound into the container."""
    everything(specification)
    specification["linux"]["namespaces"].remove({"type": "cgroup"})
    specification["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]})


@pytest.mark.parametrize("change", [everything, without_cgroup_namespace])
def test_masks_filters_namespaces_and_cgroups_come_from_the_runtime(root, runc, change):
    running = runc.counter(change=change)
    saved = Saved(root, running)
    kept = saved.hash()

    def seen():
        status = proc.facts(running.pid)
        mounts = sorted(line.split()[4] for line in proc.read(running.pid, "mountinfo").decode().splitlines())
        groups = sorted(proc.read(running.pid, "cgroup").decode().splitlines())
        return {name: status[name] for name in ("Seccomp", "CapBnd", "CapEff", "NoNewPrivs")}, mounts, groups

    before = seen()
    assert before[0]["Seccomp"] == "2"
    for _ in range(ROUNDS):
        saved.suspend()
        saved.resume()
        assert seen() == before
        assert saved.hash() == kept
        lives(running)


def test_it_goes_back_with_its_volume(root, runc, shown):
    running = runc.counter()
    saved = Saved(root, running)
    commit = saved.snapshot()["commit"]
    running.leap()
    root.run("rollback", *saved.words, commit).one("rolled_back")
    # The file that it has open in the volume is what it was, and it counts on from there.
    assert running.counts() < LEAP
    lives(running)
    shown(runc, "roll back")


# A round of 256 MiB on each GPU takes ten seconds on a busy machine: the bytes are hashed twice in each.
@pytest.mark.timeout(120 + 30 * ROUNDS)
@pytest.mark.parametrize("other", ["runc", "crun", "containerd-overlayfs", "containerd-native", "podman"], indirect=True)
def test_vram_is_free_while_it_sleeps(make_daemon, other, gpu, shown):
    mib = int(os.environ.get("INFINIJUP_CONTAINER_GPU_MIB", "8"))
    environment = gpu.env()
    root = commands_of(make_daemon, other, environment)
    devices = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1"]
    shared = [(path, path) for path in (gpu.libraries, gpu.server)]
    command = [*CUDA[:2], CUDA[2].format(mib=mib)]
    running = other.run(other.new_name("gpu"), command, env=environment, mounts=shared, devices=devices)
    saved = Saved(root, running)
    said = Path(running.work / "said")

    def lines(key):
        found = [json.loads(line) for line in said.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [one for one in found if key in one]

    def ask():
        before = len(lines("report"))
        os.kill(running.pid, signal.SIGUSR1)
        return proc.until("it says how it is", lambda: lines("report")[before:], seconds=20)[0]

    proc.until("its buffers are filled", lambda: said.exists() and lines("ready"), seconds=60)
    expected = ask()
    taken = saved.snapshot()
    assert taken["vram_bytes"] >= 2 * mib << 20
    for _ in range(ROUNDS):
        assert gpu.bytes_held() >= 2 * mib << 20
        assert saved.suspend()["freed_vram_bytes"] >= 2 * mib << 20
        assert gpu.bytes_held() == 0 and running.status != "running"
        saved.resume()
        told = ask()
        assert (told["hash"], told["pointers"]) == (expected["hash"], expected["pointers"])
        assert ask()["rounds"] > told["rounds"] >= expected["rounds"]
        assert running.status == "running"
    shown(other, "with two GPUs")


def change_bundle(running, change):
    path = running.runtime.bundle(running.name) / "config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def without_volume(content):
    content["mounts"] = [mount for mount in content["mounts"] if mount["destination"] != "/work"]


def with_fewer_capabilities(content):
    content["process"]["capabilities"]["bounding"].remove("CAP_CHOWN")


def with_filter(content):
    content["linux"]["seccomp"] = FILTER


def with_lower_limits(content):
    content["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": 64, "soft": 64}]


def as_somebody_else(content):
    """Who cannot become root, as which the container has run until now."""
    content["process"]["user"] = {"uid": 1000, "gid": 0}
    for allowed in content["process"]["capabilities"].values():
        if "CAP_SETUID" in allowed:
            allowed.remove("CAP_SETUID")


def spared_less(content):
    """It has run with 0 until now, and may not lower that again."""
    content["process"]["oomScoreAdj"] = 200


def with_a_network_of_its_own(content):
    """It has lived in the machine's until now."""
    content["linux"]["namespaces"].append({"type": "network"})


CHANGES = [
    (without_volume, "/work"),
    (with_fewer_capabilities, "CHOWN"),
    (with_filter, "filter"),
    (with_lower_limits, "NOFILE"),
    (as_somebody_else, "SETUID"),
    (spared_less, "oom_score_adj"),
    (with_a_network_of_its_own, "network namespace"),
]


@pytest.mark.parametrize(("change", "word"), CHANGES)
def test_what_the_live_specification_does_not_have_never_comes_from_a_snapshot(root, runc, change, word):
    running = runc.counter()
    saved = Saved(root, running)
    kept = saved.hash()
    saved.suspend()
    config = runc.bundle(running.name) / "config.json"
    before = config.read_text()
    change_bundle(running, change)
    error = root.fails("resume", *saved.words)
    assert error["code"] == "IJ-L050" and word in error["message"], error
    assert (running.status, root.sessions()[running.name]["state"]) == ("gone", "suspended")
    config.write_text(before)
    saved.resume()
    assert saved.hash() == kept


def test_another_container_under_its_name_is_left_alone(root, runc):
    """One that was put to sleep has no claim on its id: whoever runs another there keeps it."""
    running = runc.counter()
    saved = Saved(root, running)
    taken = saved.suspend()
    # It would listen there, too.
    (runc.bundle(running.name) / "rootfs/tmp/counter").unlink()
    start_again(runc, running)
    other = running.pid
    error = root.fails("resume", *saved.words)
    assert error["code"] == "IJ-L021", error
    assert (running.pid, running.status) == (other, "running")
    root.run("rm", taken["session"])
    assert (running.pid, running.status) == (other, "running")


def test_a_daemon_that_is_killed_loses_no_container(root, runc):
    running = runc.counter()
    saved = Saved(root, running)
    kept = saved.hash()
    saved.snapshot()
    root.daemon.kill()
    lives(running)
    root.daemon.start()
    saved.suspend()
    root.daemon.kill()
    root.daemon.start()
    saved.resume()
    assert saved.hash() == kept
    root.daemon.kill()
    lives(running)
    root.daemon.start()
    assert root.sessions()[running.name]["pid"] == running.pid


def test_what_cannot_come_back_is_refused_before_it_is_touched(root, runc):
    def without_own_pids(specification):
        specification["linux"]["namespaces"] = [one for one in specification["linux"]["namespaces"] if one["type"] != "pid"]

    running = runc.counter(change=without_own_pids)
    error = root.fails("suspend", "--container", running.name, *runc.options())
    assert error["code"] == "IJ-L015" and "process ids" in error["message"], error
    assert running.counts() and running.status == "running"


def test_a_container_that_was_started_anew_goes_on_with_its_history(root, runc):
    running = runc.counter()
    saved = Saved(root, running)
    taken = saved.snapshot()
    runc.call("delete", "--force", running.name)
    proc.until("its end is noticed", lambda: root.sessions()[running.name]["state"] != "running")
    (runc.bundle(running.name) / "rootfs/tmp/counter").unlink()
    start_again(runc, running)
    running.counts()
    again = saved.snapshot()
    assert again["session"] == taken["session"]
    commits = root.run("log", taken["session"]).messages("commit")
    assert [one["id"] for one in commits][:2] == [again["commit"], taken["commit"]]


def test_output_to_a_file_of_the_machine_is_said_before_anything_is_tried(root, runc, tmp_path):
    running = runc.counter()
    runc.call("delete", "--force", running.name)
    (runc.bundle(running.name) / "rootfs/tmp/counter").unlink()
    start_again(runc, running, log=tmp_path / "out")
    running.counts()
    error = root.fails("snapshot", "--container", running.name, *runc.options())
    assert error["code"] == "IJ-L015" and str(tmp_path / "out") in error["message"], error
    running.counts()


def test_what_it_says_to_a_pipe_is_kept_after_it_came_back(root, runc, tmp_path):
    """Whoever read the pipe was told that it ended. The container must not die of it, and can be put to sleep again."""
    name = runc.new_name("talks")
    talk = "n=0; while true; do n=$((n+1)); echo number $n; echo $n > /work/count; sleep 0.05; done"
    heard = tmp_path / "heard"
    words = [str(word) for word in (runc.bin / "runc", "--root", runc.root, "run", "--detach", "--bundle", runc.bundle(name), name)]
    # Made without starting it twice: the bundle is that of a container that was there before.
    running = runc.run(name, ["/bin/sh", "-c", talk])
    running.counts()
    runc.call("delete", "--force", name)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=heard.open("wb")) as reader:
        subprocess.run(words, stdin=subprocess.DEVNULL, stdout=reader.stdin, stderr=reader.stdin, env=runc.env(), check=True, timeout=60)
        reader.stdin.close()
        proc.until("it is heard", lambda: "number 3" in heard.read_text(), seconds=20)
        saved = Saved(root, running)
        saved.suspend()
    for _ in range(ROUNDS):
        at = running.count()
        session = saved.resume()
        proc.until("it goes on talking", lambda at=at, name=session["name"]: f"number {at + 5}\n" in root.run("logs", name).out, seconds=20)
        saved.suspend()
    saved.resume()
    assert running.counts() > at


@pytest.mark.parametrize("other", ["crun", "containerd-overlayfs", "containerd-native", "podman"], indirect=True)
def test_other_runtimes_bring_theirs_back(make_daemon, other, shown):
    root = commands_of(make_daemon, other, {})
    running = other.counter()
    saved = Saved(root, running)
    kept, held, before = saved.hash(), running.held(), running.count()
    commit = saved.snapshot()["commit"]
    assert running.counts() > before
    for _ in range(ROUNDS):
        pid = running.pid
        saved.suspend()
        asleep_at = running.count()
        assert is_over(pid) and running.status != "running"
        saved.resume()
        assert running.status == "running" and running.pid != pid
        assert asleep_at < running.counts() < LEAP
        assert running.answer() > asleep_at
        assert (saved.hash(), running.held()) == (kept, held)
    running.leap()
    root.run("rollback", *saved.words, commit).one("rolled_back")
    assert running.status == "running" and running.counts() < LEAP
    assert saved.hash() == kept
    for operation in ("snapshot", "suspend and resume", "roll back"):
        shown(other, operation)


@pytest.mark.parametrize("other", ["podman"], indirect=True)
def test_the_log_of_podman_goes_on(make_daemon, other):
    root = commands_of(make_daemon, other, {})
    talk = "n=0; while true; do n=$((n+1)); echo number $n; echo $n > /work/count; sleep 0.05; done"
    running = other.run(other.new_name("talks"), ["/bin/sh", "-c", talk])
    running.counts()
    saved = Saved(root, running)
    saved.suspend()
    at = running.count()
    saved.resume()
    proc.until("podman hears it", lambda: f"number {at + 5}\n" in other.podman("logs", running.name).stdout, seconds=20)
    assert other.podman("exec", running.name, "/bin/cat", "/proc/1/comm").stdout.strip() == "sh"
    other.podman("stop", "--time", "0", running.name)
    assert running.status == "exited"


# In the place of runc: a removal waits as long as a file is there, and comes to nothing.
HELD_REMOVAL = """#!/bin/sh
case " $* " in *" delete "*) if [ -e {hold} ]; then
    echo $$ > {hold}.asked
    while [ -e {hold} ]; do /bin/sleep 0.01; done
    exit 1
fi ;; esac
exec {runc} "$@"
"""


def test_a_daemon_killed_between_the_end_and_the_removal_leaves_nothing_in_the_runtime(make_daemon, runc, tmp_path):
    hold, bin_directory = tmp_path / "hold", tmp_path / "bin"
    bin_directory.mkdir()
    (bin_directory / "runc").write_text(HELD_REMOVAL.format(hold=hold, runc=runc.bin / "runc"))
    (bin_directory / "runc").chmod(0o755)
    root = commands_of(make_daemon, runc, {}, first_in_path=bin_directory)
    running = runc.counter()
    saved = Saved(root, running)
    kept, session, pid = saved.hash(), saved.snapshot()["session"], running.pid
    hold.touch()
    work = Operation(root.daemon, f"/v1/sessions/{session}/suspend", {})
    work.start()
    asked = tmp_path / "hold.asked"
    remover = int(proc.until("runc is asked to remove it", lambda: asked.exists() and asked.read_text()))
    assert is_over(pid)
    root.daemon.kill()
    work.join(20)
    hold.unlink()
    proc.until("whoever was to remove it is gone", lambda: is_over(remover))
    assert running.status == "stopped", "it was removed all the same, and nothing is shown"
    root.daemon.start()
    assert root.sessions()[session]["state"] == "suspended"
    assert running.status == "gone"
    # One that ends by itself stays, for whoever looks after it.
    saved.resume()
    assert saved.hash() == kept
    os.kill(running.pid, signal.SIGKILL)
    proc.until("its end was seen", lambda: root.sessions()[session]["state"] != "running")
    root.daemon.kill()
    root.daemon.start()
    assert running.status == "stopped"


def test_a_daemon_killed_at_any_moment_leaves_a_container_that_runs_or_can_be_woken(root, runc):
    running = runc.counter()
    saved = Saved(root, running)
    kept = saved.hash()
    session = saved.snapshot()["session"]
    verbs = {"suspend": saved.suspend, "resume": saved.resume}
    when = {verb: moments(KILLS // 2, seconds_of(do), seed=7) for verb, do in verbs.items()}
    cut_short = {"suspend": 0, "resume": 0}
    for number in range(KILLS):
        verb = ("suspend", "resume")[number % 2]
        if root.sessions()[session]["state"] != ("running" if verb == "suspend" else "suspended"):
            verbs["resume" if verb == "suspend" else "suspend"]()
        at = running.count()
        cut_short[verb] += killed_after(when[verb][number // 2], root.daemon, f"/v1/sessions/{session}/{verb}", {})
        root.daemon.start()
        state = proc.until("it is one or the other", lambda: root.sessions()[session]["state"], seconds=60)
        assert state in ("running", "suspended"), (number, state)
        if state == "running":
            assert running.status == "running" and is_free(running.pid), number
            assert root.sessions()[session]["pid"] == running.pid
        else:
            assert running.status == "gone", number
            saved.resume()
        assert running.counts() > at and saved.hash() == kept
    # Each of them was really interrupted.
    assert all(cut_short.values()), cut_short
