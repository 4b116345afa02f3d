"""The types of the wire are made from the daemon's own document, and the daemons that tests play speak that language."""

import pathlib
import subprocess
import sys
import typing

from infinijup import wire

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts/wire-types.py"


def test_the_committed_types_are_those_of_the_document():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_type_can_be_looked_into():
    classes = [one for one in vars(wire).values() if isinstance(one, type) and hasattr(one, "__total__")]
    assert len(classes) > 70
    for one in classes:
        assert typing.get_type_hints(one) or one.__annotations__ == {}, one


def test_fields_keep_their_description_and_whether_they_are_always_there():
    assert wire.CommitView.__required_keys__ >= {"id", "parents", "thread", "tags"}
    assert "label" in wire.CommitView.__optional_keys__
    assert "from" in wire.BranchRequest.__optional_keys__
    assert typing.get_args(wire.SessionState) == ("starting", "running", "suspended", "ended", "failed")
