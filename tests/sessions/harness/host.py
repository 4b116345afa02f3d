"""Another machine, as far as a test can have one: a network and a table of mounts of its own, with homes that are empty."""

import ast
import ctypes
import os
import socket
import subprocess
import threading
from pathlib import Path

from harness.users import PYTHON, User

CLONE_NEWNET = 0x40000000
CLIENT = """
import sys
from harness.kernel import Kernel
kernel = Kernel(sys.argv[1])
kernel.ready(60)
kernel.run(sys.argv[2])
print(repr(kernel.value(sys.argv[3])))
"""


class Host:
    """Namespaces that live until it is closed. `mounts` are commands of the shell that make it different from others."""

    def __init__(self, *mounts):
        script = "\n".join(
            [
                "set -e",
                "ip link set lo up",
                *mounts,
                "echo ready",
                "exec sleep infinity",
            ]
        )
        words = [
            "unshare",
            "--mount",
            "--net",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
        ]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "ready\n", "the namespaces of a host could not be made"

    def words(self, words):
        """A command line that runs there."""
        return [
            "nsenter",
            f"--target={self.process.pid}",
            "--mount",
            "--net",
            "--",
            *words,
        ]

    def user(self, user):
        """The same user, with a home of its own there."""
        return HostUser(self, user)

    def listener(self):
        """A socket that listens on that machine's loopback, for somebody out here: the cable between the two."""
        made = []

        def listen():
            # A thread has a network of its own, and so has a socket: the one where it was made.
            with open(f"/proc/{self.process.pid}/ns/net", encoding="ascii") as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            made.append(socket.create_server(("127.0.0.1", 0)))

        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()
        return made[0]

    def value(self, session, expression, first=""):
        """Runs a cell in a kernel there, and gives the value of an expression after it."""
        connection = session.view()["kernel"]["connection_file"]
        words = self.words([PYTHON, "-c", CLIENT, connection, first, expression])
        environment = {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "PATH": "/usr/bin:/bin",
            "HOME": "/root",
        }
        done = subprocess.run(
            words,
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return ast.literal_eval(done.stdout)

    def close(self):
        """The machine is gone; what runs there must have ended before."""
        self.process.kill()
        self.process.wait()


class HostUser(User):
    """A user of such a machine."""

    def __init__(self, host, user):
        super().__init__(user.name)
        self.host = host
        subprocess.run(
            host.words(
                [
                    "mount",
                    "-t",
                    "tmpfs",
                    "-o",
                    f"mode=700,uid={self.uid},gid={self.gid}",
                    "home",
                    str(self.home),
                ]
            ),
            check=True,
        )
        self.write_kernelspec()

    def words(self, words, *options):
        """As there."""
        return self.host.words(super().words(words, *options))

    def run(self, words, cwd=None, **more):
        """In a directory of that machine."""
        return super().run(["env", "-C", str(cwd or self.home), *words], cwd="/", **more)
