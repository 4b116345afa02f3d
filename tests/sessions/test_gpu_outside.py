"""Programs with work on GPUs that were not started in a session: adopted with `attach`, or dumped and restored once."""

import json
import os
import signal
import subprocess
import threading

import pytest

from harness import proc
from harness.gpu_session import PROGRAM
from harness.session import Commands
from harness.users import User


class Outside:
    """`cuda_target.py` with no box around it. What it says goes to a file; new lines are what counts."""

    def __init__(self, gpu, out):
        self.out = out
        with out.open("ab") as log:
            self.process = subprocess.Popen(
                ["/usr/bin/python3", "-u", str(PROGRAM), "--mib", "4"],
                env={"PATH": os.environ["PATH"], **gpu.env()}, cwd="/", stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.pid = self.process.pid
        # Its number is needed again: it must not stay behind as a zombie of ours.
        threading.Thread(target=self.process.wait, daemon=True).start()
        proc.until("its buffers are filled", lambda: self.lines("ready"), seconds=60)
        self.expected = self.ask()

    def lines(self, key):
        found = [json.loads(line) for line in self.out.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [said for said in found if key in said]

    def ask(self):
        before = len(self.lines("report"))
        os.kill(self.pid, signal.SIGUSR1)
        return proc.until(f"{self.pid} says how it is", lambda: self.lines("report")[before:], seconds=20)[0]

    def check(self):
        """Same bytes, same pointers, and the loop goes on."""
        said = self.ask()
        assert (said["hash"], said["pointers"]) == (self.expected["hash"], self.expected["pointers"])
        assert self.ask()["rounds"] > said["rounds"]


@pytest.fixture
def outside(gpu, tmp_path):
    made = Outside(gpu, tmp_path / "said")
    yield made
    if proc.stat(made.pid):
        proc.kill(made.pid)


@pytest.fixture
def root(make_daemon, gpu):
    """Root's own daemon: only that one takes in what runs on the machine already."""
    root = User("root")
    return Commands(make_daemon(gpu.env(), user=root), root, gpu.env())


def test_an_adopted_program_goes_through_everything(root, gpu, outside):
    session = root.session(root.run("attach", "--pid", str(outside.pid), "--name", "found").one("attached")["session"])
    assert session.view()["vram_bytes"] > 4 << 20
    taken = session.snapshot()
    assert taken["vram_bytes"] > 4 << 20
    outside.check()
    # Its log is as long as it has become since: that is nobody's mistake.
    session.rollback(taken["commit"], "--force", "--no-files")
    outside.check()
    assert session.suspend()["freed_vram_bytes"] > 4 << 20
    assert gpu.bytes_held() == 0
    session.resume()
    outside.check()


@pytest.mark.parametrize("leave", [True, False], ids=["left-running", "ended"])
def test_once_into_a_directory_and_back(root, gpu, outside, tmp_path, leave):
    images = tmp_path / "images"
    options = [] if leave else ["--end"]
    root.run("checkpoint", "--pid", str(outside.pid), images, *options)
    if leave:
        outside.check()
        proc.kill(outside.pid)
    proc.until("its memory is free", lambda: gpu.bytes_held() == 0)
    proc.until("its number is free", lambda: proc.stat(outside.pid) is None)
    root.run("restore", images)
    outside.check()
