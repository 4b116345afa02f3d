"""What may be typed after `%infinijup`."""

import pytest

from infinijup import verbs


@pytest.mark.parametrize(
    ("line", "name", "given"),
    [
        ("", "status", {}),
        ('mark label="before training"', "mark", {"label": "before training"}),
        ("mark before training", "mark", {"label": "before training"}),
        ("snapshot", "snapshot", {}),
        ("snapshot first epoch tag=good", "snapshot", {"label": "first epoch", "tag": "good"}),
        ("snapshot a=b", "snapshot", {"label": "a=b"}),
        ("log 5", "log", {"limit": "5"}),
        ("restore good~1 --force --no-files", "restore", {"to": "good~1", "force": True, "no_files": True}),
        ("branch idea from=good", "branch", {"name": "idea", "from": "good"}),
        ("branch --from=good", "branch", {"from": "good"}),
        ("tag best commit=1234 --move", "tag", {"name": "best", "commit": "1234", "move": True}),
    ],
)
def test_words_are_understood(line, name, given):
    verb, found = verbs.parse(line, False)
    assert (verb.name, found) == (name, given)


def test_a_cell_without_words_is_a_try():
    verb, found = verbs.parse("", True)
    assert (verb.name, found) == ("try", {})


@pytest.mark.parametrize(
    ("line", "cell", "says"),
    [
        ("snapshto", False, "did you mean `snapshot`"),
        ("frobnicate", False, "%infinijup help"),
        ("restore", False, "usage: %infinijup restore TO"),
        ("mark label=", False, "needs to know what"),
        ("mark 'oops", False, "a quote too few"),
        ("suspend now", False, "does not take `now`"),
        ("restore a --hard", False, "does not know `--hard`"),
        ("snapshot labl=x", False, "did you mean `label=`"),
        ("snapshot x label=y", False, "does not take `x`"),
        ("try", False, "%%infinijup try"),
        ("snapshot", True, "beginning of a line"),
    ],
)
def test_mistakes_are_told_with_the_way_out(line, cell, says):
    with pytest.raises(verbs.UsageMistake) as caught:
        verbs.parse(line, cell)
    assert says in str(caught.value)


def test_help_knows_every_verb():
    for name in verbs.VERBS:
        assert name in verbs.help_text()
        assert verbs.VERBS[name].summary in verbs.help_text(name)
    with pytest.raises(verbs.UsageMistake):
        verbs.help_text("nothing")
