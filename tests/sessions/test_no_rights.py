"""While every operation runs, all that belongs to the user is looked at: nothing is root's, and nothing has a right outside of the user's
own namespaces."""

import time

from harness import proc
from harness.rights import Watcher


def without_rights(session):
    """Whether all processes of a session have given everything up."""
    for pid in proc.tree(session.pid):
        assert int(proc.status(pid, "CapEff"), 16) == 0 == int(proc.status(pid, "CapPrm"), 16), proc.read(pid, "cmdline")
        assert int(proc.status(pid, "CapBnd"), 16) == 0 and proc.status(pid, "NoNewPrivs") == "1", proc.read(pid, "cmdline")


def test_nothing_is_root_or_has_a_right_during_any_operation(record, commands, daemon, user):
    watcher = Watcher(record, daemon, user)
    watcher.start()
    try:
        looks = {}

        def during(what, action, *arguments):
            before = watcher.looks
            value = action(*arguments)
            # An operation that ended between two looks was not looked at.
            proc.until("a look", lambda: watcher.looks > before)
            looks[what] = watcher.looks - before
            return value

        session = during("start", commands.kernel, "k")
        session.kernel.run("import subprocess; child = subprocess.Popen(['sleep', '1000']); n = 1")
        taken = during("snapshot", session.snapshot)["commit"]
        # A look takes as long as CRIU does where much else runs, and can miss it.
        for _ in range(30):
            if ("criu", True) in watcher.seen:
                break
            session.snapshot()
        during("rollback", session.rollback, taken)
        session.kernel.ready()
        branch, _ = during("branch", session.branch, "b")
        without_rights(session)
        without_rights(branch)
        during("exec", session.execute, "sh", "-c", "sleep 0.3")
        during("suspend", session.suspend)
        during("resume", session.resume)
        session.kernel.ready()
        assert session.kernel.value("n") == 1
        without_rights(session)
        during("restart", commands.run, "restart", "k")
        session.kernel.ready()
        without_rights(session)
        during("stop", session.stop)
        during("remove", branch.remove)
        time.sleep(0.1)
    finally:
        watcher.stop()
    print(looks, sorted((name, inside, has) for (name, inside), has in watcher.seen.items()))
    assert not watcher.problems
    names = {name for name, _ in watcher.seen}
    # A watcher that has not seen those has not looked.
    assert {"infinijupd", "infinijup-box"} <= {name[:15] for name in names}
    assert watcher.seen.get(("criu", True)) == {True}, "CRIU has rights, in the box's namespace"
    assert all(count > 0 for count in looks.values()), looks
