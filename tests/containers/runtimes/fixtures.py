"""One image and one of each runtime for a whole run, made when a test first asks for it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.daemon import programs as our_programs
from runtimes import image as images
from runtimes import programs
from runtimes.base import COUNTER
from runtimes.bundle import Bundles
from runtimes.containerd import Containerd
from runtimes.ours import Command
from runtimes.podman import Podman
from runtimes.saved import commands_of

ALL = ("containerd-overlayfs", "containerd-native", "runc", "crun", "podman")


def pytest_collection_modifyitems(config, items):
    """Says what is missing, beside what the harness of sessions needs."""
    missing = programs.missing()
    if not missing:
        return
    reason = f"needs {', '.join(missing)}"
    if os.environ.get("INFINIJUP_TESTS_REQUIRED") == "1":
        pytest.exit(f"cannot run here: {reason}", returncode=1)
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def image(record):
    """A root directory, an archive of it, and the digest of its manifest."""
    base = record.base / "image"
    base.mkdir()
    root = images.make_root(base / "root", libraries=[our_programs() / "libcuda_sim.so"])
    layer = images.make_layer(root, base / "layer.tar")
    digest = images.make_archive(layer, base / "image.tar", COUNTER)
    return SimpleNamespace(root=root, layer=layer, archive=base / "image.tar", digest=digest, name=images.NAME)


class Runtimes:
    """Makes each runtime once."""

    def __init__(self, record, image):
        self.record, self.image, self.made = record, image, {}

    def __call__(self, label):
        if label not in self.made:
            self.made[label] = self.make(label)
        return self.made[label]

    def make(self, label, host=None):
        """`host`: on another machine than this."""
        if label in ("runc", "crun"):
            return Bundles(self.record, self.image, label, host=host)
        if label == "podman":
            return Podman(self.record, self.image, host=host).import_image()
        return Containerd(self.record, self.image, label.removeprefix("containerd-"), host=host).start().import_image()

    def close(self):
        problems = []
        for runtime in self.made.values():
            try:
                runtime.close()
            except Exception as problem:
                problems.append(f"{runtime.label}: {problem}")
        assert not problems, problems


@pytest.fixture(scope="session")
def runtimes(record, image):
    """`runtimes("runc")`."""
    made = Runtimes(record, image)
    yield made
    made.close()


def emptied(made):
    """A runtime, whose containers are removed after the test."""
    yield made
    for name in list(made.made):
        made.remove(name)
        made.made.remove(name)


@pytest.fixture(params=ALL)
def runtime(request, runtimes):
    """Each of them in turn."""
    yield from emptied(runtimes(request.param))


@pytest.fixture
def runc(runtimes):
    """runc by itself."""
    yield from emptied(runtimes("runc"))


@pytest.fixture
def other(request, runtimes):
    """One of them; `indirect` says which."""
    yield from emptied(runtimes(request.param))


@pytest.fixture
def root(make_daemon, runc):
    """Root's own daemon, for containers of runc."""
    return commands_of(make_daemon, runc, {})


@pytest.fixture
def criu_settings(tmp_path):
    """Writes a configuration file of CRIU's for one container; the annotation that runtimes hand it over by."""

    def write(*lines, name="criu.conf"):
        path = Path(tmp_path) / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return {"org.criu.config": str(path)}

    return write


@pytest.fixture(scope="session")
def ours(record):
    """Our command."""
    return Command(record)
