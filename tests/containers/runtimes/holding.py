"""CRIU, held at a moment of its choice, so that a test can do something to whoever takes part.

CRIU runs a program of ours at each of its steps (`--action-script`). Our daemon's own dump, and the restore of a runc that the daemon
starts, are told so by a program in the place of CRIU; a runc below containerd or podman by a configuration file, which an annotation names.
"""

import os
from pathlib import Path

from harness import proc
from harness.daemon import criu

SCRIPT = """#!/bin/sh
[ -e {directory}/at ] && [ "$(/bin/cat {directory}/at)" = "$CRTOOLS_SCRIPT_ACTION" ] || exit 0
/bin/rm {directory}/at
echo $$ > {directory}/new
/bin/mv {directory}/new {directory}/held
while [ -e {directory}/held ]; do /bin/sleep 0.005; done
exit 0
"""
PROGRAM = """#!/bin/sh
exec {criu} --action-script {script} "$@"
"""


class Holding:
    """Holds at most one CRIU."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir()
        self.script, self.program = self.directory / "script", self.directory / "criu"
        self.script.write_text(SCRIPT.format(directory=self.directory))
        self.program.write_text(PROGRAM.format(criu=criu(), script=self.script))
        for program in (self.script, self.program):
            program.chmod(0o755)
        self.settings = self.directory / "criu.conf"
        self.settings.write_text(f"action-script {self.script}\n")

    def annotations(self):
        """For a container whose runtime starts CRIU."""
        return {"org.criu.config": str(self.settings)}

    def wish(self, action):
        """The next CRIU that comes to this step (`pre-dump`, `post-restore` …) waits there."""
        self.let_go()
        (self.directory / "at").write_text(action)

    def wait(self, seconds=20):
        """Until one is held; its processes, and whoever started it."""
        held = self.directory / "held"
        proc.until("CRIU comes to the step", held.exists, seconds)
        line = [int(held.read_text())]
        while line[-1] > 1:
            line.append(proc.stat(line[-1])["parent"])
        names = {pid: proc.read(pid, "comm").decode().strip() for pid in line}
        # Under whatever name it was started.
        engines = [pid for pid in line if b"swrk" in proc.read(pid, "cmdline").split(b"\0")]
        assert engines, names
        above = line[line.index(engines[-1]) + 1 :]
        return Held(engines[0], engines[-1], above, [names[pid] for pid in above])

    def let_go(self):
        """Nobody is held any more."""
        for name in ("at", "held"):
            (self.directory / name).unlink(missing_ok=True)


class Held:
    """A CRIU that waits."""

    def __init__(self, at_work, engine, above, names):
        self.at_work, self.engine, self.above, self.names = at_work, engine, above, names

    def parent(self, name):
        """The nearest process above it with this name."""
        found = [pid for pid, its in zip(self.above, self.names, strict=True) if its.startswith(name)]
        assert found, f"no {name} is above CRIU: {self.names}"
        return found[0]

    def images(self):
        """Where it reads or writes images."""
        links = {proc.link(self.at_work, f"fd/{number}") for number in os.listdir(f"/proc/{self.at_work}/fd")}
        found = [path for path in links if Path(path).is_dir() and list(Path(path).glob("*.img"))]
        assert found, links
        return Path(found[0])
