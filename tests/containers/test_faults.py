"""Faults at every step of every operation on a container, with each runtime.

Somebody has it paused, or stops it; the runtime, CRIU or the daemon is killed; the disk is full; images go away; the driver says no. Each
cell asserts that its fault happened and what came of it. After each, the container runs with its bytes, or sleeps and can be woken; its
GPUs are not locked; nothing is frozen, traced, mounted or left over; none of its files is missing; and its runtime says the same as we do.
"""

import http.client
import itertools
import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness import proc
from harness.wire import request
from runtimes.holding import Holding
from runtimes.saved import commands_of

LABELS = ("runc", "containerd-overlayfs", "podman")

DUMPS, RESTORES = ("snapshot", "suspend", "rollback"), ("resume", "rollback")
# Steps of CRIU at which somebody is killed.
DUMPING, RESTORING = ("pre-dump", "post-dump"), ("pre-restore", "post-setup-namespaces", "post-restore", "pre-resume")
# Faults of the driver, by the call that has them.
DRIVER = {
    "lock-times-out": ("lock", {"error": 600}),
    "lock-not-permitted": ("lock", {"error": 800}),
    "lock-worker-dies": ("lock", {"kill-caller": True}),
    "checkpoint-out-of-memory": ("checkpoint", {"error": 2}),
}
DRIVER_BACK = {"restore-out-of-memory": ("restore", {"error": 2}), "restore-worker-dies": ("restore", {"kill-caller": True})}


# Of one runtime alone.
ABOVE = {"runc": (), "containerd-overlayfs": ("shim-killed", "containerd-restarted"), "podman": ("conmon-killed",)}
# What comes of a fault: the answer, and what the session is then. Of a restore that fails, what comes of it is the same for all faults.
OUTCOMES = {
    "paused": ("IJ-O022", "running"),
    "daemon-killed": ("killed", "running"),
    "stopped-in-mid-lock": ("IJ-L083", "running"),
    "lock-times-out": ("IJ-G010", "running"),
    "lock-not-permitted": ("IJ-G010", "running"),
    "lock-worker-dies": ("IJ-G005", "running"),
    "checkpoint-out-of-memory": ("IJ-G010", "running"),
    ("criu-killed", "snapshot"): ("IJ-K013", "running"),
    ("criu-killed", "suspend"): ("IJ-K013", "running"),
    ("disk-full", "snapshot"): ("IJ-L043", "running"),
    ("disk-full", "suspend"): ("done", "suspended"),
    ("disk-full", "rollback"): ("IJ-L001", "running"),
}
FAILED = {"resume": ("IJ-L021", "suspended"), "rollback": ("IJ-L020", "running")}


def outcome(operation, fault, step):
    """Of a cell."""
    if fault == "criu-killed" and step in DUMPING:
        return ("IJ-K013", "running")
    return OUTCOMES.get((fault, operation)) or OUTCOMES.get(fault) or FAILED[operation]


def cells():
    """Runtime, operation, fault, and the step at which it happens, if it is CRIU's."""
    for label, operation in itertools.product(LABELS, DUMPS):
        for fault in ("paused", "disk-full", "stopped-in-mid-lock", *DRIVER):
            yield label, operation, fault, ""
        for fault, step in itertools.product(("criu-killed", "daemon-killed"), DUMPING):
            yield label, operation, fault, step
    for label, operation in itertools.product(LABELS, RESTORES):
        for fault in DRIVER_BACK:
            yield label, operation, fault, ""
        for fault, step in itertools.product(("runtime-killed", "criu-killed", "daemon-killed"), RESTORING):
            yield label, operation, fault, step
        yield label, operation, "images-removed", "pre-restore"
        for fault in ABOVE[label]:
            yield label, operation, fault, "post-setup-namespaces"


# Ten seconds each: until the disk is full, and until a lock's time is over. How each runtime's pause is told is test_thaw.py's business.
ONCE = ("paused", "disk-full", "stopped-in-mid-lock")


def kind_of(cell):
    """What the gate has one cell of: an operation with a fault and a runtime; without the runtime for faults of the driver, and for those
    above."""
    label, operation, fault, _ = cell
    with_one = fault in {**DRIVER, **DRIVER_BACK} or fault in ONCE
    return (operation, fault) if with_one else (label, operation, fault)


