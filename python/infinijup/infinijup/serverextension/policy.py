"""The user's settings: what is done by itself, and when.

Part of it is the daemon's business and is written into each session, so that it also holds while no server runs; the rest is done by
this server. The user interface puts the settings here; they are kept in a file, for kernels that are started before it does so again.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from infinijup.provisioner import InfinijupProvisioner
from infinijup.serverextension import refusal

_SECONDS = ("snapshot_every_s", "snapshot_after_idle_s", "suspend_after_idle_s")
_FLAGS = ("suspend_only_gpu", "before_cell", "after_cell", "before_restart")
_KEEP = ("last", "hourly", "daily")
_OF_SESSIONS = (*_SECONDS, "suspend_only_gpu", "keep")


# What goes again by itself, unless somebody says otherwise.
KEEP = {"last": 50, "hourly": 24, "daily": 14}


@dataclass(frozen=True)
class ServerPolicy:
    """All settings. There is a history by itself; everything else that happens so has to be asked for."""

    snapshot_every_s: int | None = None
    snapshot_after_idle_s: int | None = None
    suspend_after_idle_s: int | None = None
    suspend_only_gpu: bool = True
    keep: dict[str, int] | None = field(default_factory=lambda: dict(KEEP))
    before_cell: bool = False
    after_cell: bool = True
    # How long a kernel may stand still for a snapshot after a cell.
    pause_ms: int = 100
    before_restart: bool = False
    cull: str = "suspend"

    @classmethod
    def of(cls, given: Any) -> "ServerPolicy":
        """Of JSON; refuses what makes no sense. Fields that are not known are skipped."""
        if not isinstance(given, Mapping):
            raise refusal.bad_request("`policy` must be an object")
        known = {known.name: given[known.name] for known in fields(cls) if known.name in given}
        for name in _SECONDS:
            if known.get(name) == 0:
                known[name] = None
            if not _is_count(known.get(name)) and known.get(name) is not None:
                raise refusal.bad_request(f"`{name}` must be a number of seconds, or null for never")
        for name in _FLAGS:
            if not isinstance(known.get(name, False), bool):
                raise refusal.bad_request(f"`{name}` must be true or false")
        if not _is_count(known.get("pause_ms", 0)):
            raise refusal.bad_request("`pause_ms` must be a number of milliseconds")
        if known.get("cull", "suspend") not in ("suspend", "shutdown"):
            raise refusal.bad_request("`cull` must be `suspend` or `shutdown`")
        keep = known.get("keep")
        if keep is not None:
            if not isinstance(keep, Mapping) or not all(_is_count(keep.get(name, 0)) for name in _KEEP):
                raise refusal.bad_request("`keep` must have the counts `last`, `hourly` and `daily`")
            known["keep"] = {name: keep.get(name, 0) for name in _KEEP}
        return cls(**known)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class PolicyKeeper:
    """The settings of this server."""

    def __init__(self, file: Path, log: logging.Logger):
        self.file, self.log = file, log
        self.server = ServerPolicy()
        self.was_set = False
        # Sessions that have been told.
        self.given: set[str] = set()
        InfinijupProvisioner.policy = self.for_session()
        try:
            self._take(ServerPolicy.of(json.loads(file.read_text())))
        except FileNotFoundError:
            pass
        except Exception as error:  # A file that somebody edited must not keep the server from starting.
            log.warning("infinijup: %s is not understood and not used: %s", file, error)

    def set(self, policy: ServerPolicy) -> None:
        """From now on, and after a restart."""
        self._take(policy)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = self.file.with_suffix(".new")
            draft.write_text(json.dumps(asdict(policy), indent=1) + "\n")
            os.replace(draft, self.file)
        except OSError as error:
            self.log.warning("infinijup: the settings hold until the server ends; they cannot be kept: %s", error)

    def _take(self, policy: ServerPolicy) -> None:
        self.server, self.was_set = policy, True
        # New sessions begin with it.
        InfinijupProvisioner.policy = self.for_session()

    def for_session(self) -> dict[str, Any]:
        """What the daemon does."""
        return {name: getattr(self.server, name) for name in _OF_SESSIONS}

    def instead_of(self, has: dict[str, Any] | None) -> dict[str, Any]:
        """The settings of a session that has these. As long as nobody has set anything here, what somebody has set there stays."""
        theirs = {} if self.was_set else {name: value for name, value in (has or {}).items() if value is not None}
        return {**self.for_session(), **theirs}

    @staticmethod
    def is_same(has: dict[str, Any] | None, wants: dict[str, Any]) -> bool:
        """Whether a session has these settings already."""
        return all((has or {}).get(name) == value for name, value in wants.items())
