"""The routes of history, as one user."""

from harness import proc

RAW = """
import http.client, socket, sys
connection = http.client.HTTPConnection("d")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", sys.argv[2])
answer = connection.getresponse()
assert answer.status == 200, answer.read()
print(answer.read().hex())
"""


class History:
    """The routes of history, as one user."""

    def __init__(self, daemon, user):
        self.daemon, self.user = daemon, user

    def ask(self, method, target, body=None, status=200):
        """One request that must be answered so."""
        found, answer = self.user.request(self.daemon, method, target, body)
        assert found == status, answer
        return answer

    def job(self, target, body=None):
        """A job, waited for; what came of it."""
        return self.ask("POST", f"{target}?wait=true", body or {})["result"]

    def of(self, session, **query):
        """A session's history."""
        text = "&".join(f"{key}={str(value).lower()}" for key, value in query.items())
        return self.ask("GET", f"/v1/sessions/{session.id}/history?{text}")

    def commit(self, which):
        """One snapshot."""
        return self.ask("GET", f"/v1/commits/{which}")

    def with_variables(self, session, seconds=60):
        """A snapshot that has them. A kernel that is not known to be idle, or does not answer in a moment, is taken without."""

        def take():
            commit = session.snapshot()["commit"]
            return commit if self.commit(commit)["has_variables"] else None

        return proc.until("a snapshot with variables", take, seconds)

    def notebook(self, which):
        """A snapshot's document, byte for byte."""
        found = self.user.python(RAW, str(self.daemon.socket), f"/v1/commits/{which}/notebook").out
        return bytes.fromhex(found).decode()

    def patch(self, session, **change):
        """Changes what is noted about a session."""
        return self.ask("PATCH", f"/v1/sessions/{session.id}", change)
