"""The server extension without a browser: a real server of a user, a real daemon, real CRIU, kernel websockets as pages use them."""

import asyncio
import functools
import itertools
import json
import socket
import subprocess
from pathlib import Path

import pytest

from harness.session import Commands
from lab.server import free_port
from lab.wire import Wire, until

pytestmark = pytest.mark.timeout(300)
ROLLBACKS = 50
LOOP = """
import time
for n in range(200):
    print(n, flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def story(lab):
    """Runs a coroutine with a wire to the server."""

    def run(function):
        async def whole():
            wire = Wire(lab)
            try:
                return await function(wire)
            finally:
                wire.close()

        return asyncio.run(whole())

    return run


def told(test):
    """A test that is a coroutine of `wire`."""

    @functools.wraps(test)
    def run(lab, story):
        story(functools.partial(test, lab))

    del run.__wrapped__
    return run


@told
async def test_snapshot_restore_branch_and_suspend(lab, wire):
    kernel, page = await wire.open("snapshots.ipynb", "x = 1")
    await page.run("x = 1")
    first = await wire.do("snapshot", kernel_id=kernel, label="one", notebook=lab.read_notebook("snapshots.ipynb"))
    await page.run("x = 2")
    back = await wire.do("restore", kernel_id=kernel, to=first["commit"])
    assert (await page.run("print(x)")).text == "1\n"
    # What was there before the restore is a snapshot, too.
    await wire.do("restore", kernel_id=kernel, to=back["automatic"])
    assert (await page.run("print(x)")).text == "2\n"
    made = await wire.do("branch", kernel_id=kernel, **{"from": first["commit"]})
    assert made["path"] == "snapshots (branch).ipynb"
    assert "".join(lab.read_notebook(made["path"])["cells"][0]["source"]) == "x = 1"
    other = await wire.page(made["kernel_id"])
    assert (await other.run("print(x)")).text == "1\n"
    await other.run("x = 10")
    assert (await page.run("print(x)")).text == "2\n"
    await wire.do("suspend", kernel_id=made["kernel_id"])
    assert lab.get(f"/infinijup/kernels/{made['kernel_id']}")["session"]["state"] == "suspended"
    assert (await other.run("print(x)")).text == "10\n"
    history = lab.get(f"/infinijup/history?kernel_id={kernel}")
    assert {thread["path"] for thread in history["threads"]} == {"snapshots.ipynb", made["path"]}
    assert next(commit for commit in history["commits"] if commit["id"] == first["commit"])["label"] == "one"


@told
async def test_a_port_that_somebody_takes_while_the_kernel_sleeps(lab, wire):
    kernel, page = await wire.open("ports.ipynb")
    await page.run("x = 1")
    session = lab.get(f"/infinijup/kernels/{kernel}")["session"]["id"]
    file = Path(lab.daemon.get(f"/v1/sessions/{session}")[1]["kernel"]["connection_file"])
    before = json.loads(file.read_text())
    await wire.do("suspend", kernel_id=kernel)
    with socket.create_server(("127.0.0.1", before["shell_port"])):
        assert (await page.run("print(x)")).text == "1\n"
        assert (await (await wire.page(kernel)).run("print(x)")).text == "1\n"
        assert json.loads(file.read_text())["shell_port"] != before["shell_port"]


@told
async def test_no_answer_is_lost_in_fifty_rollbacks(lab, wire):
    kernel, page = await wire.open("fifty.ipynb")
    pages = [page, await wire.page(kernel)]
    await pages[0].run("x = 'then'")
    await pages[1].run("1")
    taken = await wire.do("snapshot", kernel_id=kernel)
    answers, numbers, over = [], itertools.count(), asyncio.Event()

    async def submit(page):
        while not over.is_set():
            number = next(numbers)
            answer = page.execute(f"print({number}, x)")
            answers.append((answer, f"{number} then\n"))
            await asyncio.wait_for(answer.done.wait(), 60)

    workers = [asyncio.ensure_future(submit(page)) for page in pages]

    def answered():
        return [(answer.text, text) for answer, text in answers if answer.status == "ok"]

    for number in range(ROLLBACKS):
        await wire.do("restore", kernel_id=kernel, to=taken["commit"])
        if number % 2:
            # What comes at once cuts off what it finds. So that this is not all there is, the others leave a moment.
            before = len(answered())
            await until("a cell is answered between rollbacks", lambda before=before: len(answered()) > before)
    over.set()
    await asyncio.gather(*workers)
    assert all(answer.status in ("ok", "aborted") for answer, _ in answers)
    assert [both for both in answered() if both[0] != both[1]] == []
    assert "restarting kernel" not in lab.log_tail(100_000)


@told
async def test_a_snapshot_in_the_middle_of_a_cell_goes_on_from_there(lab, wire):
    kernel, page = await wire.open("middle.ipynb")
    events = await wire.events()
    running = page.execute(LOOP, cell="loop")
    await until("the loop runs", lambda: running.text.count("\n") > 5)
    taken = await wire.do("snapshot", kernel_id=kernel)
    at_snapshot = running.text.count("\n")
    await until("the loop goes on", lambda: running.text.count("\n") > at_snapshot + 20)
    await wire.do("restore", kernel_id=kernel, to=taken["commit"])
    queued = page.execute("print(n)")
    await asyncio.wait_for(running.done.wait(), 60)
    await asyncio.wait_for(queued.done.wait(), 60)
    # The cell went on, and what it printed after the snapshot came a second time.
    assert running.status == "ok" and running.text.count("199\n") == 1 and len(running.text.split()) > 200
    assert queued.text == "199\n"
    restored = await until("it was told", lambda: [event for event in events if event["type"] == "restored"])
    assert restored[0]["running_cell"]["cell_id"] == "loop"
    # Also when it has long ended for the page: all that the kernel says comes again, to the same message.
    before = running.kinds.count("execute_reply"), running.kinds.count("status")
    await wire.do("restore", kernel_id=kernel, to=taken["commit"])
    await until("it ends again", lambda: running.kinds.count("execute_reply") > before[0])
    # `busy` from the server, `idle` from the kernel.
    await until("and is idle", lambda: running.kinds.count("status") >= before[1] + 2)
    assert page.status == "idle"
    restored = [event for event in events if event["type"] == "restored"]
    assert restored[1]["running_cell"]["cell_id"] == "loop"
    await page.run("1")
    quiet = await wire.do("snapshot", kernel_id=kernel)
    await wire.do("restore", kernel_id=kernel, to=quiet["commit"])
    restored = await until("it was told", lambda: [event for event in events if event["type"] == "restored"][2:])
    assert restored[0]["running_cell"] is None


@told
async def test_a_restore_while_a_cell_runs_ends_it(lab, wire):
    kernel, page = await wire.open("cut.ipynb")
    await page.run("x = 1")
    taken = await wire.do("snapshot", kernel_id=kernel)
    running, queued = page.execute(LOOP), page.execute("x = 2")
    await until("the loop runs", lambda: running.text)
    await wire.do("restore", kernel_id=kernel, to=taken["commit"])
    for answer in (running, queued):
        await asyncio.wait_for(answer.done.wait(), 20)
        assert answer.status == "aborted"
    assert (await page.run("print(x)")).text == "1\n"
    asking = page.execute("input('?')")
    await asyncio.wait_for(page.questions.get(), 20)
    await wire.do("restore", kernel_id=kernel, to=taken["commit"])
    await asyncio.wait_for(asking.done.wait(), 20)
    assert asking.status == "aborted"


@told
async def test_the_server_is_killed_and_the_notebook_goes_on(lab, wire):
    lab.write_notebook("killed.ipynb")
    before = await wire.notebook("killed.ipynb")
    page = await wire.page(before["kernel"]["id"])
    await page.run("kept = 41")
    await until("it is labelled", lambda: session_label(lab, before) == before["id"])
    lab.kill()
    lab.start()
    # As an open page does it: by the ids that it has, and the first request is the listing.
    (after,) = (model for model in lab.get("/api/sessions") if model["path"] == "killed.ipynb")
    assert (after["id"], after["path"], after["kernel"]["id"]) == (before["id"], "killed.ipynb", before["kernel"]["id"])
    again = await wire.page(before["kernel"]["id"], session=page.session)
    assert (await again.run("print(kept + 1)")).text == "42\n"
    await wire.do("suspend", kernel_id=before["kernel"]["id"])
    lab.kill()
    lab.start()
    asleep = await wire.page(before["kernel"]["id"], session=page.session)
    assert (await asleep.run("print(kept + 1)")).text == "42\n"


@told
async def test_a_killed_kernel_offers_its_last_snapshot(lab, wire):
    kernel, page = await wire.open("crash.ipynb")
    await page.run("x = 1")
    taken = await wire.do("snapshot", kernel_id=kernel)
    assert lab.get("/infinijup/offer?path=crash.ipynb") is None
    page.execute("import os; os.kill(os.getpid(), 9)")
    offer = await until("it is offered", lambda: lab.get("/infinijup/offer?path=crash.ipynb"))
    assert (offer["commit"]["id"], offer["reason"]) == (taken["commit"], "crash")
    await until("Jupyter restarted it", lambda: lab.get(f"/infinijup/kernels/{kernel}")["session"]["state"] == "running")
    await wire.do("restore", kernel_id=kernel, to=offer["commit"]["id"])
    again = await wire.page(kernel)
    assert (await again.run("print(x)")).text == "1\n"
    assert lab.get("/infinijup/offer?path=crash.ipynb") is None


def three(commits):
    return commits if len(commits) == 3 else None


@told
async def test_snapshots_before_each_cell(lab, wire):
    kernel, page = await wire.open("before.ipynb")
    await page.run("n = 0")
    lab.request("PUT", "/infinijup/policy", {"policy": {"before_cell": True, "after_cell": False}})
    answers = [page.execute("n += 1; print(n)", cell=f"c{number}") for number in range(3)]
    for answer in answers:
        await asyncio.wait_for(answer.done.wait(), 60)
    # A cell waits until its snapshot has been taken, and not until it is stored.
    commits = await until("all are stored", lambda: three(lab.get(f"/infinijup/history?kernel_id={kernel}")["commits"]))
    assert [(commit["reason"], commit["cell"]["id"]) for commit in commits] == [("before-cell", f"c{number}") for number in (2, 1, 0)]
    await wire.do("restore", kernel_id=kernel, to=commits[1]["id"])
    lab.request("PUT", "/infinijup/policy", {"policy": {"after_cell": False}})
    assert (await page.run("print(n)")).text == "1\n"


def session_label(lab, model):
    view = lab.get(f"/infinijup/kernels/{model['kernel']['id']}")["session"]
    return view["labels"].get("jupyter.session_id")


@told
async def test_the_daemon_suspends_and_cells_wake_at_any_moment(lab, wire):
    kernel, page = await wire.open("asleep.ipynb")
    events = await wire.events()
    await page.run("n = 0")
    lab.request("PUT", "/infinijup/policy", {"policy": {"suspend_after_idle_s": 1, "suspend_only_gpu": False, "after_cell": False}})
    # The suspension has just begun, is in the middle, is over: a cell that comes then is run, once.
    for number, pause in enumerate((0.0, 0.05, 0.2, 0.5, 1.0, 3.0), start=1):
        seen = len(events)
        await until("it is being suspended", lambda seen=seen: any(suspends(event, kernel) for event in events[seen:]))
        await asyncio.sleep(pause)
        answer = await page.run("n += 1; print(n)", 60)
        assert (answer.status, answer.text) == ("ok", f"{number}\n"), pause
    lab.request("PUT", "/infinijup/policy", {"policy": {"after_cell": False}})


def suspends(event, kernel):
    """Whether an event says that this kernel is being suspended."""
    return event["type"] == "job" and event["kernel_id"] == kernel and event["job"]["kind"] == "suspend"


@pytest.fixture
def redis(tmp_path):
    """A Redis of the test's own."""
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log)
    yield f"redis://127.0.0.1:{port}"
    server.kill()
    server.wait()


def test_events_come_by_redis_if_it_is_configured(redis, make_daemon, make_user, make_lab):
    daemon, user = make_daemon({"INFINIJUP_REDIS": redis}), make_user()
    lab = make_lab(daemon, user, {"INFINIJUP_REDIS": redis})

    async def story():
        wire = Wire(lab)
        try:
            await rollback_by_command(lab, wire, Commands(daemon, user))
        finally:
            wire.close()

    asyncio.run(story())


async def rollback_by_command(lab, wire, commands):
    """Somebody else exchanges the process: only events tell."""
    kernel, page = await wire.open("events.ipynb")
    await page.run("x = 1")
    assert lab.get("/infinijup/status")["transport"] == "redis"
    taken = await wire.do("snapshot", kernel_id=kernel)
    running = page.execute(LOOP)
    await until("the loop runs", lambda: running.text)
    await asyncio.to_thread(commands.run, "rollback", "events", taken["commit"])
    await asyncio.wait_for(running.done.wait(), 30)
    assert running.status == "aborted"
    assert (await page.run("print(x)")).text == "1\n"
