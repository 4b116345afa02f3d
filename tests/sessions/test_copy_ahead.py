"""Memory is copied while a session runs: what is frozen for follows what was written, and what comes back is what was there."""

import subprocess

import pytest

from harness.daemon import criu
from harness.proc import until
from harness.session import Commands

MIB = 1 << 20

# Three processes and a thread with memory of their own, shared memory, memory without a right to read, and a book of what is in them.
WORLD = """
import ctypes, hashlib, mmap, multiprocessing, os, threading
SIZE = 64 << 20
data = bytearray(os.urandom(1 << 20) * (SIZE >> 20))
for at in range(0, SIZE, 4096):
    data[at : at + 8] = at.to_bytes(8, "little")
shared = mmap.mmap(-1, 4 << 20)
shared[:] = os.urandom(4 << 20)
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
hidden = mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
hidden[:] = os.urandom(2 << 20)
hidden_at = ctypes.addressof(ctypes.c_char.from_buffer(hidden))
given_back = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

def protect(how):
    assert libc.mprotect(hidden_at, 2 << 20, how) == 0

def serve(pipe):
    own = bytearray(os.urandom(8 << 20))
    while True:
        what, number = pipe.recv()
        if what == "write":
            own[number * 4096 % len(own)] ^= 1
            data[number * 4096 % SIZE] ^= 1
        pipe.send(hashlib.sha256(own).hexdigest() + hashlib.sha256(data).hexdigest())

context = multiprocessing.get_context("fork")
pipes = []
for _ in range(2):
    here, there = context.Pipe()
    context.Process(target=serve, args=(there,), daemon=True).start()
    pipes.append(here)

def write(number, pages):
    for page in range(number, number + pages):
        data[page * 4096 % SIZE + 9] = number % 256
    shared[number * 4096 % len(shared)] ^= 1
    given_back[:] = os.urandom(8 << 20)
    given_back.madvise(mmap.MADV_DONTNEED)
    given_back[number * 4096 % (8 << 20)] = 1
    for pipe in pipes:
        pipe.send(("write", number))
        pipe.recv()

def observe():
    seen = [hashlib.sha256(part).hexdigest() for part in (data, shared, given_back)]
    protect(1)
    seen.append(hashlib.sha256(hidden).hexdigest())
    protect(0)
    for pipe in pipes:
        pipe.send(("look", 0))
        seen.append(pipe.recv())
    return seen
protect(0)
"""


def world(commands, name="world"):
    session = commands.kernel(name)
    session.kernel.run(WORLD)
    return session


@pytest.mark.timeout(300)
def test_what_was_written_is_what_is_copied(commands):
    session = world(commands)
    kernel, taken = session.kernel, []
    for number in range(3):
        kernel.run(f"write({number * 700}, 256)")
        before = kernel.value("observe()")
        outcome = session.snapshot()
        assert outcome["warnings"] == []
        assert outcome["frozen_bytes"] is not None, "it stood still for all of its memory"
        # The interpreter writes to some MiB whatever it does; shared memory is CRIU's.
        assert outcome["frozen_bytes"] < 24 * MIB < outcome["memory_bytes"]
        if number:
            assert outcome["new_bytes"] < 40 * MIB
        taken.append((outcome["commit"], before))
        assert kernel.value("observe()") == before
    for commit, before in reversed(taken):
        session.rollback(commit)
        kernel.ready()
        assert kernel.value("observe()") == before
        # What comes back is followed anew, and is right again.
        kernel.run("write(9000, 50)")
        changed = kernel.value("observe()")
        again = session.snapshot()
        assert again["frozen_bytes"] is not None
        kernel.run("write(5000, 500)")
        session.rollback(again["commit"])
        kernel.ready()
        assert kernel.value("observe()") == changed


