"""Real runtimes with state and sockets of their own, and an image that is made here. GPUs and the daemon are those of tests/sessions."""

from pathlib import Path

import pytest

from runtimes.table import Table

pytest_plugins = ["harness.fixtures", "runtimes.fixtures"]
TABLE = pytest.StashKey[Table]()
LAST = "test_table.py"


def pytest_configure(config):
    config.stash[TABLE] = Table()


@pytest.fixture(scope="session")
def table(pytestconfig):
    """What the tests of this run have shown."""
    return pytestconfig.stash[TABLE]


@pytest.fixture
def shown(table):
    """`shown(runtime, "suspend and resume")`, at the end of a test that has shown it."""
    return table.shown


@pytest.fixture(scope="session")
def whole_run(request):
    """Whether all tests of this directory run, and not some that were chosen."""
    ours = Path(__file__).parent
    chosen = any("::" in word for word in request.config.args)
    files = {item.path for item in request.session.items}
    option = request.session.config.option
    left_out = option.keyword or option.markexpr or option.deselect
    return not chosen and not left_out and files == set(ours.glob("test_*.py"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """What looks at all others comes last."""
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if not report.passed and item.path.name != LAST:
        item.config.stash[TABLE].missed.append(item.name)
    return report


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash[TABLE].lines()
    if lines:
        terminalreporter.section("what the tests have shown")
        for line in lines:
            terminalreporter.write_line(line)
