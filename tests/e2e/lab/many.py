"""A server extension that has a long history to tell: answers that the page gets instead of those of the real one.

What the panel does with thousands of snapshots does not depend on where they come from, and nobody wants to wait until they are taken.
"""

import json
import random
import urllib.parse
from datetime import UTC, datetime, timedelta

HTML = "<b>bold</b> <img src=x onerror=alert(1)>"
LONG = "before the big change of the data loader, which took the whole afternoon and some of the evening"
CELLS = ("model = train(model, data, epochs={0})\nplot(history)", "df = pd.read_parquet('s3://bucket/part-{0}.parquet')", "x = {0}")


def history(length: int, threads: int) -> tuple[list[dict], list[dict]]:
    """Snapshots, newest first, and threads: the same for the same numbers, but for the times."""
    dice = random.Random(7)
    now = datetime.now(UTC)
    commits, heads, own = [], {}, {}
    for number in range(length):
        thread = f"study-{dice.randrange(1 + number * threads // length)}"
        made = commit(f"{dice.getrandbits(160):040x}", thread, number, now - timedelta(minutes=3) * (length - number), dice)
        left = heads.get(thread)
        if left is None:
            made["parents"] = [dice.choice(commits[-100:])["id"]] if commits else []
            made |= {"reason": "branch", "automatic": False}
        elif number % 29 == 0 and len(own[thread]) > 5:
            target = dice.choice(own[thread][-40:])
            made |= {"parents": [left, target], "back_to": target, "reason": "rollback", "automatic": False}
        else:
            made["parents"] = [left]
            if number % 7 == 0:
                made |= {"reason": "manual", "automatic": False, "label": f"{dice.choice([HTML, LONG, 'epoch', 'loss'])} {number}"}
        if number % 53 == 0:
            made["tags"] = [f"v{number}", "the-best-model-so-far"]
        commits.append(made)
        heads[thread] = made["id"]
        own.setdefault(thread, []).append(made["id"])
    rows = [
        {"name": name, "head": head, "session": name, "state": "running", "kernel_id": None, "path": f"work/{name} of the year.ipynb"}
        for name, head in heads.items()
    ]
    return commits[::-1], rows


def commit(commit_id: str, thread: str, number: int, time: datetime, dice: random.Random) -> dict:
    """A snapshot that was taken by itself."""
    size = dice.randrange(50, 900) << 20
    return {
        "id": commit_id, "parents": [], "thread": thread, "tags": [], "time": time.isoformat().replace("+00:00", "Z"),
        "reason": "interval", "automatic": True, "message": "", "label": None, "bytes": size, "memory_bytes": size,
        "new_bytes": dice.randrange(1, 40 << 20), "vram_bytes": dice.choice([0, 512 << 20]), "frozen_us": dice.randrange(8000, 90000),
        "cell": {"id": None, "number": number, "source": dice.choice(CELLS).format(number)}, "has_notebook": True,
        "has_variables": number % 3 > 0, "session": thread, "back_to": None,
    }  # fmt: skip


def diff(a: str, b: str) -> dict:
    """What lies between two snapshots, with what is hard to show."""
    mapping = {"pid": 1, "start": 0x7F0000000000, "end": 0x7F0004000000, "name": "[heap]", "change": "changed", "changed_bytes": 1 << 20}
    loop = "for step in range({0}):\n    train(step)"
    return {
        "a": a, "b": b, "processes": [], "memory": [mapping], "totals": {"memory_bytes": 1 << 20, "files": 2, "processes": 0},
        "files": [
            {"path": f"/work/{HTML}.txt", "change": "changed", "before_bytes": 10, "after_bytes": 99999},
            {"path": {"hex": "2f746d702f636166e9"}, "change": "added", "before_bytes": None, "after_bytes": 5},
        ],
        "variables": None,
        "cells": {
            "added": [{"source": HTML}], "removed": [],
            "changed": [{"before": {"source": loop.format(10)}, "after": {"source": loop.format(20), "number": 5}}],
        },
    }  # fmt: skip


class Many:
    """Stands between a tab and its server."""

    def __init__(self, tab, length: int, threads: int):
        self.commits, self.threads = history(length, threads)
        self.thread = "study-0"
        self.stream, self.kernel = None, None
        page = tab.page
        page.route("**/infinijup/kernels/**", lambda route: route.fulfill(json=self.of_kernel(route.request.url)))
        page.route("**/infinijup/history?**", lambda route: route.fulfill(json=self.answer()))
        page.route("**/infinijup/diff?**", lambda route: route.fulfill(json=self.of_diff(route.request.url)))
        page.route("**/infinijup/offer?**", lambda route: route.fulfill(json=None))
        page.route_web_socket("**/infinijup/events**", self.connect)

    def session(self) -> dict:
        """The session of the notebook."""
        head = next(one["id"] for one in self.commits if one["thread"] == self.thread)
        since = self.commits[-1]["time"]
        return {"id": "s0", "name": self.thread, "state": "running", "thread": self.thread, "head": head, "created": since}

    def of_kernel(self, url: str) -> dict:
        """Of whatever kernel is asked for."""
        self.kernel = urllib.parse.urlsplit(url).path.rsplit("/", 1)[1]
        return {"kernel_id": self.kernel, "session": self.session(), "why_not": None, "path": None}

    def answer(self) -> dict:
        """The whole history."""
        return {"session": self.session(), "kernel_id": self.kernel, "commits": self.commits, "threads": self.threads}

    def of_diff(self, url: str) -> dict:
        """Of whatever two are asked for."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
        return diff(query["a"][0], query["b"][0])

    def connect(self, stream) -> None:
        """The page opens the stream of events."""
        self.stream = stream
        stream.send(json.dumps({"type": "hello"}))

    def say(self, **event) -> None:
        """An event of this kernel."""
        self.stream.send(json.dumps({"kernel_id": self.kernel, **event}))
