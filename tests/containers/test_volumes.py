"""Files that a container has open in volumes of each kind, while it sleeps and afterwards."""

import os

import pytest

from harness import proc
from runtimes.base import LEAP
from runtimes.saved import Saved, commands_of

# It holds /vol/kept open, writes a number there if it may, and reads it back by the same descriptor; what it has seen goes to /work/count.
KEEPS = """
import os, signal, sys, time
leaps = []
signal.signal(signal.SIGUSR2, lambda *_: leaps.append(1_000_000))
writes, n = sys.argv[1] == "writes", 0
kept = os.open("/vol/kept", os.O_RDWR | os.O_CREAT if writes else os.O_RDONLY)
out = os.open("/work/count", os.O_RDWR | os.O_CREAT)
while True:
    n += leaps.pop() if leaps else 1
    if writes:
        os.pwrite(kept, b"%12d\\n" % n, 0)
    if int(os.pread(kept, 13, 0)) != (n if writes else 7):
        sys.exit("something else is in /vol/kept")
    os.pwrite(out, b"%12d\\n" % n, 0)
    time.sleep(0.01)
"""


def started(runtime, volume):
    """A container with a volume of this kind at /vol."""
    name = runtime.new_name("keeps")
    here = runtime.base / f"volume-{name}"
    here.mkdir()
    (here / "kept").write_text("7\n")
    only_read = volume == "bind, read only"
    command = ["/usr/bin/python3", "-u", "-c", KEEPS, "reads" if only_read else "writes"]
    running = runtime.run(name, command, **mounted(runtime, volume, here, "ro" if only_read else "rw"))
    running.counts()
    return running


def mounted(runtime, volume, here, mode):
    """What `run` is told for it."""
    if runtime.kind == "podman":
        words = {"tmpfs": "--tmpfs=/vol", "named volume": f"--volume={here.name}:/vol"}
        return {"options": [words.get(volume, f"--volume={here}:/vol:{mode}")]}
    tmpfs = volume == "tmpfs"
    if runtime.kind == "containerd":
        where = "type=tmpfs,src=tmpfs,dst=/vol,options=mode=755" if tmpfs else f"type=bind,src={here},dst=/vol,options=rbind:{mode}"
        return {"options": [f"--mount={where}"]}
    kind = {"type": "tmpfs", "source": "tmpfs"} if tmpfs else {"type": "bind", "source": str(here), "options": ["rbind", mode]}
    return {"change": lambda specification: specification["mounts"].append({"destination": "/vol", **kind})}


# All other tests have one that is bound and written to, and only podman has names for some.
CASES = [(label, volume) for label in ("runc", "crun", "containerd-overlayfs", "podman") for volume in ("bind, read only", "tmpfs")]
CASES.append(("podman", "named volume"))


@pytest.mark.parametrize(("other", "volume"), CASES, indirect=["other"])
def test_what_is_open_in_a_volume_is_there_afterwards(make_daemon, other, volume, shown):
    root = commands_of(make_daemon, other, {})
    running = started(other, volume)
    saved = Saved(root, running)
    kept, before = inside(running), running.count()
    taken = saved.snapshot()["commit"]
    assert running.counts() > before
    saved.suspend()
    at = running.count()
    saved.resume()
    assert at < running.counts() < LEAP
    assert inside(running) == kept
    running.leap()
    root.run("rollback", *saved.words, taken).one("rolled_back")
    # The number in the volume is the one that it remembers: else it would have ended.
    assert running.counts() < LEAP
    assert inside(running) == kept
    for operation in ("snapshot", "suspend and resume", "roll back"):
        shown(other, operation, volume=volume)


def inside(running):
    """How the volume is mounted there, and whether the file is the one that is open."""
    pid = running.pid
    lines = proc.read(pid, "mountinfo").decode().splitlines()
    (mount,) = [line.split() for line in lines if line.split()[4] == "/vol"]
    (number,) = [fd for fd in os.listdir(f"/proc/{pid}/fd") if proc.link(pid, f"fd/{fd}") == "/vol/kept"]
    same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), os.stat(f"/proc/{pid}/root/vol/kept"))
    assert same
    return mount[5].split(",")[0], mount[mount.index("-") + 1]


@pytest.mark.parametrize("other", ["runc", "containerd-overlayfs"], indirect=True)
def test_a_volume_that_is_named_by_a_link_is_refused_before_anything_is_done(make_daemon, other):
    """CRIU does not follow it: the container could be put to sleep, and not be woken."""
    here = other.base / other.new_name("volume")
    link = here.with_suffix(".link")
    here.mkdir()
    (here / "kept").write_text("7\n")
    link.symlink_to(here)
    running = other.run(other.new_name("keeps"), ["/usr/bin/python3", "-u", "-c", KEEPS, "writes"], **mounted(other, "bind", link, "rw"))
    running.counts()
    error = commands_of(make_daemon, other, {}).fails("suspend", "--container", running.name, *other.options())
    assert error["code"] == "IJ-L015" and str(link) in error["message"], error
    running.counts()
