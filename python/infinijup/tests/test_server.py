"""The command, and the process that listens."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infinijup import __main__ as command
from infinijup import server

PACKAGE = Path(__file__).parents[1]
PROGRAM = """
import sys, infinijup
infinijup.register("hook", lambda: print("rests", flush=True), lambda: print("works", flush=True))
if "bad" in sys.argv:
    infinijup.on_quiesce(lambda: 1 / 0)
infinijup.listen()
infinijup.listen()
print("listens", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("INFINIJUP_QUIESCE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))


@pytest.fixture
def start():
    started = []

    def start(*words):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "listens\n"
        return process

    yield start
    for process in started:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def run(*words):
    return subprocess.run([sys.executable, "-m", "infinijup", *words], capture_output=True, text=True, timeout=60, check=False)


def test_rest_and_work_by_command(start):
    process = start()
    assert run("--rest", "600").returncode == 0
    assert process.stdout.readline() == "rests\n"
    assert run("--resume", "--pid", str(process.pid)).returncode == 0
    assert process.stdout.readline() == "works\n"


def test_a_rest_ends_by_itself(start):
    process = start()
    assert run("--rest", "0.1").returncode == 0
    assert [process.stdout.readline() for _ in range(2)] == ["rests\n", "works\n"]


def test_standing_still_does_not_count(start):
    process = start()
    path = server.directory() / f"{process.pid}.sock"
    assert server.ask(path, {"do": "quiesce", "rest": 3.0}, 20)["ok"]
    assert process.stdout.readline() == "rests\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.5)
    began = time.monotonic()
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "works\n"
    assert time.monotonic() - began > 0.5


def test_one_that_cannot_makes_the_others_go_on(start):
    processes = [start(), start("bad")]
    done = run("--rest", "600")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    # In whichever order they are asked, one that has come to rest goes back to work.
    bad = [processes[1].stdout.readline() for _ in range(2)]
    assert bad == ["rests\n", "works\n"]
    if processes[0].pid < processes[1].pid:
        assert [processes[0].stdout.readline() for _ in range(2)] == ["rests\n", "works\n"]


def test_nobody_listens_is_no_error_unless_asked_for():
    assert run().returncode == 0
    done = run("--pid", str(os.getpid()))
    assert done.returncode == 1
    assert "does not listen" in done.stderr


def test_what_the_dead_left_is_removed():
    left, other = server.directory() / "999999999.sock", server.directory() / "notes.sock"
    left.touch()
    other.touch()
    assert command.main([]) == 0
    assert not left.exists()
    assert other.exists()


def test_a_directory_that_others_may_write_to_is_refused():
    server.directory().chmod(0o777)
    done = run()
    assert done.returncode == 1
    assert "not a directory of ours alone" in done.stderr


NONSENSE = [b"", b"\n", b"[]\n", b"{}\n", b'{"do": "dance"}\n', b'{"do": "quiesce", "timeout": "x"}\n', b"\xff\n"]


def test_nonsense_does_no_harm(start):
    process = start()
    for line in NONSENSE:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(server.directory() / f"{process.pid}.sock"))
            channel.sendall(line)
            channel.shutdown(socket.SHUT_WR)
            answer = channel.makefile().readline()
        assert not answer or not json.loads(answer)["ok"], line
    assert run("--rest", "600").returncode == 0
    assert process.stdout.readline() == "rests\n"
