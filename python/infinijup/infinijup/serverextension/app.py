"""The server extension.

Loaded by `jupyter server` once the package is installed. It makes infinijup's provisioner the one for kernelspecs that name none, puts
its own class between pages and kernels, and brings back the kernels of an earlier server before anybody can ask for them: its load
comes before the server's event loop runs, and requests that arrive meanwhile wait in the listening socket.
"""

import asyncio
import os
from pathlib import Path

from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from traitlets import Bool, Enum, Unicode

import infinijup
from infinijup.daemon import SOCKET_VARIABLE, Daemon
from infinijup.serverextension.connection import SwapAwareConnection
from infinijup.serverextension.handlers import ROUTES
from infinijup.serverextension.hub import Hub
from infinijup.serverextension.keeper import Keeper
from infinijup.serverextension.offers import Offers
from infinijup.serverextension.policy import PolicyKeeper
from infinijup.serverextension.reader import Reader

PROVISIONER = "infinijup"
LOCAL = "local-provisioner"
# A daemon that hangs must not keep the server from starting.
ADOPTION_LIMIT = 30.0


class InfinijupExtension(ExtensionApp):
    """Every notebook has a history."""

    name = "infinijup"
    version = infinijup.__version__
    extension_url = "/infinijup/status"
    load_other_extensions = True

    every_kernel = Bool(
        True, config=True, help="Whether kernels whose kernelspec names no provisioner are started as sessions of infinijupd."
    )
    at_exit = Enum(
        ["keep", "suspend", "stop"],
        "keep",
        config=True,
        help="What becomes of kernels when the server ends: they run on, are suspended, or are ended.",
    )
    events = Enum(
        ["auto", "events", "redis", "polling"],
        "auto",
        config=True,
        help="How the daemon's events come here; `auto` is Redis if it is configured, and the daemon's own stream otherwise.",
    )
    redis_url = Unicode("", config=True, help="Where Redis is, for events; INFINIJUP_REDIS if empty.")
    socket = Unicode("", config=True, help="Where the daemon listens; INFINIJUP_SOCKET or its default if empty.")
    policy_file = Unicode("", config=True, help="Where the user's settings are kept; in Jupyter's data directory if empty.")

    def initialize_settings(self) -> None:
        server = self.serverapp
        if self.socket:
            # For the provisioners, which have no configuration of this extension.
            os.environ[SOCKET_VARIABLE] = self.socket
        file = Path(self.policy_file or Path(jupyter_data_dir()) / "infinijup" / "policy.json")
        self.hub = Hub(Daemon(), server.kernel_manager, PolicyKeeper(file, self.log), self.log)
        self.hub.drafts = file.parent / "shown"
        self.keeper = Keeper(self.hub, server.session_manager, server.contents_manager, server.root_dir, self.log)
        self.offers = Offers(self.hub, self.keeper)
        self.reader = Reader(self.hub, self.keeper, self.events, self.redis_url)
        self._adopted = False
        self.settings["infinijup_hub"] = self.hub
        self._take_kernels()

    def initialize_handlers(self) -> None:
        self.handlers.extend(ROUTES)

    def initialize(self) -> None:
        super().initialize()
        loop = self.serverapp.io_loop.asyncio_loop
        if not loop.is_running():
            loop.run_until_complete(self._adopt())

    async def _start_jupyter_server_extension(self, _serverapp) -> None:
        await self._adopt()
        self.reader.start()

    async def stop_extension(self) -> None:
        """Lets the kernels go before Jupyter ends those that it still has."""
        await self.reader.stop()
        await self.keeper.let_go(self.at_exit)
        await self.hub.close()

    def _take_kernels(self) -> None:
        manager = self.serverapp.kernel_manager
        factory = KernelProvisionerFactory.instance(parent=manager)
        if self.every_kernel and factory.default_provisioner_name == LOCAL:
            factory.default_provisioner_name = PROVISIONER
        if self.settings.get("kernel_websocket_connection_class") is ZMQChannelsWebsocketConnection:
            self.settings["kernel_websocket_connection_class"] = SwapAwareConnection
        else:
            self.log.warning(
                "infinijup: another kernel_websocket_connection_class is configured; cells that run during a restore will hang"
            )
        # What kernel and daemon say to each other is nobody's activity.
        manager.untracked_message_types = [*manager.untracked_message_types, "infinijup_request", "infinijup_reply"]
        self.keeper.wrap()

    async def _adopt(self) -> None:
        if self._adopted:
            return
        self._adopted = True
        try:
            await asyncio.wait_for(self.keeper.adopt_all(), ADOPTION_LIMIT)
        except asyncio.TimeoutError:
            self.log.error("infinijup: the daemon takes too long; kernels of an earlier server were not all found")
