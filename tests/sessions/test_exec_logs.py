"""`run`, `exec`, `logs`, `ps`, `stop`, `rm`, `events`: a session as somebody at a terminal meets it."""

import json

from harness import proc
from harness.proc import until


def test_a_command_runs_to_its_end(commands, user):
    session = commands.start("hello", "sh", "-c", "echo out; echo err >&2; id -un; exit 3")
    until("it has ended", lambda: session.state == "ended")
    assert session.view()["exit"] == 3
    log = commands.user.run([commands.daemon.bin / "infinijup", "logs", "hello"], environment={"INFINIJUP_SOCKET": str(commands.daemon.socket)}).out
    assert log.splitlines() == ["out", "err", user.name]


def test_exec_runs_inside_as_the_user(commands, user):
    session = commands.start("box", "sleep", "1000")
    answer = session.execute("sh", "-c", "id -u; echo oops >&2; ps -e -o comm= | sort -u; exit 7", check=False)
    result = answer.one("exec_result")
    assert result["status"] == 7 and answer.code == 7
    assert result["stdout"].splitlines()[0] == str(user.uid)
    assert "sleep" in result["stdout"] and "infinijupd" not in result["stdout"]
    assert result["stderr"] == "oops\n"


def test_stop_and_remove(commands):
    session = commands.start("box", "sleep", "1000")
    pid = session.pid
    session.stop()
    assert session.state == "ended"
    assert not proc.stat(pid)
    commands.run("rm", "box")
    assert "box" not in commands.sessions()


def test_a_command_that_ignores_the_signal_is_killed(commands):
    session = commands.start("stubborn", "sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done")
    pid = session.pid
    commands.run("stop", "stubborn", "--grace", "1")
    assert session.state == "ended" and not proc.stat(pid)


def test_ps_lists_and_names_are_unique(commands):
    commands.start("one", "sleep", "1000")
    assert commands.fails("run", "--name", "one", "--", "sleep", "1")["exit"] == 14
    views = commands.sessions()
    assert views["one"]["state"] == "running" and views["one"]["command"] == ["sleep", "1000"]
    assert commands.fails("stop", "nobody")["exit"] == 15


def test_a_command_that_does_not_exist(commands):
    error = commands.fails("run", "--name", "x", "--", "/no/such/program")
    assert "/no/such/program" in str(error)
    assert commands.sessions().get("x", {"state": "failed"})["state"] in ("failed", "ended")


def test_history_and_tags(commands):
    session = commands.start("box", "sleep", "1000")
    first = session.snapshot("--message", "the first", "--tag", "good")
    second = session.snapshot("--message", "the second")
    lines = commands.run("history", "box").one("history")["commits"]
    assert [line["id"] for line in lines] == [second["commit"], first["commit"]]
    assert lines[1]["message"] == "the first" and lines[1]["tags"] == ["good"]
    session.rollback("good")
    assert session.view()["state"] == "running"


def test_events_tell_what_happened(commands):
    session = commands.start("box", "sleep", "1000")
    session.snapshot()
    session.stop()
    events = commands.run("events").messages("event")
    text = json.dumps(events)
    assert session.id in text and "snapshot" in text
