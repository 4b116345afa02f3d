"""A browser for the run, a server and tabs for each test. The daemon, users and GPUs are those of tests/sessions."""

import os
import re
import shutil

import pytest
from playwright.sync_api import sync_playwright

from lab.notebook import Notebook
from lab.server import VENV, Lab
from lab.tab import Tab, artefacts

pytest_plugins = ["harness.fixtures"]
CHROMIUM = "/usr/bin/chromium"


def pytest_collection_modifyitems(config, items):
    """Says what is missing, beside what the harness itself needs."""
    missing = [str(path) for path in (CHROMIUM, VENV / "bin/jupyter-lab") if not os.access(path, os.X_OK)]
    if not missing:
        return
    reason = f"needs {', '.join(missing)} (scripts/lab-python.sh)"
    if os.environ.get("INFINIJUP_TESTS_REQUIRED") == "1":
        pytest.exit(f"cannot run here: {reason}", returncode=1)
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter):
    """Says where the pictures are."""
    if artefacts().is_dir():
        terminalreporter.write_line(f"screenshots: {artefacts()}")


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium. Its own sandbox does not work for root; it sees nothing but our servers.

    Playwright keeps an event loop running as long as it is there, so files without pages must not share it.
    """
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def labs(record, request):
    """Makes servers. What they said is kept if the test fails; they end with it, their kernels with the daemon."""
    made = []

    def make(daemon, user, environment=None, **more):
        made.append(Lab(daemon, user, environment, **more))
        return made[-1].start()

    yield make
    for lab in made:
        if getattr(request.node, "failed", False):
            print(f"---- log of JupyterLab ----\n{lab.log_tail()}")
            if lab.log.exists():
                shutil.copy(lab.log, kept(request) / "lab.log")
        lab.stop()


make_lab = pytest.fixture(labs, name="make_lab")
module_make_lab = pytest.fixture(labs, scope="module", name="module_make_lab")


@pytest.fixture
def make_tab(browser, request):
    """Opens tabs. At the end each is looked at: no dialog may ever have said that a kernel died."""
    contexts, tabs = [], []

    def make(lab, name="", **options):
        options = {"viewport": {"width": 1400, "height": 900}, **options}
        contexts.append(browser.new_context(**options))
        tabs.append(Tab(contexts[-1], lab, f"{request.node.name}-{name}" if name else request.node.name))
        tabs[-1].page.set_default_timeout(20_000)
        return tabs[-1]

    yield make
    failed = getattr(request.node, "failed", False)
    for tab in tabs:
        if failed and not tab.page.is_closed():
            tab.shot("failed")
            print(f"---- dialogs: {tab.dialogs}\n---- notices: {tab.notices()}\n---- console: {tab.errors[-10:]}")
            print("\n".join(["---- events", *(news[:400] for news in tab.news[-30:])]))
    for context in contexts:
        context.close()
    if not failed:
        for tab in tabs:
            tab.check()


def kept(request):
    """The directory of this test's artefacts."""
    path = artefacts() / re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="module")
def lab(module_make_daemon, module_make_user, module_make_lab):
    """A server without GPUs, for all tests of a module. Each has notebooks of its own."""
    return module_make_lab(module_make_daemon(), module_make_user())


@pytest.fixture
def own_lab(daemon, user, make_lab):
    """A server and a daemon for one test, which may do with them what it likes."""
    return make_lab(daemon, user)


@pytest.fixture
def open_notebook(make_tab):
    """Opens a notebook with these cells in a tab of its own and waits for its kernel."""

    def open_(lab, path, *cells, **options):
        lab.write_notebook(path, *cells)
        tab = make_tab(lab, path.removesuffix(".ipynb"), **options)
        tab.goto(path)
        return Notebook(tab, path).connected()

    return open_
