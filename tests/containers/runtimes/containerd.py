"""containerd with a root, a state directory and sockets of its own, and `ctr`."""

import json
import subprocess
from pathlib import Path

from harness import proc
from runtimes import programs
from runtimes.base import Running, Runtime

CONFIG = """version = 3
root = "{base}/root"
state = "{run}/state"
disabled_plugins = [
    "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri",
    "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.internal.v1.opt",
]
[grpc]
address = "{run}/containerd.sock"
[ttrpc]
address = "{run}/containerd.sock.ttrpc"
[debug]
address = ""
level = "info"
"""


RUN = ("run", "--detach", "--null-io")


class Containerd(Runtime):
    """The daemon. Containers keep their layers in one of its snapshotters."""

    kind = "containerd"

    def __init__(self, record, image, snapshotter="overlayfs", namespace="default", host=None):
        self.label, self.files = f"containerd-{snapshotter}", snapshotter
        # Paths of sockets may be 108 bytes long at most.
        super().__init__(record, f"ctd-{snapshotter}", host)
        self.image, self.snapshotter, self.namespace = image, snapshotter, namespace
        self.run_directory = record.run / self.name
        self.socket = self.run_directory / "containerd.sock"
        self.process = None
        self.log = self.base / "containerd.log"

    def env(self):
        return {**super().env(), "PATH": programs.path()}

    def start(self):
        """Starts it and imports the image."""
        self.run_directory.mkdir(exist_ok=True)
        config = self.base / "config.toml"
        config.write_text(CONFIG.format(base=self.base, run=self.run_directory))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.as_user([programs.which("containerd"), "--config", config]), env=self.env(), cwd="/", stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        proc.until("containerd answers", self.answers, seconds=60, pause=0.1)
        return self

    def answers(self):
        """Whether it does."""
        assert self.process.poll() is None, f"containerd ended:\n{self.log.read_text(errors='replace')[-4000:]}"
        return self.socket.exists() and self.ctr("version", check=False).returncode == 0

    def import_image(self):
        """Once for each namespace."""
        self.ctr("images", "import", "--local", "--snapshotter", self.snapshotter, self.image.archive)
        return self

    def ctr(self, *words, namespace=None, **more):
        """`ctr …`."""
        where = ["--address", self.socket, "--namespace", namespace or self.namespace]
        return programs.run(*self.as_user([programs.which("ctr"), *where, *words]), env=self.env(), **more)

    def create(self, name, command, mounts=()):
        return self.run(name, command, mounts=mounts, verb=["containers", "create"])

    def run(self, name, command, env=None, mounts=(), devices=(), annotations=None, labels=None, options=(), verb=RUN):
        """Starts a container."""
        work = self.work(name)
        words = [*verb, "--snapshotter", self.snapshotter]
        words += [f"--env={key}={value}" for key, value in (env or {}).items()]
        words += [f"--mount=type=bind,src={here},dst={inside},options=rbind:rw" for here, inside in [(work, "/work"), *mounts]]
        words += [f"--device={path}" for path in devices]
        words += [f"--annotation={key}={value}" for key, value in (annotations or {}).items()]
        words += [f"--label={key}={value}" for key, value in (labels or {}).items()]
        self.made.append(name)
        self.ctr(*words, *options, self.image.name, name, *command)
        return Running(self, name, work)

    def tasks(self):
        """What runs, by name: number of its first process and status."""
        lines = [line.split() for line in self.ctr("tasks", "list").stdout.splitlines()[1:]]
        return {line[0]: (int(line[1]), line[2].lower()) for line in lines}

    def pid(self, name):
        return self.tasks()[name][0]

    def status(self, name):
        return self.tasks().get(name, (0, "gone"))[1]

    def info(self, name):
        """What it has written down of a container."""
        return json.loads(self.ctr("containers", "info", name).stdout)

    def own_directory(self, name):
        """Where what a container writes to its root really lies."""
        words = self.ctr(
            "snapshots", "--snapshotter", self.snapshotter, "mounts", "/nowhere", self.info(name)["SnapshotKey"]
        ).stdout.split()
        options = [option for word in words for option in word.split(",")]
        upper = [option.removeprefix("upperdir=") for option in options if option.startswith("upperdir=")]
        # A mount of one directory is its source itself.
        return Path(upper[0] if upper else next(word for word in words if word.startswith(str(self.base))))

    def enter_detached(self, name, command):
        self.ctr("tasks", "exec", "--detach", "--exec-id", f"guest-{name}", name, *command)

    def in_pod(self, pod, command):
        """A container that Kubernetes would say is part of a pod."""
        labels = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "science", "io.cri-containerd.kind": "container"}
        return self.run(self.new_name("member"), command, labels=labels)

    def pause(self, name):
        self.ctr("tasks", "pause", name)

    def resume(self, name):
        self.ctr("tasks", "resume", name)

    def remove(self, name):
        if name in self.tasks():
            freezer = Running(self, name, "/").freezer()
            if freezer and freezer.exists():
                freezer.write_text("THAWED" if freezer.name == "freezer.state" else "0")
            self.ctr("tasks", "resume", name, check=False)
            self.ctr("tasks", "kill", "--signal", "KILL", name, check=False)
            proc.until(f"{name} has ended", lambda: self.status(name) in ("gone", "stopped"))
            self.ctr("tasks", "delete", name, check=False)
        self.ctr("containers", "delete", name, check=False)

    def options(self):
        return ["--runtime", "containerd", "--address", str(self.socket), "--namespace", self.namespace]

    def close(self):
        try:
            super().close()
        finally:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def shim(self, name):
        """The process that looks after a container: it goes on when the daemon ends."""
        return proc.stat(self.pid(name))["parent"]

    def bundle(self, name):
        """Where the runtime below it works."""
        return Path(self.run_directory / "state/io.containerd.runtime.v2.task" / self.namespace / name)
