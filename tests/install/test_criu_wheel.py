"""The wheel `infinijup-criu`: it runs where pip puts it and where it is moved to, for people who are not root."""

import os
import shutil
import subprocess

import pytest

from things import ORDINARY_UID, as_ordinary_user, in_a_namespace, licences, modes, pip_install, privileged

# A program that counts in a file. Dumped it stands still, restored it goes on from where it was.
ROUND_TRIP = r"""
set -eu
criu=$1 place=$2
export XDG_RUNTIME_DIR=$place

now() { cat "$place/count"; }
passes() { # NUMBER
    until [ "$(now)" -gt "$1" ]; do sleep 0.02; done
}

/usr/bin/python3 -c '
import os, subprocess, sys
count = "n=0; while :; do n=$((n+1)); echo $n >$0/next; mv $0/next $0/count; sleep 0.02; done"
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
process = subprocess.Popen(["sh", "-c", count, sys.argv[1]], start_new_session=True, cwd="/", **quiet)
open(sys.argv[1] + "/pid", "w").write(str(process.pid))
os._exit(0)
' "$place"
pid=$(cat "$place/pid")
until [ -s "$place/count" ]; do sleep 0.02; done
passes 3
mkdir "$place/images"
options="--unprivileged --images-dir $place/images --manage-cgroups=ignore"
"$criu" dump $options -t "$pid" -o dump.log --network-lock skip || { tail -n 20 "$place/images/dump.log" >&2; exit 1; }
! kill -0 "$pid" 2>/dev/null || grep -q '^State:.Z' "/proc/$pid/status"
stood=$(now)
"$criu" restore $options --restore-detached -o restore.log || { tail -n 20 "$place/images/restore.log" >&2; exit 1; }
passes "$stood"
echo "stood at $stood, is at $(now)"
kill -9 "$pid"
"""


@pytest.fixture(scope="module")
def moved(criu_wheel, tmp_path_factory):
    """Installed by pip in one place, then moved to another, whose name is one that scripts trip over."""
    place = tmp_path_factory.mktemp("criu")
    pip_install(criu_wheel, place / "first")
    target = place / "second place: here"
    (place / "first").rename(target)
    for directory in (place.parent.parent, place.parent, place):
        directory.chmod(0o755)
    return target


@pytest.fixture
def place(tmp_path):
    """A directory that the ordinary user may write to."""
    if os.getuid() == 0:
        os.chown(tmp_path, ORDINARY_UID, ORDINARY_UID)
    return tmp_path


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stdout} {done.stderr}"
    return done.stdout


def test_it_says_its_version_wherever_it_is(moved, tmp_path):
    criu = moved / "bin/infinijup-criu"
    assert "Version: 4." in run(*as_ordinary_user(), criu, "--version", cwd="/")
    assert "Version: 4." in run("./infinijup-criu", "--version", cwd=moved / "bin")
    assert "Version: 4." in run("sh", "infinijup-criu", "--version", cwd=moved / "bin")
    (tmp_path / "link").symlink_to(criu)
    assert "Version: 4." in run(tmp_path / "link", "--version")
    # Found by PATH, with libraries of the machine's in the way.
    (tmp_path / "bin").symlink_to(moved / "bin")
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LD_LIBRARY_PATH": "/lib/x86_64-linux-gnu"}
    assert "Version: 4." in run("infinijup-criu", "--version", env=environment)


def test_a_copy_without_its_files_says_so(moved, tmp_path):
    shutil.copy(moved / "bin/infinijup-criu", tmp_path / "infinijup-criu")
    done = subprocess.run([tmp_path / "infinijup-criu", "--version"], capture_output=True, text=True)
    assert done.returncode == 127 and "install it again" in done.stderr


def test_it_uses_no_library_of_the_machine(moved):
    (loader,) = (moved / "lib/infinijup-criu").glob("ld-linux-*")
    listed = run(loader, "--list", moved / "lib/infinijup-criu/criu").splitlines()
    paths = [line.split(" => ")[1].split(" (")[0] for line in listed if " => " in line]
    strangers = [path for path in paths if "/lib/infinijup-criu/" not in path]
    assert len(paths) > 10 and not strangers, listed


def test_it_finds_this_kernel_good_inside_a_namespace(moved):
    assert "Looks good" in run(*in_a_namespace(), moved / "bin/infinijup-criu", "check", "--unprivileged", cwd="/")


def test_a_process_is_dumped_and_restored_by_an_ordinary_user(moved, place):
    said = run(*in_a_namespace(), "sh", "-c", ROUND_TRIP, "sh", moved / "bin/infinijup-criu", place, cwd="/")
    assert said.startswith("stood at ")


def test_python_knows_where_it_is(moved):
    (packages,) = moved.glob("l*/python3*/site-packages")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import infinijup_criu; print(infinijup_criu.path())"
    said = run("/usr/bin/python3", "-c", code, packages)
    assert said.strip() == str(moved / "bin/infinijup-criu")


def test_it_gives_nobody_a_right(criu_wheel, moved):
    assert not privileged(moved)
    assert set(modes(criu_wheel).values()) <= {0o644, 0o755}


def test_it_has_the_copyright_of_every_package_in_it(criu_wheel, moved):
    lines = (moved / "share/doc/infinijup-criu/packages.txt").read_text().splitlines()
    assert "snapshot.debian.org" in lines[0], "it must say where the sources are"
    packages = [line.split()[0] for line in lines[1:]]
    texts = licences(criu_wheel)
    assert {"criu", "libc6", "libgnutls30t64"} <= set(packages)
    assert set(packages) | {"GPL-2", "LGPL-2.1", "LGPL-3"} <= texts.keys()
    assert b"GNU GENERAL PUBLIC LICENSE" in texts["GPL-2"]
