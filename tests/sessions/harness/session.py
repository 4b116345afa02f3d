"""The product's own verbs, as a user types them. The only place that knows how they are spelt."""

from harness.kernel import Kernel
from harness.users import Answer


class Commands:
    """`infinijup` as one user of one daemon."""

    def __init__(self, daemon, user, environment=None):
        self.daemon, self.user = daemon, user
        # Sessions get the environment of the command that starts them.
        self.environment = environment or {}

    def run(self, *words, check=True, **more) -> Answer:
        """`infinijup --json …`."""
        program = self.daemon.bin / "infinijup"
        environment = {"INFINIJUP_SOCKET": str(self.daemon.socket), **self.environment, **more.pop("environment", {})}
        return self.user.run([program, "--json", *words], check=check, environment=environment, **more)

    def fails(self, *words, **more):
        """A command that must be refused; what it said."""
        answer = self.run(*words, check=False, **more)
        assert answer.code != 0, f"`{' '.join(answer.words)}` should have failed: {answer.out}"
        return answer.error

    def start(self, name, *command, options=(), cwd=None):
        """`run -- COMMAND`."""
        return Session(self, self.run("run", "--name", name, *options, "--", *command, cwd=cwd).one("session")["session"])

    def kernel(self, name, options=(), cwd=None):
        """`kernel start`, and a client that has had an answer."""
        answer = self.run("kernel", "start", "--name", name, *options, cwd=cwd)
        session = Session(self, answer.one("session")["session"])
        session.connect()
        return session

    def sessions(self):
        """`ps`, by name."""
        return {view["name"]: view for view in self.run("ps").one("sessions")["sessions"]}

    def session(self, view):
        """A session that is there already."""
        return Session(self, view)


class Session:
    """A session and, if it is a kernel, one client of it."""

    def __init__(self, commands, view):
        self.commands, self.id, self.name = commands, view["id"], view["name"]
        self.first_view = view
        self.kernel = None

    def view(self):
        """As it is now."""
        status, view = self.commands.daemon.get(f"/v1/sessions/{self.id}")
        assert status == 200, view
        return view

    @property
    def pid(self):
        """Of its init, outside."""
        return self.view()["pid"]

    @property
    def state(self):
        """running, suspended, …"""
        return self.view()["state"]

    def connect(self):
        """A client of the kernel; the old one is closed."""
        if self.kernel:
            self.kernel.close()
        self.kernel = Kernel(self.view()["kernel"]["connection_file"])
        self.kernel.ready(60)
        return self.kernel

    def snapshot(self, *options):
        """`snapshot`."""
        return self.commands.run("snapshot", self.name, *options).one("snapshot_taken")

    def rollback(self, to, *options):
        """`rollback`."""
        return self.commands.run("rollback", self.name, to, *options).one("rolled_back")

    def branch(self, name, *options):
        """`branch`: one new session."""
        answer = self.commands.run("branch", self.name, "--name", name, *options).one("branched")
        outcome = answer["branches"][0]
        return Session(self.commands, outcome["session"]), outcome

    def suspend(self):
        """`suspend`."""
        return self.commands.run("suspend", self.name).one("suspended")

    def resume(self):
        """`resume`."""
        return self.commands.run("resume", self.name).one("resumed")["session"]

    def stop(self):
        """`stop`."""
        return self.commands.run("stop", self.name).one("stopped")["session"]

    def remove(self):
        """`stop` and `rm`."""
        if self.kernel:
            self.kernel.close()
        self.stop()
        return self.commands.run("rm", self.name)

    def execute(self, *command, check=True):
        """`exec`."""
        return self.commands.run("exec", self.name, "--", *command, check=check)

    def log(self):
        """`logs`."""
        return self.commands.run("logs", self.name).out
