"""The exchange of a kernel's process under an open page."""

import asyncio
import json

import pytest

from infinijup.serverextension.connection import SwapAwareConnection

pytestmark = pytest.mark.timeout(240)


async def test_a_kernel_is_a_session_and_answers(notebook, page, rest, daemon):
    model = await notebook()
    kernel = model["kernel"]["id"]
    assert (await (await page(kernel)).run("print(6 * 7)")).text == "42\n"
    status, answer = await rest("GET", f"kernels/{kernel}")
    assert status == 200 and answer["why_not"] is None
    assert answer["session"]["labels"]["jupyter.kernel_id"] == kernel
    assert answer["path"] == "a.ipynb"


@pytest.mark.parametrize("legacy", [False, True])
async def test_what_is_sent_during_a_swap_is_held_and_answered(notebook, page, rest, daemon, legacy):
    kernel = (await notebook())["kernel"]["id"]
    first, second = await page(kernel, legacy=legacy), await page(kernel)
    await first.run("x = 1")
    await second.run("y = 1")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel, "message": "m"})
    daemon.slow = 0.3
    restoring = asyncio.ensure_future(rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]}))
    await asyncio.sleep(0.1)
    answers = [first.execute("print('a')"), second.execute("print('b')")]
    assert (await restoring)[0] == 200
    for answer, text in zip(answers, "ab", strict=True):
        await asyncio.wait_for(answer.done.wait(), 60)
        assert (answer.status, answer.text) == ("ok", f"{text}\n")
    # It is another process.
    assert (await first.run("print('x' in globals())")).text == "False\n"


@pytest.fixture
def late(monkeypatch):
    """Connections whose IOPub sockets find the kernel a second after the others; those that there were."""
    create, late = SwapAwareConnection.create_stream, []

    def create_slowly(connection):
        create(connection)
        socket = connection.channels["iopub"].socket
        place = socket.LAST_ENDPOINT
        socket.disconnect(place)
        asyncio.get_running_loop().call_later(1.0, socket.connect, place)
        late.append(place)

    def begin():
        monkeypatch.setattr(SwapAwareConnection, "create_stream", create_slowly)
        return late

    return begin


async def test_a_connection_that_hears_late_loses_nothing(notebook, page, rest, late):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    seen = late()
    await rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]})
    assert seen
    assert (await opened.run("print(1)")).text == "1\n"


async def test_one_that_hears_late_loses_nothing_by_a_second_swap_that_is_given_up(notebook, page, rest, extension, late, until):
    """The second one begins before the kernel of the first is heard, and leaves everything as it is."""
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    seen, swaps = late(), extension.hub.swaps
    restoring = asyncio.ensure_future(rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]}))
    await until("the sockets are new", lambda: seen)
    swaps.begin(kernel, "somebody", "rollback")
    await swaps.end(kernel, "somebody", "rollback", None)
    answer = opened.execute("print(1)")
    await asyncio.wait_for(answer.done.wait(), 20)
    assert (answer.status, answer.text) == ("ok", "1\n")
    assert (await restoring)[0] == 200


async def test_what_was_cut_off_is_aborted(notebook, page, rest, daemon, until):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("import time")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    running = opened.execute("print('begun', flush=True)\ntime.sleep(60)")
    queued = opened.execute("1")
    await until("the cell runs", lambda: running.text)
    await rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]})
    for answer in (running, queued):
        await asyncio.wait_for(answer.done.wait(), 60)
        assert answer.status == "aborted"
    await until("the page's kernel is idle", lambda: opened.status == "idle")
    assert (await opened.run("print(1)")).text == "1\n"


async def test_a_question_to_the_user_is_void_after_a_swap(notebook, page, rest):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    asking = opened.execute("input('name? ')")
    await asyncio.wait_for(opened.questions.get(), 60)
    await rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]})
    await asyncio.wait_for(asking.done.wait(), 60)
    assert asking.status == "aborted"
    assert (await opened.run("print(2)")).text == "2\n"


