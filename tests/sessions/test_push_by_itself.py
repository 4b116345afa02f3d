"""What is pushed without anyone asking, and what goes here because the remote has it."""

import json
import os
import time

import pytest

from harness.object_store import KEYS
from harness.session import Commands

pytestmark = pytest.mark.timeout(600)
MIB = 1 << 20
SIZE = 24 * MIB
# Each state has memory of its own, which nothing can be shared of.
STATE = f"import os, hashlib; data = bytearray(os.urandom({SIZE})); step = "
LOOK = "(hashlib.sha256(data).hexdigest(), step)"


@pytest.fixture
def address(proxy):
    """Of a remote that nobody has used."""
    return proxy.address(os.urandom(4).hex())


@pytest.fixture
def pushed(make_daemon, make_user, address):
    """A kernel whose first snapshot was pushed by hand: nobody else can agree that it is not encrypted. The daemon pushes nothing by itself yet, or it would
    begin as soon as somebody has agreed, beside whoever did."""
    owner = make_user.owner()
    here = Commands(make_daemon(environment=dict(KEYS)), owner, KEYS)
    session = here.kernel("analysis", cwd=owner.mkdir(owner.home / "work"))
    session.kernel.run(STATE + "0")
    session.snapshot("-m", "start")
    here.run("remote", "add", "origin", address)
    assert here.run("remote", "list").one("remote")["last_push"] is None
    here.run("push", "--unencrypted")
    assert last_push(here)["by_itself"] is False
    return here, session


def last_push(commands):
    """How it went, as `remote list` says."""
    return commands.run("remote", "list").one("remote")["last_push"]


def until(true, why):
    """Waits for what happens by itself."""
    deadline = time.monotonic() + 90
    while not true():
        assert time.monotonic() < deadline, why
        time.sleep(0.3)


def there(commands, address):
    """The messages of the snapshots that a stranger finds in the remote."""
    copy = commands.user.mkdir(commands.user.home / os.urandom(3).hex())
    commands.run("clone", "--history", address, "--store", str(copy / "store"))
    found = commands.run("log", "--all", "--store", str(copy / "store")).messages("commit")
    return {one["message"] or one["reason"] for one in found}


def places(commands):
    """Where the data of each snapshot is that somebody took."""
    found = commands.run("log", "--all").messages("commit")
    return {one["message"]: one["elsewhere"] for one in found if one["reason"] == "manual"}


def stored(commands):
    """What is in its store."""
    return sum(pack.stat().st_size for pack in (commands.daemon.state / "store/objects").rglob("*.pack"))


def jobs(commands, kind):
    """How jobs of a kind ended."""
    status, answer = commands.daemon.get("/v1/jobs")
    assert status == 200, answer
    return [job["state"] for job in answer["jobs"] if job["kind"] == kind]


def push_finding(commands):
    """What `doctor` says about it."""
    (found,) = [one for one in commands.run("doctor").one("doctor")["findings"] if one["item"] == "push"]
    return found


def test_what_was_tagged_and_what_was_suspended_is_pushed(pushed, address):
    here, session = pushed
    restarted(here, push="tagged, after-suspend")
    session.kernel.run("step = 1")
    session.snapshot("-m", "not asked for")
    session.snapshot("-m", "a good one", "--tag", "good")
    until(lambda: last_push(here)["by_itself"], "the tag was not pushed")
    assert there(here, address) == {"start", "not asked for", "a good one"}
    assert jobs(here, "push") == ["done"] and jobs(here, "free_local") == []
    # The thread itself is not where the tag is: nobody asked for that.
    session.kernel.run("step = 2")
    session.snapshot("-m", "later")
    time.sleep(4)
    assert jobs(here, "push") == ["done"]

    session.suspend()
    until(lambda: jobs(here, "push") == ["done", "done"], "what was suspended was not pushed")
    assert there(here, address) == {"start", "not asked for", "a good one", "later", "suspend"}
    finding = push_finding(here)
    assert finding["state"] == "ok" and "everything is there" in finding["evidence"], finding
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("step") == 2


