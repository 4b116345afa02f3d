"""An original, eight branches and a grandchild, alive together and none the wiser about each other."""

import pytest

from harness import proc

BRANCHES = 8


def diverge(session, word):
    """Gives a session variables and files of its own."""
    session.kernel.run(f"who = {word!r}; values.append(who); log.write(who + '\\n'); log.flush()")
    session.kernel.run(f"open('notes.txt', 'w').write({word!r}); open('only-{word}', 'w').close()")


def check(session, word):
    """Sees its own and nobody else's."""
    kernel = session.kernel
    assert kernel.value("who") == word
    assert kernel.value("values") == ["shared past", word]
    assert kernel.value("open('run.log').read()") == f"shared past\n{word}\n"
    assert kernel.value("open('notes.txt').read()") == word
    assert kernel.value("sorted(n for n in os.listdir('.') if n.startswith('only-'))") == [f"only-{word}"]


@pytest.fixture
def original(commands, user):
    workspace = user.mkdir(user.home / "work")
    session = commands.kernel("original", cwd=workspace)
    session.kernel.run("import os, sqlite3; values = ['shared past']; log = open('run.log', 'a'); log.write('shared past\\n'); log.flush()")
    return session


@pytest.mark.timeout(600)
def test_a_family_lives_together_sleeps_and_wakes(original, commands, user):
    kernel = original.kernel
    taken = original.snapshot()
    family = {"original": original}
    for number in range(BRANCHES):
        branch, _ = original.branch(f"branch{number}", "--from", taken["commit"])
        family[branch.name] = branch
    # Each is reached by a client of its own before any of them diverges.
    for session in family.values():
        if session is not original:
            session.connect()
            assert session.kernel.value("values") == ["shared past"]
    parent = family["branch0"]
    grandchild, _ = parent.branch("grandchild")
    grandchild.connect()
    family["grandchild"] = grandchild
    assert original.kernel is kernel

    pids = [session.pid for session in family.values()]
    assert len(set(pids)) == len(family) and all(proc.stat(pid) for pid in pids)
    assert len({proc.namespaces_of(pid)["net"] for pid in pids}) == len(family)
    assert {view["state"] for view in commands.sessions().values()} == {"running"}

    for word, session in family.items():
        diverge(session, word)
    for word, session in family.items():
        check(session, word)
    assert grandchild.view()["parent"]["session"] == parent.id
    # From outside: the original's files under their own name, a branch's where its view says.
    assert (user.home / "work/notes.txt").read_text() == "original"
    for word, session in family.items():
        where = session.view()["workspace"]
        assert user.run(["cat", f"{where}/notes.txt"]).out == word

    for session in family.values():
        session.suspend()
    assert {view["state"] for view in commands.sessions().values()} == {"suspended"}
    assert not [pid for pid in pids if not proc.is_over(pid)]
    for session in family.values():
        session.resume()
    for word, session in family.items():
        session.kernel.ready()
        check(session, word)


def test_a_branch_has_its_own_database(original, user):
    kernel = original.kernel
    kernel.run("db = sqlite3.connect('data.sqlite', isolation_level=None); mode = db.execute('PRAGMA journal_mode=WAL').fetchone()")
    kernel.run("db.execute('CREATE TABLE t (who TEXT)'); db.execute(\"INSERT INTO t VALUES ('past')\")")
    branch, outcome = original.branch("other")
    branch.connect()
    kernel.run("db.execute(\"INSERT INTO t VALUES ('original')\")")
    assert branch.kernel.value("db.execute('SELECT who FROM t').fetchall()") == [("past",)]
    # A new connection always may write. The one that was open may, or it was said that it may not.
    branch.kernel.run("fresh = sqlite3.connect('data.sqlite', isolation_level=None); fresh.execute(\"INSERT INTO t VALUES ('branch')\")")
    assert kernel.value("db.execute('SELECT who FROM t').fetchall()") == [("past",), ("original",)]
    assert branch.kernel.value("fresh.execute('SELECT who FROM t').fetchall()") == [("past",), ("branch",)]
    branch.kernel.run("try:\n    db.execute(\"INSERT INTO t VALUES ('open')\"); writes = True\nexcept sqlite3.OperationalError as e:\n    writes = str(e)")
    writes = branch.kernel.value("writes")
    if writes is not True:
        assert "readonly" in writes
        assert any("data.sqlite" in warning for warning in outcome["warnings"]), outcome


def test_a_file_outside_of_the_workspace_is_not_shared_for_writing(original, user):
    outside = user.mkdir(user.home / "elsewhere")
    original.kernel.run(f"far = open({str(outside / 'far.log')!r}, 'w'); far.write('past '); far.flush()")
    branch, _ = original.branch("other")
    branch.connect()
    branch.kernel.run("far.write('branch'); far.flush()")
    original.kernel.run("far.write('original'); far.flush()")
    assert (outside / "far.log").read_text() == "past original"
    assert branch.kernel.value("os.fstat(far.fileno()).st_size") == len("past branch")


def test_a_branch_of_an_old_snapshot_has_the_old_files(original):
    taken = original.snapshot()
    original.kernel.run("log.write('later\\n'); log.flush(); values.append('later')")
    branch, _ = original.branch("old", "--from", taken["commit"])
    branch.connect()
    assert branch.kernel.value("values") == ["shared past"]
    assert branch.kernel.value("open('run.log').read()") == "shared past\n"
    assert original.kernel.value("open('run.log').read()") == "shared past\nlater\n"


def test_a_branch_ends_and_leaves_the_original_alone(original):
    branch, _ = original.branch("short")
    branch.connect()
    workspace = branch.view()["workspace"]
    branch.remove()
    assert original.kernel.value("values") == ["shared past"]
    assert workspace != original.view()["workspace"]


def test_branches_without_a_name_are_called_after_their_original(commands):
    session = commands.kernel("study")
    session.snapshot()
    made = [commands.run("branch", "study").one("branched")["branches"][0]["session"]["name"] for _ in range(2)]
    assert made == ["study-branch", "study-branch-2"]
    assert commands.sessions().keys() == {"study", *made}
