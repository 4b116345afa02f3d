"""Kernels that are not ipykernel, as PyPI has them: bash_kernel (a shell behind a pty, by pexpect) and xeus-python (C++ and threads)."""

import importlib.util
import json

import pytest

pytest.importorskip("httpx")

from harness.jupyter import Jupyter, install
from harness.users import PYTHON

BASH = {"argv": [PYTHON, "-m", "bash_kernel", "-f", "{connection_file}"], "display_name": "Bash", "language": "bash"}
XEUS = {"argv": [PYTHON, "-m", "xpython_launcher", "-f", "{connection_file}"], "display_name": "XPython", "language": "python"}
XEUS_RAW = {**XEUS, "argv": [*XEUS["argv"], "--raw"]}

# The kernelspec, the module it needs, and cells: set, change, show.
KERNELS = {
    "bash": (BASH, "bash_kernel", "X=1; cd /tmp", "X=2; cd /", "echo $X in $PWD", "1 in /tmp"),
    "xpython": (XEUS, "xpython_launcher", "x = 1", "x = 2", "print(x, 'in', __import__('os').getpid() > 0)", "1 in True"),
    "xpython-raw": (XEUS_RAW, "xpython_launcher", "x = 1", "x = 2", "print(x, 'in', __import__('os').getpid() > 0)", "1 in True"),
}


@pytest.fixture
def jupyter(user, daemon):
    made = Jupyter(user, daemon, install(user))
    yield made
    made.close()


@pytest.mark.parametrize("name", KERNELS)
def test_it_runs_and_goes_back(jupyter, user, daemon, name):
    spec, module, begin, change, show, shown = KERNELS[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {module} from PyPI")
    directory = user.mkdir(user.home / ".local/share/jupyter/kernels" / name)
    user.write(directory / "kernel.json", json.dumps(spec))
    kernel = jupyter.kernel(name)
    assert kernel.session, kernel.first_look["why_not"]
    kernel.run(begin)
    commit = post(user, daemon, kernel, "snapshot")["commit"]
    kernel.run(change)
    assert kernel.run(show).strip() != shown
    post(user, daemon, kernel, "rollback", {"to": commit})
    kernel.do("ready")
    assert kernel.run(show).strip() == shown
    seen = kernel.look()
    assert (seen["alive"], seen["restarts"]) == (True, 0)
    # Anew, with nothing of the old life, in the same session.
    assert kernel.do("restart", now=True)["session_id"] == kernel.session
    kernel.do("ready")
    assert kernel.do("run", code=show)["printed"].strip() != shown


def test_a_loop_of_a_shell_is_interrupted(jupyter, user):
    if importlib.util.find_spec("bash_kernel") is None:
        pytest.skip("needs bash_kernel from PyPI")
    directory = user.mkdir(user.home / ".local/share/jupyter/kernels/bash")
    user.write(directory / "kernel.json", json.dumps(BASH))
    kernel = jupyter.kernel("bash")
    asked = kernel.do("begin", code="while true; do sleep 0.1; done")
    kernel.do("interrupt")
    assert kernel.do("follow", asked=asked)["status"] in ("error", "abort")
    assert kernel.run("echo $((40 + 2))").strip() == "42"


def post(user, daemon, kernel, verb, body=None):
    status, answer = user.request(daemon, "POST", f"/v1/sessions/{kernel.session}/{verb}?wait=true", body or {})
    assert status == 200, answer
    return answer["result"]
