"""Kernels that Jupyter starts, as sessions of a real daemon, through the managers of jupyter_client."""

import os
import signal

import pytest

pytest.importorskip("httpx")

from harness.jupyter import Jupyter, Refused, install
from harness.proc import until


@pytest.fixture
def package(user):
    return install(user)


@pytest.fixture
def make_jupyter(user, daemon, package):
    made = []

    def make(**environment):
        made.append(Jupyter(user, daemon, package, environment))
        return made[-1]

    yield make
    for jupyter in made:
        jupyter.close()


@pytest.fixture
def jupyter(make_jupyter):
    return make_jupyter()


def view(daemon, kernel):
    status, found = daemon.get(f"/v1/sessions/{kernel.session}")
    assert status == 200, found
    return found


def post(user, daemon, kernel, verb, body=None):
    status, answer = user.request(daemon, "POST", f"/v1/sessions/{kernel.session}/{verb}?wait=true", body or {})
    assert status == 200, answer
    return answer["result"]


def test_a_kernel_is_a_session(jupyter, user, daemon):
    user.write(jupyter.root / "study.ipynb", "{}")
    kernel = jupyter.kernel(path=str(jupyter.root / "study.ipynb"))
    seen = view(daemon, kernel)
    assert (seen["state"], seen["name"], seen["network"]) == ("running", "study", "private")
    assert seen["labels"]["jupyter.kernel_id"] == kernel.id
    assert (seen["labels"]["jupyter.root"], seen["labels"]["jupyter.path"]) == (str(jupyter.root), "study.ipynb")
    assert seen["notebook"] == str(jupyter.root / "study.ipynb")
    assert kernel.run("import os; print(os.getcwd(), os.environ['HOME'])").split() == [str(jupyter.root), str(user.home)]
    assert kernel.first_look["alive"] and kernel.first_look["why_not"] is None
    # The package can be imported by this kernel, so the magic is there without being loaded.
    assert "snapshot" in kernel.run("%infinijup help")


def test_it_goes_back_under_the_client_and_is_never_dead(jupyter, user, daemon):
    kernel = jupyter.kernel()
    kernel.run("x = 1")
    commit = post(user, daemon, kernel, "snapshot")["commit"]
    for _ in range(3):
        kernel.run("x = 2")
        post(user, daemon, kernel, "rollback", {"to": commit})
        kernel.do("ready")
        assert kernel.run("print(x)") == "1\n"
    seen = kernel.look()
    assert (seen["alive"], seen["restarts"]) == (True, 0)


def test_interrupt_reaches_a_cell_and_its_children(jupyter):
    kernel = jupyter.kernel()
    for code in ("while True: pass", "import subprocess; subprocess.run(['sleep', '1000'])"):
        asked = kernel.do("begin", code=code)
        kernel.do("interrupt")
        answer = kernel.do("follow", asked=asked)
        assert (answer["status"], answer["ename"]) == ("error", "KeyboardInterrupt")
    assert kernel.run("print(40 + 2)") == "42\n"


@pytest.mark.parametrize("now", [False, True])
def test_restart_keeps_session_history_and_ports(jupyter, user, daemon, now):
    kernel = jupyter.kernel()
    kernel.run("x = 1")
    before = post(user, daemon, kernel, "snapshot")["commit"]
    seen = kernel.do("restart", now=now)
    kernel.do("ready")
    assert (seen["session_id"], seen["ports"]) == (kernel.session, kernel.first_look["ports"])
    assert kernel.run("print('x' in globals())") == "False\n"
    after = post(user, daemon, kernel, "snapshot")["commit"]
    _, history = daemon.get(f"/v1/sessions/{kernel.session}/history")
    assert [commit["id"] for commit in history["commits"]] == [after, before]
    post(user, daemon, kernel, "rollback", {"to": before})
    kernel.do("ready")
    assert kernel.run("print(x)") == "1\n"


def test_a_crash_is_mended_by_the_restarter_in_the_same_session(jupyter, daemon):
    kernel = jupyter.kernel()
    kernel.run("import os, threading; threading.Timer(0.2, os._exit, [3]).start()")
    until("the restarter has seen it", lambda: kernel.look()["restarts"] == 1, 30, 0.1)
    kernel.do("ready")
    seen = kernel.look()
    assert (seen["alive"], seen["session_id"], seen["ports"]) == (True, kernel.session, kernel.first_look["ports"])
    assert len(daemon.get("/v1/sessions")[1]["sessions"]) == 1


def test_a_suspended_kernel_is_alive_and_comes_back(jupyter, user, daemon):
    kernel = jupyter.kernel()
    kernel.run("x = 1")
    post(user, daemon, kernel, "suspend")
    seen = kernel.look()
    assert (seen["alive"], seen["state"]) == (True, "suspended")
    kernel.do("interrupt")
    post(user, daemon, kernel, "resume")
    kernel.do("ready")
    assert kernel.run("print(x)") == "1\n"
    assert kernel.look()["restarts"] == 0


