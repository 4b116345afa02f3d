"""Where the runtimes' programs are, and how they are run."""

import os
import shutil
import subprocess
from pathlib import Path

from harness.daemon import criu

PREFIX = Path(os.environ.get("INFINIJUP_CONTAINERS", "/opt/infinijup/containers"))
NEEDED = ("runc", "crun", "containerd", "ctr", "podman", "conmon", "checkpointctl")


def missing():
    """What is not installed."""
    return [f"{PREFIX / 'bin' / name} (scripts/install-containers.sh)" for name in NEEDED if not (PREFIX / "bin" / name).exists()]


def path(*first):
    """PATH with our runtimes and CRIU before the machine's."""
    own = [*map(str, first), str(PREFIX / "bin"), str(Path(criu()).parent)]
    return ":".join([*own, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])


class Failed(AssertionError):
    """A program ended with an error."""

    def __init__(self, done):
        self.stdout, self.stderr, self.code = done.stdout, done.stderr, done.returncode
        super().__init__(f"{' '.join(map(str, done.args))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def run(*words, env=None, limit=60, check=True, **more):
    """Runs a program to its end. What it says must end with it: what it leaves running writes to /dev/null, or to a file."""
    done = subprocess.run(
        [str(word) for word in words], env=env, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=limit,
        check=False, **more,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise Failed(done)
    return done


def run_detached(*words, env=None, limit=60, log):
    """The same for one that leaves something running, which keeps what it was given: all of it goes to a file that is shown if it fails."""
    with open(log, "ab") as out:
        done = subprocess.run(
            [str(word) for word in words], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=limit, check=False
        )
    if done.returncode != 0:
        done.stdout, done.stderr = "", Path(log).read_text(errors="replace")[-4000:]
        raise Failed(done)
    return done


def which(name):
    """A program of the runtimes."""
    found = shutil.which(name, path=path())
    assert found, f"no {name}"
    return found
