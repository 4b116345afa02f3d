"""Parts that need neither server nor daemon."""

import asyncio
import json
import logging
import shutil
import subprocess

import pytest

from infinijup.daemon import DaemonError
from infinijup.serverextension import cells, sources
from infinijup.serverextension.hub import Hub, moment
from infinijup.serverextension.news import News
from infinijup.serverextension.policy import PolicyKeeper, ServerPolicy
from infinijup.serverextension.reader import Reader

pytestmark = pytest.mark.timeout(60)
LOG = logging.getLogger("test")


def document(*sources_, ids=True):
    made = [{"cell_type": "code", "source": source, "id": name} for name, source in sources_]
    return {"cells": made if ids else [{**cell, "id": None} for cell in made]}


def test_cells_by_id():
    before = document(("a", "1"), ("b", "2"), ("c", "3"))
    after = document(("c", "3"), ("b", ["2", "2"]), ("d", "4"))
    answer = cells.diff(before, after)
    assert [cell["id"] for cell in answer["added"]] == ["d"] and [cell["id"] for cell in answer["removed"]] == ["a"]
    assert [(pair["before"]["source"], pair["after"]["source"]) for pair in answer["changed"]] == [("2", "22")]


def test_cells_without_ids_are_compared_in_order():
    before, after = document(("", "1"), ("", "2"), ids=False), document(("", "1"), ("", "two"), ("", "3"), ids=False)
    answer = cells.diff(before, after)
    assert [pair["after"]["source"] for pair in answer["changed"]] == ["two"]
    assert [cell["source"] for cell in answer["added"]] == ["3"] and answer["removed"] == []


@pytest.mark.parametrize("broken", [{}, {"cells": 3}, {"cells": [1, None]}, {"cells": [{"source": None}]}])
def test_documents_that_are_none(broken):
    assert cells.diff(broken, document(("a", "1")))["added"] or cells.diff(broken, broken) is not None
    assert cells.diff(None, broken) is None


def test_times_of_the_daemon():
    assert moment("1970-01-01T00:00:01.183466875Z") == pytest.approx(1.183466875)
    assert moment("1970-01-01T00:00:02Z") == 2.0


class OldDaemon:
    """Knows some fields only, and says in its own words and by `field` which it does not."""

    def __init__(self, *known):
        self.known, self.bodies = set(known), []

    async def post(self, _path, body):
        self.bodies.append(body)
        for name in body:
            if name not in self.known:
                raise DaemonError.from_body(400, {"code": "IJ-D017", "message": "whatever it says", "field": name})
        return "done"


def test_an_older_daemon_is_asked_without_what_it_does_not_know(tmp_path):
    daemon = OldDaemon("message", "label")
    hub = Hub(daemon, None, PolicyKeeper(tmp_path / "policy.json", LOG), LOG)
    answer = asyncio.run(hub.post("/v1/x", {"message": "m", "reason": "r", "label": "l", "cell": {}}))
    assert (answer, daemon.bodies[-1]) == ("done", {"message": "m", "label": "l"})
    # What cannot be done without is not left out, nor what is only wrong.
    with pytest.raises(DaemonError):
        asyncio.run(hub.post("/v1/x", {"to": "c"}))
    refused = DaemonError.from_body(400, {"code": "IJ-D010", "message": "unknown field `label`", "field": "label"})

    async def refuse(_path, _body):
        raise refused

    daemon.post = refuse
    with pytest.raises(DaemonError):
        asyncio.run(hub.post("/v1/x", {"label": "l"}))


def test_a_step_says_what_its_job_does(tmp_path):
    hub = Hub(None, None, PolicyKeeper(tmp_path / "policy.json", LOG), LOG)
    told = []
    hub.news.tell = told.append
    hub.kernel_of = lambda _session: None
    step = {"kind": "job_step", "session": "s", "job_id": "j", "job_kind": "snapshot", "step": {"name": "ingest", "done": 1, "total": 2}}
    Reader(hub, None).take(step)
    assert [(event["job"]["id"], event["job"]["kind"], event["job"]["step"]) for event in told] == [("j", "snapshot", "ingest")]


def test_settings_survive_and_nonsense_does_not(tmp_path):
    file = tmp_path / "sub" / "policy.json"
    keeper = PolicyKeeper(file, LOG)
    assert keeper.server.after_cell and keeper.for_session()["keep"] == {"last": 50, "hourly": 24, "daily": 14}
    keeper.set(ServerPolicy.of({"snapshot_every_s": 5, "after_cell": True}))
    again = PolicyKeeper(file, LOG)
    assert again.server == keeper.server and again.for_session()["snapshot_every_s"] == 5
    file.write_text("{")
    assert PolicyKeeper(file, LOG).server == ServerPolicy()
    counts = ({"keep": {"last": -1}}, {"keep": 3}, {"pause_ms": -1}, {"snapshot_every_s": "5"}, {"snapshot_every_s": True})
    for nonsense in ({"before_cell": 1}, *counts):
        with pytest.raises(DaemonError):
            ServerPolicy.of(nonsense)


