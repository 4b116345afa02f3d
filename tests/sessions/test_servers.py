"""Servers that a session runs, and services of the machine that it reaches: across its own network, for its own user only."""

import contextlib
import http.client
import http.server
import random
import socket
import threading
from pathlib import Path

import pytest

from harness import proc

SERVER = """
import http.server, threading
who = "original"
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"page of {who} at {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8050), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""
ASK = """
import http.client, sys
one = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
try:
    one.request("GET", "/x")
    print(one.getresponse().read().decode())
except (OSError, http.client.HTTPException) as error:
    print("refused", type(error).__name__)
"""
# Whatever is sent first: ZeroMQ greets whoever connects.
LISTEN = """
import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10) as one:
        one.sendall(b"x")
        print(len(one.recv(1)))
except OSError:
    print("closed")
"""
REACH = """
import http.client
def reach(port):
    try:
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        one.request("GET", "/")
        return one.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
"""


def servers(session):
    """As the user sees them: ports outside by ports inside."""
    answer = session.commands.run("servers", session.name).one("servers")
    assert answer["session"] == session.name
    return {server["port"]: server["outside_port"] for server in answer["servers"]}


def page(port):
    one = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    one.request("GET", "/x")
    return one.getresponse().read().decode()


def is_closed(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def whose(address):
    """The uid of the socket at this address of the machine's loopback."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == f"0100007F:{address[1]:04X}":
            return fields[7]
    return "nobody"


@contextlib.contextmanager
def service(answer):
    """A database, a model server: something on the machine's loopback. The ports of those are not the system's own choice."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = answer(self.client_address) if callable(answer) else answer
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words):
            pass

    while True:
        try:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", random.randrange(20000, 30000)), Page)
            break
        except OSError:
            continue
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def serving(commands):
    session = commands.kernel("original")
    assert servers(session) == {}, "the kernel's own ports are no servers"
    session.kernel.run(SERVER)
    return session


def test_original_and_two_branches_answer_at_a_time(serving, make_user):
    everybody = [serving]
    for name in ("one", "two"):
        branch, _ = serving.branch(name)
        branch.connect()
        branch.kernel.run(f"who = {name!r}")
        everybody.append(branch)
    ports = {}
    for session in everybody:
        found = servers(session)
        assert list(found) == [8050], found
        ports[session.name] = found[8050]
    assert len(set(ports.values())) == 3
    for name, port in ports.items():
        assert page(port) == f"page of {name} at /x"
        assert serving.commands.user.python(ASK, str(port)).out == f"page of {name} at /x\n"

    # Another user of the machine gets nothing out of any of them, nor of the kernels' own ports.
    other = make_user()
    assert other.uid != serving.commands.user.uid
    for port in ports.values():
        assert other.python(ASK, str(port)).out.startswith("refused"), port
    for session in everybody:
        for key, port in session.kernel.connection.items():
            if key.endswith("_port"):
                assert other.python(LISTEN, str(port)).out in ("0\n", "closed\n"), key
    assert [page(port) for port in ports.values()] == [f"page of {name} at /x" for name in ports]


def test_a_server_has_its_port_again_after_a_rollback_and_a_sleep(serving):
    (port,) = servers(serving).values()
    taken = serving.snapshot()["commit"]
    serving.kernel.run("who = 'later'")
    assert page(port) == "page of later at /x"
    serving.rollback(taken)
    serving.kernel.ready()
    assert servers(serving) == {8050: port}
    assert page(port) == "page of original at /x"
    serving.suspend()
    assert servers(serving) == {}
    assert is_closed(port)
    serving.resume()
    serving.kernel.ready()
    assert servers(serving) == {8050: port}
    assert page(port) == "page of original at /x"


def test_a_port_ends_with_its_server_and_with_its_session(serving):
    (port,) = servers(serving).values()
    serving.kernel.run("other = http.server.HTTPServer(('0.0.0.0', 8051), Page)")
    both = servers(serving)
    assert both[8050] == port and set(both) == {8050, 8051}
    serving.kernel.run("other.server_close()")
    assert servers(serving) == {8050: port}
    assert is_closed(both[8051])
    serving.kernel.close()
    serving.stop()
    proc.until("the port is closed", lambda: is_closed(port))


def test_a_port_stays_when_the_daemon_is_restarted(serving, daemon):
    (port,) = servers(serving).values()
    daemon.restart()
    assert page(port) == "page of original at /x"
    assert servers(serving) == {8050: port}


def test_services_of_the_machine_are_reached_at_their_own_address(commands):
    with service("a database") as port, service("another") as other:
        closed = commands.kernel("closed")
        closed.kernel.run(REACH)
        assert closed.kernel.value(f"reach({port})") == "ConnectionRefusedError"
        session = commands.kernel("open", options=["--outside"])
        session.kernel.run(REACH)
        assert session.kernel.value(f"reach({port})") == "a database"
        assert session.kernel.value(f"reach({other})") == "another"
        # A connection that is open at the snapshot is closed after it, as every one to outside.
        session.kernel.run(f"import socket\nheld = socket.create_connection(('127.0.0.1', {port}), timeout=5)")
        taken = session.snapshot()["commit"]
        session.rollback(taken)
        session.kernel.ready()
        assert session.kernel.value(f"reach({port})") == "a database"
        session.kernel.run(
            "try:\n    held.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); heard = held.recv(10)\nexcept OSError as error:\n    heard = b''"
        )
        assert session.kernel.value("heard") == b""
        branch, _ = session.branch("branch")
        branch.connect()
        assert branch.kernel.value(f"reach({port})") == "a database"
        assert servers(session) == {} == servers(branch), "what is the machine's is no server of theirs"
        session.suspend()
        session.resume()
        session.kernel.ready()
        assert session.kernel.value(f"reach({port})") == "a database"
    proc.until("it is gone inside, too", lambda: session.kernel.value(f"reach({port})") == "ConnectionRefusedError")


def test_a_session_keeps_a_port_that_the_machine_takes_later(commands):
    with service("nobody's") as port:
        pass
    session = commands.kernel("k", options=["--outside"])
    session.kernel.run(SERVER.replace("8050", str(port)) + REACH)
    taken = session.snapshot()["commit"]
    blocker = http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.BaseHTTPRequestHandler)
    try:
        threading.Event().wait(2.5)
        assert session.kernel.value(f"reach({port})") == "page of original at /"
        session.rollback(taken)
        session.kernel.ready()
        assert session.kernel.value(f"reach({port})") == "page of original at /"
        (outside,) = servers(session).values()
        assert page(outside) == "page of original at /x"
    finally:
        blocker.server_close()


def test_a_service_sees_a_connection_of_the_sessions_user(commands):
    """So one that asks whose connection it is, as the ports of other users' kernels and servers do, hears the truth."""
    with service(whose) as port:
        session = commands.kernel("k", options=["--outside"])
        session.kernel.run(REACH)
        assert session.kernel.value(f"reach({port})") == str(commands.user.uid)