async def test_a_suspended_kernel_looks_idle_and_a_cell_wakes_it(notebook, page, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    info = opened.send("kernel_info_request", {})
    await asyncio.wait_for(info.done.wait(), 60)
    assert (await rest("POST", "suspend", {"kernel_id": kernel}))[0] == 200
    asked = [opened.send("kernel_info_request", {}), opened.send("complete_request", {"code": "a", "cursor_pos": 1})]
    asked.append(opened.send("execute_request", {"code": "1", "silent": True}))
    for answer in asked:
        await asyncio.wait_for(answer.done.wait(), 60)
    assert asked[0].reply["language_info"] == info.reply["language_info"]
    assert [answer.status for answer in asked[1:]] == ["aborted", "aborted"]
    session = next(iter(daemon.sessions.values()))
    assert session["state"] == "suspended"
    # A page that is opened now works at once.
    second = await asyncio.wait_for(page(kernel), 15)
    assert (await second.run("print('awake')")).text == "awake\n"
    assert (await opened.run("print('here too')")).text == "here too\n"
    assert session["state"] == "running"


async def test_a_kernel_that_cannot_be_woken_says_why(notebook, page, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    await rest("POST", "suspend", {"kernel_id": kernel})
    body = {"code": "IJ-G021", "message": "there is no room on the GPU", "hint": "suspend another kernel", "causes": [], "exit": 1}
    daemon.refuse["POST .*/resume"] = (409, body)
    answer = await opened.run("print(1)")
    assert answer.status == "error" and "suspend another kernel" in answer.reply["evalue"]
    daemon.refuse.clear()
    assert (await opened.run("print(1)")).text == "1\n"


async def test_the_kernel_that_is_idle_longest_makes_room(notebook, page, rest, daemon, extension):
    kernels = [(await notebook(f"{name}.ipynb"))["kernel"]["id"] for name in "abc"]
    pages = [await page(kernel) for kernel in kernels]
    for opened in pages:
        await opened.run("1")
    views = [daemon.sessions[extension.hub.session_id(kernel)] for kernel in kernels]
    for number, view in enumerate(views):
        view |= {"vram_bytes": 1, "activity": {"state": "idle", "since": f"2026-01-0{3 - number}T00:00:00Z"}}
    await rest("PUT", "policy", {"policy": {"suspend_after_idle_s": 3600}})
    await rest("POST", "suspend", {"kernel_id": kernels[0]})
    daemon.places = 2
    assert (await pages[0].run("print('there is a place')")).text == "there is a place\n"
    await rest("POST", "suspend", {"kernel_id": kernels[0]})
    daemon.places = 1
    assert (await pages[0].run("print('there is one now')")).text == "there is one now\n"
    assert [view["state"] for view in views] == ["running", "running", "suspended"]


async def test_a_cell_does_not_wait_for_room_that_nobody_can_make(notebook, page, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    await rest("PUT", "policy", {"policy": {"suspend_after_idle_s": 3600}})
    await rest("POST", "suspend", {"kernel_id": kernel})
    daemon.places = -1
    daemon.refuse["GET /v1/sessions"] = (500, {"code": "IJ-X", "message": "no", "causes": [], "hint": None, "exit": 1})
    answer = await opened.run("print(1)")
    assert answer.status == "error" and "no place on the GPUs" in answer.reply["evalue"]


async def test_a_swap_that_somebody_else_began_is_seen(notebook, page, daemon, extension, until):
    model = await notebook()
    kernel = model["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("import time")
    session = extension.hub.session_id(kernel)
    taken = await extension.hub.daemon.post(f"/v1/sessions/{session}/snapshot", {})
    running = opened.execute("print('begun', flush=True)\ntime.sleep(60)")
    await until("the cell runs", lambda: running.text)
    await extension.hub.daemon.post(f"/v1/sessions/{session}/rollback", {"to": taken["commit"]})
    await asyncio.wait_for(running.done.wait(), 60)
    assert running.status == "aborted"
    assert (await opened.run("print(3)")).text == "3\n"


@pytest.fixture
def turns(monkeypatch):
    """Holds cells up when it is their turn, until the second event is set; the first says that one is there."""
    turn, goes = asyncio.Event(), asyncio.Event()

    async def before(connection, cell, snapshot):
        turn.set()
        await goes.wait()

    monkeypatch.setattr(SwapAwareConnection, "_before_cell", before)
    return turn, goes


@pytest.mark.parametrize("kind", ["rollback", "suspend"])
async def test_a_cell_that_meets_a_swap_on_its_way_is_run(notebook, page, extension, turns, kind):
    """Its turn has come, and before it goes somebody begins to exchange the process, and gives it up."""
    kernel = (await notebook())["kernel"]["id"]
    turn, goes = turns
    opened = await page(kernel)
    answers = [opened.execute(f"print({number})") for number in range(2)]
    await turn.wait()
    extension.hub.swaps.begin(kernel, "somebody", kind)
    goes.set()
    await asyncio.sleep(0.1)
    await extension.hub.swaps.end(kernel, "somebody", kind, None)
    for number, answer in enumerate(answers):
        await asyncio.wait_for(answer.done.wait(), 20)
        assert (answer.status, answer.text) == ("ok", f"{number}\n")


async def test_cells_whose_turn_comes_when_the_kernel_has_fallen_asleep_wake_it(notebook, page, rest, daemon, turns):
    kernel = (await notebook())["kernel"]["id"]
    turn, goes = turns
    opened = await page(kernel)
    answers = [opened.execute(f"print({number})") for number in range(3)]
    await turn.wait()
    assert (await rest("POST", "suspend", {"kernel_id": kernel}))[0] == 200
    goes.set()
    for number, answer in enumerate(answers):
        await asyncio.wait_for(answer.done.wait(), 20)
        assert (answer.status, answer.text) == ("ok", f"{number}\n")
    assert next(iter(daemon.sessions.values()))["state"] == "running"


async def test_cells_whose_turn_comes_and_whose_kernel_cannot_be_woken_say_why(notebook, page, rest, daemon, turns):
    kernel = (await notebook())["kernel"]["id"]
    turn, goes = turns
    opened = await page(kernel)
    answers = [opened.execute(f"print({number})") for number in range(2)]
    await turn.wait()
    await rest("POST", "suspend", {"kernel_id": kernel})
    body = {"code": "IJ-G021", "message": "there is no room on the GPU", "hint": "suspend another kernel", "causes": [], "exit": 1}
    daemon.refuse["POST .*/resume"] = (409, body)
    goes.set()
    for answer in answers:
        await asyncio.wait_for(answer.done.wait(), 20)
        assert answer.status == "error" and "suspend another kernel" in answer.reply["evalue"]
    daemon.refuse.clear()
    assert (await opened.run("print(1)")).text == "1\n"


async def test_a_refused_restore_changes_nothing(notebook, page, rest, daemon, until):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    running = opened.execute("import time\nprint('begun', flush=True)\ntime.sleep(1)\nprint('ended')")
    await until("the cell runs", lambda: running.text)
    status, answer = await rest("POST", "restore", {"kernel_id": kernel, "to": "0" * 64})
    assert (status, answer["code"]) == (404, "IJ-L010")
    await asyncio.wait_for(running.done.wait(), 60)
    assert (running.status, running.text) == ("ok", "begun\nended\n")


async def test_a_page_that_is_reloaded_in_the_middle(notebook, page, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    daemon.slow = 1.0
    restoring = asyncio.ensure_future(rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]}))
    await asyncio.sleep(0.2)
    opened.close()
    reloaded = await asyncio.wait_for(page(kernel), 15)
    assert (await reloaded.run("print('again')")).text == "again\n"
    await restoring


async def test_a_page_that_was_away_learns_what_was_cut_off(notebook, page, rest, until):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("import time")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    running = opened.execute("print('begun', flush=True)\ntime.sleep(60)")
    await until("the cell runs", lambda: running.text)
    opened.close()
    await rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]})
    back = await page(kernel, session=opened.session)
    back.answers = opened.answers
    await asyncio.wait_for(running.done.wait(), 60)
    assert running.status == "aborted"
    assert (await back.run("print(5)")).text == "5\n"


