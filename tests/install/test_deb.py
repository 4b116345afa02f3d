"""The Debian package: what is in it, and what is not."""

import re
import subprocess

import pytest

from things import as_ordinary_user, privileged, programs


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def unpacked(deb, tmp_path_factory):
    place = tmp_path_factory.mktemp("deb")
    run("dpkg-deb", "-x", deb, place)
    run("dpkg-deb", "-e", deb, place / "DEBIAN")
    for directory in (place.parent.parent, place.parent, place):
        directory.chmod(0o755)
    return place


def test_every_program_is_where_it_is_looked_for(unpacked):
    for name in programs():
        places = [path for path in ("usr/bin", "usr/lib/infinijup") if (unpacked / path / name).is_file()]
        assert len(places) == 1, name
    # What people call is in their path, what the daemon calls is not.
    assert sorted(path.name for path in (unpacked / "usr/bin").iterdir()) == ["infinijup", "infinijupd"]
    said = run(*as_ordinary_user(), unpacked / "usr/bin/infinijup", "--version")
    assert re.match(r"infinijup \d", said)


def test_it_gives_nobody_a_right(deb, unpacked):
    assert not privileged(unpacked)
    for line in run("dpkg-deb", "-c", deb).splitlines():
        mode, owner = line.split()[:2]
        assert re.fullmatch(r"[-d]rw[-x]r-[-x]r-[-x]", mode) and owner in ("root/root", "0/0"), line


def test_nothing_of_it_runs_as_root(unpacked):
    units = [path for path in unpacked.rglob("*") if path.suffix in (".service", ".socket", ".timer", ".path")]
    assert {path.relative_to(unpacked).as_posix() for path in units} == {
        "usr/lib/systemd/user/infinijupd.service",
        "usr/lib/systemd/user/infinijupd.socket",
    }
    for name in ("etc/cron.d", "etc/init.d", "etc/sudoers.d", "usr/share/polkit-1", "usr/share/dbus-1", "usr/lib/udev"):
        assert not (unpacked / name).exists(), name
    # dpkg runs these as root: they put the profile of AppArmor in place, and away, and do nothing else.
    scripts = {
        path.name: path.read_text() for path in (unpacked / "DEBIAN").iterdir() if path.name in ("preinst", "postinst", "prerm", "postrm")
    }
    assert scripts.keys() == {"postinst", "postrm"}
    for name, text in scripts.items():
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        files = "cp /usr/share/infinijup/apparmor /etc/apparmor.d/infinijup|rm -f /etc/apparmor.d/infinijup"
        known = rf"set -e|if .*; then|fi|{files}|apparmor_parser .* /etc/apparmor.d/infinijup( \|\| true)?"
        assert all(re.fullmatch(known, line) for line in lines), (name, lines)


def test_it_has_manual_pages_completions_and_licences(unpacked):
    pages = {path.name for path in (unpacked / "usr/share/man/man1").iterdir()}
    assert {"infinijup.1.gz", "infinijup-snapshot.1.gz", "infinijup-rollback.1.gz"} <= pages
    for path in (
        "bash-completion/completions/infinijup",
        "zsh/vendor-completions/_infinijup",
        "fish/vendor_completions.d/infinijup.fish",
    ):
        assert "rollback" in (unpacked / "usr/share" / path).read_text(), path
    copyright = (unpacked / "usr/share/doc/infinijup/copyright").read_text()
    assert "Permission is hereby granted" in copyright


def test_the_profile_names_the_program_that_makes_namespaces(unpacked):
    profile = (unpacked / "usr/share/infinijup/apparmor").read_text()
    assert "profile infinijup @{HOME}/.local/share/infinijup/programs/*/infinijup-box flags=(unconfined) {" in profile
    assert re.search(r"^\s*userns,$", profile, re.MULTILINE)


def test_it_depends_on_nothing_unusual(deb):
    depends = run("dpkg-deb", "-f", deb, "Depends")
    names = {entry.split()[0] for entry in depends.split(",")}
    assert names <= {"libc6", "libgcc-s1"}, depends
