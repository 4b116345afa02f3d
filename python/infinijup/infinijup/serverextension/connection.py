"""The websocket between a page and its kernel, for kernels whose process is exchanged while the page looks on.

Jupyter's own connection joins a page's websocket to four ZeroMQ sockets of the kernel. When the process behind those sockets is replaced
by another, ZeroMQ connects again by itself, and yet answers get lost: the new process may answer a request before this side's IOPub
socket has subscribed again, and it never answers what only the old process had heard of. A page takes either for a cell that runs for
ever. So, from the beginning of a swap to its end:

1. messages of the page are *held*, in order;
2. when the daemon has done, all four sockets are made anew: what was still queued in the old ones for the old process is gone with
   them, so that nothing is run of which the page was told that it was not;
3. requests that the process of now cannot know are answered as aborted, which ends `input()` dialogs too; harmless ones are asked again;
4. a *probe*, a `kernel_info_request` on the control channel, is repeated until this connection's own IOPub socket has shown the status
   that belongs to it: from then on nothing published can be missed, and what was held goes out;
5. requests that the process should know are watched with a fence (see `ledger`), and aborted if it turns out that it does not.

A new connection goes through step 4 as well, in the place of Jupyter's `nudge`; if the kernel is suspended or in the middle of a swap, it
is open at once and its messages are held. Messages to a suspended kernel are answered by `asleep`, and a cell wakes it.

References: jupyter_server 2.21 `ZMQChannelsWebsocketConnection`; the message specification of jupyter_client 8.
"""

import asyncio
import json
import time
from collections import deque
from typing import Any

import zmq
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from tornado.websocket import WebSocketClosedError

from infinijup.daemon import DaemonError
from infinijup.serverextension import asleep
from infinijup.serverextension.desk import Desk
from infinijup.serverextension.gate import CellGate
from infinijup.serverextension.ledger import REPEATABLE, Fence, Ledger, Question, Request
from infinijup.serverextension.messages import Incoming, outgoing

PROBE_EVERY = 0.02
# A kernel that has replied for so long and is not heard may be one that publishes no status for requests on its control channel.
NO_STATUS = 0.25
# How many probes go to the control channel for each one to the shell; and when the kernel may be such a one.
CONTROL_PROBES, FEWER_CONTROL_PROBES = 50, 10
# A connection that the kernel did not take, because it still had the old one of the same name.
RENEW_AFTER = 1.0
SETTLE_LIMIT = 30.0
RECONNECT_MS = 5000
# A kernel in the middle of a cell may be one that answers nothing meanwhile.
BUSY_LIMIT = 2.0
# A cell may take as long as it likes.
FENCE_LIMIT = 7 * 24 * 3600.0


