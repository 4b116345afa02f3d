"""A second command of a session is snapshotted and restored with it."""

import sys

from harness.proc import until

# Counts what it is sent on a socket inside of the session.
SIDECAR = """
import socket
server = socket.create_server(('127.0.0.1', 7777))
total = 0
while True:
    client, _ = server.accept()
    total += int(client.recv(100) or 0)
    client.sendall(str(total).encode())
    client.close()
"""
ASK = "import socket; s = socket.create_connection(('127.0.0.1', 7777)); s.sendall(b'%d'); answer = int(s.recv(100)); s.close()"


def ask(session, number):
    session.kernel.run(ASK % number)
    return session.kernel.value("answer")


def test_a_sidecar_goes_with_its_kernel(commands, user):
    script = user.write(user.home / "sidecar.py", SIDECAR)
    session = commands.kernel("pair", options=["--sidecar", f"{sys.executable} {script}"])
    until("the sidecar listens", lambda: b"1E61" in open(f"/proc/{session.pid}/net/tcp", "rb").read())
    assert ask(session, 5) == 5
    taken = session.snapshot()
    assert ask(session, 100) == 105
    session.rollback(taken["commit"])
    session.kernel.ready()
    assert ask(session, 1) == 6
    branch, _ = session.branch("other")
    branch.connect()
    assert ask(branch, 10) == 16
    assert ask(session, 1) == 7
    session.suspend()
    session.resume()
    session.kernel.ready()
    assert ask(session, 0) == 7
