"""What systemd does with `Accept=yes`: `activator.py SOCKET LOG WORD…`. For each connection to a SOCK_SEQPACKET socket that everybody
may use it executes the words, with the connection as standard input. The exit code of each is a line in LOG, and what they say on
their error output is in LOG.err. It ends when its own standard input does."""

import os
import select
import socket
import sys

# What the unit would give it: none of it is the user's.
ENVIRONMENT = {name: os.environ[name] for name in ("CUDA_SIM_DIR", "LD_LIBRARY_PATH")}


def collect(log):
    """Notes how those ended that have."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        os.write(log, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def main():
    path, log_path, *words = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.listen(128)
    log, errors = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) for name in (log_path, f"{log_path}.err"))
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [], 0.05)
        collect(log)
        if sys.stdin in ready:
            return
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        actions = [
            (os.POSIX_SPAWN_DUP2, connection.fileno(), 0),
            (os.POSIX_SPAWN_DUP2, errors, 2),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        ]
        os.posix_spawn(words[0], words, ENVIRONMENT, file_actions=actions)
        connection.close()


main()
