"""Processes that use the stand-in as programs do: Python with public packages, nothing of ours in between."""

import json
import os
import subprocess
import textwrap
import threading

PYTHON = os.environ.get("INFINIJUP_GPU_PYTHON", "/opt/infinijup/gpu-venv/bin/python")

# What programs in these tests can use: an answer of cuda-bindings or an exception, and a line of JSON for us.
PRELUDE = """
import json, sys

def call(answer):
    code, *results = answer
    assert int(code) == 0, code
    return results[0] if len(results) == 1 else results

def say(**what):
    print(json.dumps(what), flush=True)

def heard():
    return sys.stdin.readline().strip()
"""


class Client:
    """A program that talks to us by lines. `gpu` is the stand-in that it is to find."""

    def __init__(self, gpu, program, *words):
        source = PRELUDE + textwrap.dedent(program)
        environment = {**os.environ, **gpu.env(), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [PYTHON, "-c", source, *map(str, words)],
            env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        # Read as it comes, or a talkative program would stand still.
        self.complaints = []
        self.reader = threading.Thread(target=lambda: self.complaints.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join(10)
        for end in (self.process.stdin, self.process.stdout, self.process.stderr):
            end.close()

    @property
    def pid(self):
        return self.process.pid

    def hear(self):
        """Its next line."""
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(20)
            self.reader.join(10)
            raise AssertionError(f"the program ended with {self.process.returncode}:\n{''.join(self.complaints)[-6000:]}")
        return json.loads(line)

    def ask(self, word=""):
        """One line to it, one from it."""
        self.tell(word)
        return self.hear()

    def tell(self, word=""):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()


def run(gpu, program, *words):
    """A program that says one line and ends well."""
    with Client(gpu, program, *words) as client:
        said = client.hear()
        client.process.stdin.close()
        code = client.process.wait(60)
        client.reader.join(10)
        assert code == 0, f"ended with {code}:\n{''.join(client.complaints)[-6000:]}"
        return said
