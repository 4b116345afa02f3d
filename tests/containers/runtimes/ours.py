"""Our command, as root, at a container."""

import json
import subprocess
import time
from types import SimpleNamespace


class Command:
    """`infinijup …` with what finds one runtime."""

    def __init__(self, record):
        self.program = record.base / "bin/infinijup"

    def run(self, runtime, *words, options=None):
        """Runs it; what it said, as JSON if it is, its exit code, and how long it took in seconds."""
        all_words = [self.program, "--json", *words, *(runtime.options() if options is None else options)]
        all_words = runtime.as_user(all_words)
        begun = time.perf_counter()
        done = subprocess.run([str(word) for word in all_words], env=runtime.env(), capture_output=True, text=True, timeout=60, check=False)
        took = time.perf_counter() - begun
        said = [json.loads(line) for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
        return SimpleNamespace(code=done.returncode, said=said, text=done.stdout + done.stderr, took=took)

    def detect(self, runtime, asked, **more):
        """The report about a container."""
        done = self.run(runtime, "detect", "--container", asked, **more)
        assert done.code == 0, done.text
        report = done.said[0]
        assert report["message_type"] == "container_report", report
        report["seconds"] = done.took
        return report

    def fails(self, runtime, code, asked, **more):
        """The error, with this code."""
        done = self.run(runtime, "detect", "--container", asked, **more)
        assert done.code != 0, done.text
        assert code in done.text, done.text
        return done