class SwapAwareConnection(ZMQChannelsWebsocketConnection):
    """A page's connection to a kernel that may be exchanged."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.held: deque[Incoming] = deque()
        self.settled = False
        # Whether something that the kernel has published came by the sockets of now.
        self.hears = False
        self.generation = 0
        self.gate = CellGate(self._deliver, self._abort_message, self._before_cell, self._after_cell)
        self._probes: set[str] = set()
        self._fences: dict[str, asyncio.Future[bool]] = {}
        self._seen = asyncio.Event()
        self._replied: float | None = None
        self._early: list[tuple[Any, list[Any]]] | None = None

    # What it belongs to.

    @property
    def hub(self) -> Any:
        """The server's one hub."""
        return self.websocket_handler.settings["infinijup_hub"]

    @property
    def desk(self) -> Desk:
        """This kernel's."""
        return self.hub.desk(self.kernel_id)

    @property
    def ledger(self) -> Ledger:
        """This page's."""
        return self.desk.ledger(self.session_key)

    @property
    def holding(self) -> bool:
        """Whether messages of the page must wait."""
        return self.desk.swapping or not self.settled

    # Coming and going.

    def request_kernel_info(self):
        """Jupyter's own question; not asked of a kernel that cannot answer now."""
        if self.desk.swapping or self.desk.asleep:
            self._finish_kernel_info(self.hub.kernel_info(self.kernel_id))
            return asyncio.wrap_future(self._kernel_info_future)
        return super().request_kernel_info()

    def connect(self):
        self.desk.connections.add(self)
        self._early = []
        generation = self.generation
        connected = super().connect()
        if connected is None:
            self.desk.connections.discard(self)
            return None
        connected.add_done_callback(lambda _: self._begin(generation))
        return connected

    def create_stream(self) -> None:
        """Sockets to a suspended kernel have nobody to connect to, perhaps for days: they try ever more rarely."""
        context = self.kernel_manager.context
        context.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MS)
        try:
            super().create_stream()
        finally:
            context.setsockopt(zmq.RECONNECT_IVL_MAX, 0)
        self.hears = False
        for stream in self.channels.values():
            stream.era = self.desk.era

    def nudge(self) -> asyncio.Future[None]:
        """Waits until this connection works; at once if the kernel is asleep or being exchanged."""
        for stream in self.channels.values():
            stream.on_recv_stream(self.handle_outgoing_message)
        if any(stream.era != self.desk.era for stream in self.channels.values()):
            # Kept by Jupyter for a page that comes back, and the process is another since.
            self._renew()
        if self.desk.swapping or self.desk.asleep:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        busy = getattr(self.kernel_manager, "execution_state", None) == "busy"
        limit = BUSY_LIMIT if busy else self.kernel_info_timeout
        return asyncio.ensure_future(self._probe(self.generation, limit, renew=False))

    def _begin(self, generation: int) -> None:
        early, self._early = self._early or [], None
        for stream, message in early:
            self.handle_outgoing_message(stream, message)
        for request in self.ledger.owed:
            # Of a page that comes back; it does not mind hearing it twice.
            self._abort(request.header, request.channel, request.reply_kind)
        # If a swap came in between, its end lets the messages go.
        if not self.desk.swapping and generation == self.generation:
            self.settled = True
            self._release()

    def disconnect(self) -> None:
        self.generation += 1
        self.desk.connections.discard(self)
        # The kernel would have had them by now if it had not been for us.
        for message in self.gate.drop():
            if self.channels and not self.holding and not self.desk.asleep:
                message.send(self.session, self.channels[message.channel])
        for fence in self._fences.values():
            if not fence.done():
                fence.set_result(False)
        super().disconnect()

    # From the page.

    def handle_incoming_message(self, incoming_msg: Any) -> None:
        if not self.channels:
            return
        message = Incoming(incoming_msg, self.subprotocol)
        if self.holding:
            self.held.append(message)
        else:
            self._take(message)

    def _take(self, message: Incoming) -> None:
        if self.desk.asleep:
            self._take_asleep(message)
        elif message.is_cell:
            self.gate.before, self.gate.after = self.hub.cell_policy(self.kernel_id)
            if self.gate.is_active:
                self.gate.offer(message)
            else:
                self._deliver(message)
        else:
            self._deliver(message)

    def _deliver(self, message: Incoming) -> None:
        """To the kernel; or back to those that wait, if it is not there any more when the turn comes."""
        if self.holding or self.desk.asleep:
            self._wait(message)
            return
        now = time.time()
        if message.channel == "stdin":
            self.ledger.told(now)
        else:
            request = Request(message.header, message.channel, now, raw=message)
            if message.kind == "execute_request":
                request.cell = message.cell()
            if message.is_cell:
                self.desk.cells += 1
                self.desk.shown.began(request.cell["id"], str(message.content.get("code", "")))
            self.ledger.sent(request)
        super().handle_incoming_message(message.raw)

    def _wait(self, message: Incoming) -> None:
        """It could not go. A cell whose turn it was stays the first of its queue: held as well, it would wait for its own end."""
        if self.gate.put_back(message):
            if not self.holding:
                self.hub.wake(self.kernel_id)
        elif self.holding:
            self.held.appendleft(message)
        else:
            self._take_asleep(message)

    def _take_asleep(self, message: Incoming) -> None:
        if asleep.wakes(message):
            self.held.append(message)
            self.hub.wake(self.kernel_id)
            return
        if reply := asleep.reply(message, self.hub.kernel_info(self.kernel_id)):
            self.emit(message.channel, *reply, parent=message.header)
        self.emit("iopub", "status", {"execution_state": "idle"}, message.header)

    # From the kernel.

    def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
        channel = stream if isinstance(stream, str) else getattr(stream, "channel", None)
        self.hears |= channel == "iopub" and stream is self.channels.get("iopub")
        _, parts = self.session.feed_identities(list(outgoing_msg))
        header, parent = _json(parts[1]), _json(parts[2])
        if self._is_own(channel, header, parent, parts):
            return
        if self._early is not None:
            self._early.append((stream, outgoing_msg))
            return
        if _is_between_others(header, parent):
            return
        self._enter(channel, header, parent, parts, outgoing_msg)
        if not self.channels or self._is_late(header, parts):
            return
        super().handle_outgoing_message(stream, outgoing_msg)

    def _is_own(self, channel: str | None, header: dict, parent: dict, parts: list[Any]) -> bool:
        asked = parent.get("msg_id", "")
        if asked not in self.desk.own:
            return False
        if asked in self._probes:
            if channel == "iopub":
                self._seen.set()
            elif self._replied is None:
                self._replied = time.monotonic()
            if header.get("msg_type") == "kernel_info_reply":
                self.hub.note_kernel_info(self.kernel_id, _json(parts[4]))
        elif channel == "shell" and (fence := self._fences.pop(asked, None)) and not fence.done():
            fence.set_result(True)
        return True

    def _is_late(self, header: dict, parts: list[Any]) -> bool:
        """A kernel answers on its control channel a little before it says that it is `starting`, and then says no more."""
        starts = header.get("msg_type") == "status" and _json(parts[4]).get("execution_state") == "starting"
        return starts and self.settled and self.hub.is_session(self.kernel_id)

    def _enter(self, channel: str | None, header: dict, parent: dict, parts: list[Any], message: list[Any]) -> None:
        """Into the books."""
        kind, asked, now = header.get("msg_type", ""), parent.get("msg_id", ""), time.time()
        if channel == "iopub" and (cell := (request.cell if (request := self.ledger.open.get(asked)) else None)):
            self.desk.shown.heard(cell["id"], kind, parts[4])
            self.desk.draft.wanted()
        if kind == "status":
            state = _json(parts[4]).get("execution_state")
            if state == "busy":
                self.ledger.began(asked)
            elif state == "idle":
                self._end_cell(self.ledger.ended(asked, now))
        elif channel == "stdin" and kind == "input_request":
            self.ledger.asked(asked, message, now)
        elif channel in ("shell", "control"):
            request = self.ledger.replied(asked, now)
            if kind == "execute_reply":
                self._note_reply(request, _json(parts[4]))
            self._end_cell(request)
            if kind == "kernel_info_reply":
                self.hub.note_kernel_info(self.kernel_id, _json(parts[4]))

    def _note_reply(self, request: Request | None, content: dict[str, Any]) -> None:
        if request is not None and request.cell is not None and isinstance(content.get("execution_count"), int):
            request.cell["number"] = content["execution_count"]
        if request is not None and content.get("status") == "error":
            self.gate.failed(request.id)

    def _end_cell(self, request: Request | None) -> None:
        """The next one may go: with reply and `idle`, which come by two sockets in any order. Only the reply says whether it failed."""
        if request is not None and request.is_answered():
            asyncio.get_running_loop().call_soon(self.gate.ended, request.id, request.cell)

    def emit(self, channel: str, kind: str, content: dict[str, Any], parent: dict[str, Any]) -> None:
        """To the page, in the kernel's name."""
        try:
            frame, binary = outgoing(self.session, self.subprotocol, channel, kind, content, parent)
            self.write_message(frame, binary=binary)
        except WebSocketClosedError:
            self.log.debug("the page of %s has gone", self.session_key)

    # The swap.

    def swap_began(self) -> None:
        """From now on everything is held."""
        self.generation += 1
        self.settled = False

    async def swap_ended(self, cut: list[Request], again: list[Request], limit: float, renew: bool) -> None:
        """Steps 2 to 4. `cut` are requests that are lost, `again` those that the kernel takes up a second time.

        Without `renew` the process is the old one, or with no `limit` there is none: the sockets stay as they are. But they may be those of
        a swap before this one, which was over before the kernel was heard.
        """
        generation = self.generation
        if not self.channels:
            return
        if renew:
            self._renew()
        self._close_requests(cut)
        if not renew and (self.hears or not limit):
            self.settled = True
            self._release()
            return
        for request in again:
            self.emit("iopub", "status", {"execution_state": "busy"}, request.header)
        await self._probe(generation, limit, renew=True)
        if generation == self.generation and self.channels and not self.desk.swapping:
            # The kernel says it only when it changes, and a new one says `starting`.
            self._send_status_message("busy" if self.desk.cells_open() else "idle")
            self.settled = True
            self._release()

    def _renew(self) -> None:
        for stream in self.channels.values():
            if not stream.closed():
                # The last words of the process that has gone.
                stream.flush(zmq.POLLIN)
                stream.on_recv(None)
                stream.close(linger=0)
        self.create_stream()
        for stream in self.channels.values():
            stream.on_recv_stream(self.handle_outgoing_message)

    async def _probe(self, generation: int, limit: float, renew: bool) -> None:
        loop = asyncio.get_running_loop()
        begin = renewed = loop.time()
        attempt = 0
        self._seen.clear()
        self._replied = None
        while generation == self.generation and self.channels and loop.time() - begin < limit:
            message = self.session.msg("kernel_info_request", {})
            self.desk.note_own(message["header"]["msg_id"])
            self._probes.add(message["header"]["msg_id"])
            attempt += 1
            # Some kernels do not listen on the control channel, or only between cells, or say nothing of it on IOPub. But a machine with
            # much to do may also connect the one socket long after the other: only what is heard proves that it can be.
            is_silent = self._replied is not None and time.monotonic() - self._replied > NO_STATUS
            to_shell = attempt % (FEWER_CONTROL_PROBES if is_silent else CONTROL_PROBES) == 0
            self.session.send(self.channels["shell" if to_shell else "control"], message)
            try:
                await asyncio.wait_for(self._seen.wait(), PROBE_EVERY)
                break
            except asyncio.TimeoutError:
                if renew and self._replied is None and loop.time() - renewed > RENEW_AFTER and self.channels:
                    self._renew()
                    renewed = loop.time()
        self._probes.clear()

    async def fence(self, limit: float) -> bool:
        """Waits until the kernel has answered everything on its shell channel. False if this connection ended first."""
        if not self.channels or self.desk.swapping:
            return False
        message = self.session.msg("kernel_info_request", {})
        asked = message["header"]["msg_id"]
        self.desk.note_own(asked)
        self._fences[asked] = answered = asyncio.get_running_loop().create_future()
        self.session.send(self.channels["shell"], message)
        try:
            return await asyncio.wait_for(answered, limit)
        except asyncio.TimeoutError:
            return False
        finally:
            self._fences.pop(asked, None)

    def _release(self) -> None:
        """Lets everything go that was held, in order, until something holds it up again."""
        held, self.held = self.held, deque()
        while held:
            if self.holding:
                held.extend(self.held)
                self.held = held
                return
            self._take(held.popleft())
        if not self.holding:
            self.gate.pump()

    def _close_requests(self, requests: list[Request], resend: bool = False) -> None:
        """Answers for the kernel: aborted; or asks again."""
        again = [r for r in requests if r.raw is not None and (r.kind in REPEATABLE or (resend and not r.begun))]
        self.held.extendleft(request.raw for request in reversed(again))
        for request in requests:
            if request not in again:
                self.ledger.owed.append(request)
                self._abort(request.header, request.channel, request.reply_kind)
            self.gate.lost(request.id)

    def _abort_message(self, message: Incoming) -> None:
        self._abort(message.header, message.channel, message.kind.removesuffix("_request") + "_reply")

    def _abort(self, header: dict[str, Any], channel: str, reply_kind: str | None) -> None:
        if reply_kind:
            self.emit(channel, reply_kind, {"status": "aborted"}, header)
        self.emit("iopub", "status", {"execution_state": "idle"}, header)

    def refuse_held_cells(self, error: DaemonError) -> None:
        """The kernel could not be woken: each cell that waits for it says why."""
        waiting, self.held = [*self.gate.drop(), *self.held], deque()
        for message in waiting:
            if message.is_cell:
                text = error.message + (f". {error.hint}" if error.hint else "")
                content = {"ename": "infinijup", "evalue": text, "traceback": [f"the kernel is suspended and cannot be resumed: {text}"]}
                self.emit("iopub", "error", content, message.header)
                self.emit("shell", "execute_reply", {"status": "error", "execution_count": None, **content}, message.header)
                self.emit("iopub", "status", {"execution_state": "idle"}, message.header)
            else:
                self._take_asleep(message)

    def ask_again(self, questions: list[Question]) -> None:
        """The kernel is back at an `input()` that the user has answered since, and waits for the answer again."""
        for question in questions:
            question.answered = None
            super().handle_outgoing_message("stdin", question.message)

    async def watch_doubtful(self, doubtful: set[str], resend: bool) -> bool:
        """Step 5. True when it is known of each of them. With `resend`, what the kernel never began is sent once more."""
        generation = self.generation
        fence = Fence(self.desk.ledgers.values(), doubtful)
        while fence.left() and generation == self.generation:
            if not await self.fence(FENCE_LIMIT):
                return False
            if fence.passed():
                for connection in list(self.desk.connections):
                    connection._give_up(doubtful, resend)
                return True
        return generation == self.generation

    def _give_up(self, doubtful: set[str], resend: bool) -> None:
        lost = [request for request in self.ledger.open.values() if request.id in doubtful]
        for request in lost:
            del self.ledger.open[request.id]
        self._close_requests(lost, resend)
        if not self.holding:
            self._release()

    async def _before_cell(self, cell: dict[str, Any], snapshot: bool) -> None:
        if snapshot:
            await self.desk.snapshots.before(cell)
        await self.desk.snapshots.clear()

    def _after_cell(self, cell: dict[str, Any], queued: bool) -> None:
        self.desk.snapshots.after(cell, queued)


def _is_between_others(header: dict[str, Any], parent: dict[str, Any]) -> bool:
    """What the kernel and the daemon have to say to each other: a page would take its status for that of a cell."""
    kinds = (str(header.get("msg_type", "")), str(parent.get("msg_type", "")))
    return any(kind.startswith("infinijup_") for kind in kinds) or parent.get("username") == "infinijup"


def _json(part: Any) -> dict[str, Any]:
    # Some kernels write `null` where they have no parent.
    return json.loads(bytes(part)) or {}


__all__ = ["BUSY_LIMIT", "SETTLE_LIMIT", "SwapAwareConnection"]