async def test_many_swaps_lose_no_answer(notebook, page, rest):
    kernel = (await notebook())["kernel"]["id"]
    pages = [await page(kernel), await page(kernel)]
    for opened in pages:
        await opened.run("1")
    _, taken = await rest("POST", "snapshot", {"kernel_id": kernel})
    answers, over = [], asyncio.Event()

    async def submit(opened):
        while not over.is_set():
            answer = opened.execute(f"print({len(answers)})")
            answers.append((answer, f"{len(answers)}\n"))
            await asyncio.wait_for(answer.done.wait(), 60)

    workers = [asyncio.ensure_future(submit(opened)) for opened in pages]
    for _ in range(8):
        assert (await rest("POST", "restore", {"kernel_id": kernel, "to": taken["commit"]}))[0] == 200
    over.set()
    await asyncio.gather(*workers)
    assert all(answer.status in ("ok", "aborted") for answer, _ in answers)
    assert all(answer.text == text for answer, text in answers if answer.status == "ok")


async def test_the_daemon_goes_in_the_middle(notebook, page, rest, daemon, extension, until):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("1")
    await daemon.stop()
    status, answer = await rest("POST", "snapshot", {"kernel_id": kernel})
    assert (status, answer["code"]) == (503, "daemon-away")
    # Kernels do not need it.
    assert (await opened.run("print(4)")).text == "4\n"
    await until("it is noticed", lambda: extension.hub.away)
    await daemon.start()
    await until("it is back", lambda: extension.hub.away is None)
    assert (await rest("POST", "snapshot", {"kernel_id": kernel}))[0] == 200


