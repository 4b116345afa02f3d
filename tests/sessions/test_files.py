"""What happens to files at a rollback is a policy; nothing of the user's is lost by it."""

import os

import pytest


@pytest.fixture
def work(user):
    return user.mkdir(user.home / "work")


def test_open_files_come_back_with_their_inode(commands, user, work):
    session = commands.kernel("k", cwd=work)
    session.kernel.run("f = open('open.txt', 'w'); f.write('one'); f.flush(); open('closed.txt', 'w').write('one')")
    taken = session.snapshot()
    before = os.stat(work / "open.txt").st_ino
    session.kernel.run("f.write(' two'); f.flush(); open('closed.txt', 'w').write('two')")
    session.rollback(taken["commit"])
    session.kernel.ready()
    assert (work / "open.txt").read_text() == "one"
    assert os.stat(work / "open.txt").st_ino == before
    assert (work / "open.txt").owner() == user.name
    # Not open at the snapshot: the default policy leaves it alone.
    assert (work / "closed.txt").read_text() == "two"
    session.kernel.run("f.write(' three'); f.flush()")
    assert (work / "open.txt").read_text() == "one three"


def test_the_state_before_a_rollback_is_kept(commands, work):
    session = commands.kernel("k", cwd=work)
    session.kernel.run("x = 1; f = open('open.txt', 'w'); f.write('one'); f.flush()")
    taken = session.snapshot()
    session.kernel.run("x = 2; f.write(' two'); f.flush()")
    rolled = session.rollback(taken["commit"])
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    session.rollback(rolled["automatic"])
    session.kernel.ready()
    assert session.kernel.value("x") == 2
    assert (work / "open.txt").read_text() == "one two"


def test_a_deleted_open_file_comes_back(commands, work):
    session = commands.kernel("k", cwd=work)
    session.kernel.run("import os; f = open('open.txt', 'w'); f.write('one'); f.flush()")
    taken = session.snapshot()
    session.kernel.run("os.unlink('open.txt')")
    session.rollback(taken["commit"])
    session.kernel.ready()
    assert (work / "open.txt").read_text() == "one"


def test_the_tree_policy_covers_the_working_directory(commands, user, work):
    user.mkdir(work / "sub")
    user.write(work / "sub/a.txt", "one")
    user.write(work / "skipped.tmp", "one")
    session = commands.kernel("k", cwd=work, options=["--files", "tree", "--exclude", "*.tmp"])
    taken = session.snapshot()
    session.kernel.run("open('sub/a.txt', 'w').write('two'); open('new.txt', 'w').write('two'); open('skipped.tmp', 'w').write('two')")
    rolled = session.rollback(taken["commit"])
    session.kernel.ready()
    assert (work / "sub/a.txt").read_text() == "one"
    assert (work / "skipped.tmp").read_text() == "two"
    # What came later is in the automatic snapshot, whether or not it was taken away.
    session.rollback(rolled["automatic"])
    session.kernel.ready()
    assert (work / "sub/a.txt").read_text() == "two"
    assert (work / "new.txt").read_text() == "two"


def test_unchanged_files_are_not_stored_again(commands, user, work):
    user.run(["sh", "-c", "head -c 20000000 /dev/urandom > big.bin"], cwd=work)
    session = commands.kernel("k", cwd=work, options=["--files", "tree"])
    first, second = session.snapshot(), session.snapshot()
    assert first["new_bytes"] > 20_000_000
    assert second["new_bytes"] < 10_000_000


def test_files_too_large_are_named(commands, user, work):
    user.run(["sh", "-c", "head -c 2000000 /dev/zero > large.bin"], cwd=work)
    session = commands.kernel("k", cwd=work, options=["--files", "tree", "--max-files", "1000000"])
    taken = session.snapshot()
    assert [item["path"] for item in taken["not_captured"] if item["path"].endswith("large.bin")], taken


def test_none_leaves_files_alone(commands, work):
    session = commands.kernel("k", cwd=work, options=["--files", "none"])
    session.kernel.run("f = open('open.log', 'a'); f.write('one'); f.flush()")
    taken = session.snapshot()
    session.kernel.run("f.write(' two'); f.flush()")
    session.rollback(taken["commit"])
    session.kernel.ready()
    assert (work / "open.log").read_text() == "one two"


def test_what_somebody_else_changed_is_named_first(commands, user, work):
    session = commands.kernel("k", cwd=work)
    session.kernel.run("f = open('open.txt', 'w'); f.write('one'); f.flush()")
    taken = session.snapshot()
    session.kernel.run("x = 'still here'; f.close()")
    user.write(work / "open.txt", "by somebody else")
    error = commands.fails("rollback", "k", taken["commit"])
    assert "open.txt" in str(error), error
    # Refused before anything was touched.
    assert session.kernel.value("x") == "still here"
    assert (work / "open.txt").read_text() == "by somebody else"
    rolled = session.rollback(taken["commit"], "--force")
    assert any(path.endswith("open.txt") for path in rolled["changed_by_others"])
    session.kernel.ready()
    assert (work / "open.txt").read_text() == "one"
    session.rollback(rolled["automatic"], "--force")
    assert (work / "open.txt").read_text() == "by somebody else"


def test_sqlite_comes_back_without_the_later_journal(commands, work):
    session = commands.kernel("k", cwd=work)
    kernel = session.kernel
    kernel.run("import sqlite3; db = sqlite3.connect('d.sqlite', isolation_level=None); db.execute('CREATE TABLE t (n)')")
    kernel.run("db.execute('INSERT INTO t VALUES (1)')")
    taken = session.snapshot()
    kernel.run("mode = db.execute('PRAGMA journal_mode=WAL').fetchone(); db.executemany('INSERT INTO t VALUES (?)', [(2,)] * 1000)")
    session.rollback(taken["commit"])
    kernel.ready()
    assert kernel.value("db.execute('SELECT * FROM t').fetchall()") == [(1,)]
    assert kernel.value("db.execute('PRAGMA integrity_check').fetchone()") == ("ok",)
    kernel.run("db.execute('INSERT INTO t VALUES (3)')")
    assert kernel.value("sqlite3.connect('d.sqlite').execute('SELECT * FROM t').fetchall()") == [(1,), (3,)]
