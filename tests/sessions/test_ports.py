"""What stands before a kernel's ports on loopback, where everybody can connect: it is for its owner, whatever a stranger does."""

import json
import os
import subprocess
import time

import pytest

from harness.users import PYTHON

FRONT = """
import socket, subprocess, sys, threading
heard = []
behind = socket.socket(socket.AF_UNIX)
behind.bind(sys.argv[2] + "/1")
behind.listen(512)
def answer(one):
    with one:
        heard.append(one.recv(100).decode())
        one.sendall(b"x")
def hear():
    while True:
        threading.Thread(target=answer, args=(behind.accept()[0],), daemon=True).start()
threading.Thread(target=hear, daemon=True).start()
front = subprocess.Popen([sys.argv[1], "serve", sys.argv[2], "0"], stdout=subprocess.PIPE, text=True)
print(front.stdout.readline(), end="", flush=True)
sys.stdin.readline()
front.kill()
front.wait()
print(heard)
"""
CONNECT = """
import socket, sys, time
for _ in range(int(sys.argv[2])):
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as one:
        one.sendall(sys.argv[3].encode())
        if sys.argv[3] == "owner":
            one.recv(1)
            print(time.monotonic() - begun)
"""


@pytest.fixture
def intruder(make_user, user):
    other = make_user()
    assert other.uid != user.uid
    return other


@pytest.fixture
def front(record, user):
    """What stands before a kernel's port, with a listener behind it that notes what it hears. Gives the port, and a way to ask."""
    gate = user.mkdir(user.home / f"gate{os.urandom(2).hex()}")
    words = user.words([PYTHON, "-c", FRONT, str(record.base / "bin/infinijup-box"), str(gate)])
    process = subprocess.Popen(words, env=user.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        (port,) = json.loads(process.stdout.readline())["Up"]["ports"]
        yield str(port), lambda: process.communicate("\n", timeout=30)[0].strip()
    finally:
        process.kill()
        process.wait()


def test_a_stranger_who_closes_at_once_is_not_taken_for_root(user, intruder, front):
    """The kernel's table of connections has uid 0 for a socket that was closed, and what it sent before is still to be read."""
    port, heard = front
    intruder.python(CONNECT, port, "200", "stranger")
    user.python(CONNECT, port, "1", "owner")
    assert heard() == "['owner']"


def test_a_stranger_who_only_connects_keeps_nobody_waiting(user, intruder, front):
    port, heard = front
    words = intruder.words([PYTHON, "-c", CONNECT, port, "1000000", ""])
    running = [subprocess.Popen(words, stderr=subprocess.DEVNULL) for _ in range(4)]
    try:
        time.sleep(2)
        waited = [float(word) for word in user.python(CONNECT, port, "5", "owner").out.split()]
        assert all(process.poll() is None for process in running)
    finally:
        for process in running:
            process.kill()
            process.wait()
    print(f"the owner waited {waited}")
    assert len(waited) == 5 and sum(waited) < 10
    assert heard() == str(["owner"] * 5)