@pytest.mark.timeout(300)
def test_a_daemon_that_dies_costs_nothing_but_the_next_round(commands):
    session = world(commands)
    session.snapshot()
    session.kernel.run("write(100, 100)")
    commands.daemon.kill()
    commands.daemon.start()
    session.kernel.run("write(300, 100)")
    before = session.kernel.value("observe()")
    outcome = session.snapshot()
    assert outcome["frozen_bytes"] is not None
    session.kernel.run("write(900, 100)")
    session.rollback(outcome["commit"])
    session.kernel.ready()
    assert session.kernel.value("observe()") == before


def test_it_can_be_switched_off(make_daemon, user):
    commands = Commands(make_daemon({"INFINIJUP_COPY_AHEAD": "off"}, user), user)
    session = commands.start("plain", "sleep", "1000")
    assert session.snapshot()["frozen_bytes"] is None
    doctor = {item["item"]: item for item in commands.run("doctor").one("doctor")["findings"]}
    assert doctor["copying memory ahead"]["state"] == "warn" and "switched off" in doctor["copying memory ahead"]["evidence"]
    session.remove()


def test_every_page_can_be_compared(make_daemon, user):
    commands = Commands(make_daemon({"INFINIJUP_COPY_AHEAD": "checked"}, user), user)
    session = world(commands)
    session.snapshot()
    for number in range(3):
        session.kernel.run(f"write({number}, 50)")
        outcome = session.snapshot()
        assert outcome["warnings"] == [] and outcome["frozen_bytes"] is not None
    doctor = {item["item"]: item for item in commands.run("doctor").one("doctor")["findings"]}
    assert doctor["copying memory ahead"]["state"] == "ok"


# Has everything twice, and tells after each change whether both are the same.
TWICE = """
import os, sys, time
one = bytearray(os.urandom(16 << 20))
other, number = bytearray(one), 0
out = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    number += 1
    at = number * 7919 * 4096 % len(one)
    one[at] = other[at] = number % 256
    os.pwrite(out, b"%010d %s" % (number, b"same     " if one == other else b"DIFFERENT"), 0)
    time.sleep(0.003)
"""

# Restored with the numbers that its processes had, so in a PID namespace of its own, with what a box has in /run. It ends with that.
BARE = """
mount -t tmpfs none /run && mkdir /run/infinijup-box && install -m 600 -o {uid} -g {gid} /dev/null /run/infinijup-box/log || exit 1
{criu} restore --images-dir {images} --work-dir {logs} --log-file log --tcp-close --link-remap --manage-cgroups=ignore --skip-file-rwx-check --restore-detached || exit 2
before=$(cat {file}); sleep 0.3; [ "$before" != "$(cat {file})" ]
"""


def test_a_bare_criu_restores_what_was_copied_ahead(commands, user, tmp_path):
    """The images of a snapshot are those of an ordinary dump, and CRIU needs nothing of ours."""
    work = user.mkdir(user.home / "work")
    file, images = work / "number", user.home / "images"
    session = commands.start("twice", "/usr/bin/python3", "-c", TWICE, str(file), cwd=work)
    until("it counts", lambda: file.exists() and file.read_text())
    session.snapshot()
    taken = session.snapshot()
    assert taken["frozen_bytes"] is not None, "it stood still for all of its memory"
    then = int(file.read_text().split()[0])
    until("it goes on", lambda: int(file.read_text().split()[0]) > then + 250)
    exported = commands.run("export", taken["commit"], str(images), "--criu-images").one("images_exported")
    assert exported["commit"] == taken["commit"] and images.stat().st_mode & 0o777 == 0o700
    assert commands.fails("export", taken["commit"], str(images), "--criu-images")["exit"] != 0, "it is there already"
    session.remove()
    at_end = file.read_text()
    bare = BARE.format(uid=user.uid, gid=user.gid, criu=criu(), images=images, logs=tmp_path, file=file)
    done = subprocess.run(["unshare", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c", bare], check=False, capture_output=True, text=True)
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
    assert done.returncode == 0, done.stderr + "\n".join(line for line in log.splitlines() if "Error" in line)
    number, verdict = file.read_text().split()
    assert verdict == "same" and number < at_end.split()[0], "it went on from the snapshot"
