"""Kernels outlive the server: what was there is there again, and what is renamed is found again.

A session of the daemon carries in its labels which kernel of which notebook it is. When a server starts, before it answers anybody, each
living session that belongs to its directory becomes a kernel again under its old id, and its Jupyter session comes back with the old id
and path. An open page that reconnects finds everything as it was. When the server ends, kernels are let go, not ended.

Jupyter tells nobody when a session is saved or renamed, nor lets a kernel manager be told how to cull or what to do before a restart; so
these four methods of the running managers are wrapped.
"""

import logging
import os
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server._tz import utcnow

from infinijup.daemon import DaemonError, target, to_wire
from infinijup.serverextension.folders import Folders
from infinijup.serverextension.hub import KERNEL_ID, KERNEL_NAME, PATH, Hub

SESSION_ID, TYPE, NAME, ROOT = "jupyter.session_id", "jupyter.type", "jupyter.name", "jupyter.root"
LIVING = ("running", "suspended", "starting")
# In the names that JupyterLab makes up.
_VIRTUAL = "-jvsn-"


class Keeper:
    """What keeps the kernels of one server."""

    def __init__(self, hub: Hub, session_manager: Any, contents_manager: Any, root: str, log: logging.Logger):
        self.hub, self.sessions, self.contents, self.log = hub, session_manager, contents_manager, log
        self.kernels = hub.kernel_manager
        self.folders = Folders(hub, contents_manager)
        # As the provisioner writes it.
        self.root = os.path.abspath(os.path.expanduser(root))

    # At the start.

    async def adopt_all(self) -> int:
        """Makes kernels of all living sessions that are ours. How many."""
        try:
            # Sessions of an earlier server may sleep without a daemon.
            await self.hub.daemon.ensure()
            await self.hub.refresh_all()
        except DaemonError as error:
            self.hub.set_away(error.message)
            self.log.warning("infinijup: notebooks have no history, because %s", error)
            return 0
        adopted = 0
        for view in list(self.hub.views.values()):
            if self.is_ours(view) and view["state"] in LIVING:
                adopted += await self._adopt(view)
        if adopted:
            self.log.info("infinijup: %d kernels of an earlier server go on", adopted)
        return adopted

    def is_ours(self, view: dict[str, Any]) -> bool:
        """Whether a session is a kernel of this server's directory."""
        labels = view.get("labels") or {}
        return bool(labels.get(KERNEL_ID)) and os.path.realpath(labels.get(ROOT) or "/") == os.path.realpath(self.root)

    async def _adopt(self, view: dict[str, Any]) -> int:
        labels = view["labels"]
        kernel_id, path = labels[KERNEL_ID], labels.get(PATH)
        if kernel_id in self.kernels:
            return 0
        try:
            await self.start_kernel(kernel_id, labels.get(KERNEL_NAME) or "python3", path)
            if path and labels.get(SESSION_ID):
                await self.save_session(labels[SESSION_ID], path, labels.get(NAME), labels.get(TYPE), kernel_id)
        except Exception as error:  # One kernel that cannot be adopted must not cost the others.
            self.log.error("infinijup: session %s could not be made a kernel again: %s", view["name"], error, exc_info=error)
            return 0
        return 1

    async def start_kernel(self, kernel_id: str, kernel_name: str, path: str | None) -> None:
        """A kernel under this id: the provisioner finds its session by the label."""
        more: dict[str, Any] = {}
        if path:
            more["path"] = await ensure_async(self.contents.get_kernel_path(path=path))
            more["env"] = self.sessions.get_kernel_env(path)
        await ensure_async(self.kernels.start_kernel(kernel_id=kernel_id, kernel_name=kernel_name, **more))
        if kernel_id in self.kernels:
            # Nobody has heard its `starting`, and it will not say it again.
            kernel = self.kernels.get_kernel(kernel_id)
            view = getattr(kernel.provisioner, "view", None) or {}
            if view:
                self.hub.keep(view)
            busy = (view.get("activity") or {}).get("state") == "busy"
            kernel.execution_state = "busy" if busy else "idle"
            self._recall_info(kernel_id, kernel)

    def _recall_info(self, kernel_id: str, kernel: Any) -> None:
        """Jupyter asks each kernel once what it is, before any page may connect; one that runs a cell would answer after it."""
        info = self.hub.kernel_info(kernel_id)
        if self.hub.desk(kernel_id).kernel_info:
            kernel._kernel_info_future = Future()
            kernel._kernel_info_future.set_result(info)

    async def save_session(self, session_id: str, path: str, name: str | None, kind: str | None, kernel_id: str) -> dict[str, Any]:
        """A Jupyter session under this id."""
        name = name if name is not None else os.path.basename(path)
        return await self.sessions.save_session(session_id, path=path, name=name, type=kind or "notebook", kernel_id=kernel_id)

    # While it runs.

    def wrap(self) -> None:
        """Follows what Jupyter does with sessions, and takes over culling."""
        save, update = self.sessions.save_session, self.sessions.update_session
        cull, restart = self.kernels.cull_kernel_if_idle, self.kernels.restart_kernel

        async def save_session(session_id: str, *args: Any, **more: Any) -> Any:
            model = await save(session_id, *args, **more)
            self._follow(model)
            return model

        async def update_session(session_id: str, **changes: Any) -> Any:
            answer = await update(session_id, **changes)
            if changes:
                self._follow(await self.sessions.get_session(session_id=session_id))
            return answer

        async def cull_kernel_if_idle(kernel_id: str) -> None:
            if not await self._cull(kernel_id):
                await cull(kernel_id)

        async def restart_kernel(kernel_id: str, *args: Any, **more: Any) -> Any:
            await self._before_restart(kernel_id)
            return await restart(kernel_id, *args, **more)

        self.sessions.save_session, self.sessions.update_session = save_session, update_session
        self.kernels.cull_kernel_if_idle, self.kernels.restart_kernel = cull_kernel_if_idle, restart_kernel

    def labels(self, model: dict[str, Any]) -> dict[str, str]:
        """Of a Jupyter session."""
        labels = {SESSION_ID: model["id"], NAME: model.get("name") or "", TYPE: model.get("type") or "notebook", ROOT: self.root}
        path = self.real_path(model)
        return labels if path is None else {**labels, PATH: path}

    def real_path(self, model: dict[str, Any]) -> str | None:
        """The document of a Jupyter session. JupyterLab begins with a name that only looks like a path, and gives the path soon after."""
        path, kind = model.get("path") or "", model.get("type") or "notebook"
        if kind != "notebook" or not hasattr(self.contents, "_get_os_path"):
            return None if _VIRTUAL in path else path
        beside = os.path.join(os.path.dirname(path), os.path.basename(model.get("name") or ""))
        return next((place for place in (path, beside) if self.document(place)), None)

    def _follow(self, model: dict[str, Any] | None) -> None:
        kernel_id = ((model or {}).get("kernel") or {}).get("id")
        if not kernel_id or not self.hub.is_session(kernel_id):
            return
        session, labels = self.hub.session_id(kernel_id), self.labels(model)
        has = (self.hub.views.get(session) or {}).get("labels") or {}
        change: dict[str, Any] = {"labels": {**labels, KERNEL_ID: kernel_id}}
        if document := self.document(labels.get(PATH, ""), labels[TYPE]):
            change["notebook"] = to_wire(document)
        if any(has.get(name) != value for name, value in change["labels"].items()):
            self.hub.spawn(self.hub.patch(session, change))

    def document(self, path: str, kind: str = "notebook") -> str | None:
        """The file that goes with each snapshot; None for a contents manager without files."""
        if kind != "notebook" or not hasattr(self.contents, "_get_os_path"):
            return None
        full = self.contents._get_os_path(path)
        return full if os.path.isfile(full) else None

    async def _before_restart(self, kernel_id: str) -> None:
        """A snapshot, if the user wants one, so that the restart can be undone. It comes by itself after a crash, not through here."""
        if not self.hub.policy.server.before_restart or not self.hub.is_session(kernel_id) or self.hub.desk(kernel_id).asleep:
            return
        request = {"reason": "before-restart"}
        if document := await self.hub.document_shown(kernel_id):
            request["notebook"] = document
        try:
            await self.hub.post(target("sessions", self.hub.session_id(kernel_id), "snapshot"), request)
        except DaemonError as error:
            self.hub.warn(kernel_id, error)

    async def _cull(self, kernel_id: str) -> bool:
        """Suspends what Jupyter would end. True if it is not Jupyter's business."""
        if kernel_id not in self.kernels or not self.hub.is_session(kernel_id) or self.hub.policy.server.cull != "suspend":
            return False
        if self.hub.desk(kernel_id).asleep or self.hub.desk(kernel_id).swapping:
            return True
        kernel = self.kernels.get_kernel(kernel_id)
        if getattr(kernel, "execution_state", None) == "dead" or not hasattr(kernel, "last_activity"):
            return False
        # As MappingKernelManager.cull_kernel_if_idle decides it.
        limit = kernel.kernel_spec.metadata.get("cull_idle_timeout", self.kernels.cull_idle_timeout)
        idle = utcnow() - kernel.last_activity > timedelta(seconds=limit)
        rests = self.kernels.cull_busy or kernel.execution_state != "busy"
        alone = self.kernels.cull_connected or not self.kernels._kernel_connections.get(kernel_id, 0)
        if idle and rests and alone:
            self.log.warning("infinijup: suspending idle kernel %s (%s)", kernel.kernel_name, kernel_id)
            try:
                await self.hub.swaps.operate(kernel_id, "suspend", {"reason": "idle"})
            except DaemonError as error:
                self.hub.warn(kernel_id, error)
        return True

    # At the end.

    async def let_go(self, how: str) -> None:
        """`keep`: kernels run on. `suspend`: they are put to sleep. `stop`: Jupyter ends them, as it does."""
        if how == "stop":
            return
        for kernel_id in list(self.hub.kernels()):
            if how == "suspend" and not self.hub.desk(kernel_id).asleep:
                try:
                    await self.hub.swaps.operate(kernel_id, "suspend", {})
                except DaemonError as error:
                    self.log.warning("infinijup: kernel %s runs on: %s", kernel_id, error)
            try:
                await self._detach(kernel_id)
            except Exception as error:  # The server ends, whatever one kernel says to it.
                self.log.error("infinijup: kernel %s could not be let go: %s", kernel_id, error, exc_info=error)

    async def _detach(self, kernel_id: str) -> None:
        kernel = self.kernels.get_kernel(kernel_id)
        kernel.stop_restarter()
        self.kernels.stop_watching_activity(kernel_id)
        self.kernels.stop_buffering(kernel_id)
        await ensure_async(kernel.provisioner.detach())
        self.kernels.remove_kernel(kernel_id)
