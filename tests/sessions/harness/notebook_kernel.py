"""Kernels as a Jupyter server starts them: by the kernelspec's own command, over the daemon's interface, with labels."""

from harness.session import Session
from harness.users import PYTHON

# What a provisioner has when it has read a kernelspec: everything but the connection file is filled in.
IPYKERNEL = {
    "type": "kernel",
    "spec": "python3",
    "argv": [PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "language": "python",
    "interrupt_mode": "signal",
}


class Provisioner:
    """One user's side of the interface."""

    def __init__(self, commands):
        self.commands, self.user, self.daemon = commands, commands.user, commands.daemon

    def env(self):
        return [{"name": name, "value": value} for name, value in self.user.environment().items()]

    def ask(self, method, target, body=None, status=200):
        """One request; its answer, which must have this status."""
        got, answer = self.user.request(self.daemon, method, target, body)
        assert got == status, f"{method} {target} gave {got}: {answer}"
        return answer

    def start(self, name, **more):
        """A kernel, with a client that has had an answer."""
        body = {"name": name, "start": IPYKERNEL, "cwd": str(self.user.home), "env": self.env(), **more}
        view = self.ask("POST", "/v1/sessions?wait=true", body)["result"]
        session = Session(self.commands, view)
        session.connect()
        return session

    def restart(self, session, status=200, **more):
        """`restart`; the session as it is then, or the error."""
        body = {"start": IPYKERNEL, "env": self.env(), "grace_ms": 2000, **more}
        answer = self.ask("POST", f"/v1/sessions/{session.id}/restart?wait=true", body, status)
        return answer["result"] if status == 200 else answer

    def signal(self, session, signal, status=200, **more):
        """`signal`."""
        return self.ask("POST", f"/v1/sessions/{session.id}/signal", {"signal": signal, **more}, status)

    def patch(self, session, status=200, **fields):
        """`PATCH`."""
        return self.ask("PATCH", f"/v1/sessions/{session.id}", fields, status)

    def history(self, session):
        """Newest first."""
        return self.ask("GET", f"/v1/sessions/{session.id}/history")["commits"]
