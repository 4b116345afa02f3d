"""One run: cleaned before it begins, with users and daemons that end with it.

`INFINIJUP_TESTS_REQUIRED=1` turns what cannot run here from a skip into a failure.
"""

import os
import shutil

import pytest

from harness import gpu as gpu_harness
from harness import leftovers
from harness.daemon import PROGRAMS, Daemon, copy_programs, criu, programs
from harness.history import History
from harness.session import Commands
from harness.users import User


def pytest_collection_modifyitems(config, items):
    """Says what is missing for all of them at once."""
    missing = []
    if os.getuid() != 0:
        missing.append("root")
    if not os.access(criu(), os.X_OK):
        missing.append(f"CRIU at {criu()} (scripts/install-criu.sh)")
    missing += [f"{programs() / name} (cargo build)" for name in PROGRAMS if not (programs() / name).exists()]
    if not missing:
        return
    reason = "needs " + ", ".join(missing)
    if os.environ.get("INFINIJUP_TESTS_REQUIRED") == "1":
        pytest.exit(f"cannot run here: {reason}", returncode=1)
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def record():
    """The run's own directories, and copies of the programs in them."""
    leftovers.clean_earlier_runs()
    record = leftovers.Record.begin()
    for directory in (record.base, record.run):
        directory.mkdir(mode=0o755)
    copy_programs(record.base / "bin")
    yield record
    record.clean()


def daemons(record, request):
    """Makes daemons; each is closed at the end and must leave nothing behind."""
    made = []

    def make(environment=None):
        daemon = Daemon(record, f"d{os.urandom(2).hex()}", environment).start()
        made.append(daemon)
        return daemon

    yield make
    failed = getattr(request.node, "failed", False)
    problems = []
    for daemon in made:
        if failed:
            print(f"---- log of the daemon ----\n{daemon.log_tail(80)}")
            keep = os.environ.get("INFINIJUP_TEST_LOGS")
            if keep and daemon.log.exists():
                shutil.copy(daemon.log, os.path.join(keep, f"{request.node.name}.{daemon.name}.log"))
        try:
            daemon.close()
        except AssertionError as problem:
            problems.append(str(problem))
    # What is left behind after a failed test is no news.
    assert failed or not problems, "; ".join(problems)


def users(record):
    """Makes users; each is removed at the end."""
    made = []

    def make():
        made.append(User.make(record))
        return made[-1]

    yield make
    for user in made:
        leftovers.remove_user(user.name)
        record.remove_user(user.name)


# For one test, and for all tests of a module that share what takes long to make.
make_daemon = pytest.fixture(daemons, name="make_daemon")
module_make_daemon = pytest.fixture(daemons, scope="module", name="module_make_daemon")
make_user = pytest.fixture(users, name="make_user")
module_make_user = pytest.fixture(users, scope="module", name="module_make_user")
make_gpu = pytest.fixture(gpu_harness.gpus, name="make_gpu")
module_make_gpu = pytest.fixture(gpu_harness.gpus, scope="module", name="module_make_gpu")


@pytest.fixture
def gpu(make_gpu):
    """A machine with two GPUs."""
    return make_gpu()


@pytest.fixture(scope="module")
def module_gpu(module_make_gpu):
    """The same for all tests of a module."""
    return module_make_gpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Lets fixtures know whether the test itself failed."""
    report = yield
    if report.failed and report.when in ("setup", "call"):
        item.failed = item.parent.failed = True
    return report


@pytest.fixture
def daemon(make_daemon):
    """A daemon."""
    return make_daemon()


@pytest.fixture
def user(make_user):
    """A user."""
    return make_user()


@pytest.fixture
def commands(user, daemon):
    """The command as that user. Users outlive the daemon: their sessions end before they do."""
    return Commands(daemon, user)


@pytest.fixture
def history(user, daemon):
    """The routes of history, as the user."""
    return History(daemon, user)


@pytest.fixture
def root(daemon):
    """The command as root."""
    return Commands(daemon, User("root"))
