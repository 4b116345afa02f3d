"""What the tests of packages share."""

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Nobody's: no account has it, and nothing on the machine belongs to it.
ORDINARY_UID = 61_234


def programs():
    """The names of the programs, as everything that installs them has them."""
    lines = (REPOSITORY / "python/infinijup/programs.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if not line.startswith("#")]


def modes(wheel):
    """Each file of a wheel with its permissions."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: stat.S_IMODE(entry.external_attr >> 16) for entry in archive.infolist()}


def licences(wheel):
    """The texts in a wheel's directory for them, by name."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
        return {Path(name).name: archive.read(name) for name in names}


def pip_install(wheel, prefix):
    """As pip puts it below a prefix, without what it depends on."""
    words = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--ignore-installed"]
    words += ["--no-warn-script-location", "--root-user-action=ignore", "--prefix", prefix, wheel]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)


def privileged(directory):
    """Files below a directory that give somebody a right: by their mode or by capabilities."""
    found = []
    for path in [directory, *directory.rglob("*")]:
        if path.is_symlink():
            continue
        if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) or "security.capability" in os.listxattr(path):
            found.append(path)
    return found


def as_ordinary_user():
    """Words that run a command without any privilege, also if we are root."""
    words = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if os.getuid() == 0:
        return [*words, f"--reuid={ORDINARY_UID}", f"--regid={ORDINARY_UID}", "--clear-groups"]
    return ["setpriv", "--no-new-privs"]


def in_a_namespace():
    """Words that run a command with all capabilities of a user namespace of its own but CAP_SETUID, as CRIU is run: with that one
    it would try to become root there."""
    alone = ["unshare", "--user", "--map-current-user", "--keep-caps", "--pid", "--fork", "--mount", "--mount-proc", "--net", "--ipc"]
    without = ["setpriv", "--inh-caps=-setuid", "--ambient-caps=-setuid", "--bounding-set=-setuid"]
    # CRIU tries out what the kernel does with connections.
    loopback = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    return [*as_ordinary_user(), *alone, *without, *loopback]
