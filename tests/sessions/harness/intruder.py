"""Another user of the machine, who tries everything that an ordinary user can try against the processes, ports and files of one user.

Uses the standard library only and nothing of the harness: throw-away users, who cannot read the sources, run the text of this file
with `python -c`, as `ATTACK JSON`, where the JSON has `uid` (whom), `seconds` (how long) and `hints` (a file with the paths that
there are, one a line: the intruder is told what it could not find out). It prints, again as JSON, how often it tried what, and
what it gained. Nothing is aimed at anybody but that uid.
"""

import collections
import ctypes
import json
import os
import resource
import signal
import socket
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
# As x86-64 and the generic table have them.
PROCESS_VM_READV, PIDFD_GETFD = {"x86_64": (310, 438), "aarch64": (270, 438)}[os.uname().machine]
OPEN_FOR_READING = ("environ", "mem", "maps", "auxv", "io", "stack", "syscall", "pagemap", "smaps", "personality")
OPEN_FOR_WRITING = ("mem", "clear_refs", "oom_score_adj", "comm", "coredump_filter", "timerslack_ns")
LINKS = ("cwd", "root", "exe", "ns/user", "ns/mnt", "ns/net", "ns/pid", "fd/0", "fd/3", "map_files")


class Tally:
    """How often something was tried, and what came of it."""

    def __init__(self, asked):
        self.asked, self.attempts, self.gains = asked, collections.Counter(), []
        self.begin()

    def begin(self):
        self.deadline = time.monotonic() + self.asked["seconds"]

    def goes_on(self):
        return time.monotonic() < self.deadline

    def attempt(self, what, action, *arguments):
        """An action that was not refused and gave something is a gain."""
        self.attempts[what] += 1
        try:
            value = action(*arguments)
        except (OSError, ValueError):
            return
        if value is not False and value != b"" and value != []:
            self.gains.append(f"{what}{arguments}: {str(value)[:200]}")

    def hints(self):
        with open(self.asked["hints"]) as file:
            return file.read().splitlines()

    def told(self):
        return json.dumps({"attempts": self.attempts, "gains": self.gains[:20]})


def called(number):
    """A call of C's that says -1 if it was refused."""
    if number == -1:
        raise OSError(ctypes.get_errno())
    return True


def processes(tally):
    """Signals, tracing, limits, priorities and the insides of every process and thread."""

    def set_limit(pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))

    def read_memory(pid):
        local, remote = ctypes.create_string_buffer(16), ctypes.create_string_buffer(struct.pack("QQ", 0x400000, 8))
        vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(local), 8))
        return called(LIBC.syscall(PROCESS_VM_READV, pid, vector, 1, remote, 1, 0))

    def with_pidfd(pid):
        handle = os.pidfd_open(pid)
        try:
            tally.attempt("pidfd_getfd", lambda of: called(LIBC.syscall(PIDFD_GETFD, handle, 0, 0)), pid)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)

    def contents(path, mode):
        with open(path, mode, buffering=0) as file:
            return file.read(1) if mode == "rb" else file.write(b"1") > 0

    while tally.goes_on():
        for pid in of_user(tally.asked["uid"]):
            for thread in threads(pid):
                for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGCONT, signal.SIGTERM, signal.SIGUSR1):
                    tally.attempt("signal", os.kill, thread, number)
                for how in (PTRACE_SEIZE, PTRACE_ATTACH):
                    tally.attempt("ptrace", lambda of, how=how: called(LIBC.ptrace(how, of, 0, 0)), thread)
                tally.attempt("prlimit", resource.prlimit, thread, resource.RLIMIT_NOFILE)
                tally.attempt("prlimit", set_limit, thread)
                tally.attempt("priority", os.setpriority, os.PRIO_PROCESS, thread, 19)
                tally.attempt("scheduling", os.sched_setaffinity, thread, {0})
                tally.attempt("process_vm_readv", read_memory, thread)
            tally.attempt("pidfd_send_signal", with_pidfd, pid)
            for name in OPEN_FOR_READING:
                tally.attempt("read", contents, f"/proc/{pid}/{name}", "rb")
            for name in OPEN_FOR_WRITING:
                tally.attempt("write", contents, f"/proc/{pid}/{name}", "r+b" if name == "mem" else "wb")
            for name in LINKS:
                tally.attempt("link", os.readlink, f"/proc/{pid}/{name}")
            tally.attempt("fd", os.listdir, f"/proc/{pid}/fd")


