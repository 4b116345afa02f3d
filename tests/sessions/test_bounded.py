"""What a session's own processes, or a client of the same user, can do to the daemon: it stays small, ends when it is told to, and the
sessions are not harmed. And a full disk costs nobody a session."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from harness import leftovers, proc
from harness.session import Commands
from harness.users import PYTHON

MOST = 300 << 20
SECONDS = float(os.environ.get("INFINIJUP_FLOOD_SECONDS", "3"))
FLOOD = (Path(__file__).parent / "harness/flood.py").read_text()


def peak(daemon):
    """The most memory that the daemon has ever had."""
    return int(proc.status(daemon.pid, "VmHWM").split()[0]) << 10


def ends_in_time(daemon):
    """SIGTERM, and how long it takes."""
    begun = time.monotonic()
    daemon.stop()
    took = time.monotonic() - begun
    assert took < 10, f"the daemon took {took} s to end"
    daemon.start()


def flood(user, daemon, kind, seconds, count=1):
    words = user.words([PYTHON, "-c", FLOOD, kind, str(daemon.socket), str(seconds)])
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=user.environment()) for _ in range(count)]
    assert all(process.stdout.readline() == "begun\n" for process in running)
    return running


def ends_in_a_flood(user, daemon, kind, count=1):
    running = flood(user, daemon, kind, 30, count)
    time.sleep(0.3)
    ends_in_time(daemon)
    for process in running:
        process.kill()
        process.wait()


def answers_of(processes):
    return [json.loads(process.communicate(timeout=60)[0]) for process in processes]


@pytest.fixture
def session(commands, user):
    session = commands.kernel("k", cwd=user.mkdir(user.home / "work"))
    session.kernel.run("n = 41")
    return session


def log_of(session):
    (log,) = (session.commands.daemon.state / "sessions" / session.id).rglob("log")
    return log


def every_operation(session):
    taken = session.snapshot()["commit"]
    session.kernel.run("n = 0")
    session.rollback(taken)
    session.kernel.ready()
    branch, _ = session.branch("b")
    branch.remove()
    session.suspend()
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("n") == 41


def test_a_log_of_three_gib(session, daemon, user):
    user.run(["truncate", "-s", "3G", log_of(session)])
    every_operation(session)
    read = "curl --silent --unix-socket $0 http://x/v1/sessions/$1/log | head --bytes 50M | wc --bytes"
    assert user.run(["sh", "-c", read, daemon.socket, session.id]).out.strip() == str(50 << 20)
    session.stop()
    assert peak(daemon) < MOST, peak(daemon)
    ends_in_time(daemon)
    assert session.state == "ended"


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_something_else_in_the_place_of_a_log(session, daemon, user, kind):
    log = log_of(session)
    user.run(["mv", log, log.with_name("log.old")])
    user.run(["mkfifo", log] if kind == "fifo" else ["ln", "-s", "/dev/zero", log])
    status, answer = user.request(daemon, "GET", f"/v1/sessions/{session.id}/log")
    assert status >= 400 and answer["code"], answer
    session.snapshot()
    assert session.kernel.value("n") == 41
    ends_in_time(daemon)
    assert session.connect().value("n") == 41
    session.commands.run("suspend", "k", seconds=60)
    session.commands.run("resume", "k", seconds=60)
    # The file that the processes write to has another name by now, which a branch does not have: it is refused, but not waited for.
    session.commands.run("branch", "k", "--name", "b", check=False, seconds=60)
    assert session.kernel.ready().value("n") == 41
    assert peak(daemon) < MOST
    ends_in_time(daemon)


def test_bodies_of_150_mb_on_128_connections(session, daemon, user):
    running = flood(user, daemon, "bodies", 2 * SECONDS)
    begun = time.monotonic()
    assert daemon.get(f"/v1/sessions/{session.id}")[0] == 200
    waited = time.monotonic() - begun
    session.snapshot()
    (told,) = answers_of(running)
    print(told, f"others waited {waited:.2f} s; {peak(daemon) >> 20} MiB")
    assert told["connections"] == 128 and told["answers"]["413"] >= 64, told
    assert peak(daemon) < MOST, peak(daemon)
    ends_in_a_flood(user, daemon, "bodies")
    assert session.kernel.value("n") == 41


def test_requests_as_fast_as_they_can_be_sent(session, daemon, user):
    running = flood(user, daemon, "requests", SECONDS, count=4)
    session.snapshot()
    told = answers_of(running)
    print(f"{sum(one['answered'] / one['seconds'] for one in told):.0f} requests a second; {peak(daemon) >> 20} MiB")
    assert all(one["answered"] >= 100 for one in told), told
    assert peak(daemon) < MOST, peak(daemon)
    ends_in_a_flood(user, daemon, "requests", 4)
    assert session.connect().value("n") == 41


@pytest.fixture
def small_disk(record, user):
    """A file system of the user's own that is soon full."""
    place = record.base / f"disk{os.urandom(2).hex()}"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=420m,mode=700,uid={user.uid},gid={user.gid}", "small", place], check=True)
    yield place
    leftovers.delete(place)


@pytest.fixture
def on_small_disk(small_disk, make_daemon, user):
    daemon = make_daemon(environment={"INFINIJUP_STATE": str(small_disk / "state")}, user=user)
    daemon.state = small_disk / "state"
    return Commands(daemon, user)


def fill(user, place):
    """Until not one byte more goes in."""
    answer = user.run(["sh", "-c", 'cat /dev/zero >"$0/filler"', place], check=False)
    assert "No space left" in answer.err, answer.err
    assert os.statvfs(place).f_bavail == 0


def test_a_full_disk_costs_no_session(on_small_disk, small_disk, user, make_user):
    commands = on_small_disk
    first, second = commands.kernel("first"), commands.kernel("second")
    first.kernel.run("data = bytes(range(256)) * 1000; n = 1")
    second.kernel.run("n = 2")
    kept = first.snapshot()["commit"]
    first.kernel.run("n = 11")
    fill(user, small_disk)

    answer = commands.run("snapshot", "second", check=False)
    assert answer.code == 0 or answer.error["code"], answer.err
    assert second.kernel.value("n") == 2
    fill(user, small_disk)
    first.suspend()
    assert first.state == "suspended"
    second.stop()
    assert second.state == "ended"
    # The images went into memory, and the name there is no secret: somebody else may have it now.
    commands.daemon.stop()
    (in_memory,) = Path("/dev/shm").glob(f"infinijup-{user.uid}-*")
    leftovers.delete(in_memory)
    make_user().run(["mkdir", "-m", "777", in_memory])
    # A daemon that starts now finds everything as it was.
    commands.daemon.start()
    assert (first.state, second.state) == ("suspended", "ended")

    user.run(["rm", small_disk / "filler"])
    first.resume()
    first.kernel.ready()
    assert first.kernel.value("(n, len(data))") == (11, 256_000)
    first.rollback(kept, "--force")
    first.kernel.ready()
    assert first.kernel.value("n") == 1
    assert not list(in_memory.iterdir())
    in_memory.rmdir()
