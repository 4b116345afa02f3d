"""What the kernel says: processes, mounts, namespaces, descriptors. Read from /proc, never guessed."""

import os
import signal
import time
from pathlib import Path


def until(what, condition, seconds=20.0, pause=0.02):
    """Polls until `condition` gives something true, and returns that. Fails with `what` when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(pause)


def read(pid, name):
    """A file of /proc/PID as bytes; empty if the process is gone or the file is not ours to read."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def link(pid, name):
    """A link of /proc/PID; empty if the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def pids():
    """Every process."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat(pid):
    """State letter, parent and start time; `None` if the process is gone."""
    text = read(pid, "stat").decode(errors="replace")
    if not text:
        return None
    fields = text.rpartition(")")[2].split()
    return {"state": fields[0], "parent": int(fields[1]), "start_time": int(fields[19])}


def facts(pid):
    """All of /proc/PID/status, by one read, so that its lines belong together; nothing of a process that is gone."""
    lines = read(pid, "status").decode(errors="replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def status(pid, key):
    """One line of /proc/PID/status."""
    return facts(pid).get(key, "")


def identity(pid):
    """A process as it can be recorded: a number alone may be somebody else tomorrow."""
    return {"pid": pid, "start_time": stat(pid)["start_time"]}


def is_alive(recorded):
    """Whether a recorded process is still that process, and no zombie."""
    now = stat(recorded["pid"])
    return now is not None and now["start_time"] == recorded["start_time"] and now["state"] not in "ZX"


def is_over(pid):
    """Whether a process is gone, or a zombie that somebody else must reap."""
    return (stat(pid) or {"state": "X"})["state"] in "ZX"


def tree(root):
    """A process and everything below it."""
    children = {}
    for pid in pids():
        facts = stat(pid)
        if facts:
            children.setdefault(facts["parent"], []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo.extend(children.get(pid, []))
    return found


def traced_by(tracer, others=()):
    """The processes that some thread of `tracer` traces, but for `others`."""
    threads = os.listdir(f"/proc/{tracer}/task")
    return [pid for pid in pids() if pid not in others and status(pid, "TracerPid") in threads]


def kill(pid):
    """SIGKILL, and waits until it is gone or a zombie that somebody else must reap."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    until(f"process {pid} ends", lambda: is_over(pid))


def mounts_below(directory):
    """Mount points at or below a directory in our own mount namespace, deepest first."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if point == str(directory) or point.startswith(f"{directory}/"):
            points.append(point)
    return sorted(points, key=len, reverse=True)


def namespaces_of(pid):
    """Kind and inode of each namespace of a process."""
    found = {}
    for kind in ("mnt", "pid", "net", "ipc", "time"):
        target = link(pid, f"ns/{kind}")
        if target:
            found[kind] = target
    return found


def all_namespaces():
    """Every namespace that some process is in."""
    return {target for pid in pids() for target in namespaces_of(pid).values()}


def descriptors(pid):
    """How many files a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    """Resident memory in bytes, without pages of files, which come and go with the page cache."""
    return int(status(pid, "RssAnon").split()[0]) * 1024
