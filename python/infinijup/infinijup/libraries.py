"""GPU libraries as they are in this process: only what is loaded already is looked at, nothing is ever imported.

Waiting for a device from any thread waits for all its streams. A device on which the library has done nothing is left alone:
asking it would make a context there, which costs memory.
"""

import sys
import threading

_NOT_INITIALIZED = 3
_GRAPH_FILES = ("torch/cuda/graphs.py",)


def loaded():
    """Name and way to wait, for each library that is loaded and has something to wait for."""
    ways = (("torch", _torch), ("cupy", _cupy), ("numba", _numba), ("cuda.core", _cuda_core))
    return [(name, way) for name, find in ways for way in [find()] if way is not None]


def capturing():
    """Where a graph is being captured, as far as that can be seen; empty otherwise.

    The calling thread's streams are asked. Of other threads only torch's own capture of callables shows, by what they execute;
    a capture elsewhere belongs in `infinijup.uninterrupted()`.
    """
    torch = _cuda_of_torch()
    if torch is not None and torch.cuda.is_current_stream_capturing():
        return "torch, in this thread"
    cupy = sys.modules.get("cupy")
    current = getattr(getattr(cupy, "cuda", None), "get_current_stream", None)
    if current is not None and getattr(current(), "is_capturing", lambda: False)():
        return "cupy, in this thread"
    for thread, frame in sys._current_frames().items():
        while frame is not None and thread != threading.get_ident():
            if frame.f_code.co_filename.replace("\\", "/").endswith(_GRAPH_FILES):
                return f"torch, in thread {thread}"
            frame = frame.f_back
    return ""


def _cuda_of_torch():
    """torch, if it has touched a GPU."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    # Halfway through its import it may lack anything.
    if cuda is None or not getattr(cuda, "is_initialized", lambda: False)():
        return None
    return torch


def _torch():
    torch = _cuda_of_torch()
    if torch is None:
        return None

    def synchronise():
        for index in range(torch.cuda.device_count()):
            torch.cuda.synchronize(index)

    return synchronise


def _cupy():
    cupy = sys.modules.get("cupy")
    runtime = getattr(getattr(cupy, "cuda", None), "runtime", None)
    if runtime is None:
        return None

    def synchronise():
        for index in range(runtime.getDeviceCount()):
            with cupy.cuda.Device(index):
                cupy.cuda.runtime.deviceSynchronize()

    return synchronise


def _numba():
    driver = getattr(sys.modules.get("numba.cuda.cudadrv.driver"), "driver", None)
    if driver is None or not driver.is_initialized:
        return None

    def synchronise():
        for device in list(driver.devices.values()):
            context = device.primary_context
            if context is not None:
                context.push()
                try:
                    context.synchronize()
                finally:
                    context.pop()

    return synchronise


def _cuda_core():
    core = sys.modules.get("cuda.core") or sys.modules.get("cuda.core.experimental")
    driver = sys.modules.get("cuda.bindings.driver")
    if core is None or driver is None:
        return None
    code, count = driver.cuDeviceGetCount()
    if int(code) == _NOT_INITIALIZED:
        return None

    def synchronise():
        for index in range(_ask((code, count))):
            device = _ask(driver.cuDeviceGet(index))
            _, active = _ask(driver.cuDevicePrimaryCtxGetState(device))
            if not active:
                continue
            # Without changing which device is this thread's: a context of its own on the stack, for as long as it takes.
            context = _ask(driver.cuDevicePrimaryCtxRetain(device))
            try:
                _ask(driver.cuCtxPushCurrent(context))
                try:
                    _ask(driver.cuCtxSynchronize())
                finally:
                    _ask(driver.cuCtxPopCurrent())
            finally:
                _ask(driver.cuDevicePrimaryCtxRelease(device))

    return synchronise


def _ask(answer):
    """The bindings answer with a code and the results."""
    code, *results = answer
    if int(code) != 0:
        raise RuntimeError(f"the driver answered {code!r}")
    if not results:
        return None
    return results[0] if len(results) == 1 else results
