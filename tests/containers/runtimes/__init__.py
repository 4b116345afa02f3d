"""Container runtimes for tests: each with directories, state and sockets of its own, and nothing of the machine's."""
