"""What cannot be captured without root is named before anything is touched; without it the session can be snapshotted.

The list in docs/sessions.md ("What cannot be done without root") has a test here for each of its rows that a program can bring about.
"""

import os
import re
import subprocess
import sys

import pytest

from harness.proc import until
from harness.session import Commands

# What stands in the way is in a child, and goes with it.
PROGRAM = """
import ctypes, mmap, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
def done(result):
    assert result not in (-1, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    return result
child = os.fork()
if child == 0:
    OBSTACLE
    print("in the way:", os.getpid(), flush=True)
    time.sleep(1000)
os.waitpid(child, 0)
print("out of the way", flush=True)
time.sleep(1000)
"""

# By the words of the refusal. The filter is one instruction: allow everything.
OBSTACLES = {
    "a system call filter": """
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
    allow = Program(1, (0x06).to_bytes(2, "little") + bytes(2) + (0x7fff0000).to_bytes(4, "little"))
    done(libc.prctl(22, 2, ctypes.byref(allow), 0, 0))
    """,
    "a process that hides itself": """
    done(libc.prctl(4, 0, 0, 0, 0))
    """,
    "a memory file that is mapped and open": """
    file = os.memfd_create("notes")
    os.ftruncate(file, 4096)
    mapped = mmap.mmap(file, 4096)
    """,
    "System V shared memory": """
    segment = done(libc.shmget(0, 4096, 0o1600))
    done(libc.shmat(segment, None, 0))
    done(libc.shmctl(segment, 0, None))
    """,
    "a mapped file that was deleted or replaced": """
    with open("library", "wb") as file:
        file.write(bytes(4096))
    with open("library", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
    os.unlink("library")
    """,
    "namespaces within the session": """
    done(libc.unshare(0x10000000))
    os.execvp("sh", ["sh", "-c", "echo in the way: $$; exec sleep 1000"])
    """,
    "a handle of a namespace": """
    handle = os.open("/proc/self/ns/net", os.O_RDONLY)
    """,
    "a connection to a process outside of the session": """
    client = socket.socket(socket.AF_UNIX)
    client.connect("outside.sock")
    """,
}

LISTEN = """
import socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("outside.sock")
server.listen()
print("ready", flush=True)
client = server.accept()
time.sleep(1000)
"""


def refused(commands, what, obstacle):
    """A session with an obstacle is refused by these words, works on, and can be snapshotted when the obstacle has gone."""
    program = PROGRAM.replace("    OBSTACLE\n", obstacle.strip("\n") + "\n")
    session = commands.start(f"s{os.urandom(2).hex()}", sys.executable, "-c", program)
    try:
        found = until("the obstacle is there", lambda: re.search(r"in the way: (\d+)", session.log()), 30)
        error = commands.fails("snapshot", session.name)
        assert error["code"] == "IJ-L040" and what in error["message"], error
        assert "python" in error["hint"] or "sleep" in error["hint"], error
        assert session.view()["head"] is None and session.state == "running"
        session.execute("kill", "-9", found[1])
        until("the obstacle is gone", lambda: "out of the way" in session.log(), 30)
        assert session.snapshot()["commit"]
    finally:
        session.remove()


@pytest.mark.parametrize("what", OBSTACLES)
def test_it_is_named_before_anything_is_touched(module_commands, what):
    if "outside.sock" not in OBSTACLES[what]:
        return refused(module_commands, what, OBSTACLES[what])
    # Somebody outside who answers.
    user = module_commands.user
    outside = subprocess.Popen(user.words([sys.executable, "-c", LISTEN]), cwd=user.home, stdout=subprocess.PIPE, text=True)
    try:
        assert outside.stdout.readline() == "ready\n"
        refused(module_commands, what, OBSTACLES[what])
    finally:
        outside.kill()
        outside.wait()


def test_a_deleted_file_of_another_group(make_user, make_daemon):
    """Nobody but root could make it again with that group."""
    user = make_user()
    group = f"{user.name}g"
    subprocess.run(["groupadd", group], check=True)
    try:
        subprocess.run(["usermod", "--append", "--groups", group, user.name], check=True)
        shared = user.mkdir(user.home / "shared")
        subprocess.run(["chgrp", group, shared], check=True)
        shared.chmod(0o2770)
        obstacle = """
    file = open("shared/scratch", "w")
    os.unlink("shared/scratch")
    """
        refused(Commands(make_daemon(user=user), user), "a deleted file of another group", obstacle)
    finally:
        subprocess.run(["groupdel", group], check=False)
