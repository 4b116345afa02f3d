"""The wheel `infinijup` and its source archive: everything is in it, and nothing in it gives anybody a right."""

import os
import posixpath
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from things import REPOSITORY, as_ordinary_user, licences, modes, pip_install, privileged, programs


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    pip_install(wheel, place)
    for directory in (place.parent.parent, place.parent, place):
        directory.chmod(0o755)
    return place


def contents(wheel):
    """All files but the list of them, which names the tool that wrote it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_every_program_is_there_and_runs_for_everybody(installed):
    for name in programs():
        program = installed / "bin" / name
        assert program.stat().st_mode & 0o777 == 0o755, name
        assert program.read_bytes()[:4] == b"\x7fELF", name
    for name in ("infinijup", "infinijupd"):
        said = subprocess.run([*as_ordinary_user(), installed / "bin" / name, "--version"], capture_output=True, text=True, cwd="/")
        assert said.returncode == 0 and re.match(rf"{name} \d+\.\d+\.\d+", said.stdout), said


def test_programs_are_stripped(installed):
    for name in programs():
        listed = subprocess.run(["readelf", "--sections", "--wide", installed / "bin" / name], capture_output=True, text=True, check=True)
        assert ".text" in listed.stdout and ".symtab" not in listed.stdout and ".debug_" not in listed.stdout, name


def test_its_name_says_which_glibc_the_programs_need(wheel, installed):
    major, minor = map(int, re.search(r"-py3-none-manylinux_(\d+)_(\d+)_", wheel.name).groups())
    needed = set()
    for name in programs():
        said = subprocess.run(["readelf", "--version-info", "--wide", installed / "bin" / name], capture_output=True, text=True, check=True)
        needed |= {tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([0-9.]+)", said.stdout)}
        # A wheel may count on libc and its parts, and on nothing else of the machine.
        said = subprocess.run(["readelf", "--dynamic", installed / "bin" / name], capture_output=True, text=True, check=True)
        libraries = set(re.findall(r"Shared library: \[([^]]*)\]", said.stdout))
        usual = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
        assert libraries <= usual, (name, libraries)
    assert max(needed)[:2] <= (major, minor) == max((2, 17), max(needed)[:2])


def test_it_has_the_extensions_of_jupyter(wheel):
    names = contents(wheel).keys()
    (metadata,) = [name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA")]
    data = metadata.replace(".dist-info", ".data") + "/data/"
    assert data + "share/jupyter/labextensions/infinijup/package.json" in names
    assert data + "etc/jupyter/jupyter_server_config.d/infinijup.json" in names
    assert "infinijup/provisioner.py" in names and "infinijup/serverextension/app.py" in names


def test_it_gives_nobody_a_right(wheel, installed):
    assert not privileged(installed)
    assert set(modes(wheel).values()) <= {0o644, 0o755}


def test_it_has_the_licences_as_the_repository_has_them(wheel):
    assert licences(wheel) == {name: (REPOSITORY / name).read_bytes() for name in ("LICENSE-MIT", "LICENSE-APACHE")}


def from_archive(archive, to, **environment):
    """The wheel that pip builds from the source archive, on a machine that has neither node nor cargo."""
    words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", to]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("INFINIJUP_")}
    return subprocess.run([*words, archive], capture_output=True, text=True, env=clean | {"PATH": "/nowhere"} | environment)


def test_the_source_archive_gives_the_same_wheel_without_node(archive, wheel, installed, tmp_path):
    """What node builds is in it; the programs are given to it here, so that the test does not wait for cargo."""
    done = from_archive(archive, tmp_path, INFINIJUP_PROGRAMS=str(installed / "bin"))
    assert done.returncode == 0, done.stdout + done.stderr
    (ours,) = tmp_path.glob("infinijup-*.whl")
    assert ours.name == wheel.name
    theirs, ours = contents(wheel), contents(ours)
    assert [name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)] == []


def test_the_source_archive_says_that_it_needs_cargo(archive, tmp_path):
    done = from_archive(archive, tmp_path)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "Install Rust 1.89 or newer (https://rustup.rs) and a C compiler, and try again." in said
    assert "Traceback" not in said, said


def test_the_source_archive_has_what_cargo_needs(archive):
    with tarfile.open(archive) as sources:
        names = {name.split("/", 1)[1] for name in sources.getnames()}
        lock = sources.extractfile(next(member for member in sources if member.name.endswith("/rust/Cargo.lock"))).read()
    assert lock == (REPOSITORY / "Cargo.lock").read_bytes()
    members = re.search(r"^members = \[(.*?)\]", (REPOSITORY / "Cargo.toml").read_text(), re.DOTALL | re.MULTILINE)[1]
    for member in re.findall(r'"([^"]+)"', members):
        for file in ("Cargo.toml", "build.rs"):
            assert (f"rust/{member}/{file}" in names) == (REPOSITORY / member / file).exists(), (member, file)
    ours = re.compile(r"rust/(deploy/systemd(/|$)|.*/src(/|$)|(.*/)?(Cargo\.(toml|lock)|build\.rs)$)")
    assert not [name for name in names if name.startswith("rust/") and not ours.match(name)]


def test_the_source_archive_has_what_its_sources_include(archive):
    """What the compiler reads besides: `include_str!` and `include_bytes!` in what is no test."""
    included = {}
    with tarfile.open(archive) as sources:
        names = {name.split("/", 1)[1] for name in sources.getnames()}
        for name in names:
            if not re.match(r"rust/crates/.*\.rs$", name) or name.endswith("/tests.rs"):
                continue
            program = (REPOSITORY / name.removeprefix("rust/")).read_text().split("#[cfg(test)]")[0]
            for path in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', program):
                included[posixpath.normpath(posixpath.join(posixpath.dirname(name), path))] = name
    assert included.keys() & {"rust/deploy/systemd/user/infinijupd.service"}, "the search finds nothing any more"
    assert not [(path, name) for path, name in included.items() if path not in names]
