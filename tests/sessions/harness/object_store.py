"""A real S3 server on loopback, run by an ordinary user, and a proxy that counts what passes and makes the network fail."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

KEYS = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_REGION": "us-east-1",
}
BUCKET = "snapshots"


def program():
    """SeaweedFS, from the tests' own Python."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


def free_ports(count):
    """Ports that nobody has. SeaweedFS takes the one 10,000 above for itself, too.

    All are below 32,768, where Linux begins to give ports to whoever asks for any: it takes seconds until SeaweedFS has taken them.
    """
    ports = []
    while len(ports) < count:
        with socket.socket() as one, socket.socket() as other:
            port = random.randrange(11_000, 22_000)
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            ports.append(port)
    return ports


def make_bucket(shell):
    """What the shell of SeaweedFS says to that. One that began before its server may wait for ever."""
    create = f"s3.bucket.create -name {BUCKET}\n"
    try:
        made = subprocess.run(shell, input=create, capture_output=True, text=True, timeout=15)
    except subprocess.TimeoutExpired:
        return "no answer"
    return made.stdout + made.stderr


class ObjectStore:
    """SeaweedFS with one bucket. It does not listen to SIGTERM, so it is killed."""

    def __init__(self, directory, user):
        self.directory, self.user = Path(directory), user
        tries = 3
        for number in range(1, tries + 1):
            self.directory.mkdir()
            os.chown(self.directory, user.uid, user.gid)
            said = self.start()
            if said is None:
                return
            log = (self.directory / "log").read_text(errors="replace")[-4000:]
            self.close()
        raise AssertionError(f"no bucket after {tries} tries, with other ports each time: {said}\n{log}")

    def start(self):
        """What is wrong, if it has no bucket after a while."""
        master, volume, filer, self.port = free_ports(4)
        keys = {
            "accessKey": KEYS["AWS_ACCESS_KEY_ID"],
            "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"],
        }
        identity = {
            "name": "tester",
            "credentials": [keys],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        config = self.directory / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        # Its logs are for everybody to read, and go to /tmp unless it is told another place.
        words = [
            program(),
            f"-logdir={self.directory}",
            "server",
            f"-dir={self.directory}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
        ]
        words += [
            f"-master.port={master}",
            f"-volume.port={volume}",
            "-filer",
            f"-filer.port={filer}",
        ]
        words += [
            "-s3",
            f"-s3.port={self.port}",
            f"-s3.config={config}",
            # They would be at fixed ports, where a second server cannot be.
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-volume.max=20",
            "-master.volumeSizeLimitMB=128",
        ]
        self.log = (self.directory / "log").open("wb")
        self.process = subprocess.Popen(
            words,
            stdout=self.log,
            stderr=self.log,
            cwd=self.directory,
            user=self.user.uid,
            group=self.user.gid,
            env={"HOME": str(self.directory)},
        )
        shell = [
            program(),
            f"-logdir={self.directory}",
            "shell",
            f"-master=127.0.0.1:{master}",
            f"-filer=127.0.0.1:{filer}",
        ]
        deadline = time.monotonic() + 60
        while True:
            said = make_bucket(shell)
            # One that was made while the server did not listen yet is there at the next try.
            if ("created bucket" in said or "already exists" in said) and self.answers():
                return None
            if time.monotonic() > deadline or self.process.poll() is not None:
                return said
            time.sleep(0.5)

    def answers(self):
        """Whether somebody listens."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        """Ends it, with its data."""
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory)


class Proxy:
    """Passes bytes on and counts them. `cut` of so many reads end the connection before they arrive, `lose` of so many answers are lost."""

    def __init__(self, port, listener=None):
        self.target, self.cut, self.lose = port, 0.0, 0.0
        self.sent = self.received = self.cuts = self.lost = 0
        self.lock = threading.Lock()
        self.listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def address(self, prefix):
        """Of a remote that is reached through it."""
        return f"s3+http://127.0.0.1:{self.port}/{BUCKET}/{prefix}"

    def accept(self):
        """Until it is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            threading.Thread(target=self.up, args=(client, server), daemon=True).start()
            threading.Thread(target=self.down, args=(client, server), daemon=True).start()

    def up(self, client, server):
        """From the client to the server."""
        while data := read(client):
            with self.lock:
                self.sent += len(data)
                fails = random.random() < self.cut
                self.cuts += fails
            if fails or not write(server, data):
                break
        end(client, server)

    def down(self, client, server):
        """From the server to the client."""
        while data := read(server):
            with self.lock:
                self.received += len(data)
                fails = random.random() < self.lose
                self.lost += fails
            if fails or not write(client, data):
                break
        end(client, server)

    def close(self):
        """No new connections."""
        self.listener.close()


def read(side):
    """Some bytes; none if it is over."""
    try:
        return side.recv(1 << 16)
    except OSError:
        return b""


def write(side, data):
    """Whether it went through."""
    try:
        side.sendall(data)
    except OSError:
        return False
    return True


def end(*sides):
    """For both directions."""
    for side in sides:
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        side.close()
