"""podman with stores and settings of its own. Nothing of it runs when no container does."""

import json
import os
from pathlib import Path

from runtimes import programs
from runtimes.base import Running, Runtime
from runtimes.bundle import link

SETTINGS = """[containers]
netns = "none"
pids_limit = 0
cgroupns = "host"
log_driver = "k8s-file"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
conmon_path = ["{conmon}"]
helper_binaries_dir = ["{bin}"]
cdi_spec_dirs = ["{base}/cdi"]
tmp_dir = "{run}/tmp"
static_dir = "{base}/libpod"
[engine.runtimes]
runc = ["{runc}"]
crun = ["{crun}"]
"""
STORAGE = """[storage]
driver = "{driver}"
graphroot = "{base}/storage"
runroot = "{run}/storage"
"""
POLICY = {"default": [{"type": "insecureAcceptAnything"}]}


class Podman(Runtime):
    """Root's podman, or that of a user, whose containers only this user has."""

    kind = label = "podman"

    def __init__(self, record, image, driver="overlay", below="runc", user=None, host=None):
        super().__init__(record, f"podman-{user.name if user else driver}{'' if below == 'runc' else '-' + below}", host)
        self.image, self.user, self.files = image, user, driver if below == "runc" else f"{driver}, {below} below"
        self.run_directory = record.run / self.name
        self.run_directory.mkdir()
        places = {"base": self.base, "run": self.run_directory, "bin": programs.PREFIX / "bin"}
        places |= {name: programs.which(name) for name in ("conmon", "runc")}
        places["crun"] = link("crun", self.base)
        (self.base / "containers.conf").write_text(SETTINGS.format(runtime=below, **places))
        (self.base / "storage.conf").write_text(STORAGE.format(driver=driver, **places))
        policy = self.base / ".config/containers/policy.json"
        policy.parent.mkdir(parents=True)
        policy.write_text(json.dumps(POLICY))
        if user:
            for directory in (self.base, self.run_directory, policy.parent.parent, policy.parent):
                os.chown(directory, user.uid, user.gid)

    def env(self):
        own = {"CONTAINERS_CONF": str(self.base / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(self.base / "storage.conf")}
        if self.user:
            own |= {"XDG_RUNTIME_DIR": str(self.run_directory), "USER": self.user.name}
        return {**super().env(), "PATH": programs.path(), **own}

    def as_user(self, words):
        """A command line, as whoever has the containers."""
        return self.user.words([str(word) for word in words]) if self.user else super().as_user(words)

    def work(self, name):
        work = super().work(name)
        if self.user:
            os.chown(work, self.user.uid, self.user.gid)
        return work

    def podman(self, *words, **more):
        """`podman …`."""
        return programs.run(*self.as_user([programs.which("podman"), *words]), env=self.env(), cwd="/", **more)

    def import_image(self):
        """From the archive."""
        self.podman("load", "--quiet", "--input", self.image.archive, limit=120)
        return self

    def create(self, name, command, mounts=()):
        made = self.run(name, command, mounts=mounts, verb=["create"])
        # Only then it has a specification.
        self.podman("init", name)
        return made

    def run(self, name, command, env=None, mounts=(), devices=(), annotations=None, options=(), verb=("run", "--detach")):
        """Starts a container."""
        work = self.work(name)
        words = [*verb, "--name", name]
        words += [f"--env={key}={value}" for key, value in (env or {}).items()]
        words += [f"--volume={here}:{inside}" for here, inside in [(work, "/work"), *mounts]]
        words += [f"--device={path}" for path in devices]
        words += [f"--annotation={key}={value}" for key, value in (annotations or {}).items()]
        self.made.append(name)
        all_words = [programs.which("podman"), *words, *options, self.image.name, *command]
        programs.run_detached(*self.as_user(all_words), env=self.env(), log=self.log)
        return Running(self, name, work)

    def inspect(self, name):
        """What it has written down of a container; `None` if it knows none."""
        done = self.podman("container", "inspect", name, check=False)
        return json.loads(done.stdout)[0] if done.returncode == 0 else None

    def own_directory(self, name):
        """Where what a container writes to its root really lies."""
        return Path(self.inspect(name)["GraphDriver"]["Data"]["UpperDir"])

    def id(self, name):
        """Of a container."""
        return self.inspect(name)["Id"]

    def pid(self, name):
        return self.inspect(name)["State"]["Pid"]

    def status(self, name):
        return (self.inspect(name) or {"State": {"Status": "gone"}})["State"]["Status"]

    def enter_detached(self, name, command):
        self.podman("exec", "--detach", name, *command)

    def in_pod(self, pod, command):
        """A container in a pod, which is made with the first."""
        if self.podman("pod", "exists", pod, check=False).returncode != 0:
            self.podman("pod", "create", "--infra=false", "--name", pod)
        return self.run(self.new_name("member"), command, options=["--pod", pod])

    def pause(self, name):
        self.podman("pause", name)

    def resume(self, name):
        self.podman("unpause", name)

    def remove(self, name):
        if self.status(name) == "paused":
            self.podman("unpause", name, check=False)
        self.podman("rm", "--force", "--time", "0", name, check=False)

    def answer(self, name):
        self.podman("container", "inspect", name)

    def options(self):
        return ["--runtime", "podman"]
