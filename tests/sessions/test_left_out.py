"""Snapshots that nobody asked for: when they are left out, and that nobody has to wait for them."""

import threading
import time

import pytest
from harness import proc

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def session(commands, user):
    return commands.kernel("work", cwd=user.mkdir(user.home / "work"))


def automatic(history, session, within_ms=5000, reason="after-cell", **more):
    body = {"reason": reason, "within_ms": within_ms, "variables": False, **more}
    return history.job(f"/v1/sessions/{session.id}/snapshot", body)


def test_one_is_taken_if_the_pause_fits_and_left_out_if_not(history, session):
    session.kernel.run("x = 1")
    taken = automatic(history, session, cell={"id": "a", "number": 1, "source": "x = 1"})
    assert taken["type"] == "snapshot" and taken["frozen_us"] < 5_000_000
    print(f"a kernel of {taken['memory_bytes'] >> 20} MiB stood still for {taken['frozen_us'] / 1000:.0f} ms")
    session.kernel.run("x = 2")
    left_out = automatic(history, session, within_ms=1)
    assert (left_out["type"], left_out["why"], left_out["head"]) == ("skipped", "too_long", taken["commit"])
    assert left_out["expected_us"] > 1000
    # The guess learns from what was measured: within three times as long it fits, if the machine is as it was.
    assert left_out["expected_us"] < 3 * taken["frozen_us"] + 100_000
    assert [commit["id"] for commit in history.of(session)["commits"]] == [taken["commit"]]
    assert session.kernel.value("x") == 2


def test_one_is_left_out_if_nothing_ran_unless_somebody_asks(history, session):
    session.kernel.run("x = 1")
    first = automatic(history, session)
    # The daemon looks after a new session a second later.
    proc.until("there is nothing new", lambda: automatic(history, session, reason="before-cell").get("why") == "nothing_new", seconds=20)
    assert session.snapshot()["commit"] != first["commit"]
    assert automatic(history, session, reason="idle")["why"] == "nothing_new"
    path = f"/v1/sessions/{session.id}/snapshot?wait=true"
    assert history.ask("POST", path, {"within_ms": 100}, status=400)["code"] == "IJ-L015"


def test_whoever_comes_while_one_is_taken_waits_and_is_not_refused(history, session):
    session.kernel.run("x = bytearray(64 << 20)")
    done = {}

    def ask(name, work):
        done[name] = work()

    both = {"automatic": lambda: automatic(history, session), "manual": session.snapshot}
    threads = [threading.Thread(target=ask, args=one) for one in both.items()]
    threads[0].start()
    time.sleep(0.05)
    threads[1].start()
    for thread in threads:
        thread.join()
    # The first is given up if nothing stood still for it yet, or comes too late; the second is there in any case.
    assert done["manual"]["commit"], done
    assert done["automatic"]["type"] == "snapshot" or done["automatic"]["why"] in ("given_up", "busy"), done


def test_what_is_not_there_is_not_given_up(history, session):
    assert history.ask("POST", f"/v1/sessions/{session.id}/give-up", {}) == {"given_up": False}