def test_what_nobody_has_set_here_leaves_what_somebody_has_set_there(tmp_path):
    keeper = PolicyKeeper(tmp_path / "policy.json", LOG)
    theirs = {"snapshot_every_s": 60, "keep": {"last": 3, "hourly": 0, "daily": 0}, "suspend_after_idle_s": None}
    assert keeper.instead_of(theirs) == {**keeper.for_session(), "snapshot_every_s": 60, "keep": theirs["keep"]}
    assert keeper.instead_of(None) == keeper.for_session()
    keeper.set(ServerPolicy.of({"keep": None}))
    assert keeper.instead_of(theirs) == keeper.for_session() and keeper.for_session()["keep"] is None


def test_news_are_bounded_and_say_what_was_missed():
    news, heard = News(kept=3), []
    unlisten = news.listen(heard.append)
    for number in range(5):
        news.tell({"type": str(number)})
    unlisten()
    news.tell({"type": "5"})
    assert [event["n"] for event in heard] == [1, 2, 3, 4, 5]
    assert [event["type"] for event in news.since(4)["events"]] == ["4", "5"] and not news.since(3)["missed"]
    assert news.since(1)["missed"] and news.since(7)["missed"] and news.since(6) == {"events": [], "next": 6, "missed": False}


class Polled:
    """A daemon that is looked at."""

    def __init__(self, looks):
        self.looks = iter(looks)

    async def get(self, path):
        if path == "/v1/sessions":
            self.look = next(self.looks)
            return {"sessions": self.look[0]}
        return {"jobs": self.look[1]}


def test_polling_tells_what_changed():
    running, done = (
        {"id": "j", "kind": "rollback", "session": "s", "state": state, "began": "b", "ended": "e"} for state in ("running", "done")
    )
    quick = {**done, "id": "q"}
    looks = [([{"id": "s", "state": "running"}], [running]), ([{"id": "s", "state": "running"}], [done, quick]), ([], [done, quick])]

    async def story():
        seen = []
        try:
            async for event in sources.from_polling(Polled(looks), every=0):
                seen.append((event["kind"], event.get("session"), event.get("job_id")))
        except RuntimeError:  # No more looks.
            return seen

    assert asyncio.run(story()) == [
        ("missed", None, None),
        ("job_began", "s", "j"),
        ("session_changed", "s", None),
        ("job_ended", "s", "j"),
        ("job_began", "s", "q"),
        ("job_ended", "s", "q"),
        ("session_removed", "s", None),
    ]


@pytest.fixture
def redis_server(tmp_path):
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server")
    pytest.importorskip("redis")
    path = tmp_path / "r.sock"
    words = [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path), "--logfile", str(tmp_path / "log")]
    servers = []

    def start():
        servers.append(subprocess.Popen(words))
        return servers[-1]

    yield f"unix://{path}", start
    for server in servers:
        server.kill()
        server.wait()


def test_events_of_a_real_redis_also_after_it_was_away(redis_server):
    from redis.asyncio import from_url

    url, start = redis_server
    server = start()

    async def wait_for_redis(client):
        deadline = asyncio.get_running_loop().time() + 20
        while True:
            try:
                return await client.ping()
            except Exception:  # It is starting.
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.02)

    async def story():
        nonlocal server
        client = from_url(url)
        await wait_for_redis(client)
        await client.xadd("infinijup:events:7", {"event": json.dumps({"id": 1, "kind": "old"})})
        events = sources.from_redis(url, uid=7, pause=0.05)
        assert (await anext(events))["kind"] == "missed"
        pending = asyncio.ensure_future(anext(events))
        await client.xadd("infinijup:events:7", {"event": json.dumps({"id": 2, "kind": "job_began"})})
        assert (await asyncio.wait_for(pending, 20))["id"] == 2
        pending = asyncio.ensure_future(anext(events))
        await client.aclose()
        server.kill()
        server.wait()
        assert (await asyncio.wait_for(pending, 20))["kind"] == "away"
        server = start()
        pending = asyncio.ensure_future(anext(events))
        client = from_url(url)
        await wait_for_redis(client)
        await client.xadd("infinijup:events:7", {"event": json.dumps({"id": 3, "kind": "job_ended"})}, id="9999999999999-0")
        kinds = [(await asyncio.wait_for(pending, 20))["kind"]]
        while kinds[-1] != "job_ended":
            kinds.append((await asyncio.wait_for(anext(events), 20))["kind"])
        assert kinds == ["back", "job_ended"]
        await events.aclose()
        await client.aclose()

    asyncio.run(story())
