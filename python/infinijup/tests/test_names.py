"""The rule for names is the daemon's: both are held against one table."""

import json
import pathlib

import pytest

from infinijup import names

TABLE = json.loads((pathlib.Path(__file__).parents[3] / "tests/fixtures/names/table.json").read_text())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: ascii(row["name"]))
def test_every_name_of_the_table_is_judged_as_it_says(row):
    name = row["name"] * row.get("times", 1)
    assert (names.is_session(name), names.is_tag(name)) == (row["session"], row["tag"])


@pytest.mark.parametrize("row", TABLE, ids=lambda row: ascii(row["name"]))
def test_whatever_is_wished_for_becomes_a_name_or_none(row):
    wish = row["name"] * row.get("times", 1)
    made = names.session_like(wish, 48)
    assert made == "" or names.is_session(made)
    assert len(made.encode()) <= 48
    if row["session"] and len(wish.encode()) <= 48 and not wish.endswith("-"):
        assert made == wish


def test_a_wish_is_cut_between_characters_and_loses_what_is_no_letter():
    assert names.session_like("ß" * 40, 49) == "ß" * 24
    assert names.session_like("my study (2)", 48) == "my-study-2"
    assert names.session_like("..a..b.lock", 48) == "a.b"
    assert names.session_like("…", 48) == ""
