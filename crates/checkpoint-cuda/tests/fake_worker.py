#!/usr/bin/env python3
"""A worker for tests: speaks the worker's lines, and keeps the states of processes in files, so that they outlive it.

DIR is this file's directory. DIR/<pid> holds a state; a process without a file has no CUDA. DIR/faults holds lines
`CALL PID WHAT`, each used once: hang (until DIR/go exists, then the call is carried out), die (after the call is carried out),
die-before, nonsense, code=N, code-after=N (carried out, and yet an error), failed (terminal: state 3), slow.
DIR/log gets a line for each call that is carried out.
"""
import json, os, sys, threading, time

DIR = os.path.dirname(os.path.abspath(__file__))
NEEDS = {"lock": (0, 1), "checkpoint": (1, 2), "restore": (2, 1), "unlock": (1, 0)}
mutex = threading.Lock()
running = []


def fault(call, pid):
    with mutex:
        try:
            lines = open(f"{DIR}/faults").read().splitlines()
        except FileNotFoundError:
            return ""
        for number, line in enumerate(lines):
            words = line.split()
            if words[0] == call and words[1] in ("*", str(pid)):
                del lines[number]
                open(f"{DIR}/faults", "w").write("".join(line + "\n" for line in lines))
                return words[2]
    return ""


def write(pid, state):
    with open(f"{DIR}/{pid}.new", "w") as file:
        file.write(str(state))
    os.rename(f"{DIR}/{pid}.new", f"{DIR}/{pid}")


def perform(call, arguments):
    pid = arguments["pid"]
    try:
        state = int(open(f"{DIR}/{pid}").read())
    except FileNotFoundError:
        return {"code": {"code": 3, "name": "CUDA_ERROR_NOT_INITIALIZED"}}
    if call == "thread":
        return {"number": pid}
    if call == "state":
        return {"number": state}
    before, after = NEEDS[call]
    if state != before:
        return {"code": {"code": 401, "name": "CUDA_ERROR_ILLEGAL_STATE"}}
    write(pid, after)
    with open(f"{DIR}/log", "a") as log:
        extra = " " + ",".join("=".join(pair) for pair in arguments["pairs"]) if arguments.get("pairs") else ""
        log.write(f"{call} {pid}{extra}\n")
    return "done"


def serve(request):
    ask = request["ask"]
    if ask == "hello":
        caps = {"backend": "api", "cuda_version": 13000, "pairs": True, "custom_storage": False}
        answer(request, {"hello": caps})
        return
    (call, arguments), = ask.items()
    what = fault(call, arguments["pid"])
    if what == "hang":
        while not os.path.exists(f"{DIR}/go"):
            time.sleep(0.01)
            if not os.path.exists(DIR):
                # The test is over, and nobody will ever say so.
                os._exit(1)
    elif what == "slow":
        time.sleep(2)
    elif what == "die-before":
        os._exit(7)
    elif what == "nonsense":
        say("{nonsense\n")
        return
    elif what == "failed":
        write(arguments["pid"], 3)
        answer(request, {"code": {"code": 999, "name": "CUDA_ERROR_UNKNOWN"}})
        return
    elif what.startswith("code="):
        answer(request, {"code": {"code": int(what[5:]), "name": "CUDA_ERROR_FAKE"}})
        return
    result = perform(call, arguments)
    if what == "die":
        os._exit(7)
    if what.startswith("code-after="):
        result = {"code": {"code": int(what[11:]), "name": "CUDA_ERROR_FAKE"}}
    answer(request, result)


def say(line):
    with mutex:
        try:
            os.write(1, line.encode())
        except BrokenPipeError:
            pass


def answer(request, result):
    say(json.dumps({"id": request["id"], "answer": result}) + "\n")


def main():
    with open(f"{DIR}/workers", "a") as workers:
        workers.write(f"{os.getpid()}\n")
    for line in sys.stdin:
        thread = threading.Thread(target=serve, args=(json.loads(line),))
        thread.start()
        running.append(thread)
    for thread in running:
        thread.join()


main()
