"""What is noted about a session: by whom it is found again, and that nothing of it is lost to an operation that runs meanwhile."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.notebook_kernel import Provisioner
from harness.wire import UnixConnection

LABELS = {"jupyter.kernel_id": "7b3f", "jupyter.path": "dir/<b>a</b>.ipynb"}
POLICY = {"snapshot_every_s": 600, "suspend_after_idle_s": 60, "keep": {"last": 5, "hourly": 2, "daily": 1}}


@pytest.fixture
def jupyter(module_commands):
    return Provisioner(module_commands)


@pytest.fixture
def daemon(module_commands):
    return module_commands.daemon


def test_notes_survive_the_daemon(jupyter, daemon):
    notebook = str(jupyter.user.home / "a.ipynb")
    session = jupyter.start("k", labels=LABELS, notebook=notebook, policy=POLICY)
    view = session.view()
    assert view["labels"] == LABELS and view["notebook"] == notebook
    assert view["policy"] == {**POLICY, "snapshot_after_idle_s": None, "suspend_only_gpu": True}
    assert view["kernel"]["language"] == "python" and view["kernel"]["interrupt_mode"] == "signal"
    assert view["mark"] is None and view["operation"] is None

    changed = jupyter.patch(session, labels={"jupyter.path": None, "jupyter.name": "ä"}, mark="before the fit", policy=None)
    assert changed["labels"] == {"jupyter.kernel_id": "7b3f", "jupyter.name": "ä"}
    assert changed["mark"] == "before the fit" and changed["notebook"] == notebook
    assert changed["policy"]["snapshot_every_s"] is None
    daemon.kill()
    daemon.start()
    found = session.view()
    for field in ("id", "name", "state", "pid", "labels", "notebook", "policy", "mark", "kernel"):
        assert found[field] == changed[field], field
    assert jupyter.patch(session, notebook=None, mark=None)["notebook"] is None
    session.remove()


def test_a_patch_during_an_operation_is_kept(jupyter):
    session = jupyter.start("k")
    # Its name changes all the time.
    session.name = session.id
    session.kernel.run("big = bytearray(__import__('os').urandom(1 << 20)) * 64")
    taken = session.snapshot()["commit"]
    operations = (session.snapshot, lambda: session.rollback(taken), session.suspend, session.resume)
    states = ("running", "running", "suspended", "running")
    labels = {}
    with ThreadPoolExecutor(1) as pool:
        for number, (operation, state) in enumerate(zip(operations, states, strict=True)):
            work = pool.submit(operation)
            patches = meanwhile = 0
            while not work.done():
                patches += 1
                labels[f"n{number}.{patches % 4}"] = str(patches)
                patched = jupyter.patch(session, labels=labels, name=f"name-{number}-{patches}")
                meanwhile += patched["operation"] is not None
            # An operation that failed fails the test.
            work.result()
            assert meanwhile, "nothing was changed while the operation ran"
            view = session.view()
            assert view["labels"] == labels
            assert view["name"] == f"name-{number}-{patches}"
            assert view["state"] == state and view["head"]
    session.kernel.ready()
    assert session.kernel.value("len(big)") == 64 << 20
    session.remove()


def test_what_is_no_label_is_refused(jupyter):
    session = jupyter.start("k")
    for wrong in (
        {"labels": {"A": ""}},
        {"labels": {"": ""}},
        {"labels": {"a": "x" * 4097}},
        {"labels": {f"k{number}": "" for number in range(33)}},
        {"notebook": "a.ipynb"},
        {"name": "../etc"},
        {"mark": ""},
        {"policy": {"snapshot_evry_s": 1}},
        {"colour": "red"},
    ):
        jupyter.patch(session, status=400, **wrong)
    assert session.view()["labels"] == {} and session.view()["name"] == "k"
    jupyter.commands.start("other", "sleep", "1000")
    assert jupyter.patch(session, status=409, name="other")["code"] == "IJ-L014"
    session.remove()


def test_a_branch_begins_without_labels(jupyter):
    session = jupyter.start("k", labels=LABELS, policy=POLICY)
    branch, _ = session.branch("b")
    view = branch.view()
    assert view["labels"] == {} and view["policy"]["keep"] == POLICY["keep"]
    assert view["kernel"]["language"] == "python"
    branch.remove()
    session.remove()


def test_a_change_is_an_event(jupyter, daemon):
    session = jupyter.start("k")
    connection = UnixConnection(daemon.socket, 30)
    try:
        connection.request("GET", "/v1/events")
        stream = connection.getresponse()
        jupyter.patch(session, labels={"a": "b"})
        events = (json.loads(line[5:]) for line in stream if line.startswith(b"data:"))
        # Fails if the stream ends without one.
        changed = next(event for event in events if event["kind"] == "session_changed")
        assert changed["session"] == session.id
    finally:
        connection.close()
    session.remove()
