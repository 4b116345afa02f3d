"""The table of what works with which runtime, files and volume, in docs/containers.md. conftest.py puts this behind all other tests."""

import os
from types import SimpleNamespace

import pytest

from runtimes.table import BEGIN, DOCUMENT, END, Table

RUNC = SimpleNamespace(kind="runc", files="directory", label="runc")


def test_the_document_says_what_the_tests_have_shown(table, whole_run):
    if not whole_run:
        pytest.skip("only some of the tests ran")
    if table.missed:
        pytest.skip(f"some tests have shown nothing: {', '.join(table.missed[:3])}")
    table.hold_against(DOCUMENT, os.environ.get("INFINIJUP_UPDATE"))


def test_a_document_that_says_something_else_is_found_and_can_be_mended(tmp_path):
    table = Table()
    table.shown(RUNC, "snapshot")
    table.shown(RUNC, "branch", volume="tmpfs", refused="IJ-L015")
    document = tmp_path / "d.md"
    document.write_text(f"before\n{BEGIN}\n| old |\n{END}\nafter\n")
    with pytest.raises(AssertionError, match="something else"):
        table.hold_against(document, update=None)
    table.hold_against(document, update="1")
    table.hold_against(document, update=None)
    lines = document.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "| runc | directory | bind | yes |  |" in lines
    assert "| runc | directory | tmpfs |  | [IJ-L015](errors/IJ-L015.md) |" in lines
    document.write_text("nothing\n")
    with pytest.raises(AssertionError, match="no place"):
        table.hold_against(document, update=None)


def test_two_tests_cannot_show_different_things():
    table = Table()
    table.shown(RUNC, "snapshot")
    table.shown(RUNC, "snapshot")
    with pytest.raises(AssertionError, match="another test"):
        table.shown(RUNC, "snapshot", refused="IJ-L015")
    with pytest.raises(AssertionError):
        table.shown(RUNC, "snapshoot")