def of_the_gate(every):
    """One cell of each kind, at one of the steps and with one of the runtimes, in turn."""
    kinds = {}
    for cell in every:
        kinds.setdefault(kind_of(cell), []).append(cell)
    return [group[number % len(group)] for number, group in enumerate(kinds.values())]


EVERY = list(cells())
CELLS = EVERY if os.environ.get("INFINIJUP_CONTAINER_FAULTS") == "all" else of_the_gate(EVERY)


class World:
    """One runtime, a daemon whose state is on a small disk, and a container with work on two GPUs.

    The container is made anew only if a cell has failed.
    """

    def __init__(self, runtime, commands, gpu, holding, disk):
        self.runtime, self.commands, self.gpu, self.holding, self.disk = runtime, commands, gpu, holding, disk
        self.running = self.session = self.base = None

    @property
    def daemon(self):
        return self.commands.daemon

    def ready(self, operation):
        """The container runs, with a snapshot to go back to; or it sleeps if the operation begins there."""
        if self.running is None:
            annotations = {} if self.runtime.label == "runc" else self.holding.annotations()
            self.running = self.runtime.gpu_work(self.gpu, gpus=2, mib=1, annotations=annotations)
            (Path(f"/proc/{self.running.pid}/root/root") / "mine").write_text("mine")
            taken = self.commands.run("snapshot", "--container", self.running.name, *self.runtime.options()).one("snapshot_taken")
            self.session, self.base = taken["session"], taken["commit"]
            self.files = files_of(self.running)
        if operation == "resume":
            assert self.ask("suspend")[0] == 200

    def state(self):
        """Ours."""
        return self.view()["state"]

    def view(self):
        status, view = self.daemon.get(f"/v1/sessions/{self.session}")
        assert status == 200, view
        return view

    def ask(self, operation):
        """The request, and its answer; `None` if the daemon died over it."""
        body = {"rollback": {"to": self.base}}.get(operation, {})
        try:
            return request(self.daemon.socket, "POST", f"/v1/sessions/{self.session}/{operation}?wait=true", body, seconds=60)
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def begin(self, operation):
        """The same beside what the test does meanwhile."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask(operation)), daemon=True)
        thread.start()

        def answer():
            thread.join(60)
            assert answers, f"{operation} did not end"
            return answers[0]

        return answer

    def give_up(self):
        """The cells that follow a failed one begin with a container of their own."""
        self.holding.let_go()
        self.gpu.clear()
        proc.until("the daemon answers", self.daemon.answers)
        (self.disk / "filler").unlink(missing_ok=True)
        if self.running:
            self.runtime.remove(self.running.name)
            self.runtime.made.remove(self.running.name)
        self.running = None


def files_of(running):
    """What is in its own layer and in its volume."""
    root = Path(f"/proc/{running.pid}/root")
    own = {str(path.relative_to(root)) for top in ("app", "root", "etc", "work") for path in (root / top).rglob("*")}
    return own, sum(len(files) for _, _, files in os.walk(root / "usr"))


@pytest.fixture(scope="module")
def worlds(record, runtimes, module_gpu, module_make_daemon):
    """One for each runtime, when a cell first asks for it."""
    made = {}

    def world(label):
        if label not in made:
            runtime = runtimes(label)
            disk = record.base / f"disk-{label}"
            disk.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=700", "small", disk], check=True)
            holding = Holding(record.base / f"holding-{label}")
            environment = {**module_gpu.env(), "INFINIJUP_STATE": str(disk / "state"), "INFINIJUP_CRIU": str(holding.program)}
            environment |= {"INFINIJUP_GPU_LOCK_LIMIT": "1", "INFINIJUP_GPU_STEP_LIMIT": "2"}
            commands = commands_of(module_make_daemon, runtime, environment)
            commands.daemon.state = disk / "state"
            made[label] = World(runtime, commands, module_gpu, holding, disk)
        return made[label]

    yield world
    for one in made.values():
        one.give_up()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("label", "operation", "fault", "step"), CELLS, ids=["-".join(filter(None, cell)) for cell in CELLS])
def test_cell(worlds, label, operation, fault, step):
    world = worlds(label)
    try:
        world.ready(operation)
        answer = FAULTS.get(fault, driver_says_no)(world, operation, fault, step)
        check(world, outcome(operation, fault, step), answer)
    except BaseException:
        world.give_up()
        raise


def paused(world, operation, fault, step):
    world.runtime.pause(world.running.name)
    assert world.running.freezer().read_text().strip() in ("FROZEN", "1")
    answer = world.ask(operation)
    assert world.gpu.state(world.running.pid) == "running"
    world.runtime.resume(world.running.name)
    return answer


def disk_full(world, operation, fault, step):
    filler = world.disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(1 << 20))
    assert os.statvfs(world.disk).f_bavail <= 256
    answer = world.ask(operation)
    filler.unlink()
    return answer


def stopped_in_mid_lock(world, operation, fault, step):
    pid = world.running.pid
    world.gpu.fault(call="lock", action={"hold": True})
    answer = world.begin(operation)
    assert world.gpu.await_hold(20), f"{operation} did not come to the lock"
    os.kill(pid, signal.SIGSTOP)
    proc.until("it is stopped", lambda: proc.stat(pid)["state"] == "T")
    world.gpu.clear()
    said = answer()
    os.kill(pid, signal.SIGCONT)
    return said


def driver_says_no(world, operation, fault, step):
    call, action = {**DRIVER, **DRIVER_BACK}[fault]
    before = world.gpu.status()["fired"]
    world.gpu.fault(call=call, action=action)
    answer = world.ask(operation)
    assert world.gpu.status()["fired"] == before + 1, answer
    world.gpu.clear()
    return answer


def killed(victim):
    """Somebody is killed while CRIU is at a step."""

    def kill(world, operation, fault, step):
        world.holding.wish(step)
        answer = world.begin(operation)
        held = world.holding.wait()
        pid = victim(world, held)
        os.kill(pid, signal.SIGKILL)
        proc.until("it is dead", lambda: proc.is_over(pid))
        world.holding.let_go()
        return answer()

    return kill


def daemon_killed(world, operation, fault, step):
    world.holding.wish(step)
    answer = world.begin(operation)
    world.holding.wait()
    world.daemon.kill()
    world.holding.let_go()
    said = answer()
    world.daemon.start()
    return said


def containerd_restarted(world, operation, fault, step):
    world.holding.wish(step)
    answer = world.begin(operation)
    world.holding.wait()
    world.runtime.process.kill()
    world.runtime.process.wait()
    world.runtime.start()
    world.holding.let_go()
    return answer()


def images_removed(world, operation, fault, step):
    world.holding.wish(step)
    answer = world.begin(operation)
    images = world.holding.wait().images()
    for image in images.glob("core-*.img"):
        image.unlink()
    world.holding.let_go()
    return answer()


FAULTS = {
    "paused": paused,
    "disk-full": disk_full,
    "stopped-in-mid-lock": stopped_in_mid_lock,
    "runtime-killed": killed(lambda world, held: held.parent("runc")),
    "criu-killed": killed(lambda world, held: held.engine),
    "shim-killed": killed(lambda world, held: held.parent("containerd-shim")),
    "conmon-killed": killed(lambda world, held: held.parent("conmon")),
    "daemon-killed": daemon_killed,
    "containerd-restarted": containerd_restarted,
    "images-removed": images_removed,
}


def check(world, expected, answer):
    """What came of it is what was expected, and the container is well after it."""
    state = proc.until("the session has settled", lambda: world.state() in ("running", "suspended") and world.state(), seconds=60)
    word = "killed" if answer is None else "done" if answer[0] == 200 else answer[1].get("error", answer[1])["code"]
    assert (word, state) == expected, answer
    if state == "suspended":
        check_asleep(world)
        done = world.ask("resume")
        assert done[0] == 200, done
    check_runs(world)


def check_asleep(world):
    """Nothing of it is left, and its runtime says so."""
    assert world.running.status != "running"
    assert named(in_cgroup(world)) == {}
    # Those of other runtimes hold some, too.
    assert [one for one in world.gpu.status()["processes"] if proc.is_over(one["pid"])] == []


def in_cgroup(world):
    """Processes in the container's cgroup, by its name, which is its id."""
    runtime, name = world.runtime, world.running.name
    last = runtime.id(name) if runtime.label == "podman" else name
    found = []
    for pid in proc.pids():
        parts = {part for line in proc.read(pid, "cgroup").decode().splitlines() for part in line.split(":", 2)[2].split("/")}
        if (last in parts or f"libpod-{last}" in parts) and not proc.is_over(pid):
            found.append(pid)
    return found


