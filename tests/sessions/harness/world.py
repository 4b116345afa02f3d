"""Everything a kernel may hold when it is snapshotted, in one class. The text of this file is run as a cell.

`World(directory)` makes it all, `advance(n)` brings each part to a state that depends on `n`, `observe()` tells the state in
values that can be compared, `wreck()` changes everything for the worse.
"""

import ctypes
import fcntl
import math
import mmap
import multiprocessing
import os
import pty
import queue
import socket
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
from multiprocessing import shared_memory

import numpy
import pandas

COUNTER = "n = 0\nwhile True:\n    n += int(input())\n    print(n, flush=True)"


class Ticker(threading.Thread):
    """A thread whose state is a local variable of its stack."""

    def __init__(self):
        super().__init__(daemon=True)
        self.asked, self.answers = queue.Queue(), queue.Queue()
        self.start()

    def run(self):
        total = 0
        while True:
            total += self.asked.get()
            self.answers.put(total)

    def add(self, number):
        self.asked.put(number)
        return self.answers.get(timeout=10)


class World:
    def __init__(self, directory):
        self.directory = directory
        self.array = numpy.zeros((256, 1024))
        self.frame = pandas.DataFrame({"a": range(1000), "b": [str(n) for n in range(1000)]})
        self.tickers = [Ticker() for _ in range(4)]
        self.forked = multiprocessing.get_context("fork").Pool(2)
        self.spawned = multiprocessing.get_context("spawn").Pool(2)
        self.child = subprocess.Popen([sys.executable, "-uc", COUNTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.log = open(f"{directory}/append.log", "a")
        self.grows = open(f"{directory}/grows.bin", "wb")
        self.database = sqlite3.connect(f"{directory}/data.sqlite", isolation_level=None)
        self.journal = self.database.execute("PRAGMA journal_mode=WAL").fetchone()
        self.database.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
        self.shared = shared_memory.SharedMemory(create=True, size=1 << 20)
        with open("/dev/shm/plain", "wb") as plain:
            plain.truncate(1 << 16)
        self.plain_file = open("/dev/shm/plain", "r+b")
        self.plain = mmap.mmap(self.plain_file.fileno(), 0)
        self.memfd = os.memfd_create("world")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.outbound = socket.create_connection(self.listener.getsockname())
        self.inbound, _ = self.listener.accept()
        libc = ctypes.CDLL(None)
        self.inotify = libc.inotify_init1(os.O_NONBLOCK)
        os.makedirs(f"{directory}/watched", exist_ok=True)
        libc.inotify_add_watch(self.inotify, f"{directory}/watched".encode(), 0x100)  # IN_CREATE
        self.master, self.slave = pty.openpty()
        self.advance(0)

    def advance(self, number):
        self.number = number
        self.array[:] = number
        self.frame["a"] = self.frame["a"] + number
        self.ticks = [ticker.add(number) for ticker in self.tickers]
        self.add_in_child(number)
        self.log.write(f"line {number}\n")
        self.log.flush()
        self.grows.write(os.urandom(8) + bytes(10_000 + number))
        self.grows.flush()
        if self.database.in_transaction:
            self.database.execute("COMMIT")
        self.database.execute("INSERT INTO t VALUES (?)", (number,))
        self.database.execute("BEGIN IMMEDIATE")
        self.database.execute("INSERT INTO t VALUES (?)", (-number,))
        self.shared.buf[:8] = self.plain[:8] = struct.pack("q", number)
        os.pwrite(self.memfd, struct.pack("q", number), 0)
        self.set_size(20 + number)

    def add_in_child(self, number):
        self.child.stdin.write(f"{number}\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def set_size(self, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))

    def reconnect(self):
        """A new outbound connection, as a program makes one when it finds its own closed."""
        self.outbound.close()
        self.inbound.close()
        self.outbound = socket.create_connection(self.listener.getsockname())
        self.inbound, _ = self.listener.accept()

    def is_connected(self):
        try:
            self.outbound.settimeout(5)
            self.inbound.settimeout(5)
            self.outbound.sendall(b"x")
            return self.inbound.recv(1) == b"x"
        except OSError:
            return False

    def observe(self):
        """What must be equal before and after. Asking changes nothing that is asked."""
        os.write(self.master, b"typed\n")
        return {
            "number": self.number,
            "array": float(self.array.sum()),
            "frame": int(self.frame["a"].sum()),
            "threads": [ticker.add(0) for ticker in self.tickers] == self.ticks and self.ticks,
            "fork pool": self.forked.map(math.factorial, range(5)),
            "fork workers": set(self.forked.map(_pid, range(8))) <= {worker.pid for worker in self.forked._pool},
            "spawn pool": self.spawned.map(math.sqrt, [4, 9]),
            "child": self.add_in_child(0),
            "log": open(f"{self.directory}/append.log").read(),
            "log position": self.log.tell(),
            "grows": os.path.getsize(f"{self.directory}/grows.bin"),
            "grows position": self.grows.tell(),
            "rows": self.database.execute("SELECT count(*), sum(n) FROM t").fetchone(),
            "journal": self.database.execute("PRAGMA journal_mode").fetchone(),
            "in transaction": self.database.in_transaction,
            "rows of others": sqlite3.connect(f"{self.directory}/data.sqlite").execute("SELECT count(*) FROM t").fetchone(),
            "shared": struct.unpack("q", bytes(self.shared.buf[:8])),
            "plain": struct.unpack("q", self.plain[:8]),
            "memfd": struct.unpack("q", os.pread(self.memfd, 8, 0)),
            "listens": self.listens(),
            "inotify": self.hears(),
            "pty": struct.unpack("HHHH", fcntl.ioctl(self.slave, termios.TIOCGWINSZ, bytes(8)))[0],
            "typed": os.read(self.slave, 100),
        }

    def listens(self):
        with socket.create_connection(self.listener.getsockname(), timeout=5) as client:
            server, _ = self.listener.accept()
            server.sendall(b"hello")
            server.close()
            return client.recv(5)

    def hears(self):
        name = f"{self.directory}/watched/{os.urandom(4).hex()}"
        open(name, "w").close()
        os.unlink(name)
        return b"\0" in os.read(self.inotify, 4096)

    def wreck(self):
        self.array[:] = -1
        self.frame = None
        self.forked.terminate()
        self.spawned.terminate()
        self.child.kill()
        self.child.wait()
        self.log.write("wrecked\n")
        self.log.close()
        self.grows.write(bytes(50_000))
        self.grows.close()
        self.database.execute("COMMIT")
        self.database.execute("DELETE FROM t")
        self.database.execute("INSERT INTO t VALUES (666)")
        self.database.close()
        self.shared.buf[:8] = self.plain[:8] = struct.pack("q", 666)
        os.pwrite(self.memfd, struct.pack("q", 666), 0)
        self.listener.close()
        self.outbound.close()
        self.inbound.close()
        os.close(self.inotify)
        self.set_size(99)
        for ticker in self.tickers:
            ticker.add(666)
        self.number = 666


def _pid(_):
    return os.getpid()
