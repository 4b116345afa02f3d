"""A stand-in for a machine's GPUs and their driver: a device server, the libraries that speak to it, and nodes in /dev.

Several servers at a time are several machines, as far as CUDA can tell: each has GPUs with UUIDs of its own. They share the nodes
in /dev, as there is only one /dev here.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

from harness import proc
from harness.daemon import programs

# What `cuda-sim` uses for its nodes too: it opens, and CRIU cannot dump it.
NODE = os.makedev(10, 237)
ONE_RUN_AT_A_TIME = Path("/run/infinijup-test-gpus.lock")


def missing():
    """What the stand-in needs and does not find; empty if it can run."""
    built = [programs() / name for name in ("cuda-sim", "libcuda_sim.so")]
    found = [f"{path} (cargo build -p cuda-sim)" for path in built if not path.exists()]
    if Path("/dev/nvidiactl").exists() and os.stat("/dev/nvidiactl").st_rdev != NODE:
        found.append("a machine without a real GPU: /dev/nvidiactl is NVIDIA's")
    return found


class Nodes:
    """`nvidiactl`, `nvidia-uvm` and `nvidia0` … in /dev, until the last server that wants them has stopped."""

    wanted = []
    lock = None

    @classmethod
    def want(cls, record, gpus):
        """Makes what is not there yet. Another run on this machine is waited for: it has other GPUs."""
        if cls.lock is None:
            lock = ONE_RUN_AT_A_TIME.open("w")
            proc.until("another run has done with its GPUs", lambda: is_locked(lock), seconds=100, pause=0.2)
            cls.lock = lock
            proc.until("nobody has nodes in /dev", lambda: not Path("/dev/nvidiactl").exists(), seconds=20, pause=0.2)
        cls.wanted.append(gpus)
        paths = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{index}" for index in range(max(cls.wanted))))]
        record.content["nodes"] = paths
        record.write()
        for path in paths:
            if not Path(path).exists():
                os.mknod(path, stat.S_IFCHR | 0o666, NODE)
                os.chmod(path, 0o666)

    @classmethod
    def release(cls, record, gpus):
        """Removes them after the last."""
        cls.wanted.remove(gpus)
        if cls.wanted:
            return
        record.remove_nodes()
        cls.lock.close()
        cls.lock = None


def is_locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False


class Gpu:
    """One server: `gpus` of them, each with this much memory, and a driver of this level (its first three digits)."""

    def __init__(self, record, name, gpus=2, memory="4GiB", level=None):
        self.record, self.name, self.gpus, self.memory, self.level = record, name, gpus, memory, level or 580
        # On the file system of `/`: a session has a /run of its own.
        self.directory = record.base / name
        self.libraries = self.directory / "lib"
        self.server = self.directory / "server"
        self.log = self.directory / "server.log"
        self.process = None

    def start(self):
        """Starts it and waits until it listens."""
        Nodes.want(self.record, self.gpus)
        self.directory.mkdir(mode=0o755)
        self.server.mkdir(mode=0o755)
        self.tool("install", "--dir", self.libraries, "--level", self.level)
        words = ["serve", "--dir", self.server, "--gpus", self.gpus, "--memory", self.memory, "--level", self.level]
        words += ["--uuid-seed", f"{self.record.name}-{self.name}"]
        # Named in its environment, so that what is left of a killed run is found.
        environment = {"PATH": os.environ["PATH"], "INFINIJUP_RUN": str(self.record.run / self.name)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [programs() / "cuda-sim", *map(str, words)],
                env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip
        ready = self.process.stdout.readline()
        assert ready, f"the stand-in ended with {self.process.wait(10)}:\n{self.log.read_text(errors='replace')}"
        self.ready = json.loads(ready)
        return self

    def stop(self):
        """Ends it. Memory on its GPUs is gone, as after a loss of power."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None
        Nodes.release(self.record, self.gpus)

    @property
    def pid(self):
        """Of the server."""
        return self.process.pid

    def tool(self, *words):
        """`cuda-sim …`."""
        done = subprocess.run([programs() / "cuda-sim", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"cuda-sim {words[0]}: {done.stderr}"
        return done.stdout

    def env(self):
        """For a process that is to find this driver."""
        return {"LD_LIBRARY_PATH": str(self.libraries), "CUDA_SIM_DIR": str(self.server)}

    def control(self, do, limit=20, **more):
        """Asks the server something; its answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(limit)
            channel.connect(str(self.server / "control"))
            channel.sendall(json.dumps({"do": do, **more}).encode() + b"\n")
            answer = json.loads(channel.makefile().readline())
        assert "error" not in answer, f"{do}: {answer}"
        return answer

    def status(self):
        """Processes with their state and their bytes by GPU, the bytes of all, and the checkpoint calls made so far."""
        return self.control("status")

    def bytes_held(self):
        """Device memory that is in use."""
        return self.status()["bytes"]

    def state(self, pid):
        """Of one process, by its number on this machine; `None` if it holds nothing here."""
        return next((process["state"] for process in self.status()["processes"] if process["pid"] == pid), None)

    def uuids(self):
        """Of its GPUs, in their order."""
        return [gpu["uuid"] for gpu in self.status()["gpus"]]

    def fault(self, call, action, nth=1, phase="before", pid=None):
        """Something that goes wrong the `nth` time that the call is made from now on."""
        self.control("fault", call=call, phase=phase, nth=nth, pid=pid, action=action)

    def clear(self):
        """No faults any more; what hangs or is held goes on."""
        self.control("clear")

    def release(self):
        """What is held goes on."""
        self.control("release")

    def await_hold(self, seconds=10):
        """Whether a call came to a fault that holds it, in that time."""
        return bool(self.control("await-hold", limit=seconds + 10, seconds=seconds)["held"])

    def lose(self, gpu, lost=True):
        """A GPU falls off the bus, or comes back."""
        self.control("lose", gpu=gpu, lost=lost)

    def fill(self, gpu, size):
        """Somebody else takes that many bytes of a GPU; 0 gives them back."""
        self.control("fill", gpu=gpu, bytes=size)

    def nvml(self, **settings):
        """What NVML is to say, by the names of `nvml::Settings`."""
        self.control("nvml", **{name.replace("_", "-"): value for name, value in settings.items()})

    def set_level(self, level):
        """Another driver from now on."""
        self.control("level", level=level)


def helper(gpu):
    """The helper that an administrator may install, as systemd would start it: the path of its socket, until it is taken away."""
    activator = Path(__file__).parents[3] / "crates/checkpoint-cuda/tests/real_sim/activator.py"
    path = gpu.directory / "helper.sock"
    words = [sys.executable, activator, path, gpu.directory / "helper.log", programs() / "infinijup-gpu-helper"]
    with subprocess.Popen(words, env=gpu.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield path
        process.stdin.close()


def gpus(record, request):
    """Makes stand-ins; each is stopped at the end."""
    made = []

    def make(gpus=2, memory="4GiB", level=None):
        made.append(Gpu(record, record.new_name("g"), gpus, memory, level))
        return made[-1].start()

    yield make
    for gpu in made:
        if getattr(request.node, "failed", False) and gpu.log.exists():
            print(f"---- log of the stand-in ----\n{gpu.log.read_text(errors='replace')[-4000:]}")
        gpu.stop()
