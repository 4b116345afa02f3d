"""Suspended sessions hold no process and no memory, and wake where they were."""

from harness import proc


def test_a_kernel_sleeps_and_wakes(commands, user):
    session = commands.kernel("sleeper", cwd=user.mkdir(user.home / "work"))
    kernel = session.kernel
    kernel.run("import os; data = bytearray(os.urandom(64 << 20)); x = 41; f = open('f', 'w'); f.write('abc'); f.flush()")
    pid, checksum = session.pid, kernel.value("hash(bytes(data))")
    tree = proc.tree(pid)
    outcome = session.suspend()
    assert outcome["freed_bytes"] > 64 << 20
    assert session.state == "suspended"
    assert not [p for p in tree if not proc.is_over(p)]

    session.resume()
    kernel.ready()
    assert kernel.value("x + 1") == 42
    assert kernel.value("hash(bytes(data))") == checksum
    kernel.run("f.write('def'); f.flush()")
    assert (user.home / "work/f").read_text() == "abcdef"


def test_a_suspended_session_survives_the_daemon(commands, daemon, user):
    session = commands.kernel("sleeper")
    session.kernel.run("x = 1")
    session.suspend()
    daemon.restart()
    assert session.state == "suspended"
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x") == 1


def test_what_cannot_be_done_to_a_sleeper_is_refused(commands):
    session = commands.kernel("sleeper")
    session.suspend()
    for words in (["suspend", "sleeper"], ["snapshot", "sleeper"], ["exec", "sleeper", "--", "true"]):
        error = commands.fails(*words)
        assert error["code"] and "suspended" in error["message"] + str(error["causes"]) + str(error["hint"]), error
    session.resume()
    assert commands.fails("resume", "sleeper")["code"]
    session.kernel.ready()


def test_a_sleeper_can_be_branched(commands):
    session = commands.kernel("sleeper")
    session.kernel.run("x = 5")
    session.suspend()
    branch, _ = session.branch("awake")
    branch.connect()
    assert branch.kernel.value("x") == 5
    assert session.state == "suspended"
