"""Rest and work: hooks in order, the streams of loaded GPU libraries, and graph captures that must not be cut in two.

To come to rest:

1. no new `uninterrupted()` section begins, and those that run are waited for; so is a graph capture that can be seen;
2. hooks run in ascending order;
3. every GPU library that is loaded finishes its work.

Should a step fail, what was done is undone in reverse, and `QuiesceError` says what failed. Going back to work runs the other
halves of the hooks in reverse order. All of them run, whatever one of them does; `ResumeError` tells of those that failed.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from infinijup import libraries

_POLL = 0.02


class QuiesceError(RuntimeError):
    """The process could not be brought to rest, and works on as before."""


class ResumeError(RuntimeError):
    """Hooks failed on the way back to work. The others have run; `errors` has what each of these raised, by name."""

    def __init__(self, errors):
        self.errors = errors
        super().__init__("; ".join(f"{name}: {error!r}" for name, error in errors))


@dataclass(eq=False)
class Hook:
    """What `register` returns. Lower orders come to rest first and go back to work last."""

    name: str
    quiesce: Callable[[], None] | None
    resume: Callable[[], None] | None
    order: int
    number: int = field(default_factory=itertools.count().__next__)

    def remove(self):
        """Takes it out. Removing twice is no error."""
        with _state.guard:
            if self in _state.hooks:
                _state.hooks.remove(self)


class _State:
    def __init__(self):
        # Of the fields below. Never held while anything of somebody else's runs.
        self.guard = threading.Condition()
        # Of a whole quiesce or resume: two at a time would not know what to undo.
        self.turn = threading.Lock()
        self.hooks: list[Hook] = []
        self.done: list[Hook] = []
        self.sections = 0
        self.resting = False
        self.own = threading.local()


_state = _State()


def register(name, quiesce=None, resume=None, order=0):
    """A pair of hooks: `quiesce` before a snapshot, `resume` after it and in everything that is restored from it."""
    hook = Hook(name, quiesce, resume, order)
    with _state.guard:
        _state.hooks.append(hook)
    return hook


def on_quiesce(function=None, *, order=0):
    """Decorator: runs before a snapshot. If it raises, there is no snapshot."""
    if function is None:
        return lambda function: on_quiesce(function, order=order)
    register(_name(function), quiesce=function, order=order)
    return function


def on_resume(function=None, *, order=0):
    """Decorator: runs after a snapshot, and in everything that is restored from it."""
    if function is None:
        return lambda function: on_resume(function, order=order)
    register(_name(function), resume=function, order=order)
    return function


@contextlib.contextmanager
def uninterrupted():
    """A section that is never cut in two by a snapshot, such as the capture of a graph in this thread.

    While the process is at rest, entering waits until it goes back to work. The thread that brings the process to rest
    passes: its hooks may need such sections.
    """
    with _state.guard:
        while _state.resting and not getattr(_state.own, "rules", False):
            _state.guard.wait()
        _state.sections += 1
    try:
        yield
    finally:
        with _state.guard:
            _state.sections -= 1
            _state.guard.notify_all()


def is_resting():
    """Whether the process has come to rest and was not told to go on."""
    return _state.resting


def quiesce(timeout=30.0):
    """Brings the process to rest, and returns the names of the libraries whose work was waited for.

    At rest already, it waits for the libraries once more: somebody may have launched something since.
    """
    deadline = time.monotonic() + timeout
    if not _state.turn.acquire(timeout=timeout):
        raise QuiesceError(f"another quiesce or resume did not end within {timeout:g} s")
    try:
        _state.own.rules = True
        if not _state.resting:
            _close_sections(deadline, timeout)
            try:
                _wait_for_captures(deadline, timeout)
                _run_hooks()
            except BaseException:
                _undo()
                raise
        try:
            return _synchronise(deadline)
        except BaseException:
            _undo()
            raise
    finally:
        _state.own.rules = False
        _state.turn.release()


def resume():
    """Back to work. Does nothing if the process is not at rest."""
    with _state.turn:
        if not _state.resting:
            return
        _state.own.rules = True
        try:
            errors = _undo()
        finally:
            _state.own.rules = False
    if errors:
        raise ResumeError(errors)


@contextlib.contextmanager
def quiesced(timeout=30.0):
    """At rest inside, back to work after it, also by way of an exception."""
    synchronised = quiesce(timeout)
    try:
        yield synchronised
    finally:
        resume()


def _close_sections(deadline, timeout):
    with _state.guard:
        _state.resting = True
        if _state.guard.wait_for(lambda: _state.sections == 0, timeout=max(0.0, deadline - time.monotonic())):
            return
        _state.resting = False
        _state.guard.notify_all()
    raise QuiesceError(f"a section that must not be interrupted did not end within {timeout:g} s")


def _wait_for_captures(deadline, timeout):
    while True:
        found = libraries.capturing()
        if not found:
            return
        if time.monotonic() >= deadline:
            raise QuiesceError(f"a CUDA graph is being captured ({found}), and that did not end within {timeout:g} s")
        time.sleep(_POLL)


def _run_hooks():
    with _state.guard:
        hooks = sorted(_state.hooks, key=lambda hook: (hook.order, hook.number))
    for hook in hooks:
        if hook.quiesce is not None:
            try:
                hook.quiesce()
            except Exception as error:
                raise QuiesceError(f"hook {hook.name}: {error!r}") from error
        _state.done.append(hook)


def _synchronise(deadline):
    found = libraries.capturing()
    if found:
        raise QuiesceError(f"a CUDA graph is being captured ({found})")
    synchronised = []
    for name, synchronise in libraries.loaded():
        if time.monotonic() >= deadline:
            raise QuiesceError(f"the time was over before the work of {name} could be waited for")
        try:
            synchronise()
        except Exception as error:
            raise QuiesceError(f"{name} cannot finish its work: {error!r}") from error
        synchronised.append(name)
    return synchronised


def _undo():
    errors = []
    while _state.done:
        hook = _state.done.pop()
        if hook.resume is not None:
            try:
                hook.resume()
            except Exception as error:  # The others must run.
                errors.append((hook.name, error))
    with _state.guard:
        _state.resting = False
        _state.guard.notify_all()
    return errors


def _name(function):
    return getattr(function, "__qualname__", repr(function))
