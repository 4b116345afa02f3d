"""Hooks in order, errors, sections that must not be interrupted."""

import threading

import pytest

import infinijup
from infinijup import quiescing as engine


@pytest.fixture
def said():
    return []


def pair(said, name, order=0):
    return infinijup.register(name, lambda: said.append(f"{name} rests"), lambda: said.append(f"{name} works"), order)


def test_hooks_nest_by_order_and_then_by_age(said):
    pair(said, "last", 10)
    pair(said, "first", -10)
    pair(said, "older")
    pair(said, "younger")
    with infinijup.quiesced():
        assert said == ["first rests", "older rests", "younger rests", "last rests"]
        assert engine.is_resting()
        said.clear()
    assert said == ["last works", "younger works", "older works", "first works"]
    assert not engine.is_resting()


def test_decorators_and_removal(said):
    @infinijup.on_quiesce(order=1)
    def rest():
        said.append("rest")

    @infinijup.on_resume
    def work():
        said.append("work")

    removed = pair(said, "removed")
    removed.remove()
    removed.remove()
    with infinijup.quiesced():
        pass
    assert said == ["rest", "work"]


def test_a_hook_that_fails_undoes_those_before_it(said):
    pair(said, "done")

    @infinijup.on_quiesce(order=1)
    def fails():
        raise OSError("disk full")

    pair(said, "never", 2)
    with pytest.raises(infinijup.QuiesceError, match="fails.*disk full") as caught:
        infinijup.quiesce()
    assert isinstance(caught.value.__cause__, OSError)
    assert said == ["done rests", "done works"]
    assert not engine.is_resting()


def test_hooks_that_fail_on_the_way_back_stop_nobody(said):
    pair(said, "good", 0)
    infinijup.register("bad", resume=lambda: 1 / 0, order=1)
    infinijup.quiesce()
    with pytest.raises(infinijup.ResumeError, match="bad") as caught:
        infinijup.resume()
    assert [name for name, _ in caught.value.errors] == ["bad"]
    assert said == ["good rests", "good works"]
    infinijup.resume()


def test_at_rest_twice_runs_hooks_once(said):
    pair(said, "hook")
    infinijup.quiesce()
    infinijup.quiesce()
    infinijup.resume()
    assert said == ["hook rests", "hook works"]


def test_an_exception_inside_goes_back_to_work(said):
    pair(said, "hook")
    with pytest.raises(KeyError), infinijup.quiesced():
        raise KeyError
    assert said[-1] == "hook works"


def test_a_section_is_waited_for():
    inside, leave = threading.Event(), threading.Event()

    def capture():
        with infinijup.uninterrupted():
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=capture)
    thread.start()
    assert inside.wait(20)
    with pytest.raises(infinijup.QuiesceError, match="did not end within 0.05 s"):
        infinijup.quiesce(timeout=0.05)
    assert not engine.is_resting()
    leave.set()
    infinijup.quiesce(timeout=20)
    thread.join(20)
    assert engine.is_resting()


def test_no_section_begins_at_rest():
    entered = threading.Event()

    def work():
        with infinijup.uninterrupted():
            entered.set()

    infinijup.quiesce()
    thread = threading.Thread(target=work)
    thread.start()
    assert not entered.wait(0.1)
    infinijup.resume()
    assert entered.wait(20)
    thread.join(20)


def test_a_hook_may_have_sections_of_its_own(said):
    @infinijup.on_quiesce
    def hook():
        with infinijup.uninterrupted():
            said.append("hook")

    infinijup.quiesce(timeout=20)
    assert said == ["hook"]
