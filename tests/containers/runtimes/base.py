"""What all runtimes can do, in the same words.

A container is made with `run(name, …)` and is a `Running`: its first process, whether the runtime takes it for running, and the directory
of this machine that it sees as /work. Each test has names of its own.
"""

import json
import os
import signal
import socket
import time
from pathlib import Path

from harness import proc

# Its output goes to a file of the volume's: one of this machine's CRIU could not find again.
GPU_WORK = "exec /usr/bin/python3 -u /app/cuda_target.py --gpus {gpus} --mib {mib} > /work/said 2>&1"
# How far a counter leaps when it is told to: farther than one counts in any test.
LEAP = 1_000_000
COUNTER = ("/usr/bin/python3", "/app/counter.py", "/work")


class Running:
    """A container of a test."""

    def __init__(self, runtime, name, work):
        self.runtime, self.name, self.work = runtime, name, Path(work)

    @property
    def pid(self):
        """Its first process, as this machine numbers it."""
        return self.runtime.pid(self.name)

    @property
    def status(self):
        """The runtime's word."""
        return self.runtime.status(self.name)

    def count(self):
        """What the counter in it has written last; -1 if nothing yet."""
        try:
            return int((self.work / "count").read_text() or -1)
        except (OSError, ValueError):
            return -1

    def counts(self, seconds=20):
        """Waits until it has counted on."""
        before = self.count()
        return proc.until(f"{self.name} counts on from {before}", lambda: self.count() > before and self.count(), seconds)

    def leap(self):
        """Has it count on from far away, so that nobody has to wait until a number is surely none of before."""
        os.kill(self.pid, signal.SIGUSR2)
        proc.until(f"{self.name} has leapt", lambda: self.count() >= LEAP, seconds=20)

    def answer(self):
        """What the counter in it says on its socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(f"/proc/{self.pid}/root/tmp/counter")
            return int(connection.makefile().readline())

    def held(self):
        """What of it must be the same after it came back: its threads, and the files that it has open."""
        pid = self.pid
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        opened = {number.name: os.readlink(number) for number in Path(f"/proc/{pid}/fd").iterdir()}
        # What has no name is another one afterwards: `socket:[4711]`.
        return threads, {number: name.partition(":[")[0] for number, name in opened.items()}

    def freezer(self):
        """The file that says whether its cgroup is frozen, of version 1 or 2; `None` if its first process has ended."""
        unified = Path("/sys/fs/cgroup/unified")
        second = None
        for line in proc.read(self.pid, "cgroup").decode().splitlines():
            number, controllers, path = line.split(":", 2)
            if "freezer" in controllers.split(","):
                return Path(f"/sys/fs/cgroup/freezer{path}") / "freezer.state"
            if number == "0":
                second = (unified if unified.is_dir() else unified.parent) / path.lstrip("/") / "cgroup.freeze"
        return second


class GpuWork(Running):
    """A container that runs `cuda_target.py`. `expected` is what must never change: pointers and hash."""

    expected = None

    def lines(self, key):
        """Whole lines of JSON with this key that it has said."""
        said = (self.work / "said").read_text(errors="replace") if (self.work / "said").exists() else ""
        found = [json.loads(line) for line in said.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in found if key in line]

    def begun(self):
        """Waits until its buffers are filled."""
        proc.until(f"{self.name} has filled its buffers", lambda: self.lines("ready"), seconds=60)
        self.expected = self.ask()
        return self

    def ask(self):
        """How it is now."""
        before = len(self.lines("report"))
        os.kill(self.pid, signal.SIGUSR1)
        return proc.until(f"{self.name} says how it is", lambda: self.lines("report")[before:], seconds=20)[0]

    def check(self):
        """Same bytes, same pointers, and the loop goes on."""
        said = self.ask()
        assert (said["hash"], said["pointers"]) == (self.expected["hash"], self.expected["pointers"])
        assert self.ask()["rounds"] > said["rounds"]


class Runtime:
    """A runtime with directories of its own below `base`."""

    # Of the runtime's kind, as our reports have it.
    kind = ""
    # With what a snapshotter or another choice is told apart from others of its kind.
    label = ""
    # Who keeps what it has written, as the table of what works has it: a snapshotter, a driver, or nobody.
    files = "directory"

    def __init__(self, record, name, host=None):
        # Another machine, if it is not this one.
        self.record, self.host, self.name = record, host, f"{name}-on-{host.process.pid}" if host else name
        self.base = record.base / self.name
        self.base.mkdir(mode=0o755)
        self.log = self.base / "log"
        self.made = []

    def env(self):
        """The environment in which its programs, and ours that ask it, find their way. `INFINIJUP_RUN` lets what is left be found."""
        return {"HOME": str(self.base), "LC_ALL": "C.UTF-8", "INFINIJUP_RUN": str(self.record.run / self.name)}

    def as_user(self, words):
        """A command line, as whoever has the containers: root."""
        return self.host.words(list(map(str, words))) if self.host else words

    def work(self, name):
        """What a container sees as /work."""
        work = self.base / f"work-{name}"
        work.mkdir(exist_ok=True)
        return work

    def create(self, name, command, mounts=()):
        """A container that is there, and has never been started."""
        raise NotImplementedError

    def new_name(self, what="c"):
        """One that no other container has."""
        return f"{what}-{os.urandom(3).hex()}"

    def counter(self, name=None, **more):
        """A container that counts, when it has begun to."""
        running = self.run(name or self.new_name("count"), COUNTER, **more)
        running.counts()
        return running

    def gpu_work(self, gpu, gpus=1, mib=4, name=None, **more):
        """A container with work on the stand-in's GPUs, whose libraries, server and nodes it is given, as by NVIDIA's toolkit."""
        nodes = ["/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{index}" for index in range(gpu.gpus))]
        places = [(directory, directory) for directory in (gpu.libraries, gpu.server)]
        command = ["/bin/sh", "-c", GPU_WORK.format(gpus=gpus, mib=mib)]
        running = self.run(name or self.new_name("gpu"), command, env=gpu.env(), mounts=places, devices=nodes, **more)
        return GpuWork(self, running.name, running.work).begun()

    def enter(self, name, *command):
        """Runs something in a container from outside, which stays; its number on this machine."""
        before = set(proc.pids())
        self.enter_detached(name, command)
        inside = proc.link(self.pid(name), "ns/pid")

        def arrived():
            new = [pid for pid in proc.pids() if pid not in before and proc.link(pid, "ns/pid") == inside]
            return [pid for pid in new if proc.read(pid, "cmdline").split(b"\0")[0].endswith(command[0].encode())]

        return proc.until(f"{command[0]} runs in {name}", arrived)[0]

    def seconds_to_answer(self, name):
        """How long the runtime's own program takes to say what we ask it; nothing for one that is asked by its socket."""
        begun = time.perf_counter()
        self.answer(name)
        return time.perf_counter() - begun

    def answer(self, name):
        """Asks the same as we do."""

    def options(self):
        """What `infinijup … --container` needs to ask this runtime alone."""
        raise NotImplementedError

    def close(self):
        """Ends and removes what was made."""
        for name in self.made:
            self.remove(name)
