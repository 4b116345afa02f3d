"""Containers in a network of podman's, which is what they have if nobody asks for another: others reach them at an address of their own."""

import pytest

from harness import proc
from harness.host import Host
from harness.session import Commands
from harness.users import User
from runtimes import programs
from runtimes.fixtures import emptied
from runtimes.saved import Saved

PORT = 7070
ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
    print(connection.makefile().readline())
"""


class Machine:
    """One with a network of its own, in which podman's bridge and its rules can be, and podman on it."""

    def __init__(self, runtimes):
        self.host = Host()
        self.podman = runtimes.make("podman", self.host)
        self.root = self.host.user(User("root"))
        # Root's own daemon on it, of the test that runs.
        self.commands = None

    def server(self, *addresses, options=()):
        """A container that listens at these."""
        words = ["/usr/bin/python3", "/app/server.py", *addresses, str(PORT)]
        name = self.podman.new_name("server")
        return self.podman.run(name, words, options=["--network", "bridge", *options])

    def address(self, name):
        """What podman says that a container has."""
        return self.podman.inspect(name)["NetworkSettings"]["Networks"]["podman"]["IPAddress"]

    def ask(self, address, port=PORT):
        """How many have come so far, as the server there says."""

        def said():
            words = self.host.words(["python3", "-c", ASK, address, str(port)])
            done = programs.run(*words, check=False)
            return done.returncode == 0 and int(done.stdout)

        return proc.until(f"{address} answers", said, seconds=20)

    def close(self):
        self.podman.close()
        self.host.close()


@pytest.fixture(scope="module")
def machine_of_all(runtimes):
    made = Machine(runtimes)
    yield made
    made.close()


@pytest.fixture
def machine(machine_of_all, make_daemon):
    environment = machine_of_all.podman.env()
    del environment["INFINIJUP_RUN"]
    machine_of_all.commands = Commands(make_daemon(environment, user=machine_of_all.root), machine_of_all.root, {})
    for _ in emptied(machine_of_all.podman):
        yield machine_of_all


def test_one_that_slept_is_found_where_it_was(machine, shown):
    running = machine.server("own", "127.0.0.1", options=["--publish", f"127.0.0.1:8070:{PORT}"])
    address = machine.address(running.name)
    assert [machine.ask(address), machine.ask("127.0.0.1", 8070)] == [1, 2]
    saved = Saved(machine.commands, running)
    saved.snapshot("--tag", "early")
    assert machine.ask(address) == 3
    saved.suspend()
    # Somebody else comes meanwhile, who would be given what is free.
    other = machine.server("0.0.0.0")
    assert machine.address(other.name) != address
    saved.resume()
    # It could not listen there if the address were another one.
    assert machine.address(running.name) == address
    assert [machine.ask(address), machine.ask("127.0.0.1", 8070)] == [4, 5]
    machine.commands.run("rollback", *saved.words, "early")
    assert machine.address(running.name) == address and machine.ask(address) == 3
    assert machine.ask(machine.address(other.name)) == 1
    shown(machine.podman, "in podman's network")


def test_two_beside_each_other_have_their_own_addresses(machine):
    running = machine.server("0.0.0.0")
    address = machine.address(running.name)
    assert [machine.ask(address) for _ in range(2)] == [1, 2]
    saved = Saved(machine.commands, running)
    told = machine.commands.run("branch", *saved.words, "--name", "idea").one("branched")["branches"][0]
    second = f"idea-{told['session']['id']}"
    other = machine.address(second)
    assert other and other != address
    assert machine.ask(other) == 3 and machine.ask(address) == 3
    assert machine.ask(other) == 4
    machine.commands.run("suspend", "idea")
    assert machine.ask(address) == 4
    machine.commands.run("resume", "idea")
    assert machine.address(second) == other and machine.ask(other) == 5
    machine.commands.run("stop", "--grace", "0", "idea")
    machine.commands.run("rm", "--discard-files", "idea")
    assert machine.podman.status(second) == "gone" and machine.ask(address) == 5


def test_two_cannot_have_one_port_of_the_machine(machine):
    running = machine.server("0.0.0.0", options=["--publish", f"127.0.0.1:8071:{PORT}"])
    assert machine.ask("127.0.0.1", 8071) == 1
    before = machine.podman.podman("ps", "--all", "--quiet").stdout
    error = machine.commands.fails("branch", *Saved(machine.commands, running).words)
    assert error["code"] == "IJ-O042" and "8071" in error["message"], error
    assert machine.podman.podman("ps", "--all", "--quiet").stdout == before
    assert machine.ask("127.0.0.1", 8071) == 2
