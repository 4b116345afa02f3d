"""File systems of the machine that come and go while snapshots stay."""

import subprocess

import pytest

from harness.notebook_kernel import Provisioner


class Disk:
    """A tmpfs that stands for a disk."""

    def __init__(self, path):
        self.path, self.mounted = path, False

    def mount(self):
        self.path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", self.path], check=True)
        self.mounted = True
        return self

    def remove(self):
        """The disk is gone, and so is the directory that it was mounted on."""
        if self.mounted:
            # Sessions have it in mount namespaces of their own, where it lives on.
            subprocess.run(["umount", self.path], check=True)
            self.mounted = False
            self.path.rmdir()


@pytest.fixture
def disk(daemon):
    disk = Disk(daemon.state.parent / "disk").mount()
    yield disk
    disk.remove()


def test_a_snapshot_with_a_disk_that_is_gone_is_branched_into_another_session(commands, disk):
    """Another table of mounts than at the snapshot: as on another machine, and under another daemon."""
    first = commands.kernel("first")
    first.kernel.run("x = 7")
    first.snapshot("--tag", "with-disk")
    disk.remove()
    second = commands.kernel("second")
    branch, _ = second.branch("both", "--from", "with-disk")
    branch.connect()
    assert branch.kernel.value("x") == 7


@pytest.fixture
def jupyter(commands):
    return Provisioner(commands)


@pytest.mark.parametrize("restart", [False, True], ids=["as it was", "restarted"])
def test_a_disk_that_is_gone_is_left_out(jupyter, disk, restart):
    session = jupyter.start("k")
    session.kernel.run("x = 1")
    first = session.snapshot()["commit"]
    disk.remove()
    if restart:
        jupyter.restart(session)
        session.kernel.ready()
    session.rollback(first)
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    # What was left out is no trouble to what comes after.
    session.kernel.run("x = 2")
    second = session.snapshot()["commit"]
    session.rollback(first)
    session.rollback(second)
    session.kernel.ready()
    assert session.kernel.value("x") == 2
    branch, _ = session.branch("b", "--from", first)
    branch.connect()
    assert branch.kernel.value("x") == 1
    branch.remove()
    session.remove()


def test_a_disk_that_came_later_is_no_trouble(jupyter, disk):
    path = disk.path
    disk.remove()
    session = jupyter.start("k")
    session.kernel.run("x = 1")
    first = session.snapshot()["commit"]
    disk.mount()
    jupyter.restart(session)
    session.kernel.ready()
    assert session.kernel.value(f"__import__('os').path.ismount({str(path)!r})") is True
    second = session.snapshot()["commit"]
    for commit, value in [(first, 1), (second, None), (first, 1)]:
        session.rollback(commit)
        session.kernel.ready()
        assert session.kernel.value("globals().get('x')") == value
    session.remove()


def test_a_file_that_was_open_on_a_disk_comes_back_without_it(jupyter, disk):
    """What a session has open for writing belongs to its snapshot, wherever it lies."""
    session = jupyter.start("k")
    session.kernel.run(f"f = open({str(disk.path / 'data')!r}, 'w'); x = 1")
    first = session.snapshot()["commit"]
    session.kernel.run("f.close(); x = 2")
    disk.remove()
    session.rollback(first)
    session.kernel.ready()
    assert session.kernel.value("(x, f.closed)") == (1, False)
    session.remove()