def test_shutdown_ends_the_processes_and_keeps_the_session(jupyter, user, daemon):
    kernel = jupyter.kernel()
    commit = post(user, daemon, kernel, "snapshot")["commit"]
    kernel.do("shutdown")
    seen = view(daemon, kernel)
    assert (seen["state"], seen["head"], seen["pid"]) == ("ended", commit, None)


def test_a_daemon_that_is_away_kills_nobody(jupyter, daemon):
    kernel = jupyter.kernel()
    kernel.run("x = 1")
    daemon.stop()
    assert kernel.look()["alive"]
    assert kernel.run("print(x)") == "1\n"
    daemon.start()
    seen = kernel.look()
    assert (seen["alive"], seen["restarts"], seen["state"]) == (True, 0, "running")
    assert kernel.run("print(x)") == "1\n"


@pytest.mark.parametrize("how", ["kill", "leave"])
def test_kernels_outlive_the_server(make_jupyter, how):
    first = make_jupyter()
    kernel = first.kernel()
    kernel.run("x = 1")
    getattr(first, how)()
    again = make_jupyter().kernel(kernel_id=kernel.id)
    assert again.session == kernel.session
    assert again.run("print(x)") == "1\n"


def test_a_new_kernel_of_the_same_notebook_goes_on_with_its_history(make_jupyter, user, daemon):
    jupyter = make_jupyter()
    path = str(user.write(jupyter.root / "study.ipynb", "{}"))
    kernel = jupyter.kernel(path=path)
    kernel.run("x = 1")
    commit = post(user, daemon, kernel, "snapshot")["commit"]
    kernel.do("shutdown")
    later = make_jupyter().kernel(path=path)
    assert later.session == kernel.session and later.id != kernel.id
    assert view(daemon, later)["labels"]["jupyter.kernel_id"] == later.id
    assert later.run("print('x' in globals())") == "False\n"
    post(user, daemon, later, "rollback", {"to": commit})
    later.do("ready")
    assert later.run("print(x)") == "1\n"


def test_without_a_daemon_a_kernel_starts_as_ever(make_jupyter, daemon):
    jupyter = make_jupyter(INFINIJUP_SOCKET="/run/nobody/is/here.sock")
    kernel = jupyter.kernel()
    seen = kernel.first_look
    assert seen["session_id"] is None and "infinijupd does not run" in seen["why_not"]
    assert kernel.run("print(40 + 2)") == "42\n"
    answer = kernel.do("run", code="%load_ext infinijup\n%infinijup snapshot")
    assert "not a session of infinijup" in answer["evalue"]
    kernel.do("shutdown", now=True)


def test_a_kernelspec_that_wants_the_daemon_says_what_to_do(make_jupyter, commands):
    commands.run("kernelspec", "install", "--kernel", "python3")
    kernel = make_jupyter().kernel("infinijup-python3", default=False)
    assert kernel.session and kernel.run("print(40 + 2)") == "42\n"
    with pytest.raises(Refused, match="infinijupd does not run.*infinijup daemon start"):
        make_jupyter(INFINIJUP_SOCKET="/run/nobody/is/here.sock").kernel("infinijup-python3", default=False)


def test_a_lost_tree_is_an_end_and_the_session_can_be_had_back(jupyter, user, daemon):
    """As after a crash of the machine: all processes of the session are gone at once."""
    kernel = jupyter.kernel()
    kernel.run("x = 1")
    commit = post(user, daemon, kernel, "snapshot")["commit"]
    os.kill(view(daemon, kernel)["pid"], signal.SIGKILL)
    until("the restarter has seen it", lambda: kernel.look()["restarts"] == 1, 30, 0.1)
    kernel.do("ready")
    # A kernel answers a moment before its restart is written down.
    until("the restart is over", lambda: view(daemon, kernel).get("operation") is None, 30, 0.1)
    post(user, daemon, kernel, "rollback", {"to": commit})
    kernel.do("ready")
    assert kernel.run("print(x)") == "1\n"


PLAIN = """
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="python3")
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(60)
client.execute_interactive("print(40 + 2)", timeout=60)
print(manager.provisioner.session_id, manager.is_alive())
manager.restart_kernel()
client.wait_for_ready(60)
manager.interrupt_kernel()
client.stop_channels()
manager.shutdown_kernel()
print(manager.provisioner.state, manager.is_alive())
"""


def test_a_program_without_an_event_loop_has_sessions_too(user, daemon, package):
    own = {"INFINIJUP_SOCKET": str(daemon.socket), "PYTHONPATH": str(package), "JUPYTER_DEFAULT_PROVISIONER_NAME": "infinijup"}
    first, second, third = user.python(PLAIN, environment=own).out.splitlines()
    [session] = daemon.get("/v1/sessions")[1]["sessions"]
    assert (first, second, third) == ("42", f"{session['id']} True", "ended False")
