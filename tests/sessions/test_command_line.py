"""Small things that a person sees on the command line."""


def test_usage_does_not_ask_for_what_the_environment_has(commands):
    refused = commands.run("snapshot", check=False)
    assert refused.code == 2
    assert "<SESSION>" in refused.err and "--socket" not in refused.err


def test_a_client_that_stays_is_no_warning(commands):
    """A client of the kernel is connected while it goes back, and hears of nothing."""
    session = commands.kernel("k")
    taken = session.snapshot()["commit"]
    session.kernel.run("x = 1")
    outcome = session.rollback(taken)
    assert (outcome["closed_connections"], outcome["warnings"]) == ([], [])
    session.kernel.ready(60)
    assert session.kernel.value("'x' in globals()") is False
