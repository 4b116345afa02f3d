"""Another user of the machine tries everything for a while, and meanwhile its owner works with a kernel: the intruder gains nothing and
stops nothing. What it tries is in `harness/intruder.py`."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import proc
from harness.daemon import criu
from harness.session import Commands
from harness.users import PYTHON

SECONDS = float(os.environ.get("INFINIJUP_INTRUDER_SECONDS", "5"))
INTRUDER = (Path(__file__).parent / "harness/intruder.py").read_text()
# Two at a time, to save time.
PAIRS = [("processes", "links"), ("files", "connections")]
# What each must have tried at the least, so that a test in which it was never there does not pass.
ATTACKS = {
    "processes": ("signal", "ptrace", "prlimit", "process_vm_readv", "pidfd_send_signal", "read", "write", "link", "fd"),
    "files": ("read", "write", "list", "plant", "take", "remove", "move", "mode"),
    "links": ("exchange", "plant", "loot"),
    "connections": ("tcp", "rush", "idle", "unix"),
}


@pytest.fixture(scope="module")
def owner(module_make_user, module_make_daemon):
    """A user with a daemon and a kernel."""
    commands = Commands(module_make_daemon(), module_make_user())
    # Closed by what the product does, not by where the tests have put it.
    commands.daemon.state.parent.chmod(0o755)
    session = commands.kernel("secret", cwd=commands.user.mkdir(commands.user.home / "work"))
    session.kernel.run("import os\nkey = 'correct horse'\nopen('battery.txt', 'w').write('staple')")
    # Something in the directories that everybody has.
    session.kernel.run("f = open('/tmp/' + os.urandom(6).hex(), 'w', opener=lambda p, m: os.open(p, m, 0o600)); f.write('x'); f.flush()")
    yield session
    session.kernel.close()


@pytest.fixture(scope="module")
def intruder(module_make_user, owner):
    user = module_make_user()
    assert user.uid != owner.commands.user.uid
    return user


class Attack:
    """The intruder at work. It is told every path that there is, again and again."""

    def __init__(self, owner, intruder, name, **more):
        self.owner, self.hints = owner, intruder.home / f"hints.{name}"
        self.write_hints()
        asked = {"uid": owner.commands.user.uid, "seconds": SECONDS, "hints": str(self.hints), **more}
        words = intruder.words([PYTHON, "-c", INTRUDER, name, json.dumps(asked)])
        # In a session of its own: within one, everybody may wake everybody by SIGCONT.
        self.process = subprocess.Popen(
            ["prlimit", "--nofile=4096", *words],
            env=intruder.environment(), cwd=intruder.home, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )
        self.teller = threading.Thread(target=self.tell)
        self.teller.start()

    def write_hints(self):
        commands = self.owner.commands
        found = []
        for base in (commands.daemon.state, commands.daemon.run, commands.user.home):
            for directory, names, files in os.walk(base):
                found += [directory, *(f"{directory}/{name}" for name in files)]
        new = self.hints.with_name(self.hints.name + ".new")
        new.write_text("\n".join(found))
        new.rename(self.hints)

    def tell(self):
        while self.process.poll() is None:
            self.write_hints()
            time.sleep(0.3)

    @property
    def is_going_on(self):
        return self.process.poll() is None

    def outcome(self):
        out, _ = self.process.communicate(timeout=60)
        self.teller.join()
        assert self.process.returncode == 0
        return json.loads(out)


def work(owner, number):
    """Every operation, with a look at the state after each that could have lost it."""
    kernel = owner.kernel
    kernel.run(f"n = {number}")
    taken = owner.snapshot()["commit"]
    kernel.run("n = key = None")
    owner.rollback(taken)
    kernel.ready()
    assert kernel.value("(n, key)") == (number, "correct horse")
    other, _ = owner.branch(f"b{number}")
    assert other.connect().value("(n, key)") == (number, "correct horse")
    other.remove()
    owner.suspend()
    owner.resume()
    kernel.ready()
    assert kernel.value("(n, key, open('battery.txt').read())") == (number, "correct horse", "staple")


@pytest.mark.timeout(120 + 3 * SECONDS)
@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_an_intruder_gains_nothing_and_stops_nothing(owner, intruder, names):
    attacks = {name: Attack(owner, intruder, name) for name in names}
    done = 0
    while any(attack.is_going_on for attack in attacks.values()):
        work(owner, done)
        done += 1
    for name, attack in attacks.items():
        outcome = attack.outcome()
        print(f"{name}: {done} rounds of all operations; {outcome['attempts']}")
        assert outcome["gains"] == []
        assert all(outcome["attempts"].get(what, 0) > 0 for what in ATTACKS[name]), outcome["attempts"]
        assert outcome["attempts"].get("idle", 1100) >= 1100
    assert done > 0
    # And a client that comes now gets in.
    assert owner.connect().value("key") == "correct horse"


@pytest.mark.timeout(120 + 3 * SECONDS)
def test_a_link_in_the_place_of_a_workspace_leads_nowhere(owner, intruder, record):
    """Whoever works in a directory of somebody else's may lose the way to it, but nothing more."""
    commands = owner.commands
    user = commands.user
    shared = record.base / f"shared{os.urandom(2).hex()}"
    shared.mkdir()
    os.chown(shared, intruder.uid, intruder.gid)
    work, loot = shared / "work", intruder.mkdir(shared / "loot")
    loot.chmod(0o777)
    work.mkdir(mode=0o700)
    os.chown(work, user.uid, user.gid)
    private = user.mkdir(user.home / "private")
    for name in ("letters", "secret.txt"):
        user.write(private / name, "private")
    session = commands.kernel("guest", cwd=work)
    session.kernel.run("open('secret.txt', 'w').write('of the workspace'); n = 1")
    taken = session.snapshot()["commit"]
    session.kernel.run("open('later.txt', 'w').write('later'); n = 2")
    attack = Attack(session, intruder, "exchange", place=str(work), targets=[str(private), str(loot)])
    answers = []
    while attack.is_going_on:
        for words in (["snapshot", "guest"], ["rollback", "guest", taken], ["branch", "guest", "--name", f"g{len(answers)}"], ["resume", "guest"]):
            answers.append(commands.run(*words, check=False))
    outcome = attack.outcome()
    print(outcome["attempts"], [(answer.words[2], answer.code and answer.error["code"]) for answer in answers])
    assert outcome["attempts"]["exchange"] > 20 and len(answers) >= 4
    assert {path.name: path.read_text() for path in private.iterdir()} == {"letters": "private", "secret.txt": "private"}
    assert not list(loot.iterdir())
    # The way is free again, and everything is there.
    if session.state != "running":
        session.resume()
    session.rollback(taken, "--force")
    session.kernel.ready()
    assert session.kernel.value("(n, open('secret.txt').read())") == (1, "of the workspace")
    assert (work / "secret.txt").read_text() == "of the workspace"


