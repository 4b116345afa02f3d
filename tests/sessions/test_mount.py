"""The past as a folder: `infinijup mount`, with the real FUSE, as an ordinary user."""

import json
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from harness import proc
from harness.history import History
from harness.needs import cannot_run

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
WORK = """
import os
os.makedirs('data/deep', exist_ok=True)
open('data/deep/large.bin', 'wb').write(bytes(range(256)) * 4096 * 3)
open('data/words.txt', 'w').write('needle in a haystack')
open('run.sh', 'w').write('true'); os.chmod('run.sh', 0o751)
open('empty', 'w').close()
os.symlink('data/words.txt', 'link'); os.symlink('/nowhere', 'dangling')
os.utime('data/words.txt', ns=(10**18 + 7, 10**18 + 123456789)); os.utime('data/deep', (5 * 10**8, 5 * 10**8))
secret = b'only in ' + b'memory, ' * 4096
"""
# As the kernel ends a connection in the moment in which a thread takes a request of somebody who still reads.
CUT_OFF = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
ssize_t read(int file, void *to, size_t size) {
    ssize_t (*real)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    ssize_t done = real(file, to, size);
    if (done < 0 && errno == ENODEV) {
        (void)!write(2, "cut off\\n", 8);
        errno = ECONNABORTED;
    }
    return done;
}
"""


@pytest.fixture(scope="module")
def fuse():
    """Everybody may use FUSE, as udev has it on an ordinary machine."""
    if not Path("/dev/fuse").exists():
        subprocess.run(["mknod", "/dev/fuse", "c", "10", "229"], check=True)
    if not shutil.which("fusermount3"):
        cannot_run("needs fusermount3 (package fuse3)")
    mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    os.chmod("/dev/fuse", 0o666)
    yield
    os.chmod("/dev/fuse", mode)


class Mounted:
    """`infinijup mount`, until it ends."""

    def __init__(self, commands, directory, environment=None):
        self.user, self.directory = commands.user, commands.user.mkdir(directory)
        words = [
            str(commands.daemon.bin / "infinijup"),
            "--json",
            "mount",
            str(directory),
        ]
        environment = {
            **self.user.environment(),
            "INFINIJUP_SOCKET": str(commands.daemon.socket),
            **(environment or {}),
        }
        self.process = subprocess.Popen(
            self.user.words(words),
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        assert json.loads(line)["message_type"] == "mounted"

    def sh(self, script, check=True):
        """A command of its user."""
        return self.user.run(["sh", "-c", script], cwd="/", check=check)

    def is_mounted(self):
        return f" {self.directory} " in Path("/proc/self/mountinfo").read_text()

    def ends(self, seconds=10):
        """Its code, when it has ended and unmounted."""
        code = self.process.wait(seconds)
        assert not self.is_mounted()
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)
        if self.is_mounted():
            subprocess.run(["umount", "-l", str(self.directory)], check=False)


@pytest.fixture
def mount(commands, fuse):
    made = []

    def make(name="past", **more):
        made.append(Mounted(commands, commands.user.home / name, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def session(commands, user):
    session = commands.kernel("analysis", options=["--files", "tree"], cwd=user.mkdir(user.home / "work"))
    session.kernel.run(WORK)
    return session


def tree(mounted, directory):
    """All that `find` tells of what is below a directory, and a sum of each content."""
    facts = mounted.sh(f"cd {directory} && find . -mindepth 1 -printf '%P %y %m %s %T@ %l %U %G\\n' | sort").out
    facts = [line.split(" ") for line in facts.splitlines()]
    # How large a directory is, is the business of each file system.
    facts = [[*line[:3], "-" if line[1] == "d" else line[3], *line[4:]] for line in facts]
    sums = mounted.sh(f"cd {directory} && find . -type f -exec sha256sum {{}} + | sort").out
    return facts, sums


def of_files(seen):
    """Without the times of directories, which no snapshot has, and of links, which a restore makes anew."""
    facts, sums = seen
    return [line if line[1] == "f" else [*line[:4], "-", *line[5:]] for line in facts], sums


def test_a_snapshot_is_a_folder_that_equals_the_restored_workspace(commands, session, mount, user):
    history = History(commands.daemon, user)
    user.write(user.home / "work/paper.ipynb", NOTEBOOK)
    history.patch(session, notebook=str(user.home / "work/paper.ipynb"))
    taken = session.snapshot("--tag", "good")["commit"]
    branch, _ = session.branch("other", "--from", "good")
    past = mount()
    here = past.directory / "tags/good"
    seen = tree(past, f"{here}/workspace")
    assert of_files(seen) == of_files(tree(past, user.home / "work")) and len(seen[0]) >= 9
    assert of_files(seen) == of_files(tree(past, branch.view()["workspace"]))
    past.sh(f"cp -a {here}/workspace {user.home}/copy")
    assert tree(past, user.home / "copy") == seen
    found = past.sh(f"grep -r needle {here}/workspace").out.split(":")[0]
    assert found.endswith("workspace/data/words.txt")
    assert past.sh(f"cat {here}/notebook.ipynb").out == NOTEBOOK

    # By time, by session and by tag it is the same directory, with the same number at each look.
    name = past.sh(f"readlink {here}").out.strip().split("/")[-1]
    assert taken[:12] in name and past.sh(f"ls {past.directory}/threads").out.split() == ["analysis", "other"]
    numbers = {
        past.sh(f"stat -L -c %i {past.directory}/{way}").out for way in ("tags/good", f"snapshots/{name}", f"threads/analysis/{name}")
    }
    assert len(numbers) == 1
    again = mount("again")
    assert {again.sh(f"stat -L -c %i {again.directory}/tags/good").out} == numbers

    # Nobody writes, and nobody else looks.
    assert "Read-only file system" in past.sh(f"touch {here}/workspace/new", check=False).err
    assert subprocess.run(["ls", past.directory], capture_output=True, check=False).returncode != 0

    # Snapshots that come later are there, too.
    session.snapshot("--tag", "later")
    proc.until(
        "the new tag is there",
        lambda: "later" in past.sh(f"ls {past.directory}/tags").out,
    )


def test_memory_is_there_by_process_and_mapping(session, mount):
    session.snapshot("--tag", "good")
    past = mount()
    here = past.directory / "tags/good"
    processes = json.loads(past.sh(f"cat {here}/processes.json").out)
    main = processes[0]
    assert main["parent"] == 0 and main["threads"] >= 1
    mappings = past.sh(f"ls {here}/memory/{main['pid']}").out.split()
    assert len(mappings) == main["mappings"]
    start, end = (int(part, 16) for part in mappings[0].split("-"))
    assert int(past.sh(f"stat -c %s {here}/memory/{main['pid']}/{mappings[0]}").out) == end - start
    found = past.sh(
        f"grep -rlaF 'memory, memory, memory, ' {here}/memory/*/ 2>/dev/null",
        check=False,
    ).out
    assert found, "a value of the kernel is in its memory"


def test_it_ends_cleanly_while_it_is_read(session, mount):
    session.snapshot("--tag", "good")
    load = "while cat {0}/tags/good/workspace/data/deep/large.bin {0}/tags/good/memory/*/* >/dev/null; do :; done; exit 1"
    ways = {
        "SIGTERM": lambda past: past.process.terminate(),
        "Ctrl-C": lambda past: past.process.send_signal(signal.SIGINT),
        "fusermount3": lambda past: past.sh(f"fusermount3 -u -z {past.directory}"),
    }
    for name, end in ways.items():
        past = mount(f"past-{name}")
        words = past.user.words(["sh", "-c", load.format(past.directory)])
        readers = [subprocess.Popen(words, stderr=subprocess.DEVNULL, cwd="/") for _ in range(3)]
        try:
            proc.until(
                "it is read",
                lambda past=past: len(os.listdir(f"/proc/{past.process.pid}/fd")) > 10,
            )
            end(past)
            assert past.ends() == 0, (name, past.process.stderr.read())
            for reader in readers:
                assert reader.wait(20) != 0
        finally:
            for reader in readers:
                reader.kill()
                reader.wait()


def test_readers_who_are_cut_off_are_no_failure(commands, session, mount):
    session.snapshot("--tag", "good")
    library = commands.user.home / "cut-off.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=CUT_OFF, text=True, check=True)
    library.chmod(0o755)
    past = mount(environment={"LD_PRELOAD": str(library)})
    assert past.sh(f"cat {past.directory}/tags/good/workspace/data/words.txt").out == "needle in a haystack"
    past.process.terminate()
    assert past.ends() == 0, past.process.stderr.read()
    assert "cut off" in past.process.stderr.read()


def test_a_damaged_object_is_an_error_and_the_rest_stays(commands, session, mount, user):
    """One object of the store has other bytes than it should have: the file that needs it cannot be read, and nothing else suffers."""
    # Not written by the kernel: what is left of the bytes in its freed memory would be stored, too.
    user.run(["sh", "-c", "head -c 200000 /dev/urandom >victim.bin"], cwd=user.home / "work")
    session.snapshot("--tag", "good")
    part = (user.home / "work/victim.bin").read_bytes()[1000:1064]
    packs = {path: path.read_bytes() for path in (commands.daemon.state / "store").rglob("*") if path.is_file()}
    (pack,) = [path for path, content in packs.items() if part in content]
    assert packs[pack].count(part) == 1, "random bytes are stored as they are, and once"
    with pack.open("r+b") as file:
        file.seek(packs[pack].index(part))
        file.write(bytes(64))
    past = mount()
    here = f"{past.directory}/tags/good/workspace"
    answer = past.sh(f"cat {here}/victim.bin", check=False)
    assert "Input/output error" in answer.err
    assert past.sh(f"cat {here}/data/words.txt").out == "needle in a haystack"
    assert past.sh(f"sha256sum <{here}/data/deep/large.bin").out == past.sh(f"sha256sum <{user.home}/work/data/deep/large.bin").out
    past.process.terminate()
    assert past.ends() == 0
    assert "damaged" in past.process.stderr.read()
