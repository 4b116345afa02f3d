"""Real runtimes with state and sockets of their own, and an image that is made here. GPUs and the daemon are those of tests/sessions."""

pytest_plugins = ["harness.fixtures", "runtimes.fixtures"]
