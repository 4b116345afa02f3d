"""A daemon of the tests' own: its own state, its own run directory, its own socket."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from harness import leftovers, proc
from harness.wire import request

PROGRAMS = ("infinijupd", "infinijup", "infinijup-box", "infinijup-gpu")


def programs():
    """Where the built programs are."""
    default = Path(__file__).parents[3] / "target/debug"
    return Path(os.environ.get("INFINIJUP_PROGRAMS", default)).absolute()


def criu():
    """The CRIU under test."""
    return os.environ.get("INFINIJUP_CRIU", "/opt/infinijup/criu/bin/criu")


def copy_programs(to):
    """Copies the programs to where every user may run them: a build often lies in a home that is closed."""
    to.mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy(programs() / name, to / name)
        os.chmod(to / name, 0o755)


class Daemon:
    """`infinijupd` of one user, with directories of its own. `name` tells several daemons of one run apart."""

    def __init__(self, record, name, user, environment=None):
        self.record = record
        self.user = user
        self.name = name
        self.bin = record.base / "bin"
        self.state = record.base / name / "state"
        self.run = record.run / name
        self.socket = self.run / "infinijupd.sock"
        self.log = record.base / name / "daemon.log"
        self.environment = environment or {}
        self.process = None
        for directory in (self.state.parent, self.run):
            directory.mkdir(parents=True, exist_ok=True)
            os.chown(directory, user.uid, user.gid)
            os.chmod(directory, 0o700)

    def start(self):
        """Starts it and waits until it answers."""
        own = {
            "INFINIJUP_STATE": str(self.state),
            "INFINIJUP_RUN": str(self.run),
            "INFINIJUP_SOCKET": str(self.socket),
            "INFINIJUP_CRIU": criu(),
            "INFINIJUP_BOX": str(self.bin / "infinijup-box"),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.user.home),
            "LC_ALL": "C.UTF-8",
            # As its unit for systemd sets it.
            "MALLOC_ARENA_MAX": "2",
            "MALLOC_MMAP_THRESHOLD_": "4194304",
            "MALLOC_TRIM_THRESHOLD_": "8388608",
            # Processes that come and go by themselves would be in the way of tests that count processes; test_standby.py has them.
            "INFINIJUP_STANDBY": "off",
            **self.environment,
        }
        with self.log.open("ab") as log:
            # In a session of its own, as a service manager would have it.
            self.process = subprocess.Popen(
                self.user.words([str(self.bin / "infinijupd")], "--no-new-privs"), env=own, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        proc.until("the daemon answers", self.answers, seconds=60)
        return self

    def answers(self):
        """Whether it answers; fails at once if it has ended."""
        code = self.process.poll()
        assert code is None, f"the daemon ended with {code}:\n{self.log_tail()}"
        try:
            return self.get("/v1/version")[0] == 200
        except OSError:
            return False

    @property
    def pid(self):
        """Of the running daemon."""
        return self.process.pid

    def stop(self):
        """Asks it to end, as a service manager does. Sessions live on."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the daemon did not end on SIGTERM:\n{self.log_tail()}") from None

    def kill(self):
        """The worst that can happen to it."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        """An orderly stop and a new start."""
        self.stop()
        return self.start()

    def get(self, path):
        """GET as its user."""
        return request(self.socket, "GET", path)

    def post(self, path, body=None):
        """POST as its user."""
        return request(self.socket, "POST", path, body)

    def log_tail(self, lines=40):
        """The end of its log, for a message."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def processes(self):
        """What belongs to it and is outside of sessions: itself, forwarders, the way out."""
        return [pid for pid in proc.pids() if f"/{self.record.name}/{self.name}/".encode() in leftovers.read_environment(pid)]

    def close(self):
        """Ends all sessions and itself. Asserts that it leaves no mount; deletes only after that."""
        problems = []
        if self.process and self.process.poll() is None:
            try:
                self.end_sessions()
                self.stop()
            except (AssertionError, OSError) as problem:
                problems.append(str(problem))
        if self.process and self.process.poll() is None:
            self.kill()
        left = [point for point in proc.mounts_below(self.run) + proc.mounts_below(self.state) if not self.is_base(point)]
        if left:
            problems.append(f"mounts were left: {left}")
        self.record.kill_processes(self.name)
        leftovers.delete(self.run)
        leftovers.delete(self.state.parent)
        assert not problems, "; ".join(problems)

    def end_sessions(self):
        """Removes every session of every user."""
        _, listed = self.get("/v1/sessions")
        for session in listed["sessions"]:
            self.remove_session(session)

    def remove_session(self, session):
        """Ends and removes one."""
        path = f"/v1/sessions/{session['id']}"
        if session["state"] in ("running", "starting"):
            self.post(f"{path}/stop?wait=true", {"grace_ms": 0})

        def answered():
            """What it says, unless that something is under way: a session whose processes have just ended is being noted as ended."""
            status, answer = request(self.socket, "DELETE", f"{path}?wait=true", seconds=60)
            return None if answer.get("code") == "IJ-L013" else (status, answer)

        status, answer = proc.until(f"session {session['id']} can be removed", answered, seconds=60)
        assert status == 200, f"cannot remove {session['id']}: {answer}"

    def is_base(self, point):
        """What the daemon keeps mounted for itself, not for a session."""
        return point in (str(self.run), str(self.run / "tmpfs"), str(self.run / "kdat"))
