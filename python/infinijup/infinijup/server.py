"""How a command outside of the process asks it to come to rest: a socket of the process's own.

The daemon runs the quiesce command as another process of the session, so the process itself must listen. The socket lies in
/dev/shm, which each session has for itself and which is carried over by a snapshot: a branch has its own.

Nobody tells a process that its snapshot is done, and what is restored from it wakes up in the middle of that rest. So a rest has a
length: it ends by `resume`, or when the process has *run* for that long since. The time it stands still under the snapshot, or lies
on disk, does not count: a thread counts short naps, not the clock.
"""

import contextlib
import json
import os
import socket
import stat
import struct
import threading
from pathlib import Path

from infinijup import quiescing as engine

DEFAULT_DIRECTORY = "/dev/shm"
_NAP = 0.05
_LONGEST_LINE = 65536
_guard = threading.Lock()
_listening = None


def directory():
    """Where the sockets of this user's processes are. Made if need be; refused if somebody else made it."""
    base = os.environ.get("INFINIJUP_QUIESCE_DIR", DEFAULT_DIRECTORY)
    path = Path(base) / f"infinijup-quiesce-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PermissionError(f"{path} is not a directory of ours alone")
    return path


def listen():
    """Starts to listen, in a thread that ends with the process. Listening already is no error; a forked child starts anew."""
    global _listening
    with _guard:
        if _listening is None or _listening.pid != os.getpid():
            _listening = Listener()
        return _listening.path


class Listener:
    """The socket and its threads."""

    def __init__(self):
        self.pid = os.getpid()
        self.path = directory() / f"{self.pid}.sock"
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(str(self.path))
        os.chmod(self.path, 0o600)
        self.socket.listen(4)
        self.rest = None
        threading.Thread(target=self.accept, name="infinijup-quiesce", daemon=True).start()

    def accept(self):
        while True:
            try:
                channel, _ = self.socket.accept()
            except OSError:
                return
            with channel, contextlib.suppress(OSError, ValueError):
                channel.settimeout(5)
                self.serve(channel)

    def serve(self, channel):
        """One question, one answer. Whoever is not this user or root gets none."""
        _, uid, _ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.getuid()):
            return
        request = read_line(channel)
        try:
            answer = {"ok": True, **self.obey(request)}
        except Exception as error:  # Whatever it is, the asker must hear of it, and this thread must live.
            answer = {"ok": False, "error": str(error) or repr(error)}
        channel.sendall(json.dumps(answer).encode() + b"\n")

    def obey(self, request):
        do = request.get("do")
        if do == "quiesce":
            synchronised = engine.quiesce(float(request.get("timeout", 30.0)))
            self.begin_rest(float(request.get("rest", 3.0)))
            return {"synchronised": synchronised}
        if do == "resume":
            self.end_rest()
            engine.resume()
            return {}
        raise ValueError(f"no such request: {do!r}")

    def begin_rest(self, seconds):
        """A new rest replaces one that still runs."""
        self.end_rest()
        over = threading.Event()
        self.rest = over
        threading.Thread(target=self.count, args=(over, seconds), name="infinijup-rest", daemon=True).start()

    def end_rest(self):
        if self.rest is not None:
            self.rest.set()
            self.rest = None

    @staticmethod
    def count(over, seconds):
        for _ in range(max(1, round(seconds / _NAP))):
            if over.wait(_NAP):
                return
        try:
            engine.resume()
        except engine.ResumeError as error:
            # Nobody waits for this answer: say it where a program says things.
            import warnings

            warnings.warn(f"infinijup: {error}", RuntimeWarning, stacklevel=1)


def read_line(channel):
    """A line of JSON, an object."""
    line = b""
    while not line.endswith(b"\n"):
        piece = channel.recv(4096)
        if not piece or len(line) > _LONGEST_LINE:
            raise ValueError("no whole line")
        line += piece
    request = json.loads(line)
    if not isinstance(request, dict):
        raise ValueError("not an object")
    return request


def ask(path, request, timeout):
    """Asks one listening process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout)
        channel.connect(str(path))
        channel.sendall(json.dumps(request).encode() + b"\n")
        return read_line(channel)
