"""A name in letters of any script goes all the way: the command, the daemon, the thread of its snapshots, the files of its branch."""


def test_a_session_can_have_any_letters_in_its_name(commands):
    session = commands.start("Größe.2", "sleep", "1000")
    assert session.view()["thread"] == "Größe.2"
    session.snapshot("--tag", "vor dem Fit/eins")
    branch, _ = session.branch("日本語")
    session.rollback("vor dem Fit/eins")
    assert {session.view()["name"], branch.view()["name"]} == {"Größe.2", "日本語"}
    refused = commands.fails("run", "--name", "zwei Worte", "--", "sleep", "1")
    assert "`name` can be no name" in refused["message"]
    branch.remove()
    session.remove()


def test_several_sessions_are_stopped_and_removed_at_once(commands):
    for name in ("one", "two"):
        commands.start(name, "sleep", "1000")
    stopped = commands.run("stop", "one", "two", "--grace", "1")
    assert [one["session"]["name"] for one in stopped.messages("stopped")] == ["one", "two"]
    assert {view["state"] for view in commands.sessions().values()} == {"ended"}
    commands.run("rm", "one", "two")
    assert commands.sessions() == {}
