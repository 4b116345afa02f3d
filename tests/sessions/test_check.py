"""Whether a snapshot would come up here is said before anything is stopped: libraries by build id, files, directories."""

import shutil
import subprocess

import pytest

# A library of the user's own, which is at no place that a snapshot brings along.
LIBRARY = "libz.so.1"


def library():
    """The path of a library that this machine has."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    return next(line.split("=> ")[1] for line in known.splitlines() if line.split()[0] == LIBRARY)


@pytest.fixture
def loaded(commands, user):
    """A kernel that has loaded a library of its user's own, and where that is."""
    place = user.mkdir(user.home / "env") / "libown.so"
    shutil.copy(library(), place)
    session = commands.kernel("loaded", cwd=user.mkdir(user.home / "work"))
    session.kernel.run(f"import ctypes; own = ctypes.CDLL({str(place)!r}); n = 1")
    session.snapshot("--tag", "good")
    session.kernel.run("n = 2")
    return session, place


def refused(commands, *words):
    """What a command that looks first is told."""
    error = commands.fails(*words)
    assert error["code"] == "IJ-L062", error
    return error["message"]


def checked(commands, which, fits):
    """The findings that stand in the way."""
    done = commands.run("check", which, check=False)
    said = done.one("check")
    assert (said["fits"], done.code) == ((True, 0) if fits else (False, 3)), said
    return [finding for finding in said["findings"] if finding["state"] == "fail"]


def test_a_snapshot_of_here_comes_up_here(commands, loaded):
    session, _ = loaded
    assert checked(commands, "good", True) == []
    session.rollback("good")
    session.kernel.ready()
    assert session.kernel.value("n") == 1


def test_a_library_of_another_build_is_named_before_anything_is_stopped(commands, loaded):
    session, place = loaded
    content = bytearray(place.read_bytes())
    # The same size, another build: the note is changed, and nothing else.
    at = content.index(b"GNU\0", content.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0")) + 4
    content[at : at + 20] = bytes(byte ^ 0xFF for byte in content[at : at + 20])
    old = place.with_suffix(".old")
    place.rename(old)
    place.write_bytes(content)
    place.chmod(0o755)
    (finding,) = checked(commands, "good", False)
    assert finding["item"] == "file-other" and str(place) in finding["evidence"] and finding["fix"]
    assert "another build" in refused(commands, "rollback", session.name, "good")
    # Nothing happened to it.
    assert session.kernel.value("n") == 2
    # Cut short, it has another size.
    place.write_bytes(content[:-1])
    (finding,) = checked(commands, "good", False)
    assert "another size" in finding["evidence"]
    old.rename(place)
    assert checked(commands, "good", True) == []
    session.rollback("good")
    session.kernel.ready()
    assert session.kernel.value("n") == 1


def test_what_is_not_here_is_named_by_its_directory(commands, loaded, user):
    session, place = loaded
    away = place.parent.rename(user.home / "away")
    (finding,) = checked(commands, "good", False)
    assert finding["item"] == "directory-missing" and f"`{place.parent}` is not here" in finding["evidence"]
    assert str(place.parent) in refused(commands, "branch", "good", "--name", "never")
    assert set(commands.sessions()) == {session.name}
    away.rename(place.parent)
    assert commands.run("check", "nothing-like-it", check=False).code == 15
