"""The magic in a kernel of a real daemon, which hears it, does it, and tells restored kernels that they live again."""

import pytest

pytest.importorskip("httpx")

from harness.jupyter import Jupyter, install
from harness.proc import until


@pytest.fixture
def kernel(user, daemon):
    jupyter = Jupyter(user, daemon, install(user))
    yield jupyter.kernel()
    jupyter.close()


def history(daemon, kernel):
    status, answer = daemon.get(f"/v1/sessions/{kernel.session}/history")
    assert status == 200, answer
    return answer["commits"]


def test_snapshot_mark_log_tag_and_status(kernel, daemon):
    assert "no snapshot yet" in kernel.run("%infinijup")
    kernel.run("x = 1")
    assert "stood still for" in kernel.run('answer = %infinijup snapshot label="first epoch"')
    [first] = history(daemon, kernel)
    assert first["label"] == "first epoch"
    kernel.run("%infinijup mark label='second <b>epoch</b>'")
    kernel.run("%infinijup snapshot")
    second = history(daemon, kernel)[0]
    assert second["label"] == "second <b>epoch</b>"
    kernel.run("%infinijup tag good")
    kernel.run(f"%infinijup tag older commit={first['id'][:12]}")
    tags = {commit["id"]: commit["tags"] for commit in history(daemon, kernel)}
    assert tags == {first["id"]: ["older"], second["id"]: ["good"]}
    lines = kernel.run("%infinijup log").splitlines()
    assert lines[0].startswith(second["id"][:12]) and lines[0].endswith("second <b>epoch</b>  #good")
    assert lines[1].endswith("first epoch  #older")
    assert {"good", "older"} <= set(kernel.do("complete", code="%infinijup restore "))
    answer = kernel.do("run", code="%infinijup tag good commit=older")
    assert answer["status"] == "error" and "good" in answer["evalue"]
    # What helps is said as it is typed here, not as in a terminal.
    answer = kernel.do("run", code="%infinijup restore nowhere")
    assert answer["status"] == "error" and "`%infinijup log` lists them" in answer["evalue"]


@pytest.mark.parametrize("name", ["tag=one", 'label="one more"'])
def test_restore_to_a_tag_or_label(kernel, name):
    kernel.run("x = 1")
    kernel.run(f"%infinijup snapshot {name}")
    kernel.run("x = 2")
    # This cell is cut off: the process that asks does not live to see the answer.
    kernel.do("begin", code=f"%infinijup restore {name.partition('=')[2]}")
    wait_for_restore(kernel, "x", "1")


def test_a_snapshot_in_the_middle_of_a_cell_goes_on_in_both_lives(kernel, user, daemon):
    printed = kernel.run("x = 1\nanswer = %infinijup snapshot\nprint('restored' in answer)")
    assert printed.endswith("False\n")
    [commit] = history(daemon, kernel)
    kernel.run("x = 2")
    status, answer = user.request(daemon, "POST", f"/v1/sessions/{kernel.session}/rollback?wait=true", {"to": commit["id"]})
    assert status == 200, answer
    # Nobody waits for the cell any more, but it comes to its end: the kernel is idle and x is as it was.
    wait_for_restore(kernel, "(x, 'restored' in answer)", "(1, True)")


def test_a_try_that_raises_never_happened(kernel, user):
    kernel.run("x = 1\nlog = open('log.txt', 'a')\n_ = log.write('before'); log.flush()")
    kernel.do("begin", code="%%infinijup try\nx = 2\n_ = log.write(' after'); log.flush()\nraise ValueError('bad news')")
    wait_for_restore(kernel, "x", "1")
    assert user.run(["cat", str(kernel.jupyter.root / "log.txt")]).out == "before"
    assert kernel.run("%%infinijup try\nx = 3\nprint('done')").endswith("done\n")
    assert kernel.run("print(x)") == "3\n"


def test_the_cell_of_a_try_is_answered_by_the_life_that_was_restored(kernel):
    for number in range(4):
        answer = kernel.do("run", code=f"%%infinijup try\nraise ValueError('bad news {number}')", seconds=60)
        assert answer["status"] == "ok"
        assert f"because it raised ValueError: bad news {number}\n" in answer["printed"]


def test_branch_and_suspend(kernel, daemon, user):
    kernel.run("x = 1")
    kernel.run("answer = %infinijup branch idea")
    sessions = {view["name"]: view for view in daemon.get("/v1/sessions")[1]["sessions"]}
    assert sessions["idea"]["state"] == "running"
    kernel.do("begin", code="y = 1\n%infinijup suspend\ny = 2")
    until("it sleeps", lambda: kernel.look()["state"] == "suspended", 30, 0.1)
    status, answer = user.request(daemon, "POST", f"/v1/sessions/{kernel.session}/resume?wait=true", {})
    assert status == 200, answer
    wait_for_restore(kernel, "(x, y)", "(1, 2)")


def wait_for_restore(kernel, expression, value):
    """Asks anew until the restored kernel answers: what was on its way at the swap is lost."""
    kernel.do("ready")
    until(f"{expression} is {value}", lambda: kernel.run(f"print({expression})").strip() == value, 30, 0.1)
