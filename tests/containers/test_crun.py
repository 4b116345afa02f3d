"""crun by itself: the same as runc, and what is different about it.

It refuses machines with both versions of cgroups, so it runs where the second one is not to be seen (runtimes/bundle.py).
"""

import os
import signal
import subprocess

import pytest

from harness import proc
from harness.operation import Operation
from runtimes.podman import Podman
from runtimes.saved import Saved, commands_of, is_over, lives
from test_back import ROUNDS, change_bundle, everything, start_again, with_fewer_capabilities

# Where crun mounts the container's root during a restore.
MEANWHILE = "criu-root"


@pytest.fixture
def crun(runtimes):
    made = runtimes("crun")
    yield made
    for name in list(made.made):
        made.remove(name)
        made.made.remove(name)


@pytest.fixture
def daemon(make_daemon, crun):
    return commands_of(make_daemon, crun, {})


def seen(running):
    """What the container sees of its surroundings, and which cgroups it is in."""
    status = proc.facts(running.pid)
    # What of which file system is mounted, and where.
    mounts = sorted(tuple(line.split()[3:5]) for line in proc.read(running.pid, "mountinfo").decode().splitlines())
    groups = sorted(proc.read(running.pid, "cgroup").decode().splitlines())
    return {name: status[name] for name in ("Seccomp", "CapBnd", "CapEff", "NoNewPrivs")}, mounts, groups


def test_masks_filters_and_namespaces_come_from_it(daemon, crun):
    running = crun.counter(change=everything)
    saved = Saved(daemon, running)
    kept, held, before = saved.hash(), running.held(), seen(running)
    assert before[0]["Seccomp"] == "2" and "/sys/firmware" in dict(map(reversed, before[1]))
    hidden = ["/bin/sh", "-c", "cat /proc/kcore; ls /sys/firmware /proc/acpi"]
    nothing = crun.call("exec", running.name, *hidden).stdout
    for _ in range(ROUNDS):
        pid = running.pid
        saved.suspend()
        assert running.status == "gone" and is_over(pid)
        saved.resume()
        assert seen(running) == before
        assert (saved.hash(), running.held()) == (kept, held)
        assert crun.call("exec", running.name, *hidden).stdout == nothing
        lives(running)
    crun.call("kill", running.name, "KILL")
    proc.until("crun sees its end", lambda: running.status == "stopped")


def test_what_it_says_to_a_pipe_is_kept(daemon, crun, tmp_path):
    talk = "n=0; while true; do n=$((n+1)); echo number $n; echo $n > /work/count; sleep 0.05; done"
    running = crun.run(crun.new_name("talks"), ["/bin/sh", "-c", talk])
    running.counts()
    crun.call("delete", "--force", running.name)
    heard = tmp_path / "heard"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=heard.open("wb")) as reader:
        words = ["--root", crun.root, "run", "--detach", "--bundle", crun.bundle(running.name), running.name]
        subprocess.run(
            [str(word) for word in (crun.bin / "crun", *words)], stdin=subprocess.DEVNULL, stdout=reader.stdin, stderr=reader.stdin,
            env=crun.env(), check=True, timeout=60,
        )  # fmt: skip
        reader.stdin.close()
        proc.until("it is heard", lambda: "number 3" in heard.read_text(), seconds=20)
        saved = Saved(daemon, running)
        saved.suspend()
    at = running.count()
    session = saved.resume()
    proc.until("it goes on talking", lambda: f"number {at + 5}\n" in daemon.run("logs", session["name"]).out, seconds=20)
    saved.suspend()
    saved.resume()
    assert running.counts() > at


