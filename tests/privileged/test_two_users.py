"""Two users of one machine: neither can list, read, restore, signal or mount what is the other's."""

import os
import stat
from pathlib import Path

import pytest

from harness import proc
from harness.session import Commands


@pytest.fixture
def alice(make_user, daemon):
    commands = Commands(daemon, make_user())
    session = commands.kernel("secret", cwd=commands.user.mkdir(commands.user.home / "work"))
    session.kernel.run("secret = 'correct horse'; f = open('secret.txt', 'w'); f.write('battery staple'); f.flush()")
    return session


@pytest.fixture
def bob(make_user, daemon):
    return Commands(daemon, make_user())


def unharmed(alice):
    assert alice.kernel.value("secret") == "correct horse"
    assert alice.state == "running"


def test_the_command_knows_nothing_of_the_others(alice, bob):
    taken = alice.snapshot()["commit"]
    assert bob.sessions() == {}
    for which in (alice.name, alice.id, alice.id[:8]):
        for words in (
            ["snapshot", which], ["rollback", which, taken], ["branch", which, "--name", "mine"], ["suspend", which],
            ["resume", which], ["stop", which], ["rm", which], ["logs", which], ["exec", which, "--", "id"], ["history", which],
        ):
            error = bob.fails(*words)
            assert error["exit"] == 15, f"{words}: not refused as unknown: {error}"
            assert alice.commands.user.name not in str(error)
    assert bob.fails("diff", taken, taken)["exit"] in (10, 15)
    own = bob.start("own", "sleep", "1000")
    # By its id alone a snapshot of somebody else is not there.
    assert bob.fails("rollback", "own", taken)["exit"] == 15
    assert bob.fails("branch", "own", "--from", taken, "--name", "x")["exit"] == 15
    assert own.state == "running"
    unharmed(alice)


def test_the_socket_knows_no_more(alice, bob, daemon):
    taken = alice.snapshot()["commit"]
    user = bob.user
    assert user.request(daemon, "GET", "/v1/sessions") == [200, {"sessions": []}]
    path = f"/v1/sessions/{alice.id}"
    asked = [("GET", path, None), ("GET", f"{path}/log", None), ("GET", f"{path}/history", None), ("DELETE", path, None)]
    asked += [("POST", f"{path}/{verb}", {}) for verb in ("snapshot", "branch", "suspend", "resume", "stop")]
    asked += [("POST", f"{path}/rollback", {"to": taken}), ("POST", f"{path}/exec", {"argv": ["id"]})]
    asked += [("GET", f"/v1/diff?a={taken}&b={taken}", None)]
    for method, target, body in asked:
        status, answer = user.request(daemon, method, target + ("&" if "?" in target else "?") + "wait=true", body)
        assert status == 404, f"{method} {target}: {status} {answer}"
    status, jobs = user.request(daemon, "GET", "/v1/jobs")
    assert status == 200 and alice.id not in str(jobs)
    job = alice.commands.user.request(daemon, "POST", f"{path}/snapshot?wait=true", {})[1]
    assert user.request(daemon, "GET", f"/v1/jobs/{job['id']}")[0] == 404
    unharmed(alice)


def test_files_of_the_store_are_closed(alice, bob, daemon):
    alice.snapshot()
    for base in (daemon.state, daemon.run):
        for path in [base, *base.rglob("*")]:
            facts = path.lstat()
            if path == daemon.socket or stat.S_ISLNK(facts.st_mode):
                continue
            if stat.S_ISDIR(facts.st_mode):
                continue
            assert not facts.st_mode & 0o002, f"everybody may write {path}"
    reads = bob.user.run(["find", daemon.state, daemon.run, "-type", "f", "-readable"], check=False).out.split()
    assert not reads, f"another user may read {reads}"
    writes = bob.user.run(["find", daemon.state, daemon.run, "-writable", "!", "-type", "l", "!", "-type", "s"], check=False).out.split()
    assert not writes, f"another user may write {writes}"
    connection = Path(alice.view()["kernel"]["connection_file"])
    assert connection.owner() == alice.commands.user.name and stat.S_IMODE(connection.stat().st_mode) == 0o600
    assert bob.user.run(["cat", connection], check=False).code != 0


def test_processes_are_out_of_reach(alice, bob):
    for pid in proc.tree(alice.pid):
        assert proc.status(pid, "Uid").split() == [str(alice.commands.user.uid)] * 4
        assert bob.user.run(["sh", "-c", f"kill -9 {pid}"], check=False).code != 0
        assert bob.user.run(["sh", "-c", f"cat /proc/{pid}/environ /proc/{pid}/mem"], check=False).code != 0
        assert bob.user.run(["nsenter", "-t", str(pid), "-m", "true"], check=False).code != 0
    unharmed(alice)


def test_from_inside_of_a_session_neither(alice, bob):
    """A session sees the machine's files with its user's rights, no more."""
    session = bob.kernel("mine")
    home = alice.commands.user.home
    session.kernel.run(
        f"import os\ntry:\n    os.listdir({str(home)!r}); entered = True\nexcept PermissionError:\n    entered = False"
    )
    assert session.kernel.value("entered") is False
    assert session.kernel.value("len([p for p in os.listdir('/proc') if p.isdigit()])") < 10
    answer = session.execute("sh", "-c", "mount -t tmpfs x /mnt || unshare -m true || su root -c id", check=False)
    assert answer.code != 0
    unharmed(alice)


def test_root_may_everything(alice, root):
    assert alice.name in root.sessions()
    root.run("snapshot", alice.id)
    unharmed(alice)
    assert os.getuid() == 0
