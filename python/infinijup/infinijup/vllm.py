"""vLLM: drain, forget the caches, sleep; wake up after the snapshot. Optional: `infinijup.vllm.attach(engine)`.

`engine` is an `LLM`, an `LLMEngine` or an `AsyncLLM` made with `enable_sleep_mode=True`. Nothing of vLLM is imported; what is used is
its documented interface: `sleep(level)`, `wake_up(tags)`, `is_sleeping()`, `reset_prefix_cache()`, `pause_generation()` and
`resume_generation()`, `collective_rpc("reload_weights")`, and `has_unfinished_requests()`. Methods that a version lacks are done
without where that is safe.

Level 1 puts the weights into host memory: the snapshot is as large, but the GPU is nearly empty and its checkpoint quick. Level 2
forgets them: the snapshot is small, and waking up loads them again from where the model came from. The cache of keys and values is
forgotten by both. Captured graphs stay with the process.
"""

import asyncio
import inspect
import time

from infinijup import quiescing

# Before the hooks of users: theirs may free what requests still need.
ORDER = -100
_POLL = 0.05


def attach(engine, level=1, drain=45.0, loop=None, order=ORDER):
    """Makes the engine sleep at every quiesce. `loop` is the running event loop of an `AsyncLLM`, if it is not ours to find."""
    if level not in (1, 2):
        raise ValueError(f"vLLM has sleep levels 1 and 2, not {level!r}")
    sleeper = Sleeper(engine, level, drain, loop)
    return quiescing.register("vllm", sleeper.sleep, sleeper.wake, order)


class Sleeper:
    """One engine: what was done to it, and so what is to be undone."""

    def __init__(self, engine, level, drain, loop=None):
        self.engine, self.level, self.drain, self.loop = engine, level, drain, loop
        self.undo = []

    def sleep(self):
        """Drain, reset, sleep. If one fails, what was done is undone."""
        self.undo = []
        try:
            if self.is_sleeping():
                # Somebody put it to sleep before us, and will wake it.
                return
            self.wait_for_requests()
            self.forget_cache()
            # First noted, then done: a sleep that failed halfway must be woken too.
            self.undo.append(self.wake_engine)
            self.call(self.engine.sleep, level=self.level)
        except BaseException:
            self.wake()
            raise

    def wake(self):
        """The reverse, of what was done."""
        while self.undo:
            self.undo.pop()()

    def is_sleeping(self):
        method = getattr(self.engine, "is_sleeping", None)
        return bool(self.call(method)) if method else False

    def wait_for_requests(self):
        """No new requests where the engine can hold them back, and an end of those that run."""
        pause = getattr(self.engine, "pause_generation", None)
        if pause is not None:
            self.undo.append(lambda: self.call(self.engine.resume_generation))
            # The argument was a flag before it was a mode.
            newer = "mode" in inspect.signature(pause).parameters
            self.call(pause, **({"mode": "wait"} if newer else {"wait_for_inflight_requests": True}))
        deadline = time.monotonic() + self.drain
        while self.has_requests():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"vLLM still has requests after {self.drain:g} s")
            time.sleep(_POLL)

    def has_requests(self):
        """Wherever this kind of engine counts them."""
        for owner in (self.engine, getattr(self.engine, "llm_engine", None), getattr(self.engine, "output_processor", None)):
            method = getattr(owner, "has_unfinished_requests", None)
            if method is not None:
                return bool(self.call(method))
        return False

    def forget_cache(self):
        """Prefixes point into a cache that sleep throws away. vLLM says False when it could not."""
        reset = getattr(self.engine, "reset_prefix_cache", None)
        if reset is not None and self.call(reset) is False:
            raise RuntimeError("vLLM did not reset its prefix cache: a request still uses it")

    def wake_engine(self):
        """Level 2 has forgotten the weights: they come back between the two halves of waking up."""
        if self.level == 1:
            self.call(self.engine.wake_up)
            return
        self.call(self.engine.wake_up, tags=["weights"])
        self.call(self.engine.collective_rpc, "reload_weights")
        self.call(self.engine.wake_up, tags=["kv_cache"])

    def call(self, method, *words, **options):
        """A method's result, also of one that runs in the engine's event loop."""
        result = method(*words, **options)
        if not inspect.isawaitable(result):
            return result
        loop = self.loop or self.find_loop()
        if _running_here() is not None:
            result.close()
            raise RuntimeError("vLLM's event loop runs in this thread and would wait for itself: quiesce in another thread")
        if loop is None or not loop.is_running():
            return asyncio.run(_await(result))
        return asyncio.run_coroutine_threadsafe(_await(result), loop).result(self.drain + 60)

    def find_loop(self):
        """The loop in which the engine handles its output."""
        task = getattr(self.engine, "output_handler", None)
        return task.get_loop() if task is not None else None


def _running_here():
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _await(result):
    return await result
