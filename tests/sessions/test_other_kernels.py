"""Kernels that are not ipykernel, as PyPI has them: bash_kernel, a shell behind a pty (by pexpect), and xeus-python."""

import importlib.util
import json

import pytest

pytest.importorskip("httpx")

from harness.jupyter import Jupyter, install
from harness.needs import cannot_run
from harness.users import PYTHON

BASH = {"argv": [PYTHON, "-m", "bash_kernel", "-f", "{connection_file}"], "display_name": "Bash", "language": "bash"}
XEUS = {"argv": [PYTHON, "-m", "xpython_launcher", "-f", "{connection_file}"], "display_name": "XPython", "language": "python"}


@pytest.fixture
def jupyter(user, daemon):
    made = Jupyter(user, daemon, install(user))
    yield made
    made.close()


def kernelspec(user, name, spec, module):
    """Of a package from PyPI, as its own installer writes it."""
    if importlib.util.find_spec(module) is None:
        cannot_run(f"needs {module} from PyPI (scripts/lab-python.sh)")
    directory = user.mkdir(user.home / ".local/share/jupyter/kernels" / name)
    user.write(directory / "kernel.json", json.dumps(spec))


def test_a_shell_runs_and_goes_back(jupyter, user, daemon):
    kernelspec(user, "bash", BASH, "bash_kernel")
    kernel = jupyter.kernel("bash")
    assert kernel.session, kernel.first_look["why_not"]
    kernel.run("X=1; cd /tmp")
    commit = post(user, daemon, kernel, "snapshot")["commit"]
    kernel.run("X=2; cd /")
    assert kernel.run("echo $X in $PWD").strip() == "2 in /"
    post(user, daemon, kernel, "rollback", {"to": commit})
    kernel.do("ready")
    assert kernel.run("echo $X in $PWD").strip() == "1 in /tmp"
    seen = kernel.look()
    assert (seen["alive"], seen["restarts"]) == (True, 0)
    # Anew, with nothing of the old life, in the same session.
    assert kernel.do("restart", now=True)["session_id"] == kernel.session
    kernel.do("ready")
    assert kernel.run("echo $X in $PWD").strip() == f"in {jupyter.root}"


def test_a_loop_of_a_shell_is_interrupted(jupyter, user):
    kernelspec(user, "bash", BASH, "bash_kernel")
    kernel = jupyter.kernel("bash")
    asked = kernel.do("begin", code="while true; do sleep 0.1; done")
    kernel.do("interrupt")
    assert kernel.do("follow", asked=asked)["status"] in ("error", "abort")
    assert kernel.run("echo $((40 + 2))").strip() == "42"


def test_one_that_would_not_survive_a_snapshot_starts_without_the_daemon(jupyter, user):
    kernelspec(user, "xpython", XEUS, "xpython_launcher")
    kernel = jupyter.kernel("xpython")
    assert kernel.session is None and "made with xeus" in kernel.first_look["why_not"]
    assert kernel.run("print(40 + 2)").strip() == "42"
    kernel.do("shutdown", now=True)


def post(user, daemon, kernel, verb, body=None):
    status, answer = user.request(daemon, "POST", f"/v1/sessions/{kernel.session}/{verb}?wait=true", body or {})
    assert status == 200, answer
    return answer["result"]
