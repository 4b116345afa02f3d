"""Kernels that are sessions of the daemon.

One kernel id, one session, for ever. The process behind the session comes and goes: a rollback exchanges it, a suspension ends it and
running a cell brings it back, a crash and a restart start it anew. Jupyter must take none of that for the end of the kernel, so `poll`
says 'alive' for everything but a command that has really ended. The session also outlives the Jupyter server; a later server that
starts a kernel of the same id gets the session as it is.

The order of calls, as KernelManager of jupyter_client 8 makes them: `pre_launch`, `launch_kernel`, then the manager takes over the
connection that `launch_kernel` returned (`_reconcile_connection_info`), `post_launch`. To shut down: `send_signal(SIGINT)`, then
`kill`, or `shutdown_requested`, `wait`, `terminate`, `wait`, `kill`; at last `cleanup(restart)`. After a `cleanup(restart=True)` the
same object is launched again. Only `shutdown_requested` and `cleanup` can be trusted to know about a restart (jupyter_client#1061), so
what ends the process never depends on it.

Without a daemon the kernel starts as Jupyter would start it, and `why_not` says why it has no history.
"""

import asyncio
import json
import os
import pathlib
import signal
import time
from typing import Any, ClassVar

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerBase, LocalProvisioner
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import Bool, Dict, Enum, Int, List, Unicode, Union

from infinijup import launch
from infinijup.daemon import Daemon, DaemonAway, DaemonError, from_wire, target, to_wire
from infinijup.wire import SessionPatch, SessionView, Start

NAME = "infinijup"

KERNEL_ID = "jupyter.kernel_id"
KERNEL_NAME = "jupyter.kernel_name"
PATH = "jupyter.path"
ROOT = "jupyter.root"
PROVISIONED = "jupyter.provisioned"

# Operations that exchange or take away the process. Their outcome is another state, never a dead kernel.
SWAPS = frozenset({"rollback", "suspend", "resume", "restart", "branch", "start"})

_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
_POLL = 0.1
# How long another operation may be in the way of a signal.
_PATIENCE = 10.0


