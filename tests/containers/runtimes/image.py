"""An image made of what this machine has: Python, a shell, their libraries, and our programs. No registry is asked.

`make_root` makes the directory, `make_archive` an OCI archive with that one layer, which containerd and podman import.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from harness.gpu_session import PROGRAM as CUDA_TARGET

INSIDE = Path(__file__).parents[1] / "inside"
NAME = "localhost/infinijup-test:1"
PROGRAMS = ("/bin/sh", "/bin/cat", "/bin/sleep", "/bin/ls")
# Of Python's library: what no program of ours imports, and is large.
LEFT_OUT = {"test", "idlelib", "tkinter", "lib2to3", "ensurepip", "turtledemo", "pydoc_data", "distutils", "dist-packages", "site-packages"}


def make_root(to, libraries=()):
    """A root file system below `to`. `libraries` are files of the machine whose own libraries are needed, too."""
    python = Path(os.path.realpath("/usr/bin/python3"))
    version = python.name.removeprefix("python")
    for name in ("app", "work", "proc", "sys", "dev", "tmp", "run", "etc", "root", "var/tmp"):
        (to / name).mkdir(parents=True)
    (to / "tmp").chmod(0o1777)
    (to / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (to / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for merged in ("bin", "sbin", "lib", "lib64"):
        (to / "usr" / merged).mkdir(parents=True)
        (to / merged).symlink_to(f"usr/{merged}")
    copy(python, to)
    (to / "usr/bin/python3").symlink_to(python.name)
    for program in PROGRAMS:
        copy(Path(program), to)
    library = Path(f"/usr/lib/python{version}")
    shutil.copytree(library, to / library.relative_to("/"), symlinks=True, ignore=left_out)
    wanted = [python, *map(Path, PROGRAMS), *(library / "lib-dynload").glob("*.so"), *map(Path, libraries)]
    for needed in sorted(libraries_of(wanted)):
        copy(Path(needed), to)
    for program in (*INSIDE.glob("*.py"), CUDA_TARGET):
        shutil.copy(program, to / "app" / program.name)
    return to


def left_out(directory, names):
    return [
        name for name in names if name in LEFT_OUT or name == "__pycache__" or (name.startswith("config-") and "lib/python" in directory)
    ]


def libraries_of(files):
    """What the loader would load for them, the loader included."""
    said = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, timeout=60, check=False).stdout
    return set(re.findall(r"(?:=> |^\s)(/\S+)", said, re.M))


def copy(path, to):
    """A file of this machine at the same place below `to`, under the name that it is looked for by."""
    target = to / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(path, target)


def make_layer(root, to):
    """A root file system as an archive, the same bytes each time."""

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = 0
        return entry

    with tarfile.open(to, "w") as archive:
        for path in sorted(root.iterdir()):
            archive.add(path, path.name, filter=plain)
    return to


def make_archive(layer, to, command, name=NAME):
    """An OCI archive with one layer; the digest of its manifest."""
    directory = to.with_suffix(".d")
    blobs = directory / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    layer_blob = blob(layer.read_bytes(), "layer.v1.tar")
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/usr/bin:/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]},
    }
    config_blob = blob(json.dumps(config, sort_keys=True).encode(), "config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_blob,
        "layers": [layer_blob],
    }
    manifest_blob = blob(json.dumps(manifest, sort_keys=True).encode(), "manifest.v1+json")
    manifest_blob["annotations"] = {"org.opencontainers.image.ref.name": name.rpartition(":")[2], "io.containerd.image.name": name}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest_blob]}))
    (directory / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    with tarfile.open(to, "w") as archive:
        for path in ("oci-layout", "index.json", "blobs"):
            archive.add(directory / path, path)
    shutil.rmtree(directory)
    return manifest_blob["digest"]
