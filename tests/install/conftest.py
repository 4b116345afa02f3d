"""What is handed to users, looked at and tried as they get it: wheels, the source archive, the Debian package.

Each is named by a variable. `INFINIJUP_TESTS_REQUIRED=1` turns what is not there from a skip into a failure.
"""

import os
from pathlib import Path

import pytest


def named(variable, script):
    path = os.environ.get(variable)
    if path and Path(path).is_file():
        return Path(path).resolve()
    reason = f"needs a file named by {variable}; {script} makes it"
    if os.environ.get("INFINIJUP_TESTS_REQUIRED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def wheel():
    return named("INFINIJUP_WHEEL", "scripts/build-wheel.sh")


@pytest.fixture(scope="session")
def archive():
    return named("INFINIJUP_ARCHIVE", "scripts/build-wheel.sh")


@pytest.fixture(scope="session")
def criu_wheel():
    return named("INFINIJUP_CRIU_WHEEL", "scripts/build-wheel.sh --criu PREFIX")


@pytest.fixture(scope="session")
def deb():
    return named("INFINIJUP_DEB", "scripts/build-deb.sh")
