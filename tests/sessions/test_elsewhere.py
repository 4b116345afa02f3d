"""A snapshot becomes a new session when the one that it was taken of is gone: here, and on another machine."""

import json
import subprocess

import pytest

from harness import proc
from harness.history import History
from harness.host import Host
from harness.session import Commands

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
STATE = "values = [1, 2, 3]; log = open('run.log', 'a'); log.write('first\\n'); log.flush(); open('notes.txt', 'w').write('kept')"
LOOK = "(values, open('run.log').read(), log.tell(), open('notes.txt').read(), __import__('os').getcwd())"


def made_of(commands, which, *options):
    """`branch SNAPSHOT`."""
    outcome = commands.run("branch", which, *options).one("branched")["branches"][0]
    return commands.session(outcome["session"])


def test_a_session_that_was_removed_comes_back_as_a_new_one(commands, user):
    workspace = user.mkdir(user.home / "work")
    first = commands.kernel("first", cwd=workspace)
    first.kernel.run(STATE)
    first.snapshot("--tag", "good")
    first.kernel.run("values.append('later'); log.write('later\\n'); log.flush()")
    first.remove()
    assert commands.sessions() == {}
    # The key is no fact that whoever looks at a snapshot is told.
    assert '"key"' not in commands.run("show", "good").out

    again = made_of(commands, "good")
    assert again.name == "first" and again.id != first.id
    again.connect()
    assert again.kernel.value(LOOK) == ([1, 2, 3], "first\n", 6, "kept", str(workspace))
    again.kernel.run("values.append('again'); log.write('again\\n'); log.flush()")
    # It is a session like others: it sleeps, wakes, goes back, and has branches.
    again.suspend()
    again.resume()
    again.kernel.ready()
    assert again.kernel.value("(values[-1], open('run.log').read())") == (
        "again",
        "first\nagain\n",
    )
    again.rollback("good")
    again.kernel.ready()
    assert again.kernel.value("values") == [1, 2, 3]
    # The files where the first one worked are as it left them.
    assert (workspace / "run.log").read_text() == "first\nlater\n"
    # While one has the name, the next is called otherwise.
    beside = made_of(commands, "good")
    assert beside.name == "first-branch"
    beside.connect()
    assert beside.kernel.value("values") == [1, 2, 3]
    assert commands.fails("branch", "nothing-like-it")["code"] == "IJ-L010"


@pytest.fixture
def hosts():
    """Machines with other mounts: a disk more, and a disk at another place."""
    made = []

    def make(*mounts):
        made.append(Host(*mounts))
        return made[-1]

    yield make
    for host in made:
        host.close()


def test_another_machine_takes_it_over(hosts, make_user, make_daemon, record):
    user = make_user()
    here, there = (
        hosts("mount -t tmpfs here /mnt", "mkdir /mnt/data"),
        hosts("mount -t tmpfs there /media", "mount -t tmpfs more /srv"),
    )
    ada = here.user(user)
    first = Commands(make_daemon(user=ada), ada)
    workspace = ada.mkdir(ada.home / "work")
    ada.write(workspace / "paper.ipynb", NOTEBOOK)
    session = first.session(
        first.run(
            "kernel",
            "start",
            "--name",
            "analysis",
            "--files",
            "workspace",
            cwd=workspace,
        ).one("session")["session"]
    )
    assert here.value(session, LOOK, STATE)[0] == [1, 2, 3]
    History(first.daemon, ada).patch(session, notebook=str(workspace / "paper.ipynb"))
    session.snapshot("--tag", "good")
    carried = record.base / f"{session.id}.ijx"
    carried.parent.chmod(0o777)
    first.run("export", "good", str(carried))
    first.run("stop", session.name)
    first.run("rm", session.name)

    eve = there.user(user)
    second = Commands(make_daemon(user=eve), eve)
    second.run("import", str(carried), "--tag", "from-ada")
    # Nothing of the first machine is there, our own programs that the kernel was started with neither.
    subprocess.run(
        there.words(["mount", "-t", "tmpfs", "gone", str(first.daemon.state.parent)]),
        check=True,
    )
    # It is a foreign program there, until its user says otherwise.
    assert second.fails("branch", "from-ada")["code"] == "IJ-L051"
    assert second.sessions() == {}
    moved = made_of(second, "from-ada", "--force", "--name", "moved")
    assert proc.link(moved.pid, "exe").startswith(str(second.daemon.state))
    assert there.value(moved, LOOK) == ([1, 2, 3], "first\n", 6, "kept", str(workspace))
    assert (
        there.value(moved, "open('paper.ipynb').read()")
        == NOTEBOOK
        == History(second.daemon, eve).notebook("from-ada")
    )
    assert there.value(moved, "sum(values)", "values.append(4)") == 10
    moved.suspend()
    moved.resume()
    assert there.value(moved, "values") == [1, 2, 3, 4]
    carried.unlink()


