"""An encrypted store: nothing of a session's memory is plain on disk, everything else is as before, and without the key nothing opens."""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

# A build without optimisation seals a few megabytes a second.
pytestmark = pytest.mark.timeout(600)

# Made from a number, so that the kernel's memory has it and no source, message or log.
SECRET = "b''.join(__import__('hashlib').sha256(b'%d' % n).digest() for n in range(20000))"
NEEDLE = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(10000, 10004))


@pytest.fixture(autouse=True)
def images_in_memory(commands, user):
    """What a daemon keeps in memory for those after it goes with the test."""

    def found():
        return list(Path("/dev/shm").glob(f"infinijup-{user.uid}-*"))

    yield found
    for directory in found():
        shutil.rmtree(directory)


def plain_files(directory):
    """The files below that have the secret in them."""
    files = [Path(base) / name for base, _, names in os.walk(directory) for name in names]
    return [path for path in files if path.is_file() and NEEDLE in path.read_bytes()]


def places(daemon):
    """What tells a command where that daemon's things are."""
    return {"INFINIJUP_STATE": str(daemon.state), "INFINIJUP_RUN": str(daemon.run)}


def encrypt(commands):
    """`store encrypt`, and the daemon again."""
    commands.daemon.stop()
    outcome = commands.run("store", "encrypt", environment=places(commands.daemon)).one("store_encrypted")
    commands.daemon.start()
    return outcome


def is_encrypted(daemon):
    status, view = daemon.get("/v1/daemon")
    assert status == 200, view
    return view["store_encrypted"]


def test_no_byte_of_memory_is_plain_on_disk(commands, daemon, user, images_in_memory):
    session = commands.kernel("secretive", cwd=user.mkdir(user.home / "work"))
    session.kernel.run(f"secret = {SECRET}; x = 1")
    session.snapshot("-m", "first")
    session.kernel.run("x = 2")
    session.suspend()
    assert plain_files(daemon.state), "the test would see it"
    before = commands.run("history", "secretive").one("history")

    outcome = encrypt(commands)
    assert not outcome["already"] and outcome["commits"] >= 2
    key = Path(outcome["key_file"])
    assert key == user.home / ".config/infinijup/store.key"
    assert (key.stat().st_mode & 0o7777, key.stat().st_uid) == (0o600, user.uid)
    assert str(key) in (user.home / ".config/infinijup/settings.toml").read_text()
    assert is_encrypted(daemon)
    assert plain_files(daemon.state) == []
    after = commands.run("history", "secretive").one("history")
    assert [line["message"] for line in after["commits"]] == [line["message"] for line in before["commits"]]
    assert not {line["id"] for line in after["commits"]} & {line["id"] for line in before["commits"]}

    # Everything goes on as before, and stays so.
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x") == 2
    assert session.kernel.value(f"secret == {SECRET}") is True
    session.rollback("secretive~1")
    session.kernel.ready()
    assert session.kernel.value("x") == 1
    session.kernel.run("x = 3")
    session.snapshot()
    branch, _ = session.branch("other")
    branch.connect()
    assert branch.kernel.value("x") == 3
    assert plain_files(daemon.state) == []
    session.suspend()
    assert plain_files(daemon.state) == []
    assert not any(plain_files(directory) for directory in images_in_memory()), "nothing is kept in memory either"
    doctor = commands.run("doctor", check=False).one("doctor")
    (finding,) = [finding for finding in doctor["findings"] if finding["item"] == "encryption"]
    assert "is encrypted" in finding["evidence"]
    assert encrypt(commands)["already"]


def test_a_running_session_goes_on(commands, daemon):
    session = commands.kernel("awake")
    session.kernel.run("x = 5")
    session.snapshot()
    encrypt(commands)
    session.connect()
    assert session.kernel.value("x") == 5
    session.kernel.run("x = 6")
    session.snapshot()
    session.rollback("awake~1")
    session.kernel.ready()
    assert session.kernel.value("x") == 5


def test_without_its_key_the_daemon_does_not_start(commands, daemon):
    session = commands.kernel("locked")
    session.kernel.run("x = 7")
    session.suspend()
    key = Path(encrypt(commands)["key_file"])
    daemon.stop()
    away = key.with_name("away")
    key.rename(away)

    def refused():
        with pytest.raises(AssertionError, match=r"ended with 12:(.|\n)*IJ-L090") as error:
            daemon.start()
        return str(error.value)

    assert "put the key file back" in refused()
    assert not key.exists()
    away.rename(key)
    key.chmod(0o640)
    assert "others may use it (mode 640)" in refused()
    key.chmod(0o600)
    content = key.read_bytes()
    key.write_bytes(b"x" * 64)
    assert "not the key of the store" in refused()
    key.write_bytes(content)
    daemon.start()
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x") == 7


def test_whoever_kills_it_loses_nothing(commands, daemon, user):
    session = commands.kernel("stubborn")
    session.kernel.run(f"secret = {SECRET}; x = 8")
    session.suspend()

    def killed_when(there):
        """Encrypts until something is there, and kills it then."""
        daemon.stop()
        environment = {**user.environment(), **places(daemon)}
        words = user.words([str(daemon.bin / "infinijupd"), "--encrypt-store"])
        process = subprocess.Popen(words, env=environment, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while not there():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        daemon.start()

    new = daemon.state / "store.new"
    moments = (new.exists, lambda: list(new.glob("objects/tmp/*")), lambda: list(new.glob("objects/*/*.pack")))
    for moment in moments:
        killed_when(moment)
        assert not is_encrypted(daemon)
        assert not new.exists()
        session.resume()
        session.kernel.ready()
        assert session.kernel.value("x") == 8
        session.suspend()
    killed_when((daemon.state / "encrypting.json").exists)
    assert is_encrypted(daemon), daemon.log_tail()
    assert plain_files(daemon.state) == []
    assert [path for path in daemon.state.iterdir() if path.name.startswith(("store.", "encrypting"))] == []
    session.resume()
    session.kernel.ready()
    assert session.kernel.value("x") == 8
