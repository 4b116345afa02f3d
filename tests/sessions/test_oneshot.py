"""`checkpoint --pid` and `restore`: one shot, no supervision, for scripts of root."""

import os
import subprocess
import sys

import pytest

from harness import proc

COUNT = """
import sys, time
n = 0
while True:
    n += 1
    with open(sys.argv[1], 'a') as f:
        f.write('%d\\n' % n)
    time.sleep(0.02)
"""


@pytest.fixture
def counter(record, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", COUNT, str(out)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
    )
    proc.until("it counts", lambda: out.exists() and out.stat().st_size > 20)
    yield process, out
    process.kill()
    process.wait()


def last(out):
    return int(out.read_text().splitlines()[-1])


def test_checkpoint_and_restore(root, counter, tmp_path):
    process, out = counter
    images = tmp_path / "images"
    done = root.run("checkpoint", "--pid", str(process.pid), images).one("checkpointed")
    assert done["bytes"] > 0 and oct(os.stat(images).st_mode & 0o77) == "0o0"
    at = last(out)
    proc.until("the original goes on", lambda: last(out) > at + 3)
    process.kill()
    process.wait()
    ended = last(out)
    restored = root.run("restore", images).one("restored")
    try:
        proc.until("it counts again from where it was", lambda: len(out.read_text().splitlines()) > ended + 3)
        numbers = [int(line) for line in out.read_text().splitlines()]
        first_again = numbers[ended]
        assert first_again <= ended, "it went on from the end, not from the checkpoint"
    finally:
        proc.kill(restored["pid"])


def test_only_root_may(commands, counter):
    process, _ = counter
    assert commands.fails("checkpoint", "--pid", str(process.pid), commands.user.home / "images")["code"]
    assert commands.fails("restore", commands.user.home / "images")["code"]
    assert proc.stat(process.pid)["state"] in "RS"