def test_another_user_takes_it_over(hosts, make_user, make_daemon, record):
    """Processes that were one user's are another's, with other numbers; they do not notice, and have no rights but their new owner's."""
    first, second = make_user(), make_user()
    assert first.uid != second.uid
    shared = "mount -t tmpfs -o mode=1777 shared /srv"
    ada, eve = hosts(shared).user(first), hosts(shared).user(second)
    here, there = (Commands(make_daemon(user=one), one) for one in (ada, eve))
    workspace = ada.mkdir("/srv/work")
    words = ["kernel", "start", "--name", "analysis", "--files", "workspace"]
    session = here.session(here.run(*words, cwd=workspace).one("session")["session"])
    who = "(os.getuid(), os.getgid(), os.stat('notes.txt').st_uid, os.access('notes.txt', os.W_OK))"
    assert ada.host.value(session, who, STATE + "; import os") == (
        ada.uid,
        ada.gid,
        ada.uid,
        True,
    )
    session.snapshot("--tag", "good")
    carried = record.base / f"{session.id}.ijx"
    carried.parent.chmod(0o777)
    here.run("export", "good", str(carried))
    carried.chmod(0o644)
    session.stop()
    session.remove()

    there.run("import", str(carried), "--tag", "from-ada")
    said = there.run("check", "from-ada").one("check")
    assert said["fits"], said
    moved = made_of(there, "from-ada", "--force")
    # Inside nothing has changed, and what it writes is eve's.
    assert eve.host.value(moved, who) == (ada.uid, ada.gid, ada.uid, True)
    assert eve.host.value(moved, LOOK) == (
        [1, 2, 3],
        "first\n",
        6,
        "kept",
        str(workspace),
    )
    assert proc.status(moved.pid, "Uid").split() == [str(eve.uid)] * 4
    assert proc.status(moved.pid, "Gid").split() == [str(eve.gid)] * 4
    assert proc.status(moved.pid, "CapEff").strip("0") == ""
    # It is a session like others, with snapshots of its own.
    eve.host.value(moved, "1", "values.append(4); open('hers.txt', 'w').write('new')")
    moved.suspend()
    moved.resume()
    assert eve.host.value(moved, "(sum(values), open('hers.txt').read())") == (
        10,
        "new",
    )
    carried.unlink()


def test_a_directory_that_lies_elsewhere_is_mapped(hosts, make_user, make_daemon, record):
    """What was mounted at one place is found there, though it lies at another, and nobody but root could make that place."""
    user = make_user()
    here, there = hosts("mount -t tmpfs -o mode=1777 here /mnt"), hosts("mount -t tmpfs -o mode=755 there /mnt", "mkdir /mnt/other")
    ada, eve = here.user(user), there.user(user)
    first, second = (Commands(make_daemon(user=one), one) for one in (ada, eve))
    ada.mkdir("/mnt/data/deep")
    ada.write("/mnt/data/table.csv", "1,2")
    ada.run(["cp", "/bin/true", "/mnt/data/mapped"])
    workspace = ada.mkdir(ada.home / "work")
    words = ["kernel", "start", "--name", "analysis", "--files", "workspace"]
    session = first.session(first.run(*words, cwd=workspace).one("session")["session"])
    begin = "import mmap, os; os.chdir('/mnt/data/deep'); values = [1]; program = open('/mnt/data/mapped', 'rb')"
    begin += "; mapped = mmap.mmap(program.fileno(), 0, prot=mmap.PROT_READ)"
    look = "(values, mapped[1:4], os.getcwd(), open('/mnt/data/table.csv').read())"
    assert here.value(session, look, begin) == ([1], b"ELF", "/mnt/data/deep", "1,2")
    session.snapshot("--tag", "good")
    carried = record.base / f"{session.id}.ijx"
    carried.parent.chmod(0o777)
    first.run("export", "good", str(carried))
    session.stop()
    session.remove()

    second.run("import", str(carried), "--tag", "from-ada")
    lies = eve.mkdir(eve.home / "data")
    eve.mkdir(lies / "deep")
    eve.write(lies / "table.csv", "3,4")
    eve.run(["cp", "/bin/true", str(lies / "mapped")])
    assert second.fails("check", "from-ada")["code"] == "IJ-C048"
    assert second.run("check", "from-ada", "--map", f"/mnt/data={lies}").one("check")["fits"]
    assert second.fails("check", "from-ada", "--map", "/mnt/data=/nowhere/at/all")["code"] == "IJ-L015"
    refused = second.fails("branch", "from-ada", "--force")
    assert refused["code"] == "IJ-L062" and "/mnt/data" in refused["message"]
    for nonsense in (f"/={lies}", f"/proc/x={lies}", f"{workspace}/in={lies}", "/mnt/data=/nowhere/at/all", f"relative={lies}"):
        assert second.fails("branch", "from-ada", "--force", "--map", nonsense)["code"] == "IJ-L015", nonsense
    assert second.fails("branch", "from-ada", "--force", "--map", "nonsense")["code"] == "IJ-C001"
    moved = made_of(second, "from-ada", "--force", "--map", f"/mnt/data={lies}")
    assert there.value(moved, look) == ([1], b"ELF", "/mnt/data/deep", "3,4")
    # What else was there still is, and nothing came to be on the machine itself.
    assert there.value(moved, "sorted(os.listdir('/mnt'))") == ["data", "other"]
    assert subprocess.run(there.words(["ls", "/mnt"]), check=True, capture_output=True, text=True).stdout.split() == ["other"]
    moved.suspend()
    moved.resume()
    assert there.value(moved, look) == ([1], b"ELF", "/mnt/data/deep", "3,4")
    carried.unlink()
