"""Sessions that run `cuda_target.py`: what they say of themselves, and whether all of it is still there."""

import json
import os
import shutil
import signal
from pathlib import Path

from harness import proc

PROGRAM = Path(__file__).with_name("cuda_target.py")


class Target:
    """A session of `cuda_target.py`. `expected` is what must never change: pointers and hash, by process."""

    def __init__(self, session, processes):
        self.session, self.processes = session, processes
        self.expected = {}

    @classmethod
    def start(cls, commands, name, *arguments, options=(), processes=1):
        """Starts it and waits until its buffers are filled."""
        program = commands.user.home / PROGRAM.name
        if not program.exists():
            shutil.copy(PROGRAM, program)
            os.chmod(program, 0o755)
        words = ["/usr/bin/python3", "-u", str(program), *map(str, arguments)]
        session = commands.start(name, *words, options=options)
        target = cls(session, processes)
        proc.until("the buffers are filled", lambda: len(target.lines("ready")) == processes, seconds=60)
        target.expected = target.ask()
        return target

    def of_branch(self, session):
        """The same state in another session."""
        other = Target(session, self.processes)
        other.expected = self.expected
        return other

    def log(self):
        """The session's log as it is on disk: asking the daemon would be slower, and it may be down."""
        path = next(iter(self.session.commands.daemon.state.glob(f"sessions/{self.session.id}/**/log")), None)
        return path.read_text(errors="replace") if path else ""

    def lines(self, key):
        """Whole lines of JSON with this key."""
        found = []
        for line in self.log().splitlines():
            if line.startswith("{") and line.endswith("}"):
                said = json.loads(line)
                if key in said:
                    found.append(said)
        return found

    def host_pids(self):
        """Processes of the program, as the machine numbers them, by their number inside."""
        found = {}
        for pid in proc.tree(self.session.pid):
            if PROGRAM.name.encode() in proc.read(pid, "cmdline"):
                found[int(proc.status(pid, "NSpid").split()[-1])] = pid
        return found

    def ask(self, seconds=20):
        """What each process says now. Fails if one does not answer: its calls are blocked, or it is gone."""
        before = len(self.lines("report"))
        pids = self.host_pids()
        for pid in pids.values():
            os.kill(pid, signal.SIGUSR1)

        def answers():
            new = {said["report"]: said for said in self.lines("report")[before:]}
            return new if len(new) == self.processes else None

        return proc.until(f"{self.processes} processes of {sorted(pids.values())} say how they are", answers, seconds)

    def check(self, seconds=20):
        """Same bytes, same pointers, counters that agree with the program's own count, and the loop goes on."""
        first = self.ask(seconds)
        assert first.keys() == self.expected.keys()
        for inside, said in first.items():
            expected = self.expected[inside]
            assert said["pointers"] == expected["pointers"], f"pointers of {inside} changed"
            assert said["hash"] == expected["hash"], f"bytes of {inside} changed"
            assert set(said["counters"]) == {said["rounds"]}, f"a round was lost or made twice: {said}"
        second = self.ask(seconds)
        for inside, said in second.items():
            assert said["rounds"] > first[inside]["rounds"], "the loop stands still"
        for pid in proc.tree(self.session.pid):
            facts = proc.stat(pid)
            assert facts is None or facts["state"] not in "tT", f"{pid} was left in state {facts}"
        return second
