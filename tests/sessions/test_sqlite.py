"""A database in a file of the workspace, open in a kernel that is branched: each has its own."""

import sqlite3
from pathlib import Path

import pytest

OPEN = """
import sqlite3
database = sqlite3.connect("data.sqlite", isolation_level=None)
database.execute("pragma journal_mode={mode}")
database.execute("create table t (who text)")
database.execute("insert into t values ('before')")
rows = lambda: [who for who, in database.execute("select who from t order by rowid")]
"""


def rows(path):
    with sqlite3.connect(path) as database:
        return [who for (who,) in database.execute("select who from t order by rowid")]


@pytest.fixture
def work(commands):
    return commands.user.mkdir(commands.user.home / "work")


def test_a_branch_writes_to_its_own_copy(commands, work):
    session = commands.kernel("original", cwd=work)
    session.kernel.run(OPEN.format(mode="wal"))
    branch, outcome = session.branch("branch")
    assert not outcome["warnings"] and not outcome["shared"], outcome
    branch.connect()
    branch.kernel.run("database.execute(\"insert into t values ('branch')\")")
    session.kernel.run("database.execute(\"insert into t values ('original')\")")
    assert branch.kernel.value("rows()") == ["before", "branch"]
    assert session.kernel.value("rows()") == ["before", "original"]
    copy = Path(branch.view()["workspace"])
    assert copy != work
    assert rows(work / "data.sqlite") == ["before", "original"]
    assert rows(copy / "data.sqlite") == ["before", "branch"]
    # And a branch of the branch, in the middle of a transaction.
    branch.kernel.run(
        "database.execute('begin'); database.execute(\"insert into t values ('open')\")"
    )
    second, _ = branch.branch("second")
    second.connect()
    second.kernel.run(
        "database.execute(\"insert into t values ('second')\"); database.execute('commit')"
    )
    branch.kernel.run("database.execute('rollback')")
    assert second.kernel.value("rows()") == ["before", "branch", "open", "second"]
    assert branch.kernel.value("rows()") == ["before", "branch"]
    assert session.kernel.value("rows()") == ["before", "original"]


def test_without_a_log_it_is_said_that_it_has_to_be_opened_again(commands, work):
    """SQLite does not write to a file that is not the one it has opened, by its inode number, and a copy is none."""
    session = commands.kernel("original", cwd=work)
    session.kernel.run(OPEN.format(mode="delete"))
    branch, outcome = session.branch("branch")
    branch.connect()
    write = "database.execute(\"insert into t values ('branch')\")"
    branch.kernel.run(
        f"try:\n    {write}; said = ''\nexcept sqlite3.OperationalError as error:\n    said = str(error)"
    )
    if said := branch.kernel.value("said"):
        assert "readonly" in said
        (warning,) = outcome["warnings"]
        assert "data.sqlite" in warning and "open it again" in warning
        assert branch.kernel.value("rows()") == ["before"]
        branch.kernel.run(
            f'database = sqlite3.connect("data.sqlite", isolation_level=None); {write}'
        )
    session.kernel.run("database.execute(\"insert into t values ('original')\")")
    assert branch.kernel.value("rows()") == ["before", "branch"]
    assert rows(work / "data.sqlite") == ["before", "original"]
