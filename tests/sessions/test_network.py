"""How clients get in and sessions get out."""

import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from harness import proc


def test_a_private_session_is_reached_on_loopback_only(commands):
    session = commands.kernel("k")
    assert session.kernel.connection["ip"] == "127.0.0.1"
    assert proc.namespaces_of(session.pid)["net"] != proc.namespaces_of("self")["net"]
    ports = {value for key, value in session.kernel.connection.items() if key.endswith("_port")}
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    for port in ports:
        owners = [line.split()[3] for line in listening.splitlines() if line.split()[3].endswith(f":{port}")]
        assert owners == [f"127.0.0.1:{port}"], listening


def test_two_private_sessions_may_use_the_same_port(commands):
    sessions = [commands.kernel(name) for name in ("a", "b")]
    for session in sessions:
        session.kernel.run("import socket; server = socket.create_server(('127.0.0.1', 8000))")


def test_a_private_session_cannot_reach_the_host(commands):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        session = commands.kernel("k")
        session.kernel.run(
            f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), timeout=3); reached = True\n"
            "except OSError:\n    reached = False"
        )
        assert session.kernel.value("reached") is False


def test_host_network(commands):
    session = commands.kernel("k", options=["--network", "host"])
    assert proc.namespaces_of(session.pid)["net"] == proc.namespaces_of("self")["net"]
    session.kernel.run("x = 1")
    taken = session.snapshot()
    session.kernel.run("x = 2")
    session.rollback(taken["commit"])
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    # The ports are the original's: a branch beside it cannot have them.
    assert commands.fails("branch", "k", "--name", "b")["code"]
    assert session.kernel.value("x") == 1


@pytest.fixture
def other_namespace(record):
    """A network namespace joined to ours by a cable, with a server in it: what is `outside` for a session."""
    name, near, far = record.name[-10:], "10.231.77.1", "10.231.77.2"
    cable = f"v{record.name[-6:]}"

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    ip("netns", "add", name)
    try:
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("address", "add", f"{near}/24", "dev", cable)
        ip("link", "set", cable, "up")
        ip("-n", name, "address", "add", f"{far}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        code = (
            "import socket\ns = socket.create_server(('0.0.0.0', 7070))\nprint('ready', flush=True)\n"
            "while True:\n    c, a = s.accept(); c.sendall(b'from outside'); c.close()"
        )
        server = subprocess.Popen(["ip", "netns", "exec", name, "python3", "-c", code], stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline() == "ready\n"
        yield far
        server.kill()
        server.wait()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False)


@pytest.fixture
def tun():
    """The node that pasta needs, open to everybody, as every distribution has it; a bare machine may not."""
    node = Path("/dev/net/tun")
    mode = stat.S_IMODE(node.stat().st_mode)
    node.chmod(0o666)
    yield
    node.chmod(mode)


FETCH = """
import socket
import stat
def fetch(address):
    try:
        with socket.create_connection((address, 7070), timeout=5) as s:
            return s.recv(100)
    except OSError as e:
        return str(e)
"""


def test_the_way_out_leads_out_also_after_a_restore(commands, other_namespace, tun):
    assert shutil.which("pasta"), "pasta is missing (package passt)"
    closed = commands.kernel("closed")
    closed.kernel.run(FETCH)
    assert closed.kernel.value(f"fetch({other_namespace!r})") != b"from outside"
    session = commands.kernel("open", options=["--outside"])
    session.kernel.run(FETCH)
    reaches = lambda who: who.kernel.value(f"fetch({other_namespace!r})") == b"from outside"  # noqa: E731
    proc.until("the session reaches a server outside", lambda: reaches(session))
    taken = session.snapshot()
    session.rollback(taken["commit"])
    session.kernel.ready()
    proc.until("it does so after a rollback", lambda: reaches(session))
    branch, _ = session.branch("other")
    branch.connect()
    proc.until("a branch does so too", lambda: reaches(branch))
    session.suspend()
    session.resume()
    session.kernel.ready()
    proc.until("and after its sleep", lambda: reaches(session))


def test_a_way_out_that_cannot_be_opened_costs_no_session(make_daemon, user, tun):
    """As on a laptop without a network, where pasta finds no route."""
    from harness.session import Commands

    tried = user.home / "tried"
    user.mkdir(user.home / "bin")
    pasta = user.write(user.home / "bin/pasta", f"#!/bin/sh\necho once >>{tried}\necho 'No routable interface' >&2\nexit 1\n")
    user.run(["chmod", "755", pasta])
    commands = Commands(make_daemon({"PATH": f"{user.home}/bin:/usr/bin:/bin"}), user)
    session = commands.kernel("k", options=["--outside"])
    session.kernel.run("x = 1")
    taken = session.snapshot()["commit"]
    session.kernel.run("x = 2")
    session.rollback(taken)
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    session.suspend()
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    assert tried.read_text().count("once") == 3, "a start, a rollback and a resume"


def test_many_clients_at_once(commands):
    session = commands.kernel("k")
    session.kernel.run("x = 0")
    from harness.kernel import Kernel

    answers = []

    def ask(number):
        kernel = Kernel(session.view()["kernel"]["connection_file"]).ready()
        answers.append(kernel.value(f"x + {number}"))
        kernel.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers) == list(range(8))
