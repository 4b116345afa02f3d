"""kill -9 of the daemon at any instant: each kernel lives or can be brought back, and no acknowledged snapshot is lost.

Each round begins one of the five operations, kills the daemon after a random part of the time that the operation usually takes,
starts it again, and looks at the kernel from outside and from inside.
"""

import os
import random
import time

import pytest

from harness import proc
from harness.operation import Operation

ROUNDS = int(os.environ.get("INFINIJUP_KILLS", "40"))
OPERATIONS = ("snapshot", "rollback", "branch", "suspend", "resume")


def is_free(pid):
    """Neither stopped nor traced; or gone."""
    return (proc.stat(pid) or {"state": "X"})["state"] not in "tT" and proc.status(pid, "TracerPid") in ("", "0")


class Trial:
    """A kernel that counts, everything acknowledged so far, and how long each operation takes."""

    def __init__(self, session, daemon, seed):
        self.session, self.daemon = session, daemon
        self.random = random.Random(seed)
        self.acknowledged = []
        self.took = dict.fromkeys(OPERATIONS, 0.5)
        self.value = 0
        # What `x` is where a rollback goes to.
        self.goal = None
        self.tree = []

    def prepare(self, operation):
        """Brings the session into the state that the operation needs, and gives it a value of its own."""
        if self.session.state == "suspended":
            self.session.resume()
        self.session.kernel.ready()
        self.value += 1
        self.session.kernel.run(f"x = {self.value}")
        if operation == "resume":
            self.acknowledged.append((self.session.suspend()["commit"], self.value))
        self.tree = proc.tree(self.session.pid) if operation != "resume" else []

    def body(self, operation):
        if operation == "rollback":
            commit, self.goal = self.random.choice(self.acknowledged)
            return {"to": commit, "force": True}
        return {"name": f"b{self.value}"} if operation == "branch" else {}

    def round(self, operation):
        self.prepare(operation)
        work = Operation(self.daemon, f"/v1/sessions/{self.session.id}/{operation}", self.body(operation))
        begun = time.monotonic()
        work.start()
        time.sleep(self.random.uniform(0, 1.2) * self.took[operation])
        self.daemon.kill()
        work.join(60)
        if work.answer is not None:
            self.took[operation] = 0.5 * self.took[operation] + 0.5 * (time.monotonic() - begun)
            result = work.answer["result"]
            if operation in ("snapshot", "suspend"):
                self.acknowledged.append((result["commit"], self.value))
        else:
            self.took[operation] *= 1.05
        self.daemon.start()
        self.check(operation, work.answer)

    def check(self, operation, answer):
        """Running or restorable, and nothing in between."""
        state = proc.until("the session has settled", self.settled, seconds=60)
        assert state in ("running", "suspended"), f"after {operation}: {self.session.view()}"
        if answer is not None:
            assert state == ("suspended" if operation == "suspend" else "running")
        if state == "suspended":
            self.session.resume()
        self.session.kernel.ready(60)
        seen = self.session.kernel.value("x")
        allowed = {self.value}
        if operation == "rollback":
            # The state that was left or the one that was gone to; that one if somebody was told so.
            allowed = {self.goal} if answer is not None else {self.value, self.goal}
        assert seen in allowed, f"after {operation}: x is {seen}, not one of {allowed}"
        self.no_half_dead()

    def settled(self):
        state = self.session.state
        return state if state != "starting" else None

    def no_half_dead(self):
        """No process of any session is stopped, traced or frozen, and none is outside of what the daemon lists."""
        _, listed = self.daemon.get("/v1/sessions")
        listed = [view["pid"] for view in listed["sessions"] if view["state"] == "running"]
        # A box is its holder, the parent of the tree's root, with all below.
        trees = [pid for root in listed for pid in proc.tree(proc.stat(root)["parent"])]
        # The daemon holds them for moments, too, to copy what they write.
        for pid in trees:
            proc.until(f"{pid} runs, and nobody traces it", lambda pid=pid: is_free(pid))
        here = proc.link("self", "ns/pid")
        record = self.daemon.record
        stray = lambda: [  # noqa: E731
            pid
            for pid in proc.pids()
            if pid not in trees and proc.link(pid, "ns/pid") not in ("", here) and record.is_ours(pid, self.daemon.name)
        ]
        proc.until("no process is left over from a half-done restore", lambda: not stray(), seconds=30)

    def remove_branches(self):
        _, listed = self.daemon.get("/v1/sessions")
        for view in listed["sessions"]:
            if view["id"] != self.session.id:
                assert view["state"] != "starting", view
                self.daemon.remove_session(view)


@pytest.mark.timeout(1200)
def test_kills_at_any_moment(commands, daemon):
    seed = int(os.environ.get("INFINIJUP_SEED", time.time_ns() % 1_000_000))
    print(f"INFINIJUP_SEED={seed}")
    session = commands.kernel("victim")
    trial = Trial(session, daemon, seed)
    trial.prepare("snapshot")
    trial.acknowledged.append((session.snapshot()["commit"], trial.value))
    for number in range(ROUNDS):
        trial.round(OPERATIONS[number % len(OPERATIONS)])
        if number % 10 == 9:
            trial.remove_branches()
    trial.remove_branches()
    # Every snapshot that was acknowledged is there and can be restored.
    known = {line["id"] for line in commands.run("history", session.name).one("history")["commits"]}
    for commit, _ in trial.acknowledged:
        assert commit in known, f"{commit} was acknowledged and is gone"
    for commit, value in trial.random.sample(trial.acknowledged, min(10, len(trial.acknowledged))):
        session.rollback(commit, "--force")
        session.kernel.ready()
        assert session.kernel.value("x") == value
    mounts = [point for point in proc.mounts_below(daemon.run) if not daemon.is_base(point)]
    assert len(mounts) <= 2, f"mounts were left: {mounts}"
