"""Whether a kernel is at work, and what follows from it: what notebooks ask, and what sessions do by themselves."""

import pytest
from harness import proc
from harness.wire import request

pytestmark = pytest.mark.timeout(400)

# What the magic does, as small as it can be: asks by a message on iopub, and hears answers on the control channel.
ASK = """
import time, uuid
_kernel = get_ipython().kernel
heard = []
_kernel.control_handlers["infinijup_reply"] = lambda stream, ident, message: heard.append(message["content"])

def ask(what, limit=60, **arguments):
    content = {"id": uuid.uuid4().hex, "do": what, **arguments}
    end, again = time.monotonic() + limit, 0
    while time.monotonic() < end:
        if time.monotonic() >= again:
            _kernel.session.send(_kernel.iopub_socket, "infinijup_request", content, parent=_kernel.get_parent())
            again = time.monotonic() + 3
        for answer in list(heard):
            if answer["id"] in (content["id"], "*"):
                heard.remove(answer)
                return answer
        time.sleep(0.01)
    raise TimeoutError(what)
"""


def activity(session):
    return session.view()["activity"] or {"state": None}


# How long anything may take where many tests run at once.
LONG = 90


def until(what, session, state):
    proc.until(what, lambda: activity(session)["state"] == state, seconds=LONG)


def policy(session, **policy):
    status, view = request(session.commands.daemon.socket, "PATCH", f"/v1/sessions/{session.id}", {"policy": policy})
    assert status == 200, view
    return view


def commits(session):
    status, answer = session.commands.daemon.get(f"/v1/sessions/{session.id}/history")
    assert status == 200, answer
    return answer["commits"]


@pytest.fixture
def session(commands, user):
    return commands.kernel("work", cwd=user.mkdir(user.home / "work"))


def test_busy_and_idle_through_a_swap_and_a_restart(session, daemon, user):
    kernel = session.kernel
    until("it is idle", session, "idle")
    cell = kernel.send("# the long one\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
    until("it is busy", session, "busy")
    assert activity(session)["cell"] == "# the long one"
    # In the midst of a cell, with our connections to it.
    taken = session.snapshot()
    assert activity(session)["state"] == "busy"
    (user.home / "work/go").touch()
    kernel.finish(cell)
    until("the cell has ended", session, "idle")

    (user.home / "work/go").unlink()
    session.rollback(taken["commit"], "--force")
    until("the cell runs again", session, "busy")
    daemon.restart()
    until("a daemon that comes in the midst of it knows", session, "busy")
    (user.home / "work/go").touch()
    until("it ends again", session, "idle")
    session.kernel.ready()
    assert session.kernel.value("1 + 1") == 2


def test_a_notebook_asks_and_is_answered(session):
    kernel = session.kernel
    kernel.run(ASK)
    kernel.run("status = ask('status')")
    assert kernel.value("(status['ok'], status['result']['name'])") == (True, "work")
    kernel.run("x = 1; taken = ask('snapshot', message='by the kernel')")
    assert kernel.value("taken['ok']"), kernel.value("str(taken)")
    commit = kernel.value("taken['result']['commit']")
    assert session.view()["head"] == commit
    kernel.run("refused = ask('snapshot', nonsense=1)")
    assert kernel.value("(refused['ok'], refused['error']['code'])") == (False, "IJ-D017")

    # Back to the moment in which it waited for the answer: it hears that it lives again, and with what note.
    kernel.run("x = 2")
    kernel.send(f"ask('restore', to='{commit}', note='hello')")
    proc.until("it went back", lambda: session.view()["head"] != commit and session.view()["operation"] is None, seconds=LONG)
    kernel.ready()
    assert kernel.value("x") == 1
    assert kernel.value("(taken['id'], taken['result']['restored'], taken['result']['note'])") == ("*", commit, "hello")


def test_a_branch_and_a_sleeper_hear_that_they_live_again(session):
    session.kernel.run(ASK)
    session.kernel.send("x = 1; answer = ask('snapshot')")
    proc.until("the snapshot is there", lambda: session.view()["head"], seconds=LONG)
    session.kernel.ready()
    head = session.view()["head"]
    branch, _ = session.branch("twin", "--from", head)
    branch.connect()
    assert branch.kernel.value("(answer['id'], answer['result']['session'])") == ("*", "twin")
    session.suspend()
    assert session.view()["activity"] is None
    session.resume()
    session.kernel.ready()
    proc.until("it hears", lambda: session.kernel.value("[a['id'] for a in heard]") == ["*"], seconds=LONG)


def test_snapshots_by_time_between_cells_or_in_one_that_does_not_end(session, user):
    kernel = session.kernel
    policy(session, snapshot_every_s=1)
    kernel.run("x = 1")
    proc.until("a snapshot", lambda: commits(session), seconds=LONG)
    cell = kernel.send("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
    until("it is busy", session, "busy")
    before = len(commits(session))
    proc.until("one in the midst of the cell", lambda: len(commits(session)) > before, seconds=LONG)
    assert activity(session)["state"] == "busy"
    (user.home / "work/go").touch()
    kernel.finish(cell)
    assert {c["reason"] for c in commits(session)} == {"interval"}
    assert all(c["automatic"] for c in commits(session))


def test_a_kernel_that_rests_is_snapshotted_and_then_sleeps(session):
    policy(session, snapshot_after_idle_s=1, suspend_after_idle_s=15, suspend_only_gpu=False)
    # Until it is listened to, nobody knows that a cell ran.
    until("it is listened to", session, "idle")
    session.kernel.run("x = 41")
    proc.until("it sleeps", lambda: session.state == "suspended", seconds=LONG)
    assert [c["reason"] for c in commits(session)] == ["idle", "idle"]
    policy(session)
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x + 1") == 42


def test_snapshots_carry_variables_of_a_kernel_between_cells(session, history, user):
    kernel, daemon = session.kernel, session.commands.daemon
    kernel.run("x = 1; text = 'abc'; gone = [1]")
    first = history.with_variables(session, LONG)
    kernel.run("x = 'now a text'; del gone; new = {}")
    second = history.with_variables(session, LONG)

    def found(commit):
        status, answer = user.request(daemon, "GET", f"/v1/commits/{commit}/variables")
        assert status == 200, answer
        return {one["name"]: (one["type"], one["summary"]) for one in answer["variables"]}

    assert found(first) == {"x": ("int", "1"), "text": ("str", "'abc'"), "gone": ("list", "1 items")}
    _, diff = user.request(daemon, "GET", f"/v1/diff?a={first}&b={second}")
    assert {(one["name"], one["change"]) for one in diff["variables"]} == {("x", "changed"), ("gone", "removed"), ("new", "added")}

    # In the midst of a cell nobody is asked, and nobody waits.
    cell = kernel.send("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
    until("it is busy", session, "busy")
    third = session.snapshot()["commit"]
    assert user.request(daemon, "GET", f"/v1/commits/{third}")[1]["has_variables"] is False
    (user.home / "work/go").touch()
    kernel.finish(cell)
