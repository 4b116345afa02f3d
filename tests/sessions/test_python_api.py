"""`infinijup.snapshot`, `attempt`, `fork` and `gather`, in kernels of a real daemon."""

import pytest

pytest.importorskip("httpx")

from harness.jupyter import Jupyter, install
from test_magic import history, wait_for_restore

MIB = 1 << 20


@pytest.fixture
def kernel(user, daemon):
    jupyter = Jupyter(user, daemon, install(user))
    kernel = jupyter.kernel()
    kernel.run("import infinijup")
    yield kernel
    jupyter.close()


def sessions(daemon):
    return {view["name"]: view for view in daemon.get("/v1/sessions")[1]["sessions"]}


def test_a_snapshot_returns_in_both_lives(kernel, user, daemon):
    assert kernel.run("taken = infinijup.snapshot('first epoch', tag='good'); print(taken.restored)") == "False\n"
    [commit] = history(daemon, kernel)
    assert (commit["label"], commit["tags"]) == ("first epoch", ["good"])
    status, answer = user.request(daemon, "POST", f"/v1/sessions/{kernel.session}/rollback?wait=true", {"to": "good"})
    assert status == 200, answer
    wait_for_restore(kernel, f"(taken.restored, taken.commit == {commit['id']!r})", "(True, True)")


def test_an_attempt_that_raises_never_happened(kernel, user):
    kernel.run("x = 1\nlog = open('log.txt', 'a')\n_ = log.write('before'); log.flush()")
    cell = """
try:
    with infinijup.attempt():
        x = 2
        _ = log.write(' after'); log.flush()
        raise ValueError('bad news')
except infinijup.RolledBack as back:
    print(x, back.reason)
"""
    for _ in range(3):
        answer = kernel.do("run", code=cell, seconds=60)
        assert (answer["status"], answer["printed"]) == ("ok", "1 ValueError: bad news\n")
    assert user.run(["cat", str(kernel.jupyter.root / "log.txt")]).out == "before"
    assert kernel.run("with infinijup.attempt('careful'):\n    x = 3\nprint(x)") == "3\n"


def test_an_attempt_that_nobody_catches_ends_the_cell(kernel):
    answer = kernel.do("run", code="with infinijup.attempt():\n    1 / 0", seconds=60)
    assert (answer["status"], answer["ename"]) == ("error", "RolledBack")
    assert "ZeroDivisionError" in answer["evalue"]


FORK = f"""
import hashlib
data = bytearray(200 * {MIB})
data[::4096] = bytes(range(256)) * (len(data) // 4096 // 256)
i = infinijup.fork(4)
if i:
    data[i] = i
    open('mine', 'w').write(str(i))
results = infinijup.gather((i, hashlib.sha256(data).hexdigest()), timeout=100)
print(i, [number for number, _ in results], len({{digest for _, digest in results}}))
"""


@pytest.mark.timeout(300)
def test_four_branches_of_200_mb_bring_back_their_results(kernel, daemon, user):
    # Of this user: other programs of the machine come and go there, too.
    listed = ["find", "/tmp", "-maxdepth", "1", "-user", user.name]
    before = user.run(listed).out
    answer = kernel.do("run", code=FORK, seconds=200)
    assert (answer["status"], answer["printed"]) == ("ok", "0 [1, 2, 3, 4] 4\n"), answer
    # The original has its own memory and files, and goes on.
    expected = "import os; print(data[1:5], os.path.exists('mine'))"
    assert kernel.run(expected) == "bytearray(b'\\x00\\x00\\x00\\x00') False\n"
    assert [name for name in sessions(daemon) if name.startswith("fork-")] == []
    assert user.run(listed).out == before
    # And can do so once more.
    assert kernel.run("i = infinijup.fork(1)\nprint(infinijup.gather(i * 10, timeout=60))") == "[10]\n"


def test_an_error_in_a_branch_names_it(kernel, daemon):
    cell = """
i = infinijup.fork(3)
if i == 2:
    raise ValueError('bad news')
try:
    infinijup.gather(i, timeout=60)
except infinijup.BranchError as error:
    print(error, error.number, error.results, 'bad news' in error.traceback)
"""
    assert kernel.run(cell) == "branch 2: ValueError: bad news 2 {1: 1, 3: 3} True\n"
    assert not any(name.startswith("fork-") for name in sessions(daemon))


def test_what_cannot_be_handed_in_and_who_does_not_hand_in(kernel):
    cell = """
i = infinijup.fork(2)
if i != 2:
    try:
        infinijup.gather(lambda: 1, timeout=60)
    except infinijup.BranchError as error:
        print(error)
"""
    assert "branch 1: its result cannot be pickled" in kernel.run(cell)
    cell = "i = infinijup.fork(1)\nif i == 0:\n    infinijup.gather(timeout=60)"
    answer = kernel.do("run", code=cell, seconds=60)
    assert answer["ename"] == "BranchError" and "ended without `infinijup.gather`" in answer["evalue"]


def test_branches_can_be_kept_and_waited_for_again(kernel, daemon, user):
    cell = """
import time
i = infinijup.fork(2)
if i:
    while not __import__('os').path.exists('/tmp/go-on-' + key):
        time.sleep(0.05)
try:
    infinijup.gather(i, timeout=0.5)
except TimeoutError as error:
    print(error)
"""
    key = f"{kernel.session}"
    kernel.run(f"key = {key!r}")
    assert kernel.run(cell).startswith("no result of branch 1, 2 within 0.5 s")
    user.run(["touch", f"/tmp/go-on-{key}"])
    try:
        assert kernel.run("print(infinijup.gather(timeout=60, keep=True))") == "[1, 2]\n"
    finally:
        user.run(["rm", f"/tmp/go-on-{key}"])
    kept = [view for name, view in sessions(daemon).items() if name.startswith("fork-")]
    assert [view["parent"]["session"] for view in kept] == [kernel.session] * 2


def test_a_kernel_removes_nothing_but_its_branches(kernel, daemon, commands):
    other = commands.kernel("other")
    cell = f"from infinijup import asking\nasking.line().ask('remove', 10, branches=[{other.id!r}])"
    answer = kernel.do("run", code=cell, seconds=60)
    assert answer["ename"] == "AskError" and "no branch of this session" in answer["evalue"]
    assert other.state == "running"