def test_names_that_a_stranger_has_taken_are_not_used(owner, intruder):
    """What a user's daemon would be called in the directories that everybody has is no secret."""
    commands = owner.commands
    loot = intruder.mkdir(intruder.home / "place")
    intruder.home.chmod(0o755)
    loot.chmod(0o777)
    places = [Path(base) / f"infinijup-{commands.user.uid}" for base in ("/tmp", "/var/tmp", "/dev/shm")]
    own = {"INFINIJUP_STATE": str(commands.user.home / "other"), "INFINIJUP_CRIU": criu()}
    program = commands.daemon.bin / "infinijup"
    for taken in (["ln", "-s", loot], ["mkdir", "-m", "777"]):
        for place in places:
            intruder.run([*taken, place])
        try:
            commands.user.run([program, "daemon", "start"], environment=own)
            assert commands.user.run([program, "ps"], environment=own).code == 0
            commands.user.run([program, "daemon", "stop"], environment=own)
            assert not any(list(place.iterdir()) for place in [loot, *places])
        finally:
            intruder.run(["rm", "-rf", *places])


def test_no_name_without_a_file_is_listened_at(owner):
    """Abstract names have no owner and no mode: anybody could connect. Those in a box are in a network of its own."""
    uid, network = str(owner.commands.user.uid), proc.link("self", "ns/net")
    outside = [pid for pid in proc.pids() if proc.status(pid, "Uid").split()[:1] == [uid] and proc.link(pid, "ns/net") == network]
    own = {proc.link(pid, f"fd/{number}") for pid in outside for number in os.listdir(f"/proc/{pid}/fd")}
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    names = {row[7] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in own}
    assert str(owner.commands.daemon.socket) in names
    assert not [name for name in names if name.startswith("@")]
