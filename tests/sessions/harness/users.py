"""Throw-away users, and the command as one of them runs it."""

import json
import os
import pwd
import secrets
import subprocess
import sys
from pathlib import Path

PYTHON = sys.executable
WIRE = Path(__file__).with_name("wire.py").read_text()


class Failed(AssertionError):
    """The command ended with another code than 0."""

    def __init__(self, answer):
        self.answer = answer
        # Steps are left out: what matters is what came last.
        err = "\n".join(line for line in answer.err.splitlines() if '"message_type":"step"' not in line)
        super().__init__(f"`{' '.join(answer.words)}` ended with {answer.code}: {answer.out[-2000:]} {err[-3000:]}")


class Answer:
    """What a command printed."""

    def __init__(self, words, done):
        self.words = [str(word) for word in words]
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def messages(self, kind=None):
        """The objects on stdout, or those of one kind."""
        found = [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]
        return [message for message in found if kind in (None, message["message_type"])]

    def one(self, kind):
        """The only object of a kind."""
        found = self.messages(kind)
        assert len(found) == 1, f"expected one `{kind}`: {self.out} {self.err}"
        return found[0]

    @property
    def error(self):
        """The `exit_error` of a command that failed."""
        lines = [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]
        errors = [line for line in lines if line["message_type"] == "exit_error"]
        assert len(errors) == 1, f"expected one `exit_error`: {self.err}"
        return errors[0]


class User:
    """A user of the machine, as the tests see it. Root is one too."""

    def __init__(self, name):
        entry = pwd.getpwnam(name)
        self.name, self.uid, self.gid, self.home = name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir)

    @classmethod
    def make(cls, record):
        """A new one."""
        name = f"ij{secrets.token_hex(3)}"
        record.add_user(name)
        subprocess.run(["useradd", "--no-create-home", "--user-group", "--shell", "/bin/bash", name], check=True)
        user = cls(name)
        user.make_home()
        return user

    def make_home(self):
        """An empty home that is closed to others, with a kernelspec that needs no PATH."""
        self.home.mkdir()
        os.chown(self.home, self.uid, self.gid)
        os.chmod(self.home, 0o700)
        self.write_kernelspec()

    def write_kernelspec(self, jupyter=None):
        """`python3` as `ipython kernel install --user` writes it."""
        spec = (jupyter or self.home / ".local/share/jupyter") / "kernels/python3"
        arguments = [PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.mkdir(spec)
        self.write(spec / "kernel.json", json.dumps({"argv": arguments, "display_name": "Python 3", "language": "python"}))

    def words(self, words, *options):
        """A command line that runs `words` as this user with none of our privileges."""
        if self.uid == os.getuid():
            return list(words)
        return ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid), "--init-groups", "--inh-caps=-all", *options, "--", *words]

    def environment(self):
        """What a login shell would have."""
        return {
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, words, check=True, seconds=110, cwd=None, **more):
        """Runs a command as this user."""
        environment = {**self.environment(), **more.pop("environment", {})}
        done = subprocess.run(
            self.words([str(word) for word in words]),
            env=environment,
            cwd=str(cwd or self.home),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            **more,
        )
        answer = Answer(words, done)
        if check and answer.code != 0:
            raise Failed(answer)
        return answer

    def python(self, code, *arguments, **more):
        """Runs Python as this user."""
        return self.run([PYTHON, "-c", code, *arguments], **more)

    def request(self, daemon, method, target, body=None):
        """One raw request to the daemon as this user."""
        words = [PYTHON, "-c", WIRE, str(daemon.socket), method, target]
        if body is not None:
            words.append(json.dumps(body))
        return json.loads(self.run(words).out)

    def mkdir(self, path):
        """A directory, made by the user."""
        self.run(["mkdir", "-p", str(path)], cwd="/")
        return Path(path)

    def write(self, path, text):
        """A file, written by the user."""
        self.run(["/bin/sh", "-c", 'printf %s "$2" >"$1"', "sh", str(path), text], cwd="/")
        return Path(path)
