"""The bookkeeping of requests."""

from infinijup.serverextension.desk import Desk
from infinijup.serverextension.ledger import Fence, Ledger, Request


def request(name, sent=0.0, kind="execute_request"):
    return Request({"msg_id": name, "msg_type": kind}, "shell", sent)


def test_a_request_is_open_until_it_has_reply_and_idle_in_any_order():
    for order in ("replied", "ended"), ("ended", "replied"):
        ledger = Ledger()
        ledger.sent(request("a"))
        for step in order:
            assert list(ledger.open) == ["a"]
            getattr(ledger, step)("a", 1.0)
        assert ledger.open == {} and [done.id for done in ledger.finished] == ["a"]


def test_what_has_no_reply_ends_with_idle():
    ledger = Ledger()
    ledger.sent(request("a", kind="comm_msg"))
    ledger.ended("a", 1.0)
    assert ledger.open == {}


def test_answers_to_others_change_nothing():
    ledger = Ledger()
    assert ledger.ended("x", 1.0) is None and ledger.replied("x", 1.0) is None and ledger.progress == 0
    ledger.sent(request("i", kind="input_reply"))
    assert ledger.open == {}


def test_in_flight_during_a_snapshot():
    ledger = Ledger()
    for name, sent, ended in (("before", 0.0, 1.0), ("across", 1.5, 2.5), ("long", 1.0, None), ("inside", 2.1, 2.2), ("after", 3.5, None)):
        ledger.sent(request(name, sent))
        if ended:
            ledger.replied(name, ended)
            ledger.ended(name, ended)
    assert set(ledger.in_flight(2.0, 3.0)) == {"across", "long", "inside"}


def test_cutting_keeps_what_the_process_has_and_the_order():
    ledger = Ledger()
    for name in "abcd":
        ledger.sent(request(name))
    assert [lost.id for lost in ledger.cut({"b", "x"})] == ["a", "c", "d"]
    assert list(ledger.open) == ["b"]


def test_a_cell_that_is_run_again_is_open_again():
    ledger = Ledger()
    cell = request("a")
    ledger.sent(cell)
    ledger.replied("a", 1.0)
    ledger.ended("a", 1.0)
    assert ledger.take_again(cell) and list(ledger.open) == ["a"] and not cell.is_answered()
    assert not ledger.take_again(cell)


def test_a_question_that_was_open_then_and_answered_since_is_asked_again():
    ledger = Ledger()
    ledger.sent(request("a"))
    ledger.asked("a", "first?", 1.0)
    ledger.told(2.0)
    ledger.asked("a", "second?", 3.0)
    cell = ledger.open["a"]
    assert cell.open_question(0.2, 0.5) is None
    assert cell.open_question(1.2, 1.5).message == "first?"
    # This one is still on the page.
    assert cell.open_question(3.2, 3.5) is None


def test_a_fence_proves_nothing_while_there_is_progress():
    ledger = Ledger()
    for name in "ab":
        ledger.sent(request(name))
    fence = Fence([ledger], {"a", "b"})
    ledger.began("a")
    assert not fence.passed() and fence.left() == ["a", "b"]
    ledger.replied("a", 1.0)
    ledger.ended("a", 1.0)
    assert not fence.passed() and fence.left() == ["b"]
    assert fence.passed()


def test_a_swap_lasts_until_its_last_reason():
    desk = Desk("k", hub=None)
    assert desk.begin("here:1", "rollback") and not desk.begin("job:2", "rollback")
    assert desk.swapping and not desk.end("here:1") and not desk.end("here:1")
    assert desk.end("job:2") and not desk.swapping


def test_what_was_under_way_is_remembered_for_each_snapshot():
    desk = Desk("k", hub=None)
    ledger = desk.ledger("page")
    for name, sent in (("ended", 1.0), ("runs", 1.1), ("queued", 1.2)):
        ledger.sent(request(name, sent))
    ledger.began("ended")
    ledger.began("runs")
    desk.snapshot_began(2.0)
    desk.froze(3.0, over=False)
    # Sent by the kernel before it stood still, and heard a moment later.
    ledger.replied("ended", 3.01)
    ledger.ended("ended", 3.01)
    desk.froze(4.0, over=True)
    ledger.sent(request("later", 4.5))
    desk.snapshot_taken("commit", 5.0)
    flight = desk.flight("commit")
    assert set(flight.requests) == {"ended", "runs", "queued"} and flight.certain == {"runs"}
    assert desk.flight("another").requests == {}


def test_without_steps_the_whole_job_counts():
    desk = Desk("k", hub=None)
    desk.ledger("page").sent(request("a", 1.0))
    desk.snapshot_began(2.0)
    desk.snapshot_taken("commit", 3.0)
    assert (desk.flight("commit").begin, desk.flight("commit").end) == (2.0, 3.0)
    assert list(desk.flight("commit").requests) == ["a"]


def test_long_descriptions_of_a_kernel_do_not_become_labels():
    desk = Desk("k", hub=None)
    desk.kernel_info = {"status": "ok", "banner": "x" * 5000, "help_links": [{"text": "y" * 5000}], "language_info": {"name": "p"}}
    assert '"language_info":{"name":"p"}' in desk.info_label() and len(desk.info_label()) < 4000
    desk.kernel_info["language_info"]["name"] = "z" * 5000
    assert desk.info_label() is None
