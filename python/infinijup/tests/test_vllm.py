"""The vLLM hook, on engines that have its documented interface and nothing else."""

import asyncio
import threading

import pytest

import infinijup
from infinijup import vllm


class Offline:
    """As `LLM`: synchronous, its engine counts the requests."""

    def __init__(self, requests=0, resets=True):
        self.said, self.requests, self.resets, self.sleeping = [], requests, resets, None
        self.llm_engine = self

    def has_unfinished_requests(self):
        self.requests = max(0, self.requests - 1)
        return self.requests > 0

    def reset_prefix_cache(self):
        assert self.sleeping is None
        self.said.append("reset")
        return self.resets

    def sleep(self, level=1):
        self.said.append(f"sleep {level}")
        self.sleeping = level

    def wake_up(self, tags=None):
        self.said.append(f"wake {tags}")
        self.sleeping = None

    def collective_rpc(self, method):
        self.said.append(method)


class Online:
    """As `AsyncLLM`: coroutines that must run in its own loop."""

    def __init__(self, loop):
        self.loop, self.said, self.paused = loop, [], False

    def here(self, what):
        assert asyncio.get_running_loop() is self.loop
        self.said.append(what)

    async def is_sleeping(self):
        self.here("asked")
        return False

    async def pause_generation(self, *, mode="abort", clear_cache=True):
        self.here(f"pause {mode}")
        self.paused = True

    async def resume_generation(self):
        self.here("resume")
        self.paused = False

    async def reset_prefix_cache(self, reset_running_requests=False, reset_connector=False):
        self.here("reset")
        return True

    async def sleep(self, level=1, mode="abort"):
        assert self.paused
        self.here(f"sleep {level}")

    async def wake_up(self, tags=None):
        self.here(f"wake {tags}")


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


def test_an_offline_engine_drains_forgets_and_sleeps():
    engine = Offline(requests=3)
    vllm.attach(engine)
    with infinijup.quiesced():
        assert engine.said == ["reset", "sleep 1"]
        assert engine.requests == 0
    assert engine.said[2:] == ["wake None"]


def test_level_2_loads_the_weights_again_before_the_cache_is_made():
    engine = Offline()
    vllm.attach(engine, level=2)
    with infinijup.quiesced():
        assert engine.said == ["reset", "sleep 2"]
    assert engine.said[2:] == ["wake ['weights']", "reload_weights", "wake ['kv_cache']"]


def test_an_online_engine_in_its_loop(loop):
    engine = Online(loop)
    vllm.attach(engine, loop=loop)
    with infinijup.quiesced():
        assert engine.said == ["asked", "pause wait", "reset", "sleep 1"]
    assert engine.said[4:] == ["wake None", "resume"]
    assert not engine.paused


def test_the_older_spelling_of_pause(loop):
    engine = Online(loop)

    async def pause(*, wait_for_inflight_requests=False, clear_cache=True):
        engine.here(f"pause {wait_for_inflight_requests}")
        engine.paused = True

    engine.pause_generation = pause
    vllm.attach(engine, loop=loop)
    infinijup.quiesce()
    assert "pause True" in engine.said


def test_requests_that_do_not_end_are_an_error_and_generation_goes_on(loop):
    engine = Online(loop)
    engine.has_unfinished_requests = lambda: True
    vllm.attach(engine, drain=0.05, loop=loop)
    with pytest.raises(infinijup.QuiesceError, match="still has requests after 0.05 s"):
        infinijup.quiesce()
    assert engine.said == ["asked", "pause wait", "resume"]


def test_a_cache_that_cannot_be_reset_is_an_error():
    engine = Offline(resets=False)
    vllm.attach(engine)
    with pytest.raises(infinijup.QuiesceError, match="did not reset its prefix cache"):
        infinijup.quiesce()
    assert engine.said == ["reset"]


def test_a_sleep_that_fails_is_woken():
    engine = Offline()

    def sleep(level=1):
        raise RuntimeError("CUDA out of memory")

    engine.sleep = sleep
    vllm.attach(engine)
    with pytest.raises(infinijup.QuiesceError, match="out of memory"):
        infinijup.quiesce()
    assert engine.said == ["reset", "wake None"]


def test_an_engine_that_sleeps_already_is_left_to_sleep():
    engine = Offline()
    engine.is_sleeping = lambda: True
    vllm.attach(engine)
    with infinijup.quiesced():
        pass
    assert engine.said == []


def test_it_comes_before_the_hooks_of_users():
    engine, seen = Offline(), []
    infinijup.on_quiesce(lambda: seen.append(list(engine.said)))
    vllm.attach(engine)
    with infinijup.quiesced():
        assert seen == [["reset", "sleep 1"]]


def test_in_the_thread_of_the_loop_it_refuses_instead_of_hanging(loop):
    vllm.attach(Online(loop), loop=loop)

    async def from_inside():
        infinijup.quiesce()

    with pytest.raises(infinijup.QuiesceError, match="would wait for itself"):
        asyncio.run_coroutine_threadsafe(from_inside(), loop).result(20)


def test_no_such_level():
    with pytest.raises(ValueError, match="levels 1 and 2"):
        vllm.attach(Offline(), level=3)
