"""Libraries that are loaded are waited for, others are left alone, and captures are not cut in two."""

import sys
import threading
import time
import types

import pytest

import infinijup
from infinijup import libraries


class Torch(types.SimpleNamespace):
    """As much of torch as is asked."""

    def __init__(self, initialised=True, devices=2):
        super().__init__()
        self.waited, self.captures = [], False
        self.cuda = types.SimpleNamespace(
            is_initialized=lambda: initialised,
            device_count=lambda: devices,
            synchronize=self.waited.append,
            is_current_stream_capturing=lambda: self.captures,
        )


class Driver:
    """`cuda.bindings.driver` of a machine with two GPUs, the second of them in use."""

    def __init__(self, fails=0):
        self.said, self.fails = [], fails

    def cuDeviceGetCount(self):
        return 0, 2

    def cuDeviceGet(self, index):
        return 0, index

    def cuDevicePrimaryCtxGetState(self, device):
        return 0, 0, int(device == 1)

    def cuDevicePrimaryCtxRetain(self, device):
        self.said.append(f"retain {device}")
        return 0, f"context {device}"

    def cuCtxPushCurrent(self, context):
        self.said.append(f"push {context}")
        return (0,)

    def cuCtxSynchronize(self):
        self.said.append("synchronise")
        return (self.fails,)

    def cuCtxPopCurrent(self):
        self.said.append("pop")
        return 0, "context"

    def cuDevicePrimaryCtxRelease(self, device):
        self.said.append(f"release {device}")
        return (0,)


def load(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, name, module)
    return module


def load_core(monkeypatch, driver):
    load(monkeypatch, "cuda.core", types.ModuleType("cuda.core"))
    return load(monkeypatch, "cuda.bindings.driver", driver)


def test_nothing_is_imported():
    before = set(sys.modules)
    assert infinijup.quiesce() == []
    assert not {"torch", "cupy", "numba", "cuda"} & (set(sys.modules) - before)


def test_torch(monkeypatch):
    torch = load(monkeypatch, "torch", Torch())
    assert infinijup.quiesce() == ["torch"]
    assert torch.waited == [0, 1]


def test_torch_that_never_touched_a_gpu_is_left_alone(monkeypatch):
    torch = load(monkeypatch, "torch", Torch(initialised=False))
    assert infinijup.quiesce() == []
    assert torch.waited == []


def test_modules_in_the_middle_of_their_import(monkeypatch):
    for name in ("torch", "cupy", "numba.cuda.cudadrv.driver", "cuda.core"):
        load(monkeypatch, name, types.ModuleType(name))
    assert infinijup.quiesce() == []


def test_cupy(monkeypatch):
    waited, entered = [], []

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            entered.append(self.index)

        def __exit__(self, *_):
            entered.pop()

    runtime = types.SimpleNamespace(getDeviceCount=lambda: 2, deviceSynchronize=lambda: waited.append(entered[-1]))
    load(monkeypatch, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime, Device=Device)))
    assert infinijup.quiesce() == ["cupy"]
    assert waited == [0, 1]


def test_numba(monkeypatch):
    said = []
    context = types.SimpleNamespace(
        push=lambda: said.append("push"), synchronize=lambda: said.append("synchronise"), pop=lambda: said.append("pop")
    )
    devices = {0: types.SimpleNamespace(primary_context=None), 1: types.SimpleNamespace(primary_context=context)}
    driver = types.SimpleNamespace(is_initialized=True, devices=devices)
    load(monkeypatch, "numba.cuda.cudadrv.driver", types.SimpleNamespace(driver=driver))
    assert infinijup.quiesce() == ["numba"]
    assert said == ["push", "synchronise", "pop"]


def test_cuda_core_waits_where_there_is_a_context(monkeypatch):
    driver = load_core(monkeypatch, Driver())
    assert infinijup.quiesce() == ["cuda.core"]
    assert driver.said == ["retain 1", "push context 1", "synchronise", "pop", "release 1"]


def test_a_device_that_fails_is_an_error_and_leaves_nothing_behind(monkeypatch):
    driver = load_core(monkeypatch, Driver(fails=700))
    with pytest.raises(infinijup.QuiesceError, match="cuda.core cannot finish its work.*700"):
        infinijup.quiesce()
    assert driver.said[-2:] == ["pop", "release 1"]


def test_a_driver_that_was_never_initialised_is_left_alone(monkeypatch):
    driver = load_core(monkeypatch, Driver())
    driver.cuDeviceGetCount = lambda: (3, None)
    assert infinijup.quiesce() == []


def test_a_capture_in_this_thread_is_refused_when_it_does_not_end(monkeypatch):
    torch = load(monkeypatch, "torch", Torch())
    torch.captures = True
    with pytest.raises(infinijup.QuiesceError, match="graph is being captured"):
        infinijup.quiesce(timeout=0.05)
    assert torch.waited == []


def test_a_capture_that_ends_is_waited_for(monkeypatch):
    torch = load(monkeypatch, "torch", Torch())
    answers = iter([True, True, False, False])
    torch.cuda.is_current_stream_capturing = lambda: next(answers)
    assert infinijup.quiesce(timeout=20) == ["torch"]


def test_a_capture_of_cupy_is_seen(monkeypatch):
    stream = types.SimpleNamespace(is_capturing=lambda: True)
    load(monkeypatch, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: stream)))
    assert libraries.capturing() == "cupy, in this thread"


def test_torch_capturing_callables_in_another_thread_is_seen():
    inside, leave = threading.Event(), threading.Event()
    scope = {"inside": inside, "leave": leave}
    source = "def make_graphed_callables():\n    inside.set()\n    leave.wait(20)\n"
    exec(compile(source, "/site-packages/torch/cuda/graphs.py", "exec"), scope)
    thread = threading.Thread(target=scope["make_graphed_callables"])
    thread.start()
    assert inside.wait(20)
    assert libraries.capturing() == f"torch, in thread {thread.ident}"
    leave.set()
    thread.join(20)
    assert libraries.capturing() == ""


def test_the_time_for_libraries_is_limited(monkeypatch):
    torch = load(monkeypatch, "torch", Torch(devices=1))
    torch.cuda.synchronize = lambda _: time.sleep(0.3)
    load_core(monkeypatch, Driver())
    with pytest.raises(infinijup.QuiesceError, match="time was over before the work of cuda.core"):
        infinijup.quiesce(timeout=0.25)
