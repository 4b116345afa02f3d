"""Cells one at a time, and the snapshots between them: what waits for what, and for how long."""

import asyncio
import logging
import time
from types import SimpleNamespace

import pytest

from infinijup.daemon import DaemonError
from infinijup.serverextension import snapshots
from infinijup.serverextension.gate import CellGate
from infinijup.serverextension.policy import ServerPolicy
from infinijup.serverextension.shown import Shown
from infinijup.serverextension.snapshots import CellSnapshots

LOG = logging.getLogger("test")


class Message:
    def __init__(self, name, stop=True):
        self.id, self.content = name, {"stop_on_error": stop}

    def cell(self):
        return {"id": self.id}


def gate_into(done):
    async def before(cell, snapshot):
        done.append(("before", cell["id"], snapshot))

    return CellGate(
        lambda message: done.append(("sent", message.id)),
        lambda message: done.append(("aborted", message.id)),
        before,
        lambda cell, queued: done.append(("after", cell["id"], cell.get("number"), queued)),
    )


async def turns(count=4):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("stop", [True, False])
def test_a_failed_cell_ends_the_queue_if_it_should(stop):
    async def story():
        done = []
        gate = gate_into(done)
        gate.before = True
        for name in "ab":
            gate.offer(Message(name, stop))
        await turns()
        gate.failed("a")
        gate.ended("a", None)
        await turns()
        return done

    first = [("before", "a", True), ("sent", "a")]
    rest = [("aborted", "b")] if stop else [("before", "b", True), ("sent", "b")]
    assert asyncio.run(story()) == first + rest


def test_a_cell_that_ended_is_told_with_its_number_and_whether_others_wait():
    async def story():
        done = []
        gate = gate_into(done)
        gate.after = True
        for name in "ab":
            gate.offer(Message(name))
        await turns()
        gate.ended("a", {"id": "a", "number": 7})
        await turns()
        gate.ended("b", {"id": "b", "number": 8})
        return [what for what in done if what[0] == "after"]

    assert asyncio.run(story()) == [("after", "a", 7, True), ("after", "b", 8, False)]


@pytest.mark.parametrize("keep", [{"a"}, set()])
def test_what_waits_behind_a_cell_that_is_lost_is_lost(keep):
    async def story():
        done = []
        gate = gate_into(done)
        for name in "ab":
            gate.offer(Message(name))
        await turns()
        gate.cut(keep)
        return ("aborted", "b") in done, [message.id for message in gate.queue]

    assert asyncio.run(story()) == ((False, ["b"]) if keep else (True, []))


def test_a_cell_that_could_not_go_is_the_next_one():
    async def story():
        done, free = [], False

        def send(message):
            done.append(message.id if free else f"not {message.id}")
            if not free:
                assert gate.put_back(message)

        async def before(cell, snapshot):
            pass

        gate = CellGate(send, done.append, before, done.append)
        messages = [Message(name) for name in "ab"]
        for message in messages:
            gate.offer(message)
        await turns()
        assert not gate.put_back(messages[1]), "it has not left the queue"
        free = True
        gate.pump()
        await turns()
        gate.ended("a", None)
        await turns()
        return done

    assert asyncio.run(story()) == ["not a", "a", "b"]


class Daemon:
    """One that takes snapshots when the test says so."""

    def __init__(self):
        self.asked, self.gave_up, self.ends = [], 0, asyncio.Event()
        self.result, self.can_give_up, self.takes = {"type": "snapshot", "commit": "c"}, True, 0.0

    async def post(self, path, body=None, wait=True):
        if path.endswith("give-up"):
            self.gave_up += 1
            return {"given_up": self.can_give_up}
        self.asked.append(body)
        await self.ends.wait()
        await asyncio.sleep(self.takes)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def says_it_all(kernel, runs):
    """Of every notebook: its file."""


def kernel():
    daemon, warnings = Daemon(), []
    hub = SimpleNamespace(
        daemon=daemon,
        post=daemon.post,
        policy=SimpleNamespace(server=ServerPolicy()),
        session_id=lambda kernel: "s",
        views={},
        document_shown=says_it_all,
        spawn=asyncio.ensure_future,
        warn=lambda kernel, error: warnings.append(error.code),
    )
    desk = SimpleNamespace(kernel_id="k", cells=1, snapshot_at=None, asleep=False, swapping=False, shown=Shown())
    return CellSnapshots(hub, desk), desk, daemon, warnings


