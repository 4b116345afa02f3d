"""`infinijup-quiesce` or `python -m infinijup`: what a snapshot's quiesce command is.

    infinijup snapshot SESSION --quiesce ~/venv/bin/infinijup-quiesce

Asks every listening process of this user in this session, or those named by `--pid`, to come to rest. Fails, and tells the
others to go on, if one of them cannot. `--resume` ends a rest before its time.
"""

import argparse
import os
import sys

from infinijup import server


def main(words=None):
    """The command."""
    parser = argparse.ArgumentParser(prog="infinijup-quiesce", description="brings listening Python processes to rest")
    parser.add_argument("--pid", type=int, action="append", help="only this process; may be repeated")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds that coming to rest may take (default 30)")
    parser.add_argument("--rest", type=float, default=3.0, help="seconds of running after which a process goes back to work (default 3)")
    parser.add_argument("--resume", action="store_true", help="go back to work now")
    options = parser.parse_args(words)
    request = {"do": "resume"} if options.resume else {"do": "quiesce", "timeout": options.timeout, "rest": options.rest}
    try:
        found = listening(options.pid)
    except OSError as error:
        return say(f"{error}")
    resting = []
    for pid, path in found:
        problem = try_one(path, request, options.timeout)
        if problem:
            for other in resting:
                try_one(other, {"do": "resume"}, options.timeout)
            return say(f"process {pid}: {problem}")
        resting.append(path)
    missing = sorted(set(options.pid or ()) - {pid for pid, _ in found})
    if missing:
        for other in resting:
            try_one(other, {"do": "resume"}, options.timeout)
        return say(f"process {missing[0]} does not listen: it must call infinijup.listen() first")
    return 0


def listening(wanted):
    """Processes that live and listen. What a dead one left is removed."""
    found = []
    for path in sorted(server.directory().glob("*.sock")):
        if not path.stem.isdigit():
            continue
        pid = int(path.stem)
        if not os.path.exists(f"/proc/{pid}"):
            path.unlink(missing_ok=True)
        elif wanted is None or pid in wanted:
            found.append((pid, path))
    return found


def try_one(path, request, timeout):
    """What went wrong; empty if nothing did."""
    try:
        answer = server.ask(path, request, timeout + 5)
    except ConnectionRefusedError:
        # Its number is another's now, who does not listen.
        path.unlink(missing_ok=True)
        return ""
    except (OSError, ValueError) as error:
        return f"gives no answer: {error}"
    return "" if answer.get("ok") else str(answer.get("error", "no reason given"))


def say(problem):
    print(f"infinijup-quiesce: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
