"""What happens to files at a rollback is a policy; nothing of the user's is lost by it."""

import os
import time

import pytest

from harness import proc


@pytest.fixture
def work(user):
    return user.mkdir(user.home / "work")


def rested(session):
    """Until the daemon knows that the kernel is idle, and a file system's clock has gone on."""
    proc.until("the kernel is idle", lambda: session.view()["activity"]["state"] == "idle")
    time.sleep(0.1)


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


def test_what_somebody_else_changed_is_kept_where_the_kernel_needs_it_as_it_was(commands, user, work):
    session = commands.kernel("k", cwd=work)
    session.kernel.run("f = open('open.txt', 'w'); f.write('one'); f.flush()")
    taken = session.snapshot()
    session.kernel.run("f.close()")
    rested(session)
    user.write(work / "open.txt", "by somebody else")
    rolled = session.rollback(taken["commit"])
    assert any(path.endswith("open.txt") for path in rolled["changed_by_others"])
    session.kernel.ready()
    assert (work / "open.txt").read_text() == "one"
    session.rollback(rolled["automatic"])
    assert (work / "open.txt").read_text() == "by somebody else"


def test_a_file_that_the_session_wrote_and_closed_is_its_own(commands, work):
    """Half of all ways back were refused for such files."""
    session = commands.kernel("k", cwd=work)
    session.kernel.run("f = open('log.txt', 'w'); f.write('one'); f.flush()")
    taken = session.snapshot()
    session.kernel.run("f.close(); open('log.txt', 'w').write('two')")
    rested(session)
    rolled = session.rollback(taken["commit"])
    assert rolled["changed_by_others"] == [] and rolled["spared"] == []
    session.kernel.ready()
    assert (work / "log.txt").read_text() == "one"


def test_what_a_person_edited_stays(commands, user, work):
    """The whole directory belongs to the snapshots; what was written while the kernel was idle was not written by it."""
    user.write(work / "utils.py", "x = 1")
    user.write(work / "study.ipynb", "{}")
    session = commands.kernel("k", cwd=work, options=["--files", "tree"])
    taken = session.snapshot()
    session.kernel.run("open('result.csv', 'w').write('1'); open('utils.py', 'a').close()")
    rested(session)
    user.write(work / "utils.py", "x = 2  # edited")
    user.write(work / "notes.txt", "a person's")
    user.write(work / "study.ipynb", '{"saved": true}')
    rolled = session.rollback(taken["commit"])
    session.kernel.ready()
    assert {os.path.basename(path) for path in rolled["spared"]} == {"utils.py", "notes.txt", "study.ipynb"}
    assert (work / "utils.py").read_text() == "x = 2  # edited"
    assert (work / "notes.txt").read_text() == "a person's"
    assert (work / "study.ipynb").read_text() == '{"saved": true}'
    assert not (work / "result.csv").exists(), "the session made it"
    rolled = session.rollback(taken["commit"], "--force")
    session.kernel.ready()
    assert (work / "utils.py").read_text() == "x = 1", "whoever forces it means all of it"


def branched(commands, work):
    """A kernel, and a branch of it called `idea`."""
    original = commands.kernel("k", cwd=work)
    original.snapshot()
    branch, _ = original.branch("idea")
    branch.connect()
    return original, branch


def test_the_files_of_a_removed_branch_are_kept(commands, history, user, work):
    user.write(work / "data.csv", "a,b")
    original, branch = branched(commands, work)
    branch.kernel.run("open('results.csv', 'w').write('only here'); open('data.csv', 'a').write(',c')")
    branch.suspend()
    branch_files = commands.run("files", "idea").one("files")
    assert branch_files["own"]
    assert {os.path.basename(file["path"]): file["bytes"] for file in branch_files["loose"]} == {"results.csv": 9, "data.csv": 5}
    removed = commands.run("rm", "idea").one("removed")
    kept = removed["session"]["kept_files"]
    assert {os.path.basename(file["path"]) for file in kept["files"]} == {"results.csv", "data.csv"}
    listed = commands.run("files", "--at", kept["commit"]).one("snapshot_files")
    assert (listed["count"], listed["bytes"]) == (2, 14)
    copied = commands.run("files", "--at", kept["commit"], "--to", str(work), "results.csv", "data.csv").one("copied_out")
    assert len(copied["written"]) == 2 and copied["skipped"] == []
    assert (work / "results.csv").read_text() == "only here"
    assert (work / "data.csv").read_text() == "a,b", "nothing is overwritten"
    assert (work / "data (2).csv").read_text() == "a,b,c"
    assert (work / "results.csv").owner() == user.name
    # It is in the history of the notebook that it was branched off, and cannot be mistaken for a state of a kernel.
    commits = history.of(original, family=True)["commits"]
    assert any(commit["id"] == kept["commit"] and commit["reason"] == "files" for commit in commits)
    assert "memory" in str(commands.fails("branch", "k", "--from", kept["commit"]))


def test_files_of_a_removed_branch_go_if_that_is_said(commands, work):
    _, branch = branched(commands, work)
    branch.kernel.run("open('results.csv', 'w').write('only here')")
    branch.stop()
    assert "kept_files" not in commands.run("rm", "idea", "--discard-files").one("removed")["session"]


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
