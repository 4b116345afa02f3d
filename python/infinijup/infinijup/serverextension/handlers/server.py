"""The daemon, the machine and the user's settings."""

import asyncio
from dataclasses import asdict
from typing import Any

from infinijup.serverextension.handlers.base import Handler, answers, changes
from infinijup.serverextension.policy import ServerPolicy


class StatusHandler(Handler):
    """Whether there is a daemon, and how its events come here."""

    _track_activity = False

    @answers
    async def get(self) -> dict[str, Any]:
        hub = self.hub
        return {
            "daemon": None if hub.away else hub.version,
            "why_not": hub.away,
            "transport": hub.transport,
            "every_kernel": self.extension.every_kernel,
        }


class DoctorHandler(Handler):
    """What this machine can do."""

    @answers
    async def get(self) -> Any:
        return await self.daemon.get("/v1/doctor")


class StoreHandler(Handler):
    """How much room all histories of this user take, and may take, and what is pushed elsewhere."""

    @answers
    async def get(self) -> Any:
        store = await self.daemon.get("/v1/store")
        return {name: store.get(name) for name in ("used_bytes", "allowed_bytes", "remote")}


class PolicyHandler(Handler):
    """The user's settings."""

    @answers
    async def get(self) -> dict[str, Any]:
        return {"policy": asdict(self.hub.policy.server)}

    @changes
    async def put(self) -> dict[str, Any]:
        policy = ServerPolicy.of(self.body().get("policy"))
        self.hub.policy.set(policy)
        wanted = self.hub.policy.for_session()
        sessions = set(self.hub.kernels().values())
        self.hub.policy.given |= sessions
        await asyncio.gather(*(self.hub.patch(session, {"policy": wanted}) for session in sessions))
        return {"policy": asdict(policy)}
