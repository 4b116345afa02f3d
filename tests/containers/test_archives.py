"""Checkpoint archives with the real podman and checkpointctl: theirs become snapshots, and ours they read and restore."""

import io
import json
import os
import subprocess
import tarfile

import pytest

from harness.daemon import criu
from harness.daemon import programs as our_programs
from runtimes import programs
from runtimes.base import LEAP

# In the container's own layer: a file, a link, and a file of its image that it removes.
CHANGES = "import os; open('/var/tmp/note', 'w').write('kept\\n'); os.symlink('/etc/shadow', '/var/tmp/link'); os.remove('/etc/group')"


class Store:
    """A store in a folder, and our command about it."""

    def __init__(self, directory):
        self.directory = directory
        self("store", "init")

    def __call__(self, *words, check=True):
        env = {"HOME": str(self.directory.parent), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        own = [our_programs() / "infinijup", *words, "--store", self.directory, "--json", "--no-progress"]
        return programs.run(*own, env=env, limit=100, check=check)

    def line(self, *words):
        """The only line that a command prints."""
        (line,) = map(json.loads, self(*words).stdout.splitlines())
        return line

    def sections(self, name):
        """The parts of a snapshot."""
        return {section["name"]: section for section in self.line("show", name)["sections"]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def podman(runtimes):
    made = runtimes("podman")
    yield made
    for name in list(made.made):
        made.remove(name)
        made.made.remove(name)


@pytest.fixture
def counter(podman, criu_settings):
    """A container that counts, with a file in its own layer and one of its image's removed."""
    running = podman.counter(annotations=criu_settings("network-lock skip"))
    podman.podman("exec", running.name, "python3", "-c", CHANGES)
    return running


def checkpoint(podman, running, *options):
    """Ends the container with a checkpoint, and removes it; how far it had counted."""
    podman.podman("container", "checkpoint", *options, running.name, limit=100)
    counted = running.count()
    podman.remove(running.name)
    return counted


def goes_on(podman, running, counted):
    """The restored container counts on where it was, with its files."""
    assert running.count() >= counted
    assert counted < running.counts() < LEAP
    assert podman.podman("exec", running.name, "cat", "/var/tmp/note").stdout == "kept\n"
    assert podman.podman("exec", running.name, "ls", "/etc").stdout.split().count("group") == 0
    assert podman.status(running.name) == "running"


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_an_archive_of_podmans_comes_in_and_podman_restores_it_from_ours(podman, counter, store, tmp_path, compression, shown):
    theirs, ours = tmp_path / "theirs.tar", tmp_path / {"gzip": "o.tar.gz", "zstd": "o.tar.zst"}[compression]
    counted = checkpoint(podman, counter, "--export", theirs, "--compress", compression)
    said = store.line("import", theirs, "--tag", "theirs")
    assert (said["engine"], said["container"], said["image"]) == ("podman", counter.name, podman.image.name)
    asked = said["never_applied"]
    assert {"mount", "user", "path", "annotation", "right", "image"} <= asked.keys(), asked
    sections = store.sections("theirs")
    assert sorted(sections) == ["archive", "criu", "memory"]
    listed = json.loads(store("cat", "theirs:archive/never-applied").stdout)
    assert any(claim["what"] == "mount" and str(counter.work) in claim["text"] for claim in listed), listed

    store("export", "theirs", ours, "--checkpoint-image")
    podman.podman("container", "restore", "--import", ours, limit=100)
    goes_on(podman, counter, counted)
    # And what we wrote is, read again, the same snapshot.
    store("import", ours, "--tag", "again")
    assert store.sections("again") == sections
    shown(podman, "checkpoint archives")


def test_as_an_image_it_goes_through_podmans_store(podman, counter, store, tmp_path):
    theirs, ours, saved = tmp_path / "theirs.tar", tmp_path / "ours.tar", tmp_path / "saved.tar"
    counted = checkpoint(podman, counter, "--export", theirs)
    store("import", theirs, "--tag", "theirs")
    store("export", "theirs", ours, "--checkpoint-image=image")
    loaded = podman.podman("load", "--input", ours, limit=100).stdout
    name = loaded.strip().rsplit(" ", 1)[-1]
    assert name.startswith("localhost/infinijup-checkpoint:"), loaded
    # What podman makes of it is its own: other layers, another order.
    podman.podman("save", "--format", "oci-archive", "--output", saved, name, limit=100)
    said = store.line("import", saved, "--tag", "saved")
    assert (said["engine"], said["container"]) == ("podman", counter.name)
    one, other = store.sections("theirs"), store.sections("saved")
    assert (one["criu"], one["memory"], files(one)) == (other["criu"], other["memory"], files(other))
    noted = other["archive"]["attributes"]["annotations"]
    assert noted["org.criu.checkpoint.container.name"] == noted["io.podman.annotations.checkpoint.name"] == counter.name
    # And it takes it for a checkpoint of its own, and restores it.
    podman.podman("container", "restore", name, limit=100)
    goes_on(podman, counter, counted)
    podman.podman("image", "rm", "--force", name, check=False)


def test_checkpointctl_reads_ours_as_it_reads_theirs(podman, counter, store, tmp_path):
    checkpointctl = programs.which("checkpointctl")
    theirs, ours = tmp_path / "theirs.tar", tmp_path / "ours.tar"
    checkpoint(podman, counter, "--export", theirs, "--compress", "none")
    store("import", theirs, "--tag", "theirs")
    store("export", "theirs", ours, "--checkpoint-image")

    def inspect(archive):
        said = programs.run(checkpointctl, "inspect", archive, "--all", "--format", "json").stdout
        (one,) = json.loads(said)
        return one

    one, other = inspect(theirs), inspect(ours)
    assert one["container_name"] == counter.name and "python3" in json.dumps(one["process_tree"])
    # Only how large the tar file in it is may differ: which directories it names.
    for said in (one, other):
        said["checkpoint_size"].pop("root_fs_diff_size", None)
    assert one == other
    shown = programs.run(checkpointctl, "show", ours).stdout
    assert counter.name in shown and "Podman" in shown


def test_checkpointctl_reads_a_session_of_ours(store, tmp_path, sleeper_images):
    """Of something that was no container."""
    checkpointctl = programs.which("checkpointctl")
    blobs = [f"--blob={path.name}={path}" for path in sorted(sleeper_images.iterdir()) if path.is_file()]
    store("debug", "commit", "--message", "m", *blobs)
    done = store("export", "main", tmp_path / "session.tar", "--checkpoint-image")
    assert "no container" in done.stderr
    said = programs.run(checkpointctl, "inspect", tmp_path / "session.tar", "--ps-tree").stdout
    assert "sleep" in said and "main" in said


@pytest.fixture
def sleeper_images(tmp_path):
    """Images of a process that sleeps, by a bare CRIU."""
    images = tmp_path / "images"
    images.mkdir()
    with subprocess.Popen(
        ["setsid", "sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
    ) as sleeper:
        try:
            programs.run(criu(), "dump", "-t", sleeper.pid, "-D", images, "--leave-running", "-o", "dump.log")
        finally:
            sleeper.kill()
    return images


FORBIDDEN = {
    "mounts": [{"destination": "/host", "source": "/", "type": "bind", "options": ["rbind"]}],
    "hooks": {"prestart": [{"path": "/usr/bin/touch", "args": ["touch", "/run/owned"]}]},
    "annotations": {"cdi.k8s.io/all": "nvidia.com/gpu=all", "org.criu.config": "/run/evil.conf"},
}


def test_what_somebody_wrote_into_an_archive_is_seen_and_nothing_else(podman, counter, store, tmp_path):
    theirs, changed = tmp_path / "theirs.tar", tmp_path / "changed.tar"
    checkpoint(podman, counter, "--export", theirs, "--compress", "none")
    rewrite(theirs, changed, lambda spec: {**spec, **FORBIDDEN, "annotations": {**spec["annotations"], **FORBIDDEN["annotations"]}})
    store("import", theirs, "--tag", "theirs")
    asked = store.line("import", changed, "--tag", "changed")["never_applied"]
    assert asked["hook"] == 1 and asked["cdi"] == 1
    one, other = store.sections("theirs"), store.sections("changed")
    # The processes and the files are what they were; what was written in is evidence.
    assert (one["criu"], one["memory"]) == (other["criu"], other["memory"])
    assert files(one) == files(other) and files(one)
    listed = json.loads(store("cat", "changed:archive/never-applied").stdout)
    assert any("/usr/bin/touch" in claim["text"] for claim in listed if claim["what"] == "hook")
    assert not os.path.exists("/run/owned")


def files(sections):
    """The trees of what was in the archive's tar files."""
    return [root for root in sections["archive"]["roots"] if root["name"].startswith("files:")]


def rewrite(archive, to, change):
    """The same archive with another specification."""
    with tarfile.open(archive) as old, tarfile.open(to, "w") as new:
        for member in old:
            content = old.extractfile(member) if member.isfile() else None
            if member.name == "spec.dump":
                text = json.dumps(change(json.load(content))).encode()
                member.size = len(text)
                content = io.BytesIO(text)
            new.addfile(member, content)
