"""Random histories of memory: what comes back from a snapshot is, byte by byte, what was there in the moment of the snapshot.

Each history is a program (memory/history.c) that does to its memory whatever a program can do, from several threads and in children, as fast as it
can, while its session is snapshotted, rolled back, branched and snapshotted again, at random instants, and in some of them while the daemon is
killed. The program is never stopped for a snapshot by anybody but the product, and never knows of one.

Why nothing can slip through:

* **Every byte is known.** What a page or a block of the heap holds is computed from two numbers in the program's book. After a restore the
  program is asked to end the operation that it was in, and compares all of its memory with what the book says. A byte of the past, a zero where there
  was something, something where a zero belongs: each differs from what is computed, because no content is ever used twice.
* **The book comes another way.** It lies in shared memory, of which nothing is copied ahead: CRIU saves it while everything stands still. So a book is
  that of the moment of the snapshot even if private memory is not.
* **The moment is known, too.** The program is asked something, with a number that only this test knows, before each snapshot and again after it, and
  remembers those numbers in private memory. What is restored must remember the first and not the second: it is of a moment between both. A state
  that is whole but too old is told by this.

Shared and restored wrongly, the book would not fit its memory either.
"""

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from harness import proc
from harness.operation import Operation
from harness.session import Commands

HISTORIES = int(os.environ.get("INFINIJUP_MEMORY_HISTORIES", "12"))
SOURCE = Path(__file__).parent / "memory/history.c"
LIBRARIES = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
# glibc's own, and others that a program can be started with.
ALLOCATORS = {"glibc": None, "jemalloc": LIBRARIES / "libjemalloc.so.2", "mimalloc": LIBRARIES / "libmimalloc.so.2"}
# How histories take turns: memory is copied ahead; the same, and every page is compared while it stands still; it is not.
COPY_AHEAD = ("on", "checked", "on", "off")
# As many requests as the program remembers.
REMEMBERED = 16


class Program:
    """The program in one session. `numbers` are what it must remember, the newest first."""

    # The next request has this number, whoever asks.
    number = 0

    def __init__(self, session, user, numbers=()):
        self.session, self.user, self.numbers = session, user, list(numbers)
        self.directory = Path(session.view()["workspace"])

    def ask(self, verb, others=()):
        """Its answer. It must remember what it was asked so far, or one of `others`: what it remembers then is what counts from now on."""
        Program.number += 1
        number = Program.number
        new, ask, answer = (self.directory / name for name in (".ask", "ask", f"answer.{number}"))
        new.write_text(f"{number} {verb}\n")
        shutil.chown(new, self.user.uid, self.user.gid)
        new.rename(ask)
        try:
            proc.until("the program answers", answer.exists, seconds=60)
        except AssertionError as waited:
            raise AssertionError(f"{waited}: {self.session.state}, {self.session.log()[-2000:]}") from None
        ask.unlink()
        said = json.loads(answer.read_text())
        answer.unlink()
        allowed = [[number, *numbers][:REMEMBERED] for numbers in (self.numbers, *others)]
        assert said["remembers"] in allowed, f"it is of another moment: {said['remembers']} is not one of {allowed}"
        self.numbers = said["remembers"]
        return said

    def check(self, others=()):
        """Every byte of it is what it must be."""
        said = self.ask("check", others)
        assert said["ok"], said["complaint"]
        assert said["pages"] > 100, said
        return said


