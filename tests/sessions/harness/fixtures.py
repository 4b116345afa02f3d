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
from harness.object_store import ObjectStore, Proxy
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


def daemons(record, request, make_user):
    """Makes daemons of the test's own user, or of another; each is closed at the end and must leave nothing behind."""
    made = []

    def make(environment=None, user=None):
        daemon = Daemon(record, record.new_name("d"), user or make_user.owner(), environment).start()
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


class Users:
    """Gives out users. The first one is who runs the daemons; all others are strangers to those. Whoever comes after them gets the same
    users, with nothing running and an empty home: to make one and to remove it takes longer than many a test."""

    def __init__(self, record, idle_users):
        self.record, self.idle, self.taken, self.given = record, idle_users, [], 0

    def take(self):
        """One that nobody else has now."""
        self.taken.append(self.idle.pop() if self.idle else User.make(self.record))
        return self.taken[-1]

    def owner(self):
        """Who runs the daemons."""
        return self.taken[0] if self.taken else self.take()

    def __call__(self):
        self.given += 1
        return self.owner() if self.given == 1 else self.take()

    def give_back(self):
        """All of them, as they were when they were new."""
        for user in self.taken:
            leftovers.clear_user(user.uid, user.home)
            user.make_home()
        self.idle += self.taken


@pytest.fixture(scope="session")
def idle_users():
    """Users whom no test has now. They are removed with the run's record."""
    return []


def users(record, idle_users):
    """Gives out users until the end."""
    given = Users(record, idle_users)
    yield given
    given.give_back()


# For one test, and for all tests of a module that share what takes long to make.
make_user = pytest.fixture(users, name="make_user")
module_make_user = pytest.fixture(users, scope="module", name="module_make_user")


@pytest.fixture
def make_daemon(record, request, make_user):
    """Makes daemons for one test."""
    yield from daemons(record, request, make_user)


@pytest.fixture(scope="module")
def module_make_daemon(record, request, module_make_user):
    """The same for a module."""
    yield from daemons(record, request, module_make_user)


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


gpu_helper = pytest.fixture(gpu_harness.helper, name="gpu_helper")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Lets fixtures know whether the test itself failed."""
    report = yield
    if report.failed and report.when in ("setup", "call"):
        item.failed = item.parent.failed = True
    return report


@pytest.fixture
def user(make_user):
    """A user."""
    return make_user()


@pytest.fixture
def daemon(make_daemon, user):
    """The daemon of that user."""
    return make_daemon(user=user)


@pytest.fixture
def commands(user, daemon):
    """The command as that user. Users outlive the daemon: their sessions end before they do."""
    return Commands(daemon, user)


@pytest.fixture(scope="module")
def module_commands(module_make_daemon, module_make_user):
    """The same for all tests of a module that leave nothing to each other."""
    user = module_make_user()
    return Commands(module_make_daemon(user=user), user)


@pytest.fixture
def history(user, daemon):
    """The routes of history, as the user."""
    return History(daemon, user)


@pytest.fixture
def root(make_daemon):
    """Root's own daemon, and the command as root."""
    root = User("root")
    daemon = make_daemon(user=root)
    # Beside the daemon: root's home is not ours to write to.
    jupyter = daemon.state.parent / "jupyter"
    root.write_kernelspec(jupyter)
    return Commands(daemon, root, {"JUPYTER_PATH": str(jupyter)})


@pytest.fixture(scope="module")
def object_store(record, module_make_user):
    """A real S3 server for the tests of a module; each has a prefix of its own."""
    store = ObjectStore(record.base / "object-store", module_make_user.owner())
    yield store
    store.close()


@pytest.fixture
def proxy(object_store):
    """The way there."""
    proxy = Proxy(object_store.port)
    yield proxy
    proxy.close()
