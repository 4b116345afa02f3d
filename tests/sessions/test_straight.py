"""A second machine that has only the history of a remote restores from there, whatever becomes of the network."""

import os
import threading
import time

import pytest

from harness.object_store import KEYS
from harness.session import Commands

pytestmark = pytest.mark.timeout(900)
MIB = 1 << 20
# What the second machine may keep of what it reads: much less than the kernel has.
CACHE = 24 * MIB
SIZE = 96 * MIB
STATE = f"import os, hashlib; data = bytearray(os.urandom({SIZE})); open('notes.txt', 'w').write('kept'); step = 1"
LOOK = "(hashlib.sha256(data).hexdigest(), step, open('notes.txt').read())"


@pytest.fixture
def address(proxy):
    """Of a remote that nobody has used."""
    return proxy.address(os.urandom(4).hex())


@pytest.fixture
def pushed(make_daemon, make_user, address):
    """A kernel's snapshot in a remote, and what the kernel knew."""
    owner = make_user.owner()
    here = Commands(make_daemon(), owner, KEYS)
    workspace = owner.mkdir(owner.home / "work")
    session = here.kernel("analysis", options=["--files", "workspace"], cwd=workspace)
    session.kernel.run(STATE)
    known = session.kernel.value(LOOK)
    session.snapshot("-m", "first")
    here.run("remote", "add", "origin", address)
    here.run("push", "--unencrypted")
    session.kernel.close()
    session.remove()
    return known


def elsewhere(make_daemon, make_user, proxy, address):
    """A second machine with the history alone, and its snapshot."""
    keys = {**KEYS, "INFINIJUP_REMOTE_CACHE": str(CACHE)}
    there = Commands(make_daemon(environment=keys), make_user.owner(), KEYS)
    before = proxy.received
    brought = there.run("clone", "--history", address).one("pulled")
    assert brought["bytes"] < 4 * MIB and proxy.received - before < 8 * MIB
    (commit,) = there.run("log", "analysis").messages("commit")
    assert commit["elsewhere"] == "origin" and commit["bytes"] > SIZE
    return there, commit["id"]


def cached(commands):
    """What it keeps of the remote."""
    return sum(file.stat().st_size for file in (commands.daemon.state / "store/cache/remote").glob("*"))


def stored(commands):
    """What is in its store."""
    return sum(pack.stat().st_size for pack in (commands.daemon.state / "store/objects").rglob("*.pack"))


def places(commands):
    """Where the data of each snapshot is."""
    return {one["message"]: one["elsewhere"] for one in commands.run("log", "--all").messages("commit") if one["reason"] == "manual"}


def test_a_machine_with_the_history_alone_restores_from_the_remote(make_daemon, make_user, proxy, address, pushed):
    there, commit = elsewhere(make_daemon, make_user, proxy, address)
    there.run("store", "verify", "--bytes")
    before = proxy.received
    branched = there.run("branch", commit, "--force", "--name", "moved").one("branched")["branches"][0]
    moved = there.session(branched["session"])
    moved.connect()
    assert moved.kernel.value(LOOK) == pushed
    # Everything came, little of it twice, and little of it stays.
    assert SIZE <= proxy.received - before <= 1.5 * SIZE
    assert 0 < cached(there) <= CACHE
    assert stored(there) < SIZE / 2

    # What is snapshotted here is whole here.
    moved.kernel.run("step = 2")
    moved.snapshot("-m", "second", "--tag", "whole")
    assert places(there) == {"second": None, "first": "origin"}
    proxy.close()
    moved.kernel.run("step = 3; data[:9] = b'different'")
    moved.rollback("whole")
    moved.kernel.ready()
    assert moved.kernel.value(LOOK) == (pushed[0], 2, pushed[2])
    there.run("store", "verify", "--bytes")


def test_a_remote_that_goes_away_in_the_middle_leaves_nothing_half_restored(make_daemon, make_user, proxy, address, pushed):
    there, commit = elsewhere(make_daemon, make_user, proxy, address)
    before = proxy.received
    ends = threading.Thread(target=cut_after, args=(proxy, before + 30 * MIB))
    ends.start()
    error = there.fails("branch", commit, "--force", "--name", "moved")
    ends.join()
    assert error["code"] == "IJ-S014" and "origin" in error["message"], error
    assert "credentials" in error["hint"]
    assert there.sessions() == {}
    assert cached(there) <= CACHE
    # When it is back, the same command does it.
    proxy.cut = proxy.lose = 0.0
    branched = there.run("branch", commit, "--force", "--name", "moved").one("branched")["branches"][0]
    moved = there.session(branched["session"])
    moved.connect()
    assert moved.kernel.value(LOOK) == pushed


def cut_after(proxy, received):
    """The network is gone as soon as so many bytes have come."""
    deadline = time.monotonic() + 120
    while proxy.received < received and time.monotonic() < deadline:
        time.sleep(0.002)
    proxy.cut = proxy.lose = 1.0


def test_the_data_comes_when_it_is_fetched(make_daemon, make_user, proxy, address, pushed):
    there, commit = elsewhere(make_daemon, make_user, proxy, address)
    there.run("fetch")
    assert places(there) == {"first": None}
    proxy.close()
    there.run("store", "verify", "--bytes")
    branched = there.run("branch", commit, "--force", "--name", "moved").one("branched")["branches"][0]
    moved = there.session(branched["session"])
    moved.connect()
    assert moved.kernel.value(LOOK) == pushed
