"""What a test needs and this machine does not have."""

import os

import pytest


def cannot_run(reason: str):
    """A skip; on a machine on which everything must run (`INFINIJUP_TESTS_REQUIRED=1`), a failure."""
    (pytest.fail if os.environ.get("INFINIJUP_TESTS_REQUIRED") == "1" else pytest.skip)(reason)
