"""A look at the rights of everything that belongs to one user's daemon, again and again while something else happens.

A process outside of boxes has no capability at all and cannot gain any. One in a user namespace may have some of that namespace, which
must be the user's own.
"""

import fcntl
import os
import threading
import time

from harness import proc

# From linux/nsfs.h: the parent of a user namespace, and who made it.
NS_GET_PARENT, NS_GET_OWNER_UID = 0xB702, 0xB704


def namespace_problem(pid, uid, initial):
    """What is wrong with the user namespace of a process that is not in the initial one, if anything."""
    try:
        with open(f"/proc/{pid}/ns/user", "rb") as namespace:
            owner = bytearray(4)
            fcntl.ioctl(namespace, NS_GET_OWNER_UID, owner)
            parent = fcntl.ioctl(namespace, NS_GET_PARENT)
    except OSError:
        return None
    try:
        if int.from_bytes(owner, "little") != uid:
            return f"its user namespace is that of {int.from_bytes(owner, 'little')}"
        if os.fstat(parent).st_ino != initial:
            return "its user namespace is not below the machine's"
    finally:
        os.close(parent)
    return None


class Watcher(threading.Thread):
    """Looks at everything, again and again, until it is told to stop."""

    def __init__(self, record, daemon, user):
        super().__init__()
        self.record, self.daemon, self.user = record, daemon, user
        self.initial = os.stat("/proc/self/ns/user").st_ino
        self.problems, self.seen, self.looks, self.ended = set(), {}, 0, False

    def run(self):
        while not self.ended:
            for pid in self.ours():
                self.look(pid)
            self.looks += 1
            # CRIU takes a tenth of a second at the least.
            time.sleep(0.01)

    def ours(self):
        """All processes of the user, and whatever descends from the daemon or carries its marks, whoever it has become."""
        descends = set(proc.tree(self.daemon.pid))
        for pid in proc.pids():
            # This very program is root, and becomes the user for the moment in which it asks the daemon something.
            if pid == os.getpid():
                continue
            if pid in descends or str(self.user.uid) in proc.status(pid, "Uid").split() or self.record.is_ours(pid, self.daemon.name):
                yield pid

    def look(self, pid):
        """At one process."""
        before = proc.link(pid, "ns/user")
        facts = proc.facts(pid)
        if not before or proc.link(pid, "ns/user") != before or facts.get("State", "Z")[0] in "ZX":
            return
        # CRIU may be called by way of a loader of its own.
        words = proc.read(pid, "cmdline").split(b"\0")
        name = "criu" if any(word.rpartition(b"/")[2].startswith(b"criu") for word in words[:8]) else facts["Name"]
        ids = [str(self.user.uid)] * 4
        if facts["Uid"].split() != ids or facts["Gid"].split() != [str(self.user.gid)] * 4:
            self.problems.add(f"{name} has uid {facts['Uid'].split()} and gid {facts['Gid'].split()}")
        has = any(int(facts[kind], 16) for kind in ("CapPrm", "CapEff"))
        inside = int(before.strip("user:[]")) != self.initial
        self.seen.setdefault((name, inside), set()).add(has)
        if not inside:
            if has:
                self.problems.add(f"{name} has capabilities of the machine: {facts['CapEff']}")
            if facts["NoNewPrivs"] != "1" and pid in self.below_daemon():
                self.problems.add(f"{name} could gain privileges")
        elif problem := namespace_problem(pid, self.user.uid, self.initial):
            self.problems.add(f"{name}: {problem}")

    def below_daemon(self):
        return set(proc.tree(self.daemon.pid))

    def stop(self):
        self.ended = True
        self.join()