def told(story):
    return asyncio.run(asyncio.wait_for(story(), 20))


def test_the_next_cell_waits_until_the_kernel_stands_no_longer_and_not_for_the_store():
    async def story():
        taken, _desk, daemon, _ = kernel()
        taken.after({"id": "a", "number": 1}, False)
        await turns()
        waiting = asyncio.ensure_future(taken.clear())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        taken.thawed(time.time() - 60)
        await turns()
        assert not waiting.done(), "that was told of another one"
        taken.thawed(time.time())
        await waiting
        assert daemon.asked == [{"reason": "after-cell", "cell": {"id": "a", "number": 1}, "within_ms": 100, "variables": False}]
        assert not daemon.ends.is_set() and daemon.gave_up == 0

    told(story)


def test_one_that_has_not_begun_is_given_up(monkeypatch):
    monkeypatch.setattr(snapshots, "GRACE", 0.05)

    async def story():
        taken, desk, daemon, warnings = kernel()
        taken.after({"id": "a"}, False)
        await turns()
        began = time.monotonic()
        await taken.clear()
        assert daemon.gave_up == 1 and time.monotonic() - began < 0.5
        daemon.result = {"type": "skipped", "why": "given_up"}
        daemon.ends.set()
        await turns(10)
        assert warnings == [] and desk.snapshot_at is None

    told(story)


def test_nobody_waits_longer_than_a_second(monkeypatch):
    monkeypatch.setattr(snapshots, "GRACE", 0.05)
    monkeypatch.setattr(snapshots, "PATIENCE", 0.2)

    async def story():
        taken, _desk, daemon, _ = kernel()
        daemon.can_give_up = False
        taken.after({"id": "a"}, False)
        await turns()
        began = time.monotonic()
        await taken.clear()
        assert 0.19 < time.monotonic() - began < 1

    told(story)


def test_a_queue_of_quick_cells_has_few_and_its_last_cell_has_one():
    async def story():
        taken, desk, daemon, _ = kernel()
        daemon.ends.set()
        daemon.takes = 0.02
        for number in range(1, 101):
            await taken.clear()
            desk.cells = number
            await asyncio.sleep(0.002)
            taken.after({"id": str(number)}, number < 100)
        await asyncio.sleep(0.05)
        return [request["cell"]["id"] for request in daemon.asked], sum(taken.waited)

    asked, waited = told(story)
    # They take 0.2 s. Each snapshot of one in the queue makes the next wait for 0.02.
    assert asked[0] == "1" and asked[-1] == "100" and 2 <= len(asked) <= 8 and waited < 0.2


def test_a_cell_that_ends_while_the_last_is_stored_has_its_own_later():
    async def story():
        taken, desk, daemon, _ = kernel()
        taken.after({"id": "a"}, False)
        await turns()
        taken.thawed(time.time())
        desk.cells = 2
        taken.after({"id": "b"}, False)
        await turns()
        assert len(daemon.asked) == 1
        daemon.ends.set()
        await turns(10)
        assert [request["cell"]["id"] for request in daemon.asked] == ["a", "b"] and desk.snapshot_at == 2

    told(story)


def test_one_that_is_too_late_is_not_taken():
    async def story():
        taken, desk, daemon, _ = kernel()
        taken.after({"id": "a"}, False)
        await turns()
        desk.cells = 2
        taken.after({"id": "b"}, False)
        desk.cells = 3
        daemon.ends.set()
        await turns(10)
        assert [request["cell"]["id"] for request in daemon.asked] == ["a"], "another cell runs by now"

    told(story)


def test_a_failure_is_told_once_and_not_tried_at_once():
    async def story():
        taken, desk, daemon, warnings = kernel()
        daemon.result = DaemonError("IJ-X", "no")
        daemon.ends.set()
        for number in range(1, 4):
            desk.cells = number
            taken.after({"id": str(number)}, False)
            await turns(6)
        assert warnings == ["IJ-X"] and len(daemon.asked) == 1

    told(story)