def named(pids):
    """With what they are called, for whoever reads a failure."""
    return {pid: proc.read(pid, "cmdline").replace(b"\0", b" ") + proc.read(pid, "comm") for pid in pids}


def check_runs(world):
    """It runs, and it is its runtime's; nobody holds it, and nothing is left over."""
    running = world.running
    proc.until("its runtime says that it runs", lambda: running.status == "running")
    pid = running.pid
    assert world.view()["pid"] == pid
    proc.until("the daemon has no trouble with the GPU", lambda: not world.view().get("gpu_trouble"), seconds=60, pause=0.1)
    proc.until("its GPUs are not locked", lambda: world.gpu.state(pid) == "running")
    held = [one for one in world.gpu.status()["processes"] if one["pid"] in (pid, *in_cgroup(world))]
    assert {(one["pid"], one["state"]) for one in held} == {(pid, "running")}, held
    assert proc.stat(pid)["state"] not in "tT" and proc.status(pid, "TracerPid") == "0"
    freezer = running.freezer()
    assert freezer is None or freezer.read_text().strip() in ("THAWED", "0")
    running.check()
    assert sorted(in_cgroup(world)) == sorted(proc.tree(pid))
    assert [point for point in proc.mounts_below("/") if "criu-root" in point] == []
    assert files_of(running) == world.files