class InfinijupProvisioner(LocalProvisioner):
    """Starts a kernelspec as a session of infinijupd."""

    network = Enum(["private", "host"], "private", config=True, help="Which network kernels see; `host` cannot be branched.")
    outside = Bool(True, config=True, help="Whether a private network has a way out (needs pasta on this machine).")
    files = Union(
        [Unicode(), Dict()],
        default_value="workspace",
        config=True,
        help="Which files snapshots take: workspace, open, tree, none or a policy.",
    )
    gpus = Union([Unicode(), List()], default_value="all", config=True, help="Which GPUs kernels may use: all, none, or a list.")
    memory_limit = Union([Int(), Unicode()], default_value=None, allow_none=True, config=True, help="The most memory, for instance 8G.")
    workspace = Unicode(None, allow_none=True, config=True, help="The directory that a branch gets a copy of.")

    # What new sessions are told about snapshots by themselves. The server extension sets it.
    policy: ClassVar[dict[str, Any] | None] = None

    session_id: str | None = None
    why_not: str | None = None
    swapping: bool = False
    view: SessionView | None = None

    _live = False
    _again = False
    _wanted: dict[str, Any]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.daemon = Daemon()
        self._wanted = {}

    @property
    def state(self) -> str:
        """The session's, as last seen; `local` without one."""
        return self.view["state"] if self.view else "local"

    @property
    def is_explicit(self) -> bool:
        """Whether the kernelspec asks for us by name. Then a kernel without history would be a lie."""
        return self.kernel_spec.metadata.get("kernel_provisioner", {}).get("provisioner_name") == NAME

    @property
    def has_process(self) -> bool:
        return self._live if self.session_id else super().has_process

    # Starting.

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Decides whether the kernel will be a session, and prepares accordingly."""
        self._wanted = dict(kwargs)
        self.why_not = None
        try:
            self._check_fitness()
            await self.daemon.ensure()
            await self.daemon.get("/v1/version")
        except DaemonError as error:
            self._without_session(error)
            return await super().pre_launch(**kwargs)
        kwargs.pop("transport_encryption", None)
        if not self.parent.connection_file:
            # A manager by itself makes up a name when it writes the file, and that comes after the command.
            os.makedirs(jupyter_runtime_dir(), mode=0o700, exist_ok=True)
            self.parent.connection_file = os.path.join(jupyter_runtime_dir(), f"kernel-{self.kernel_id}.json")
        words = self.parent.format_kernel_cmd(extra_arguments=kwargs.pop("extra_arguments", []))
        command = launch.open_placeholder(words, os.path.realpath(self.parent.connection_file))
        # Not LocalProvisioner's own: ports and connection file will be the session's.
        return await KernelProvisionerBase.pre_launch(self, cmd=command, **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Finds the kernel's session, or the one of its notebook, or starts a new one."""
        if self.why_not is not None:
            return await super().launch_kernel(cmd, **kwargs)
        again, self._again = self._again, False
        self.cwd = kwargs.get("cwd") or os.getcwd()
        try:
            view = await self._find_or_start(cmd, kwargs, again)
        except DaemonError as error:
            self._without_session(error)
            wanted = await super().pre_launch(**self._wanted)
            return await super().launch_kernel(wanted.pop("cmd"), **wanted)
        self.adopt(view)
        return self.connection_info

    def adopt(self, view: SessionView) -> None:
        """Makes `view`, a session of the daemon with a kernel in it, this kernel's own."""
        self.session_id, self.why_not = view["id"], None
        self.view = view
        self._live = True
        self.connection_info = read_connection(from_wire(view["kernel"]["connection_file"]))
        # The copy of an earlier server that was killed: the manager would find it right, and load nothing.
        pathlib.Path(self.parent.connection_file).unlink(missing_ok=True)
        self.ip = self.connection_info["ip"]

    def notice(self, view: SessionView) -> None:
        """Takes note of how the session is now."""
        self.view = view

    def find_ports(self) -> None:
        """Reads anew where the kernel is reached: while a session sleeps nobody holds its ports, and somebody else may have taken one."""
        if self.view is None:
            return
        try:
            info = read_connection(from_wire(self.view["kernel"]["connection_file"]))
        except (OSError, ValueError, KeyError) as error:
            self.log.warning("Where kernel %s is reached cannot be read; it is taken to be where it was: %s", self.kernel_id, error)
            return
        if info != self.connection_info:
            self.connection_info = info
            self.parent._reconcile_connection_info(info)
            self.parent._close_control_socket()
            self.parent._connect_control_socket()

    async def _find_or_start(self, cmd: list[str], kwargs: dict[str, Any], again: bool) -> SessionView:
        sessions = (await self.daemon.get("/v1/sessions"))["sessions"]
        own = next((view for view in sessions if self._is_own(view)), None)
        while own is not None and own["state"] == "starting":
            await asyncio.sleep(_POLL)
            own = await self.daemon.get(target("sessions", own["id"]))
        if own is not None and own["state"] in ("running", "suspended") and not again:
            return own
        env = kwargs.get("env") or dict(os.environ)
        notebook = self._notebook(env)
        start = {
            "type": "kernel",
            "spec": self.parent.kernel_name,
            "argv": [to_wire(word) for word in launch.prepared(cmd, env)],
            "interrupt_mode": self.kernel_spec.interrupt_mode,
            "language": self.kernel_spec.language or None,
        }
        if own is not None:
            return await self._restart(own, start, env, notebook)
        left = self._of_notebook(sessions, notebook)
        if left is not None:
            try:
                return await self._restart(left, start, env, notebook)
            except DaemonAway:
                raise
            except DaemonError as error:
                self.log.warning("Kernel %s begins a new history, session %s cannot go on: %s", self.kernel_id, left["name"], error)
                await self.daemon.patch(target("sessions", left["id"]), {"labels": {KERNEL_ID: None}})
        return await self._start(start, env, notebook, [view["name"] for view in sessions])

    async def _restart(self, found: SessionView, start: Start, env: dict[str, str], notebook: str | None) -> SessionView:
        """The command anew in a session that is there: same name, same ports, same history."""
        patch: SessionPatch = {"labels": self._labels(notebook)}
        if notebook:
            patch["notebook"] = to_wire(notebook)
        await self.daemon.patch(target("sessions", found["id"]), patch)
        body = {"start": start, "env": launch.environment(env, found["name"]), "cwd": to_wire(str(self.cwd)), "grace_ms": 0}
        return await self.daemon.post(target("sessions", found["id"], "restart"), body)

    async def _start(self, start: Start, env: dict[str, str], notebook: str | None, taken: list[str]) -> SessionView:
        wish = pathlib.PurePath(notebook).stem if notebook else self.parent.kernel_name
        body = {
            "start": start,
            "cwd": to_wire(str(self.cwd)),
            "labels": self._labels(notebook),
            "network": self.network,
            "outside": self.outside and self.network == "private",
            "files": launch.files_wish(self.files),
            "gpus": launch.gpus_wish(self.gpus),
            "memory_limit": launch.size(self.memory_limit),
            "workspace": to_wire(self.workspace) if self.workspace else None,
            "notebook": to_wire(notebook) if notebook else None,
            "policy": self.policy,
        }
        name = launch.free_name(wish, taken, self.kernel_id)
        try:
            return await self.daemon.post("/v1/sessions", {**body, "name": name, "env": launch.environment(env, name)})
        except DaemonError as error:
            if error.status != 409:
                raise
            # Somebody else was given that name meanwhile.
            name = f"{name}-{self.kernel_id[:8]}"
            return await self.daemon.post("/v1/sessions", {**body, "name": name, "env": launch.environment(env, name)})

    def _is_own(self, view: SessionView) -> bool:
        return view["id"] == self.session_id or view.get("labels", {}).get(KERNEL_ID) == self.kernel_id

    def _of_notebook(self, sessions: list[SessionView], notebook: str | None) -> SessionView | None:
        """The newest session of the same document and kernelspec that nobody uses: its history goes on."""
        wanted = self._labels(notebook)
        if PATH not in wanted:
            return None
        kernels = getattr(self.parent, "parent", None)
        for view in reversed(sessions):
            labels = view.get("labels", {})
            same = all(labels.get(name) == wanted[name] for name in (PATH, ROOT, KERNEL_NAME))
            try:
                used = labels.get(KERNEL_ID) in kernels
            except TypeError:
                used = False
            if same and not used and view["state"] in ("suspended", "ended", "failed"):
                return view
        return None

    def _notebook(self, env: dict[str, str]) -> str | None:
        """The document, if there is one on this machine. Consoles have a name too, but no file."""
        name = env.get("JPY_SESSION_NAME")
        if not name:
            return None
        path = os.path.join(self._root() or str(self.cwd), name)
        return os.path.normpath(path) if os.path.isfile(path) else None

    def _root(self) -> str | None:
        root = getattr(getattr(self.parent, "parent", None), "root_dir", None)
        return os.path.abspath(os.path.expanduser(root)) if root else None

    def _labels(self, notebook: str | None) -> dict[str, str]:
        labels = {KERNEL_ID: self.kernel_id, KERNEL_NAME: self.parent.kernel_name, PROVISIONED: "1"}
        root = self._root()
        if root and notebook and notebook.startswith(root.rstrip("/") + "/"):
            labels[ROOT] = root
            labels[PATH] = pathlib.PurePath(notebook).relative_to(root).as_posix()
        return labels

    def _check_fitness(self) -> None:
        """Whether the kernel can be a session at all."""
        if getattr(self.parent, "transport_encryption", "disabled") == "required":
            raise DaemonError("no-session", "transport_encryption is `required`, which kernels in sessions do not have")
        reason = launch.unfit(self.kernel_spec.argv)
        if reason is not None:
            raise DaemonError("no-session", reason)

    def _without_session(self, error: DaemonError) -> None:
        """Goes on without the daemon, unless the kernelspec or an existing session forbid that."""
        if self.is_explicit or self.session_id is not None:
            raise RuntimeError(f"cannot start kernel {self.parent.kernel_name!r} under infinijup: {error}") from error
        self.why_not = error.sentences()
        self.log.warning("Kernel %s has no history: %s", self.kernel_id, error)

    # Living.

    async def poll(self) -> int | None:
        """None while there is something to go on with; else how the command ended."""
        if self.session_id is None:
            return await super().poll()
        if not self._live:
            return 0
        if self.swapping:
            return None
        try:
            view = await self.daemon.get(target("sessions", self.session_id))
        except DaemonAway:
            # Kernels do not need the daemon to be alive, and nobody can tell while it is away.
            return None
        except DaemonError as error:
            if error.status != 404:
                return None
            self.log.warning("Session %s of kernel %s was removed", self.session_id, self.kernel_id)
            self.session_id = self.view = None
            return 1
        if self.swapping:
            return None
        self.notice(view)
        if view["state"] in ("ended", "failed") and view.get("operation") not in SWAPS:
            return 1 if view.get("exit") is None else view["exit"]
        return None

    async def send_signal(self, signum: int) -> None:
        """To the kernel and its children, wherever they are now."""
        if self.session_id is None:
            await super().send_signal(signum)
            return
        if not self._live or signum == 0:
            return
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                await self.daemon.post(target("sessions", self.session_id, "signal"), {"signal": int(signum)}, wait=False)
                return
            except DaemonAway as error:
                self.log.warning("Kernel %s was sent no %s: %s", self.kernel_id, signal.Signals(signum).name, error)
                return
            except DaemonError as error:
                # A swap is under way: what comes out of it is to be interrupted. No process: nothing is.
                if not is_busy(error) or time.monotonic() >= deadline:
                    self.log.debug("no signal %s to %s: %s", signum, self.session_id, error)
                    return
            await asyncio.sleep(_POLL)

    async def wait(self) -> int | None:
        """Until the command has ended."""
        if self.session_id is None:
            return await super().wait()
        while (code := await self.poll()) is None:
            await asyncio.sleep(_POLL)
        self._live = False
        return code

    # Ending.

    async def shutdown_requested(self, restart: bool = False) -> None:
        """The manager has asked the kernel to end, and is about to wait for that. One that sleeps has no ears."""
        if self.session_id is not None and await self.poll() is None and self.state == "suspended":
            self._live = False

    async def terminate(self, restart: bool = False) -> None:
        if self.session_id is None:
            await super().terminate(restart)
        else:
            await self._stop(grace=2.0)

    async def kill(self, restart: bool = False) -> None:
        if self.session_id is None:
            await super().kill(restart)
        else:
            await self._stop(grace=0.0)

    async def _stop(self, grace: float) -> None:
        """Ends the processes. The session stays, with its history; one that sleeps has none, and goes on sleeping."""
        if not self._live:
            return
        await self.poll()
        if self.state == "suspended":
            self._live = False
            return
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.notice(await self.daemon.post(target("sessions", self.session_id, "stop"), {"grace_ms": int(grace * 1000)}))
                return
            except DaemonError as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    self.log.warning("Kernel %s was not stopped: %s", self.kernel_id, error)
                    return
            await asyncio.sleep(_POLL)

    async def cleanup(self, restart: bool = False) -> None:
        """The manager has done with the process; with `restart` it launches the next one."""
        self._again = restart
        if self.session_id is None:
            await super().cleanup(restart)
            return
        if not restart:
            self._live = False
            await self.daemon.close()

    def detach(self) -> None:
        """The server goes, the kernel stays: from now on the manager ends nothing."""
        if self.session_id is None:
            return
        manager = self.parent
        manager.stop_restarter()
        # Not `_owns_kernel = False`: then a shutdown would leave its own future without an end.
        manager.shutdown_kernel = _leave_alone
        # What a shutdown would have cleaned up. ZeroMQ's context waits for the socket when the process ends.
        manager._close_control_socket()
        manager.cleanup_connection_file()

    async def get_provisioner_info(self) -> dict[str, Any]:
        return {**await super().get_provisioner_info(), "session_id": self.session_id}

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        await super().load_provisioner_info(provisioner_info)
        self.session_id = provisioner_info.get("session_id")
        self._live = self.session_id is not None


def _leave_alone(now: bool = False, restart: bool = False) -> None:
    """What shutting down comes to for a kernel that is no longer the manager's."""


def is_busy(error: DaemonError) -> bool:
    """Whether another operation is in the way, and trying again helps."""
    return error.status == 409 and error.body.get("exit") == 11


def read_connection(path: str) -> KernelConnectionInfo:
    """A connection file in the form that a kernel manager compares: the key in bytes, nothing that it does not know."""
    content = json.loads(pathlib.Path(path).read_text())
    info: KernelConnectionInfo = {name: content[name] for name in (*_PORTS, "ip", "transport", "signature_scheme")}
    info["key"] = content["key"].encode()
    return info