def of_user(uid):
    """Processes that are a user's, now."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/status") as file:
                    ids = next(line for line in file if line.startswith("Uid:")).split()[1:]
            except (OSError, StopIteration):
                continue
            if str(uid) in ids:
                yield int(name)


def threads(pid):
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def files(tally):
    """Everything that is there by name, and whatever lies open in the directories that everybody has."""

    def open_with(path, flags):
        os.close(os.open(path, flags | os.O_NONBLOCK))

    own = os.path.join(os.environ["HOME"], "taken")
    while tally.goes_on():
        for path in tally.hints():
            tally.attempt("read", open_with, path, os.O_RDONLY)
            tally.attempt("write", open_with, path, os.O_WRONLY)
            tally.attempt("list", os.listdir, path)
            tally.attempt("plant", open_with, f"{path}/planted", os.O_WRONLY | os.O_CREAT)
            tally.attempt("take", os.link, path, own)
            tally.attempt("remove", os.unlink, path)
            tally.attempt("move", os.rename, path, own)
            tally.attempt("mode", os.chmod, path, 0o777)
        for directory in ("/tmp", "/var/tmp", "/dev/shm"):
            for path in owned_by(tally.asked["uid"], directory):
                tally.attempt("read", open_with, path, os.O_RDONLY)
                tally.attempt("write", open_with, path, os.O_WRONLY)


def owned_by(uid, directory):
    for entry in os.scandir(directory):
        try:
            if entry.stat(follow_symlinks=False).st_uid == uid:
                yield entry.path
        except OSError:
            pass


def links(tally):
    """In directories where everybody may write: what the user makes is exchanged for a link to a file of ours, and names that
    the user has used are taken before the next use."""
    loot = os.path.join(os.environ["HOME"], "loot")
    seen = {f"/tmp/infinijup-{tally.asked['uid']}", "/tmp/infinijup", "/tmp/criu.kdat", "/dev/shm/infinijup"}
    planted = set()

    def exchange(path):
        os.symlink(loot, path + ".intruder")
        planted.add(path + ".intruder")
        os.rename(path + ".intruder", path)

    with open(loot, "w"):
        os.chmod(loot, 0o666)
    os.chmod(os.environ["HOME"], 0o755)
    try:
        while tally.goes_on():
            for directory in ("/tmp", "/dev/shm"):
                for path in owned_by(tally.asked["uid"], directory):
                    seen.add(path)
                    tally.attempt("exchange", exchange, path)
                    tally.attempt("remove", os.unlink, path)
            for path in seen:
                tally.attempts["plant"] += 1
                try:
                    os.symlink(loot, path)
                    planted.add(path)
                except OSError:
                    pass
            tally.attempt("loot", lambda: os.stat(loot).st_size > 0)
    finally:
        for path in planted:
            if os.path.islink(path) and os.lstat(path).st_uid == os.getuid():
                os.unlink(path)


def exchange(tally):
    """The parent of the user's workspace is ours: a link takes the workspace's place, to where the user may go and we may not, and to
    where both may."""
    place = tally.asked["place"]
    aside, number = place + ".aside", 0
    while tally.goes_on():
        tally.attempts["exchange"] += 1
        os.rename(place, aside)
        os.symlink(tally.asked["targets"][number % len(tally.asked["targets"])], place)
        number += 1
        time.sleep(0.003 * (number % 40))
        os.unlink(place)
        os.rename(aside, place)
        time.sleep(0.002 * (number % 30))


def connections(tally):
    """To every TCP port and socket of the user's: asking, sending and closing at once, and 1,100 that stay and say nothing."""
    idle = []

    def hear(family, address):
        with socket.socket(family) as client:
            client.settimeout(2)
            client.connect(address)
            # As far as a client of ZeroMQ goes before it must know anything: it greets and subscribes.
            client.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 32))
            return client.recv(64)

    def rush(address):
        with socket.create_connection(address, timeout=2) as client:
            client.sendall(b"\xff" + bytes(8) + b"\x7f")
        return False

    def stay(address):
        client = socket.create_connection(address, timeout=2)
        idle.append(client)
        return False

    while len(idle) < 1100 and tally.attempts["idle"] < 2000:
        for address in listening(tally.asked["uid"]):
            tally.attempt("idle", stay, address)
    tally.begin()
    while tally.goes_on():
        for address in listening(tally.asked["uid"]):
            tally.attempt("tcp", hear, socket.AF_INET, address)
            for _ in range(20):
                tally.attempt("rush", rush, address)
        for path in tally.hints():
            if path.startswith("/"):
                tally.attempt("unix", hear, socket.AF_UNIX, path)
    for client in idle:
        tally.attempt("said to an idle one", lambda client=client: (client.setblocking(False), client.recv(1))[1])


def listening(uid):
    """Where a user's processes listen."""
    found = []
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[7]) == uid:
                found.append(("127.0.0.1", int(fields[1].partition(":")[2], 16)))
    return found


if __name__ == "__main__":
    counted = Tally(json.loads(sys.argv[2]))
    {"processes": processes, "files": files, "links": links, "exchange": exchange, "connections": connections}[sys.argv[1]](counted)
    print(counted.told())