def test_the_matrix_is_as_large_as_promised():
    assert len(CELLS) >= 60
    assert {kind_of(cell) for cell in CELLS} == {kind_of(cell) for cell in EVERY}
    assert {cell[0] for cell in CELLS} == set(LABELS)
    assert {cell[1:3] for cell in CELLS} == {cell[1:3] for cell in EVERY}


def images_of(runc, running, directory):
    """A checkpoint by runc itself, which ends the container."""
    images, work = directory / "images", directory / "work"
    runc.call("checkpoint", "--manage-cgroups-mode", "soft", "--image-path", images, "--work-path", work, running.name)
    return ["--detach", "--bundle", runc.bundle(running.name), "--image-path", images, "--work-path", work, running.name]


@pytest.fixture
def runc(runtimes):
    made = runtimes("runc")
    # That of the cells is there, too.
    before = list(made.made)
    yield made
    for name in [name for name in made.made if name not in before]:
        made.remove(name)
        made.made.remove(name)


def test_a_runc_that_is_killed_leaves_files_mounted_where_its_removal_empties_them(runc, tmp_path):
    """The trap, and why a runc that we start has mounts of its own: nothing of ours takes part."""
    holding = Holding(tmp_path / "holding")
    running = runc.counter(annotations=holding.annotations())
    words = images_of(runc, running, tmp_path)
    holding.wish("post-setup-namespaces")
    command = [str(word) for word in (runc.bin / "runc", "--root", runc.root, "restore", *words)]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with subprocess.Popen(command, env=runc.env(), **quiet) as restore:
        held = holding.wait()
        restore.kill()
        restore.wait()
    proc.kill(held.engine)
    holding.let_go()
    second = runc.root / running.name / "criu-root"
    assert proc.mounts_below(second) != []
    assert (second / "app/counter.py").exists()
    # Not carried out to the end: this is what `runc delete` would remove.
    subprocess.run(["umount", "--lazy", second], check=True, timeout=20)
    for pid in proc.pids():
        if f"/{runc.record.name}/{running.name}".encode() in proc.read(pid, "cgroup"):
            proc.kill(pid)


def test_what_somebody_elses_restore_has_left_mounted_is_unmounted_before_a_removal(runc, make_daemon):
    commands = commands_of(make_daemon, runc, {})
    running = runc.counter()
    words = ["--container", running.name, *runc.options()]
    commands.run("suspend", *words)
    left = runc.root / running.name / "criu-root"
    left.mkdir(parents=True)
    files = runc.bundle(running.name) / "rootfs"
    count = len(list(files.rglob("*")))
    for _ in range(2):
        subprocess.run(["mount", "--rbind", files, left], check=True, timeout=20)
    other = runc.root / running.name / "other"
    other.mkdir()
    subprocess.run(["mount", "--bind", files, other], check=True, timeout=20)
    # Whatever that is, it would be emptied.
    error = commands.fails("resume", *words)
    assert "would be emptied" in json.dumps(error), error
    assert len(list(other.rglob("*"))) == count
    subprocess.run(["umount", other], check=True, timeout=20)
    commands.run("resume", *words)
    running.counts()
    assert proc.mounts_below(left) == []
    assert len(list(files.rglob("*"))) >= count