def with_cgroups(specification):
    specification["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]})


def test_cgroups_of_the_first_version_would_show_it_somebody_elses(daemon, crun):
    """crun's own restore of its own checkpoint has the cgroup of whoever called it there."""
    running = crun.counter(change=with_cgroups)
    error = daemon.fails("suspend", "--container", running.name, *crun.options())
    assert error["code"] == "IJ-O040" and "/sys/fs/cgroup" in error["message"], error
    lives(running)


def test_a_process_in_a_cgroup_below_its_own_is_refused_and_goes_on(daemon, crun):
    running = crun.run(crun.new_name("nested"), ["/bin/sh", "-c", "sleep 1000 & exec /usr/bin/python3 /app/counter.py /work"])
    running.counts()
    below = running.freezer().parent / "below"
    below.mkdir()
    pid = running.pid
    (child,) = [other for other in proc.tree(pid) if other != pid]
    (below / "cgroup.procs").write_text(str(child))
    error = daemon.fails("suspend", "--container", running.name, *crun.options())
    assert error["code"] == "IJ-O040" and "cgroups" in error["message"], error
    assert running.pid == pid
    lives(running)
    os.kill(child, signal.SIGKILL)
    proc.until("the child has ended", lambda: is_over(child))
    below.rmdir()


def with_another_cgroup(content):
    content["linux"]["cgroupsPath"] += "-other"


@pytest.mark.parametrize(
    ("change", "code", "word"), [(with_another_cgroup, "IJ-O040", "-other"), (with_fewer_capabilities, "IJ-L050", "CHOWN")]
)
def test_what_its_specification_does_not_have_now_never_comes_from_a_snapshot(daemon, crun, change, code, word):
    running = crun.counter()
    saved = Saved(daemon, running)
    kept = saved.hash()
    saved.suspend()
    config = crun.bundle(running.name) / "config.json"
    before = config.read_text()
    change_bundle(running, change)
    error = daemon.fails("resume", *saved.words)
    assert error["code"] == code and word in error["message"], error
    assert (running.status, daemon.sessions()[running.name]["state"]) == ("gone", "suspended")
    config.write_text(before)
    saved.resume()
    assert saved.hash() == kept


def test_another_container_of_its_name_is_left_alone(daemon, crun):
    running = crun.counter()
    saved = Saved(daemon, running)
    saved.suspend()
    (crun.bundle(running.name) / "rootfs/tmp/counter").unlink()
    start_again(crun, running)
    other = running.pid
    error = daemon.fails("resume", *saved.words)
    assert error["code"] == "IJ-L021", error
    assert (running.pid, running.status) == (other, "running")


@pytest.fixture
def podman(record, image):
    made = Podman(record, image, below="crun").import_image()
    yield made
    made.close()


def test_podman_with_crun_below_is_refused(make_daemon, podman, shown):
    running = podman.counter()
    error = commands_of(make_daemon, podman, {}).fails("suspend", "--container", running.name, *podman.options())
    assert error["code"] == "IJ-O040" and "crun" in error["message"], error
    assert running.counts() and running.status == "running"
    shown(podman, "suspend and resume", refused="IJ-O040")


def of_container(running):
    """Processes whose root is that of the container."""
    root = running.runtime.bundle(running.name) / "rootfs"
    return [pid for pid in proc.pids() if not is_over(pid) and same_root(pid, root)]


def same_root(pid, root):
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/root"), os.stat(root))
    except OSError:
        return False


def restoring(crun):
    """The `crun restore` that runs."""
    program = str(crun.root).encode()
    found = [pid for pid in proc.pids() if program in (words := proc.read(pid, "cmdline") or b"") and b"\0restore\0" in words]
    return found[0] if found else None


def is_mounted(running):
    """Its root is prepared for CRIU."""
    return (running.runtime.bundle(running.name) / MEANWHILE).exists()


def test_a_crun_that_is_killed_leaves_nothing(daemon, crun):
    running = crun.counter()
    saved = Saved(daemon, running)
    kept = saved.hash()
    session = saved.suspend()["session"]
    at = running.count()
    work = Operation(daemon.daemon, f"/v1/sessions/{session}/resume", {})
    work.start()
    proc.until("crun is that far", lambda: is_mounted(running), seconds=30, pause=0.001)
    os.kill(restoring(crun), signal.SIGKILL)
    work.join(60)
    assert work.answer is None and daemon.sessions()[session]["state"] == "suspended"
    proc.until("nothing of it runs", lambda: not of_container(running), seconds=20)
    assert not is_mounted(running)
    saved.resume()
    assert running.counts() > at and saved.hash() == kept
    lives(running)


def test_a_crun_that_gives_up_when_its_container_runs_leaves_none_that_nobody_knows(daemon, crun):
    """CRIU is done, and crun cannot take away where it had mounted the root: it ends with an error, and the processes run on."""
    running = crun.counter()
    saved = Saved(daemon, running)
    kept = saved.hash()
    session = saved.suspend()["session"]
    work = Operation(daemon.daemon, f"/v1/sessions/{session}/resume", {})
    work.start()
    proc.until("crun is that far", lambda: is_mounted(running), seconds=30, pause=0.001)
    # crun mounts where nobody else sees it: this is below its mount, and in the way when that is gone.
    in_the_way = crun.bundle(running.name) / MEANWHILE / "file"
    in_the_way.touch()
    work.join(60)
    assert work.answer is None and daemon.sessions()[session]["state"] == "suspended"
    # It had come to life, and crun has no container of it.
    logs = list(daemon.daemon.state.rglob("restore.log"))
    assert [log for log in logs if "Restore finished successfully" in log.read_text(errors="replace")], logs
    assert running.status == "gone"
    assert not of_container(running)
    in_the_way.unlink()
    saved.resume()
    assert not is_mounted(running)
    assert running.counts() and saved.hash() == kept
    lives(running)
