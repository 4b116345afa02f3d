"""Clients that know nothing of us: plain jupyter_client on a session's connection file, with the kernel exchanged under them.

Nobody tells such a client. It sends its next request as ever, and must get all of the answer: the reply, what the cell printed, and the
status that ends it. `INFINIJUP_RAW_SWAPS` is how often.
"""

import os

import pytest

SWAPS = int(os.environ.get("INFINIJUP_RAW_SWAPS", "12"))


def answers(kernel, code, printed):
    """The first request after a swap: its reply on shell, its output and its end on iopub. What is missing, if anything."""
    asked = kernel.send(code)
    if kernel.reply(asked, 10) is None:
        return "no reply"
    text, complete = kernel.collect(asked)
    return None if (text, complete) == (printed, True) else f"printed {text!r}, complete: {complete}"


def roll_back(session, commit):
    session.rollback(commit)


def sleep_and_wake(session, _commit):
    session.suspend()
    session.resume()


@pytest.mark.timeout(120 + 5 * SWAPS)
@pytest.mark.parametrize("swap", [roll_back, sleep_and_wake])
def test_the_first_answer_after_a_swap_is_whole(commands, swap):
    session = commands.kernel("raw")
    session.kernel.output("x = 41; print(x)")
    commit = session.snapshot()["commit"]
    lost = {}
    for number in range(SWAPS // 2):
        swap(session, commit)
        missing = answers(session.kernel, "print(x + 1)", "42\n")
        if missing:
            lost[number] = missing
    assert not lost, f"{len(lost)} of {SWAPS // 2}: {lost}"


@pytest.mark.parametrize("swap", [roll_back, sleep_and_wake])
def test_two_clients_hear_all_of_their_answers(commands, swap):
    """One must not be let through because the other can hear."""
    session = commands.kernel("raw")
    first = session.kernel
    first.output("x = 41; print(x)")
    session.kernel = None
    second = session.connect()
    commit = session.snapshot()["commit"]
    try:
        for _ in range(3):
            swap(session, commit)
            assert [answers(kernel, "print(x + 1)", "42\n") for kernel in (first, second)] == [None, None]
    finally:
        first.close()


def test_a_client_that_never_subscribes_is_answered(commands):
    session = commands.kernel("raw")
    kernel = session.kernel
    kernel.run("x = 41")
    commit = session.snapshot()["commit"]
    kernel.client.iopub_channel.stop()
    session.rollback(commit)
    assert kernel.value("x", 10) == 41
