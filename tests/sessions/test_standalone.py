"""Kernels that a client starts by itself, with a kernelspec whose command stands in for them (`kernelspec install --standalone`).

The client is jupyter_client's own KernelManager with its local provisioner, as a user's program told what to do by lines of JSON
(`harness/manager.py`). It knows nothing of us: it runs a command, connects to the ports that it chose, sends signals, and kills.
"""

import contextlib
import os
import signal

import pytest

from harness import proc
from harness.jupyter import Jupyter
from harness.proc import until
from test_raw_clients import SWAPS

LABEL = "jupyter.connection_file"


@pytest.fixture
def client(user, daemon, commands):
    """A manager without our package, and the name of the kernelspec."""
    commands.run("kernelspec", "install", "--standalone", "--kernel", "python3")
    empty = user.mkdir(user.home / "no-package")
    made = Jupyter(user, daemon, empty)
    yield made
    made.close()


@pytest.fixture
def kernel(client):
    return client.kernel("infinijup-python3", default=False)


def sessions(daemon):
    return [view for view in daemon.get("/v1/sessions")[1]["sessions"] if LABEL in view["labels"]]


def session(commands, daemon):
    [view] = sessions(daemon)
    return commands.session(view)


def stand_in(kernel):
    """The process that the manager takes for the kernel."""
    return kernel.do("process")


def test_a_client_gets_a_session_on_its_own_ports(kernel, commands, daemon):
    assert kernel.run("x = 41; print(x)") == "41\n"
    own = session(commands, daemon)
    assert own.state == "running" and own.view()["kernel"]["language"] == "python"
    commit = own.snapshot()["commit"]
    kernel.run("x = 1")
    own.rollback(commit)
    assert kernel.run("print(x + 1)") == "42\n"


def test_interrupts_reach_the_cell(kernel):
    asked = kernel.do("begin", code="import time\nwhile True: time.sleep(0.1)")
    kernel.do("interrupt")
    answer = kernel.do("follow", asked=asked)
    assert (answer["status"], answer["ename"]) == ("error", "KeyboardInterrupt")
    assert kernel.run("print(1)") == "1\n"


@pytest.mark.parametrize("now", [False, True])
def test_a_shutdown_ends_the_processes_and_keeps_the_history(kernel, commands, daemon, now):
    own = session(commands, daemon)
    commit = own.snapshot()["commit"]
    kernel.do("shutdown", now=now)
    until("the session has no processes", lambda: own.state in ("ended", "failed"), 20, 0.1)
    assert own.view()["head"] == commit


ENDS = """
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="infinijup-python3")
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(60)
client.execute("import os; os._exit(7)")
print(manager.provisioner.process.wait(30))
client.stop_channels()
"""


def test_a_kernel_that_ends_has_its_own_status(user, commands, daemon):
    commands.run("kernelspec", "install", "--standalone")
    own = {"INFINIJUP_SOCKET": str(daemon.socket)}
    assert user.python(ENDS, environment=own).out == "7\n"
    assert session(commands, daemon).state == "ended"


@pytest.mark.parametrize("now", [False, True])
def test_a_restart_goes_on_in_the_same_session(kernel, commands, daemon, now):
    kernel.run("x = 1")
    own = session(commands, daemon)
    before = own.snapshot()["commit"]
    for _ in range(3):
        kernel.do("restart", now=now)
        kernel.do("ready")
        assert kernel.run("print('x' in globals())") == "False\n"
    # The kernel answers a little before the daemon has done with the restart.
    until("it runs", lambda: session(commands, daemon).state == "running", 20, 0.1)
    assert session(commands, daemon).id == own.id
    own.rollback(before)
    assert kernel.run("print(x)") == "1\n"


def test_it_can_be_killed_with_everything_that_belongs_to_it(kernel, commands, daemon):
    """As VS Code does, which kills a tree of processes, and jupyter_client, which kills a group."""
    own = session(commands, daemon)
    pid = stand_in(kernel)["pid"]
    group = os.getpgid(pid)
    for process in proc.tree(pid):
        os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    until("the session has no processes", lambda: own.view()["pid"] is None, 20, 0.1)


STARTS = """
import os, signal, subprocess, sys, time
from jupyter_client.connect import write_connection_file
from jupyter_client.kernelspec import KernelSpecManager
path, _ = write_connection_file("/tmp/" + sys.argv[1] + ".json")
words = KernelSpecManager().get_kernel_spec("infinijup-python3").argv
process = subprocess.Popen([word.replace("{connection_file}", path) for word in words], start_new_session=True)
time.sleep(float(sys.argv[2]))
os.killpg(process.pid, signal.SIGKILL)
process.wait()
os.unlink(path)
"""


@pytest.mark.parametrize("moment", ["0.05", "0.15", "0.3"])
def test_it_can_be_killed_while_it_starts(user, commands, daemon, moment):
    commands.run("kernelspec", "install", "--standalone")
    user.python(STARTS, f"starts-{os.urandom(4).hex()}", moment, environment={"INFINIJUP_SOCKET": str(daemon.socket)})
    jobs = lambda: daemon.get("/v1/jobs")[1]["jobs"]
    until("nothing is under way", lambda: all(job["state"] != "running" for job in jobs()), 20, 0.1)
    until("no session has processes", lambda: all(view["pid"] is None for view in sessions(daemon)), 20, 0.1)


def test_it_is_there_while_the_kernel_sleeps(kernel, commands, daemon):
    kernel.run("x = 41")
    own = session(commands, daemon)
    own.suspend()
    assert stand_in(kernel)["code"] is None
    own.resume()
    assert kernel.run("print(x + 1)") == "42\n"


@pytest.mark.timeout(120 + 5 * SWAPS)
def test_no_answer_is_lost(kernel, commands, daemon):
    kernel.run("x = 41")
    own = session(commands, daemon)
    commit = own.snapshot()["commit"]
    for number in range(SWAPS):
        if number % 2:
            own.suspend()
            own.resume()
        else:
            own.rollback(commit)
        answer = kernel.do("run", code="print(x + 1)", seconds=10)
        assert (answer["status"], answer["printed"]) == ("ok", "42\n"), number