def test_everything_is_pushed_each_hour(pushed, address):
    here, session = pushed
    restarted(here, push="hourly")
    session.kernel.run("step = 1")
    session.snapshot("-m", "second")
    # Everything was pushed a moment ago. As if that had been an hour ago:
    time.sleep(3)
    assert "second" not in there(here, address)
    here.daemon.stop()
    file = here.daemon.state / "store/pushes"
    known = json.loads(file.read_text())
    known["origin"]["all"] -= 3601
    file.write_text(json.dumps(known))
    here.daemon.start()
    until(lambda: "done" in jobs(here, "push"), "nothing was pushed")
    assert there(here, address) == {"start", "second"}


def test_a_push_that_fails_is_said_and_in_nobodys_way(pushed, proxy):
    here, session = pushed
    proxy.cut = proxy.lose = 1.0
    restarted(here, push="tagged", keep_local="1 MiB")
    session.kernel.run("step = 1")
    session.snapshot("-m", "a good one", "--tag", "good")
    # Nobody waits for it, and everything else goes on.
    session.kernel.run("step = 2")
    session.rollback("good")
    session.kernel.ready()
    assert session.kernel.value("step") == 1
    until(lambda: (last_push(here) or {}).get("failed"), "nobody says that it failed")
    finding = push_finding(here)
    assert finding["state"] == "warn" and "failed" in finding["evidence"] and "IJ-R" in finding["evidence"], finding
    # A remote that says nothing is no reason to let go of anything.
    until(lambda: "failed" in jobs(here, "free_local"), "room was not tried for")
    assert set(places(here).values()) == {None}
    here.run("store", "verify", "--bytes")


def restarted(commands, **settings):
    """The daemon with other settings."""
    commands.daemon.stop()
    commands.daemon.environment.update({f"INFINIJUP_{name.upper()}": value for name, value in settings.items()})
    commands.daemon.start()


def test_only_so_much_stays_here_and_the_rest_comes_back(pushed, proxy, address):
    here, session = pushed
    restarted(here, push="tagged")
    known, ids = {"start": session.kernel.value(LOOK)}, {}
    for step, tag in ((1, ()), (2, ()), (3, ("--tag", "done"))):
        session.kernel.run(f"{STATE}{step}")
        message = f"state {step}"
        ids[message] = session.snapshot("-m", message, *tag)["commit"]
        known[message] = session.kernel.value(LOOK)
    until(lambda: "done" in jobs(here, "push"), "nothing was pushed")
    # Others would not find what lies behind a gap.
    here.run("forget", ids["state 2"])
    assert there(here, address) == {"start", "state 1", "state 2", "state 3"}
    before = stored(here)
    restarted(here, keep_local=f"{SIZE * 2} B")
    # What the session goes on from is here, whatever is set.
    let_go = {"start": "origin", "state 1": "origin", "state 3": None}
    until(lambda: places(here) == let_go and "done" in jobs(here, "free_local"), "nothing was let go of")
    assert before - stored(here) > 2 * SIZE
    plain = here.user.run([here.daemon.bin / "infinijup", "log", "analysis"], environment={"INFINIJUP_SOCKET": str(here.daemon.socket)})
    assert plain.out.count("(only in origin)") == 2
    here.run("store", "verify", "--bytes")

    # Whoever collects there, it stays: also somebody who does not know what was forgotten here.
    here.run("remote", "gc", "origin", "--grace", "0")
    here.run("remote", "gc", "origin", "--grace", "0")
    assert here.run("remote", "verify", "origin", "--bytes").one("remote_verified")["clean"]
    assert there(here, address) >= {"start", "state 1", "state 3"}
    names = {one["name"] for one in here.run("fetch", "--dry-run").one("fetched")["refs"]}
    assert names == {"threads/analysis", "tags/done", f"threads/kept/{ids['state 1'][:12]}"}

    # They come back when they are asked for: in the session, and beside it.
    received = proxy.received
    session.rollback("done~2")
    session.kernel.ready()
    assert session.kernel.value(LOOK) == known["start"]
    assert proxy.received - received > SIZE
    beside, _ = session.branch("beside", "--from", ids["state 1"])
    beside.connect()
    assert beside.kernel.value(LOOK) == known["state 1"]

    # And stay here if they are fetched.
    here.run("fetch")
    assert set(places(here).values()) == {None}
    proxy.close()
    here.run("store", "verify", "--bytes")
