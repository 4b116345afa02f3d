"""Two users of one machine, each with a daemon of their own: neither reaches anything that is the other's."""

import socket
import stat
import subprocess
from pathlib import Path

import pytest

from harness import proc
from harness.files import below
from harness.session import Commands
from harness.users import PYTHON

IDLE = """
import socket, sys, time
held = []
for _ in range(int(sys.argv[2])):
    try:
        held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5))
    except OSError:
        pass
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def alice(make_user, daemon):
    commands = Commands(daemon, daemon.user)
    session = commands.kernel("secret", cwd=commands.user.mkdir(commands.user.home / "work"))
    session.kernel.run("secret = 'correct horse'; f = open('secret.txt', 'w'); f.write('battery staple'); f.flush()")
    return session


@pytest.fixture
def bob(make_user, make_daemon, alice):
    """A user with a daemon of their own."""
    user = make_user()
    assert user.uid != alice.commands.user.uid
    return Commands(make_daemon(user=user), user)


def unharmed(alice):
    assert alice.kernel.value("secret") == "correct horse"
    assert alice.state == "running"


def test_the_socket_is_closed_to_others(alice, bob, daemon):
    theirs = Commands(daemon, bob.user)
    for words in (["ps"], ["stop", alice.name], ["exec", alice.name, "--", "id"], ["run", "--name", "x", "--", "id"]):
        assert theirs.fails(*words)["code"] == "IJ-C030", words
    # Were the directory open, the daemon would still not listen.
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (daemon.run.parent, daemon.run, daemon.socket)}
    try:
        daemon.run.chmod(0o755)
        daemon.socket.chmod(0o666)
        answer = bob.user.run(["curl", "--silent", "--unix-socket", daemon.socket, "http://localhost/v1/sessions"], check=False)
        assert answer.code != 0 and alice.id not in answer.out
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert bob.sessions() == {}
    unharmed(alice)


def test_files_are_closed(alice, bob, daemon):
    alice.snapshot()
    for base in (daemon.state, daemon.run):
        for path, facts in [(base, base.lstat()), *below(base)]:
            if not stat.S_ISLNK(facts.st_mode):
                assert not facts.st_mode & 0o022, f"others may write {path}"
    found = bob.user.run(["find", daemon.state, daemon.run, "-readable", "-o", "-writable"], check=False).out.split()
    assert not found, f"another user reaches {found}"
    connection = Path(alice.view()["kernel"]["connection_file"])
    assert connection.owner() == alice.commands.user.name and stat.S_IMODE(connection.stat().st_mode) == 0o600


def test_processes_are_out_of_reach(alice, bob, daemon):
    ours = {pid for pid in proc.pids() if proc.status(pid, "Uid").split()[:1] == [str(alice.commands.user.uid)]}
    assert daemon.pid in ours and alice.pid in ours and len(ours) >= 5
    for pid in ours:
        assert proc.status(pid, "Uid").split() == [str(alice.commands.user.uid)] * 4
        script = f"kill -9 {pid} || prlimit --pid {pid} --fsize=0 || cat /proc/{pid}/environ || cat /proc/{pid}/mem || nsenter -t {pid} -U -m true"
        assert bob.user.run(["sh", "-c", script], check=False).code != 0, pid
    unharmed(alice)


def test_nobody_is_root_or_has_a_capability_outside(alice, daemon):
    """Of all that belongs to the daemon: helpers in a box have capabilities, but only of its user namespace."""
    alice.snapshot()
    own = proc.link("self", "ns/user")
    for pid in proc.pids():
        if proc.status(pid, "Uid").split()[:1] == [str(alice.commands.user.uid)] and proc.link(pid, "ns/user") == own:
            assert int(proc.status(pid, "CapEff") or "0", 16) == 0 == int(proc.status(pid, "CapPrm") or "0", 16), pid
    for pid in proc.tree(alice.pid):
        assert int(proc.status(pid, "CapEff"), 16) == 0 and proc.status(pid, "NoNewPrivs") == "1"


def test_the_ports_of_a_kernel_are_its_users(alice, bob):
    ports = [value for key, value in alice.kernel.connection.items() if key.endswith("_port")]
    listen = "import socket,sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=10)\ns.sendall(b'x')\nprint(len(s.recv(1)))"
    for port in ports:
        # ZeroMQ greets whoever connects. A stranger hears nothing.
        answer = bob.user.python(listen, str(port), check=False)
        assert answer.code != 0 or answer.out == "0\n", answer.out
        with socket.create_connection(("127.0.0.1", port), timeout=10) as root:
            assert root.recv(1) == b"\xff"
    unharmed(alice)


def test_idle_connections_of_a_stranger_lock_nobody_out(alice, bob):
    port = alice.kernel.connection["shell_port"]
    words = bob.user.words([PYTHON, "-c", IDLE, str(port), "1100"])
    idle = subprocess.Popen(["prlimit", "--nofile=4096", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert idle.stdout.readline() == "ready\n"
        alice.connect()
        unharmed(alice)
    finally:
        idle.kill()
        idle.wait()


def test_from_inside_of_a_session_neither(alice, bob):
    """A session sees the machine's files with its user's rights, no more."""
    session = bob.kernel("mine")
    home = alice.commands.user.home
    session.kernel.run(
        f"import os\ntry:\n    os.listdir({str(home)!r}); entered = True\nexcept PermissionError:\n    entered = False"
    )
    assert session.kernel.value("entered") is False
    assert session.kernel.value("len([p for p in os.listdir('/proc') if p.isdigit()])") < 10
    answer = session.execute("sh", "-c", "mount -t tmpfs x /mnt || su root -c id", check=False)
    assert answer.code != 0
    unharmed(alice)