class History:
    """One program and its snapshots."""

    def __init__(self, commands, name, words, user, seed):
        self.daemon, self.user, self.random = commands.daemon, user, random.Random(seed)
        workspace = user.mkdir(user.home / name)
        self.session = commands.start(name, *words, str(workspace), cwd=workspace)
        self.program = Program(self.session, user)
        # What the program remembers in each snapshot.
        self.snapshots = {}
        # Whether memory was copied ahead at least once.
        self.was_ahead = False
        # How long operations take here, so that a kill can hit any moment of one.
        self.took = {"snapshot": 0.5, "rollback": 1.0}

    def job(self, verb, body):
        """Something that is done to the session, to its end."""
        status, answer = self.daemon.post(f"/v1/sessions/{self.session.id}/{verb}?wait=true", body)
        assert status == 200 and answer["state"] == "done", answer
        return answer["result"]

    def lives(self):
        """For a random time."""
        time.sleep(self.random.uniform(0, 0.25))

    def snapshot(self):
        """At some instant between two requests."""
        self.program.ask("count")
        begun = time.monotonic()
        taken = self.job("snapshot", {})
        self.took["snapshot"] = time.monotonic() - begun
        # Comparing found a page that was called clean and is not. A plain dump was taken instead, so it would not show below.
        assert not any("nobody noticed" in warning for warning in taken["warnings"]), taken["warnings"]
        print(f"{taken['frozen_us'] / 1e3:.0f} ms, {taken['frozen_bytes']} bytes copied while it stood still; {taken['warnings']}")
        self.was_ahead |= taken["frozen_bytes"] is not None
        self.snapshots[taken["commit"]] = self.program.numbers
        self.program.ask("count")

    def any_snapshot(self):
        """One of those that were taken."""
        return self.random.choice(list(self.snapshots))

    def goes_back(self):
        """To one of its snapshots, and is what it was."""
        commit = self.any_snapshot()
        begun = time.monotonic()
        self.job("rollback", {"to": commit, "force": True})
        self.took["rollback"] = time.monotonic() - begun
        self.program.numbers = self.snapshots[commit]
        self.program.check()

    def branches(self):
        """A second one beside it begins where a snapshot was, and neither notices the other."""
        commit = self.any_snapshot()
        view = self.job("branch", {"from": commit})["branches"][0]["session"]
        branch = Program(self.session.commands.session(view), self.user, self.snapshots[commit])
        branch.check()
        self.program.check()
        self.daemon.remove_session(branch.session.view())

    def loses_its_daemon(self):
        """In the middle of something. The program lives on and is right, or it sleeps and comes back so."""
        verb = self.random.choice(list(self.took))
        goal = self.any_snapshot()
        work = Operation(self.daemon, f"/v1/sessions/{self.session.id}/{verb}", {"to": goal, "force": True} if verb == "rollback" else {})
        work.start()
        time.sleep(self.random.uniform(0, 1.2) * self.took[verb])
        self.daemon.kill()
        work.join(60)
        self.daemon.start()
        state = proc.until("the session has settled", lambda: self.session.state not in ("starting",) and self.session.state, seconds=60)
        assert state in ("running", "suspended"), self.session.view()
        if state == "suspended":
            self.job("resume", {})
        there = [self.snapshots[goal]] if verb == "rollback" else []
        if there and work.answer:
            self.program.numbers = there.pop()
        self.program.check(there)

    def ends(self):
        """Nothing of it stays, however it went: hundreds would fill the disk, and each keeps a core busy."""
        _, history = self.daemon.get(f"/v1/sessions/{self.session.id}/history")
        self.daemon.remove_session(self.session.view())
        for what, body in ("forget", {"commits": [commit["id"] for commit in history["commits"]]}), ("gc", {}):
            status, answer = self.daemon.post(f"/v1/{what}?wait=true", body)
            assert status == 200 and answer["state"] == "done" and not answer["result"].get("kept"), answer

    def happened(self):
        """Whether everything that a program can do has been done at least once."""
        said = self.program.ask("count")
        return said if all(said["kinds"].values()) else None


@pytest.fixture(scope="module")
def program(record):
    """The program, where every user may run it."""
    built = record.base / "bin" / "history"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", built, SOURCE], check=True)
    return built


@pytest.fixture(scope="module")
def daemons(module_make_daemon, module_make_user, program):
    """One that copies memory ahead, one that compares all of it, one that does neither; and their user with a file that histories read from."""
    user = module_make_user()
    user.run([program, "file", user.home / "file"])
    made = {copy_ahead: module_make_daemon({"INFINIJUP_COPY_AHEAD": copy_ahead}, user) for copy_ahead in set(COPY_AHEAD)}
    return user, made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(HISTORIES))
def test_what_comes_back_is_what_was_there(daemons, program, number):
    user, made = daemons
    seed = int(os.environ.get("INFINIJUP_SEED", time.time_ns() % 1_000_000)) + number
    copy_ahead = COPY_AHEAD[number % 4]
    allocator = list(ALLOCATORS)[number % 3]
    print(f"INFINIJUP_SEED={seed - number}: history {number}, copy_ahead {copy_ahead}, {allocator}")
    environment = {"LD_PRELOAD": str(ALLOCATORS[allocator])} if ALLOCATORS[allocator] else {}
    commands = Commands(made[copy_ahead], user, environment)
    history = History(commands, f"history{number}", [str(program), "run", str(seed), str(user.home / "file")], user, seed)
    try:
        goes_well(history, number, allocator)
    finally:
        history.ends()
    assert history.was_ahead == (copy_ahead != "off")


def goes_well(history, number, allocator):
    """What is done to each of them, and looked at."""
    said = proc.until("everything has happened", history.happened, seconds=60)
    assert said["allocator"] == allocator

    history.snapshot()
    history.lives()
    history.snapshot()
    history.lives()
    history.goes_back()
    history.lives()
    history.snapshot()
    if number % 3 == 1:
        history.branches()
    if number % 5 in (0, 2):
        history.loses_its_daemon()
    history.lives()
    history.goes_back()
    history.lives()
    history.program.check()
