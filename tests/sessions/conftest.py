"""The fixtures are in the harness: the browser tests have the same."""

pytest_plugins = ["harness.fixtures"]
