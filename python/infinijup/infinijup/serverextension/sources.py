"""Where the daemon's events come from: its own stream, a Redis stream that it writes, or looking again and again.

Each source is an endless iterator of events in the daemon's form. Three kinds are added: `away` and `back` when the daemon, or Redis,
cannot be reached and can be again, and `missed` after which the state of things must be asked for anew.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

from infinijup.daemon import Daemon, DaemonAway, DaemonError

REDIS_VARIABLE = "INFINIJUP_REDIS"
POLL = 2.0
_BLOCK_MS = 5000

Events = AsyncIterator[dict[str, Any]]


def redis_url(configured: str) -> str:
    """Of the trait, or of the environment that the daemon reads too."""
    return configured or os.environ.get(REDIS_VARIABLE, "")


def has_redis() -> bool:
    """Whether the optional package is there."""
    try:
        import redis.asyncio  # noqa: F401
    except ImportError:
        return False
    return True


async def from_daemon(daemon: Daemon) -> Events:
    """Server-sent events, resumed by number. The stream begins with what is now, hence `missed`."""
    yield {"kind": "missed"}
    async for event in daemon.watch():
        yield event


async def from_redis(url: str, uid: int | None = None, pause: float = 1.0) -> Events:
    """The stream `infinijup:events:<uid>`, one entry an event."""
    import redis.asyncio
    from redis.exceptions import RedisError

    stream, last, away = f"infinijup:events:{os.getuid() if uid is None else uid}", "$", False
    client = redis.asyncio.from_url(url)
    try:
        while True:
            try:
                if last == "$":
                    # Ours to remember from here on: `$` would mean another moment at each call.
                    newest = await client.xrevrange(stream, count=1)
                    last = newest[0][0] if newest else "0-0"
                    yield {"kind": "missed"}
                answer = await client.xread({stream: last}, block=_BLOCK_MS)
                if away:
                    away = False
                    yield {"kind": "back"}
                for _, entries in answer or []:
                    for last, fields in entries:  # noqa: B007
                        yield _of_redis(fields)
            except (RedisError, OSError) as error:
                if not away:
                    away = True
                    yield {"kind": "away", "detail": f"Redis cannot be reached: {error}"}
                await asyncio.sleep(pause)
    finally:
        await client.aclose()


def _of_redis(fields: dict[bytes, bytes]) -> dict[str, Any]:
    raw = fields.get(b"event") or next(iter(fields.values()))
    return json.loads(raw)


async def from_polling(daemon: Daemon, every: float = POLL) -> Events:
    """Sessions and jobs, compared with what they were: less is seen, and later."""
    jobs: dict[str, dict[str, Any]] | None = None
    states: dict[str, Any] = {}
    away = False
    yield {"kind": "missed"}
    while True:
        try:
            sessions = (await daemon.get("/v1/sessions"))["sessions"]
            listed = {job["id"]: job for job in (await daemon.get("/v1/jobs"))["jobs"]}
            if away:
                away = False
                yield {"kind": "back"}
            for event in _compare(jobs, listed):
                yield event
            new = {view["id"]: {name: value for name, value in view.items() if name != "memory_bytes"} for view in sessions}
            for session in new.keys() | states.keys():
                if new.get(session) != states.get(session):
                    gone = session not in new
                    yield {"kind": "session_removed" if gone else "session_changed", "session": session}
            jobs, states = listed, new
        except DaemonAway as error:
            if not away:
                away = True
                yield {"kind": "away", "detail": error.message}
        except DaemonError as error:
            yield {"kind": "missed", "detail": error.message}
        await asyncio.sleep(every)


def _compare(before: dict[str, dict[str, Any]] | None, now: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs that began and ended between two looks."""
    events = []
    for identity, job in now.items():
        known = (before or {}).get(identity)
        of = {"session": job.get("session"), "job_id": identity, "job_kind": job.get("kind"), "job": job}
        # At the first look, what has ended is no news.
        if known is None and (before is not None or job["state"] == "running"):
            events.append({"kind": "job_began", "time": job["began"], **of})
        if job["state"] != "running" and known is not None and known["state"] == "running":
            events.append({"kind": "job_ended", "time": job.get("ended"), **of})
        if job["state"] != "running" and known is None and before is not None:
            events.append({"kind": "job_ended", "time": job.get("ended"), **of})
    return events
