"""Crafted names and requests, and stores of another installation. Crafted images are tested in `lifecycle`, beside the checks."""

import shutil
import socket
import subprocess

import pytest

from harness import proc
from harness.session import Commands
from harness.wire import connect

NAMES = ["../x", "..", ".", "", "a/b", "/etc/passwd", "a\nb", "\x1b[31m", "a" * 4096, "-rf", "~", "a b", "%2e%2e%2f", "‮", "a\\..\\b"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_names(module_commands, name):
    daemon, user = module_commands.daemon, module_commands.user
    body = {"name": name, "start": {"type": "command", "argv": ["sleep", "1000"]}, "cwd": "/"}
    before = sorted(daemon.state.rglob("*"))
    status, answer = user.request(daemon, "POST", "/v1/sessions?wait=true", body)
    assert 400 <= status < 500, f"{name!r} was taken for a name: {answer}"
    assert user.request(daemon, "GET", "/v1/sessions") == [200, {"sessions": []}]
    made = [path for path in daemon.state.rglob("*") if path not in before and "session" in str(path)]
    assert not [path for path in made if path.parent.name == "sessions"], made


def test_ids_are_not_paths(daemon, user, commands):
    commands.start("own", "sleep", "1000")
    for which in ("..%2F..%2Fetc", "%2e%2e", "own%00", "own%2F..%2Fown", "a" * 4096, "%FF%FE", "*", "own;id"):
        for method, verb in (("GET", ""), ("GET", "/log"), ("POST", "/stop")):
            status, answer = user.request(daemon, method, f"/v1/sessions/{which}{verb}", {} if method == "POST" else None)
            assert status in (400, 404, 405, 414), f"{which}{verb}: {status} {answer}"
    assert commands.sessions()["own"]["state"] == "running"


def test_directories_of_others_are_no_workspace(daemon, user, make_user):
    other = make_user()
    link = user.home / "link"
    user.run(["ln", "-s", other.home, link])
    for where in (other.home, link, "/root", "/nonexistent", "relative", "/proc/1/root"):
        for field in ("cwd", "workspace"):
            body = {"name": "x", "start": {"type": "command", "argv": ["pwd"]}, "cwd": str(user.home), field: str(where)}
            status, answer = user.request(daemon, "POST", "/v1/sessions?wait=true", body)
            assert status >= 400, f"{field}={where} was accepted: {answer}"
    assert other.run(["ls", "-A", other.home]).code == 0


def test_garbage_on_the_socket(module_commands):
    daemon, user = module_commands.daemon, module_commands.user
    for garbage in (b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n", b"POST /v1/sessions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{", b"{}" * 1000):
        with connect(daemon.socket, 5) as client:
            client.sendall(garbage)
            client.shutdown(socket.SHUT_WR)
            try:
                client.recv(4096)
            except OSError:
                pass
    for body in ([], {"start": 5}, {"unknown": True}, "x"):
        assert user.request(daemon, "POST", "/v1/sessions", body)[0] in (400, 422)
    assert user.request(daemon, "POST", "/v1/sessions/x/rollback", {"to": "../" * 1000})[0] in (400, 404)
    assert daemon.answers()


def carry_store(first, second, user):
    """Puts the store of one installation into the place of another's."""
    second.stop()
    target = second.state / "store"
    shutil.rmtree(target)
    shutil.copytree(first.state / "store", target)
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", target], check=True)
    second.start()


def test_a_snapshot_of_another_installation_is_refused(make_daemon, user):
    """The store's files, carried over as they are, carry no trust. Their owner may have it all the same, by saying so."""
    first, second = make_daemon(), make_daemon()
    taken = Commands(first, user).start("theirs", "sleep", "1000").snapshot()["commit"]
    mine = Commands(second, user)
    session = mine.start("mine", "sleep", "2000")
    carry_store(first, second, user)
    assert mine.fails("branch", "mine", "--from", taken, "--name", "x")["code"] == "IJ-L051"
    assert mine.fails("rollback", "mine", taken)["code"]
    assert "2000" in session.execute("ps", "-e", "-o", "args=").one("exec_result")["stdout"]
    session.rollback(taken, "--force")
    assert "sleep 1000" in session.execute("ps", "-e", "-o", "args=").one("exec_result")["stdout"]


def test_roots_own_daemon_refuses_it_even_by_force(make_daemon, root):
    first = make_daemon(user=root.user)
    taken = Commands(first, root.user).start("theirs", "sleep", "1000").snapshot()["commit"]
    root.start("mine", "sleep", "2000")
    carry_store(first, root.daemon, root.user)
    assert root.fails("rollback", "mine", taken, "--force")["code"] == "IJ-L051"
    assert root.sessions()["mine"]["state"] == "running"


def test_what_somebody_trusts_is_theirs(make_daemon, root, tmp_path):
    """By name, each snapshot by itself: root's daemon then restores it, and no other of the same installation."""
    first = make_daemon(user=root.user)
    # A branch has a copy of its directory.
    theirs = Commands(first, root.user).start("theirs", "sleep", "1000", cwd=tmp_path)
    taken, other = (theirs.snapshot()["commit"] for _ in range(2))
    root.start("mine", "sleep", "2000")
    carry_store(first, root.daemon, root.user)
    assert root.fails("trust", "nothing-like-it")["code"] == "IJ-L061"
    assert root.run("trust", taken).one("trusted")["commit"] == taken
    made = root.run("branch", taken, "--name", "trusted").one("branched")["branches"][0]
    assert made["session"]["state"] == "running"
    assert root.fails("branch", other, "--name", "another")["code"] == "IJ-L051"


def test_a_session_sees_neither_devices_nor_sockets_of_the_machine(commands, daemon):
    session = commands.kernel("k")
    session.kernel.run(
        "import os\ndef opens(p):\n    try:\n        os.close(os.open(p, os.O_RDONLY)); return True\n    except OSError:\n        return False"
    )
    for path in ("/proc/1/root/root", "/dev/mem", "/dev/kmsg", "/dev/vda", daemon.socket, "/run/systemd"):
        assert session.kernel.value(f"opens({str(path)!r})") is False, path
    assert proc.stat(daemon.pid)
