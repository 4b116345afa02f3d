"""A real JupyterHub with its own proxy, one installation, two users of the machine: each has a daemon and kernels of their own."""

import asyncio

import pytest

from harness import proc
from harness.wire import request
from lab.hub import Hub
from lab.wire import Wire, until

pytestmark = pytest.mark.timeout(300)

# An administrator's wish that idle kernels go away, soon enough for a test.
CULLING = ["--MappingKernelManager.cull_idle_timeout=3", "--MappingKernelManager.cull_interval=1"]


@pytest.fixture
def users(make_user):
    """Two users of the machine, with a directory for their notebooks."""
    made = [make_user(), make_user()]
    for user in made:
        user.mkdir(user.home / "work")
    return made


@pytest.fixture
def hub(record, request, users):
    """The hub. It ends with the test, the daemons with their users."""
    hub = Hub(record, users, CULLING)
    try:
        yield hub.start()
    finally:
        if getattr(request.node, "failed", False):
            print(f"---- log of JupyterHub ----\n{hub.log_tail(150)}")
        hub.stop()


def states(server):
    """What a server shows of its user's sessions."""
    return {session["name"]: session["state"] for session in server.get("/infinijup/sessions")["sessions"]}


async def cell(server, kernel, code):
    """Runs a cell in a page that is opened for it and closed again; what it printed."""
    wire = Wire(server)
    try:
        answer = await (await wire.page(kernel)).run(code)
        assert answer.status == "ok", answer
        return answer.text
    finally:
        wire.close()


async def open_notebook(server, path, code):
    """Opens a notebook, runs a cell and closes the page; its kernel."""
    wire = Wire(server)
    try:
        kernel, page = await wire.open(path)
        assert (await page.run(code)).status == "ok"
        return kernel
    finally:
        wire.close()


async def begin(server, kernel, code):
    """Lets a cell begin, and leaves it."""
    wire = Wire(server)
    try:
        page = await wire.page(kernel)
        page.execute(code)
        await until("it has begun", lambda: page.status == "busy")
    finally:
        wire.close()


def test_two_users_of_one_hub(hub, users):
    servers = hub.servers(users)
    kernels = [
        asyncio.run(open_notebook(server, f"{word}.ipynb", f"secret = {word!r}\nimport os; uid = os.getuid()"))
        for server, word in zip(servers, ("ada", "bob"), strict=True)
    ]
    # Each sees their own and nobody else's, and nobody gets into the other's server.
    assert list(states(servers[0])) == ["ada"] and list(states(servers[1])) == ["bob"]
    for server, kernel, user in zip(servers, kernels, users, strict=True):
        assert asyncio.run(cell(server, kernel, "print(uid)")) == f"{user.uid}\n"
        assert server.get(f"/infinijup/kernels/{kernel}")["session"]["state"] == "running"
    stolen = hub.server_of(users[0], servers[1].token)
    with pytest.raises(AssertionError, match="403"):
        stolen.get("/infinijup/sessions")
    with pytest.raises(AssertionError, match="404"):
        servers[1].get(f"/infinijup/kernels/{kernels[0]}")

    # Idle kernels are culled: their processes are gone, and they sleep instead of being lost.
    for server, word in zip(servers, ("ada", "bob"), strict=True):
        proc.until(f"{word} sleeps", lambda server=server, word=word: states(server) == {word: "suspended"}, 60)
    # All ends and begins again: the hub, its proxy, and the servers of both. A cell wakes a kernel, with what it had.
    hub.stop()
    hub.start()
    servers = hub.servers(users)
    for server, kernel, word in zip(servers, kernels, ("ada", "bob"), strict=True):
        assert [one["id"] for one in server.get("/api/kernels")] == [kernel]
        assert states(server) == {word: "suspended"}
        assert asyncio.run(cell(server, kernel, "print(secret)")) == f"{word}\n"
        assert states(server) == {word: "running"}

    # A cell that runs is not culled, and goes on without its server and without the hub.
    asyncio.run(begin(servers[0], kernels[0], "import time; time.sleep(600)"))
    hub.stop()
    _, listed = request(users[0].home / ".local/share/infinijup/run/infinijupd.sock", "GET", "/v1/sessions")
    assert [(one["state"], one["activity"]["state"]) for one in listed["sessions"]] == [("running", "busy")]


def test_where_nothing_outlives_a_server_kernels_sleep_first(daemon, user, make_lab):
    # As in a unit or a container that is stopped: the server is told to end, then all the rest is killed.
    lab = make_lab(daemon, user, options=["--InfinijupExtension.at_exit=suspend"])
    kernel = asyncio.run(open_notebook(lab, "night.ipynb", "x = 41"))
    assert states(lab) == {"night": "running"}
    lab.stop()
    _, listed = daemon.get("/v1/sessions")
    assert [(one["state"], one["pid"]) for one in listed["sessions"]] == [("suspended", None)]
    daemon.kill()
    daemon.start()
    lab.start()
    assert asyncio.run(cell(lab, kernel, "print(x + 1)")) == "42\n"