async def test_snapshots_before_and_after_each_cell(notebook, page, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await rest("PUT", "policy", {"policy": {"after_cell": False}})
    await opened.run("n = 0")
    await rest("PUT", "policy", {"policy": {"before_cell": True, "after_cell": True}})
    answers = [opened.execute(f"n += 1; print(n)  # {number}", cell=f"c{number}") for number in range(3)]
    for answer in answers:
        await asyncio.wait_for(answer.done.wait(), 60)
    assert [answer.text for answer in answers] == ["1\n", "2\n", "3\n"]
    await opened.run("print(n)")
    taken = [(commit["reason"], commit["cell"]["id"]) for commit in daemon.commits.values()]
    # What is after one cell is before the next.
    assert taken[:4] == [("before-cell", "c0"), ("after-cell", "c0"), ("after-cell", "c1"), ("after-cell", "c2")]


async def test_a_history_by_itself(notebook, page, daemon, until):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    for number in range(3):
        assert (await opened.run(f"print({number})", cell=f"c{number}")).text == f"{number}\n"
        await until("its snapshot is there", lambda number=number: len(daemon.commits) == number + 1)
    taken = [(commit["reason"], commit["cell"]["id"], commit["cell"]["number"]) for commit in daemon.commits.values()]
    assert taken == [("after-cell", "c0", 1), ("after-cell", "c1", 2), ("after-cell", "c2", 3)]
    (session,) = daemon.sessions.values()
    assert session["policy"]["keep"] == {"last": 50, "hourly": 24, "daily": 14}


async def test_a_history_by_itself_has_what_the_page_showed(notebook, page, rest, daemon, until):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)

    def shown():
        cells = json.loads(daemon.documents[list(daemon.commits)[-1]])["cells"]
        return [(cell["id"], cell["source"], "".join(one.get("text", "?") for one in cell["outputs"])) for cell in cells]

    async def run(code, cell):
        number = len(daemon.commits)
        await opened.run(code, cell=cell)
        await until("its snapshot is there", lambda: len(daemon.commits) > number)

    await run("x = 1; print(x)", "c1")
    assert shown() == [("c1", "x = 1; print(x)", "1\n")]
    back = list(daemon.commits)[-1]
    await run("print(2)", "new")
    await run("x = 3; print(x)", "c1")
    assert shown() == [("c1", "x = 3; print(x)", "3\n"), ("new", "print(2)", "2\n")]
    await rest("POST", "restore", {"kernel_id": kernel, "to": back})
    await run("print(4)", "other")
    assert shown() == [("c1", "x = 1; print(x)", "1\n"), ("other", "print(4)", "4\n")]


@pytest.mark.parametrize("legacy", [False, True])
async def test_cells_of_a_page_that_goes_are_run(notebook, page, extension, until, legacy):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel, legacy=legacy)
    await opened.run("import time; ran = []")
    for number in range(3):
        opened.execute(f"time.sleep(0.3); ran.append({number})")
    await until("the first runs", lambda: extension.hub.desk(kernel).cells == 2)
    opened.close()
    other = await page(kernel)
    # The kernel takes turns between pages.
    seen = [(await other.run("print(ran)")).text for _ in range(4)]
    assert seen[-1] == "[0, 1, 2]\n", seen


async def test_cells_behind_a_failed_one_are_not_run(notebook, page, rest):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await opened.run("ran = False")
    await rest("PUT", "policy", {"policy": {"before_cell": True, "after_cell": False}})
    failing, behind = opened.execute("1 / 0"), opened.execute("ran = True")
    await asyncio.wait_for(behind.done.wait(), 60)
    assert (failing.status, behind.status) == ("error", "aborted")
    assert (await opened.run("print(ran)")).text == "False\n"


async def test_a_failed_snapshot_stops_no_cell_and_is_told_once(notebook, page, rest, daemon):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await rest("PUT", "policy", {"policy": {"before_cell": True, "after_cell": False}})
    daemon.refuse["POST .*/snapshot"] = (500, {"code": "IJ-X", "message": "no", "causes": [], "hint": None, "exit": 1})
    for number in range(3):
        assert (await opened.run(f"print({number})")).text == f"{number}\n"
    _, news = await rest("GET", "events", since=0)
    assert [event["error"]["code"] for event in news["events"] if event["type"] == "warning"] == ["IJ-X"]


async def test_a_restart_by_jupyter_keeps_the_session(notebook, page, rest, jp_fetch, daemon, extension):
    kernel = (await notebook())["kernel"]["id"]
    opened = await page(kernel)
    await rest("PUT", "policy", {"policy": {"before_restart": True, "after_cell": False}})
    await opened.run("x = 1")
    before = extension.hub.session_id(kernel)
    await jp_fetch("api", "kernels", kernel, "restart", method="POST", body=json.dumps({}), request_timeout=60)
    assert extension.hub.session_id(kernel) == before and len(daemon.sessions) == 1
    assert [commit["reason"] for commit in daemon.commits.values()] == ["before-restart"]
    assert (await opened.run("print('x' in globals())")).text == "False\n"
