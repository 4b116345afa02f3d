"""What the tests are written in: a daemon of their own, throw-away users, the command, live kernels."""
