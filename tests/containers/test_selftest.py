"""`infinijup selftest` with a container, on the stand-in: podman gives it GPUs by a CDI specification, as with NVIDIA's toolkit."""

import json
from pathlib import Path

import pytest

from harness import proc
from harness.session import Commands
from harness.users import User
from runtimes.image import libraries_of
from runtimes.saved import commands_of

PYTHON = Path("/opt/infinijup/gpu-venv")
NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1")


@pytest.fixture
def podman(runtimes):
    made = runtimes("podman")
    specified = made.base / "cdi/nvidia.json"
    specified.parent.mkdir(exist_ok=True)
    yield made
    specified.unlink(missing_ok=True)


def specification(image, gpu):
    """What `nvidia-ctk cdi generate` writes, for the stand-in; beside the driver's libraries it has those that the image lacks."""
    packages = next(PYTHON.glob("lib/python3*/site-packages"))
    needed = libraries_of(packages.glob("cuda/bindings/*.so"))
    # It opens this one by its name.
    needed |= {path.replace("libpthread.so.0", "libdl.so.2") for path in needed}
    lacking = [path for path in sorted(map(Path, needed)) if not (image.root / path.relative_to("/")).exists()]
    # Named without links, as by NVIDIA's toolkit: `/lib` is one.
    lacking = [path.parent.resolve() / path.name for path in lacking]
    shared = [PYTHON, gpu.libraries, gpu.server, *lacking]
    mounts = [{"hostPath": str(path.resolve()), "containerPath": str(path), "options": ["rbind", "rw"]} for path in shared]
    env = {**gpu.env(), "PYTHONPATH": str(packages)}
    return {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "all", "containerEdits": {"deviceNodes": [{"path": path} for path in NODES]}}],
        "containerEdits": {"env": [f"{name}={value}" for name, value in env.items()], "mounts": mounts},
    }


def selftest(podman, make_daemon, gpu, *options):
    """Runs it as root; what its check of a container said."""
    daemon = commands_of(make_daemon, podman, gpu.env()).daemon
    environment = {**gpu.env(), **podman.env()}
    del environment["INFINIJUP_RUN"]
    commands = Commands(daemon, User("root"), environment)
    report = podman.base / "report.json"
    words = ["selftest", "--python", PYTHON / "bin/python", "--gpus", "1", "--size", "8", "--report", report, *options]
    commands.run(*map(str, words), check=False, seconds=300)
    checks = {check["name"]: check for check in json.loads(report.read_text())["checks"]}
    assert not commands.sessions(), "nothing of it is left"
    return checks["container"]


@pytest.mark.timeout(400)
def test_a_container_with_gpus_by_cdi_is_tried(podman, make_daemon, image, gpu):
    (podman.base / "cdi/nvidia.json").write_text(json.dumps(specification(image, gpu)))
    found = selftest(podman, make_daemon, gpu, "--image", podman.image.name)
    assert found["state"] == "passed", found
    assert "bytes equal" in found["detail"] and "freed" in found["detail"], found
    # It was removed, and nothing of it is on a GPU.
    assert podman.podman("ps", "--all", "--quiet", "--filter", "name=selftest").stdout == ""
    proc.until("nothing is held", lambda: gpu.bytes_held() == 0)
