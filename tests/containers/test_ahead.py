"""The memory of containers is copied while they run: what is frozen for follows what was written, and what comes back is what was there."""

import os
import signal
from pathlib import Path

import pytest

from harness import proc
from harness.metrics import copied, figures
from harness.operation import killed_after, moments, seconds_of
from runtimes.saved import Saved, commands_of, is_free

MIB = 1 << 20
KEPT = int(os.environ.get("INFINIJUP_CONTAINER_MIB", "128"))
KEEPER = ("/usr/bin/python3", "/app/keeper.py", "/work", str(KEPT))
# Threads that count and start programs write to some memory of Python's all the time, and each of those programs is new.
UNREST = 24 * MIB
WRITTEN = 2000
# Where CRIU keeps what it knows of the kernel, and what says that the kernel can tell changed pages.
NOTES, DIRTY_TRACKING = Path("/run/criu.kdat"), 32


class Keeper(Saved):
    """A container with memory, which it writes to when it is told."""

    def __init__(self, commands, runtime, command=KEEPER, **more):
        super().__init__(commands, runtime.run(runtime.new_name("keeper"), command, **more))
        self.running.counts(seconds=60)

    def write(self, first, byte, count=WRITTEN):
        order = self.running.work / "order"
        order.write_text(f"{first} {count} {byte}")
        os.kill(self.running.pid, signal.SIGUSR2)
        proc.until("it has written", lambda: not order.exists(), seconds=30)

    def ahead(self, most_frozen=UNREST):
        """A snapshot whose memory was copied ahead, and how many bytes were copied while it ran."""
        daemon = self.commands.daemon
        before = copied(daemon)
        taken = self.snapshot()
        # On a busy machine one of its programs may just be waiting for the disk.
        assert [said for said in taken["warnings"] if "waits for the disk" not in said] == [], taken
        assert taken["frozen_bytes"] is not None, "it stood still for all of its memory"
        assert taken["frozen_bytes"] < most_frozen and taken["memory_bytes"] > KEPT * MIB
        return taken, copied(daemon) - before


@pytest.mark.timeout(300)
@pytest.mark.parametrize("other", ["runc", "containerd-overlayfs", "podman"], indirect=True)
def test_what_was_written_is_what_is_copied_and_all_of_it_comes_back(make_daemon, other):
    keeper = Keeper(commands_of(make_daemon, other, {}), other)
    first, at_first = keeper.ahead()[0]["commit"], keeper.hash()
    keeper.write(100, 7)
    then = keeper.hash()
    taken, while_it_ran = keeper.ahead()
    assert while_it_ran + taken["frozen_bytes"] < 3 * WRITTEN * 4096 + 2 * UNREST < KEPT * MIB
    assert taken["new_bytes"] < 2 * UNREST
    assert keeper.hash() == then
    # What the runtime restores is whole, although nothing of it was copied at once.
    keeper.write(9000, 8)
    then = keeper.hash()
    keeper.suspend()
    keeper.resume()
    assert keeper.hash() == then
    # It is another tree, of which nothing is known yet.
    keeper.write(200, 9)
    then = keeper.hash()
    again = keeper.ahead()[0]["commit"]
    keeper.write(300, 10)
    for commit, what in ((again, then), (first, at_first)):
        keeper.commands.run("rollback", *keeper.words, commit).one("rolled_back")
        assert keeper.hash() == what
        keeper.running.counts()
    assert keeper.running.status == "running"


def killed_for_following(specification):
    specification["linux"]["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{"names": ["userfaultfd"], "action": "SCMP_ACT_KILL_PROCESS"}],
    }


def test_a_filter_that_kills_for_the_call_is_not_asked(root, runc):
    """Each of its processes is led through one, and its filter holds for all that it does itself."""
    keeper = Keeper(root, runc, change=killed_for_following)
    keeper.ahead()
    keeper.write(50, 1)
    then = keeper.hash()
    assert keeper.ahead()[1] < KEPT * MIB // 2
    facts = proc.facts(keeper.running.pid)
    assert (facts["Seccomp"], facts["TracerPid"]) == ("2", "0")
    keeper.suspend()
    keeper.resume()
    assert keeper.hash() == then
    call = "import ctypes; ctypes.CDLL(None).syscall(323, 0x80801)"
    ended = runc.call("exec", keeper.running.name, "/usr/bin/python3", "-c", call, check=False)
    assert ended.returncode not in (0, 1), "a program that makes the call itself is killed"


def ignoring_traps(command):
    """A program that nobody can lead through a call without its noticing."""
    return ("/bin/sh", "-c", f"trap '' TRAP; exec {' '.join(command)}")


def with_a_device(specification):
    specification["linux"]["devices"].append(
        {"path": "/dev/odd", "type": "c", "major": 195, "minor": 7, "fileMode": 0o666, "uid": 0, "gid": 0}
    )


@pytest.mark.parametrize(
    ("command", "change", "why"),
    [(ignoring_traps(KEEPER), None, "no_process"), (KEEPER, with_a_device, "device")],
    ids=["no_process", "device"],
)
def test_what_cannot_be_followed_is_dumped_as_before(root, runc, command, change, why):
    keeper = Keeper(root, runc, command, change=change)
    then = keeper.hash()
    counter = f'plain_dumps_total{{why="{why}"}}'
    before = figures(root.daemon)[counter]
    assert keeper.snapshot()["frozen_bytes"] is None
    assert figures(root.daemon)[counter] == before + 1
    keeper.suspend()
    keeper.resume()
    assert keeper.hash() == then


@pytest.mark.timeout(300)
def test_a_daemon_that_is_killed_while_it_copies_leaves_a_container_that_nobody_holds(root, runc):
    keeper = Keeper(root, runc)
    session = keeper.ahead()[0]["session"]
    keeper.write(0, 100)
    cut_short = 0
    for number, moment in enumerate(moments(4, seconds_of(keeper.ahead), seed=5)):
        keeper.write(number * 3000, number + 1)
        then, pid = keeper.hash(), keeper.running.pid
        cut_short += killed_after(moment, root.daemon, f"/v1/sessions/{session}/snapshot", {})
        proc.until("nobody holds it", lambda pid=pid: is_free(pid), seconds=20)
        assert keeper.running.pid == pid and keeper.running.counts()
        assert keeper.hash() == then
        root.daemon.start()
    assert cut_short, "each snapshot was over before its daemon was killed"
    assert keeper.ahead()[1] > KEPT * MIB, "nothing is believed that another daemon has seen"
    keeper.suspend()
    keeper.resume()
    assert keeper.hash() == then


def test_other_programs_find_true_notes_on_the_kernel(root, runc):
    """A CRIU of a runtime's that believed in changed ones would leave out pages of somebody's checkpoint."""
    keeper = Keeper(root, runc)
    keeper.ahead()
    assert NOTES.read_bytes()[DIRTY_TRACKING] == 0
    assert str(NOTES) not in Path("/proc/self/mountinfo").read_text()
