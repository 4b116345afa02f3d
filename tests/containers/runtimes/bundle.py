"""runc and crun by themselves: a bundle, a state directory, no image.

crun refuses machines with both versions of cgroups mounted, so there it runs where the second is not to be seen.
"""

import contextlib
import json
import os
import shutil
from pathlib import Path

from runtimes import programs
from runtimes.base import Running, Runtime

CAPABILITIES = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
]
ALONE = """#!/bin/sh
# Where the second version of cgroups is not to be seen.
exec unshare --mount --propagation private sh -c 'umount --lazy /sys/fs/cgroup/unified; exec "$0" "$@"' {program} "$@"
"""


def link(kind, to):
    """The program in the directory `to`, where it finds what it wants."""
    program, made = programs.which(kind), to / kind
    if kind == "crun" and Path("/sys/fs/cgroup/unified").is_dir():
        made.write_text(ALONE.format(program=program))
        made.chmod(0o755)
    else:
        made.symlink_to(program)
    return made


class Bundles(Runtime):
    """One of the two, by its command line."""

    def __init__(self, record, image, kind, host=None):
        self.kind = self.label = kind
        super().__init__(record, f"{kind}-{record.name[-6:]}", host)
        self.image = image
        self.root = self.base / "state"
        self.bin = self.base / "bin"
        self.bin.mkdir()
        link(kind, self.bin)

    def env(self):
        return {**super().env(), "PATH": programs.path(self.bin)}

    def call(self, *words, **more):
        """`runc …`."""
        return programs.run(*self.as_user([self.bin / self.kind, "--root", self.root, *words]), env=self.env(), **more)

    def bundle(self, name):
        """Where its root and its specification are."""
        return self.base / f"bundle-{name}"

    def own_directory(self, name):
        """Where what a container writes to its root really lies."""
        return self.bundle(name) / "rootfs"

    def create(self, name, command, mounts=()):
        return self.run(name, command, mounts=mounts, verb="create")

    def run(self, name, command, env=None, mounts=(), devices=(), annotations=None, change=None, verb="run"):
        """Starts a container. `mounts` are pairs of a directory here and its place inside, `devices` nodes of this machine; `change` may
        do what it likes to the specification."""
        bundle = self.bundle(name)
        bundle.mkdir()
        shutil.copytree(self.image.root, bundle / "rootfs", symlinks=True)
        work = self.work(name)
        content = specification(command, env or {}, [(work, "/work"), *mounts], devices, annotations or {})
        content["linux"]["cgroupsPath"] = f"/{self.record.name}/{name}"
        if change:
            change(content)
        (bundle / "config.json").write_text(json.dumps(content))
        self.made.append(name)
        # Its output is no file of this machine's: CRIU could not find that again.
        # One that is created waits to be started by itself.
        detached = ["--detach"] if verb == "run" else []
        words = [self.bin / self.kind, "--root", self.root, f"--log={self.log}", verb, *detached, "--bundle", bundle, name]
        programs.run_detached(*self.as_user(words), env=self.env(), log="/dev/null")
        return Running(self, name, work)

    def state(self, name):
        """What it says of a container; `None` if it knows none."""
        done = self.call("state", name, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def pid(self, name):
        return self.state(name)["pid"]

    def status(self, name):
        return (self.state(name) or {"status": "gone"})["status"]

    def enter_detached(self, name, command):
        words = [self.bin / self.kind, "--root", self.root, "exec", "--detach", name, *command]
        programs.run_detached(*words, env=self.env(), log="/dev/null")

    def pause(self, name):
        self.call("pause", name)

    def resume(self, name):
        self.call("resume", name)

    def remove(self, name):
        state = self.state(name)
        if state:
            if state["status"] == "paused":
                self.resume(name)
            self.call("delete", "--force", name, check=False)
        shutil.rmtree(self.bundle(name), ignore_errors=True)

    def close(self):
        super().close()
        # The runtime removes a container's cgroup, and leaves the one above it.
        for hierarchy in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
            with contextlib.suppress(OSError):
                (hierarchy / self.record.name).rmdir()

    def answer(self, name):
        self.call("list", "--format", "json")

    def options(self):
        return ["--runtime", self.kind, "--runtime-root", str(self.root)]


def specification(command, env, mounts, devices, annotations):
    """A `config.json`. No masked paths: crun's restores stumble over them."""
    standard = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    ]
    bound = [{"destination": str(inside), "type": "bind", "source": str(here), "options": ["rbind", "rw"]} for here, inside in mounts]
    nodes = [node(path) for path in devices]
    rules = [{"allow": False, "access": "rwm"}]
    rules += [{"allow": True, "type": one["type"], "major": one["major"], "minor": one["minor"], "access": "rwm"} for one in nodes]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(map(str, command)),
            "env": ["PATH=/usr/bin:/bin", *(f"{name}={value}" for name, value in env.items())],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": False},
        "hostname": "container",
        "mounts": [*standard, *bound],
        "annotations": annotations,
        "linux": {
            "resources": {"devices": rules},
            "devices": nodes,
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
        },
    }


def node(path):
    """A device of this machine in the words of a specification."""
    status = Path(path).stat()
    return {
        "path": str(path), "type": "c", "major": os.major(status.st_rdev), "minor": os.minor(status.st_rdev),
        "fileMode": status.st_mode & 0o777, "uid": 0, "gid": 0,
    }  # fmt: skip
