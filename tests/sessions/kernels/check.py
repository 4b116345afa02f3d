"""Compiles kernels.cu by NVRTC, runs every entry through the driver interface and compares with numpy.

    check.py ARCHITECTURE [NVRTC OPTION…]

Says a line of JSON: the names of what was right and of what was wrong. Runs on a real GPU just the same.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from cuda.bindings import driver, nvrtc


def call(answer):
    code, *results = answer
    assert int(code) == 0, code
    return results[0] if len(results) == 1 else results


def compiled(source, options):
    program = call(nvrtc.nvrtcCreateProgram(source, b"kernels.cu", 0, [], []))
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(code):
        log = b" " * call(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    text = b" " * call(nvrtc.nvrtcGetPTXSize(program))
    call(nvrtc.nvrtcGetPTX(program, text))
    return text


call(driver.cuInit(0))
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
options = [f"--gpu-architecture={sys.argv[1]}".encode(), *(word.encode() for word in sys.argv[2:])]
ptx = compiled((Path(__file__).parent / "kernels.cu").read_bytes(), options)
module = call(driver.cuModuleLoadData(ptx))
random = np.random.default_rng(3)
right, wrong = [], []


class Device:
    """An array on the device."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.address = int(call(driver.cuMemAlloc(self.array.nbytes)))
        call(driver.cuMemcpyHtoD(self.address, self.array.ctypes.data, self.array.nbytes))

    def back(self):
        call(driver.cuMemcpyDtoH(self.array.ctypes.data, self.address, self.array.nbytes))
        call(driver.cuMemFree(self.address))
        return self.array


def launch(name, grid, block, *arguments, shared=0):
    function = call(driver.cuModuleGetFunction(module, name.encode()))
    values = [np.uint64(one.address) if isinstance(one, Device) else one for one in arguments]
    cells = [np.array([value]) if np.ndim(value) == 0 else value for value in values]
    pointers = np.array([cell.ctypes.data for cell in cells], dtype=np.uint64)
    grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    call(driver.cuLaunchKernel(function, *grid, *block, shared, 0, pointers.ctypes.data, 0))
    call(driver.cuCtxSynchronize())


def expect(name, found, wanted, **tolerance):
    wanted = np.asarray(wanted)
    if np.issubdtype(wanted.dtype, np.floating):
        same = np.allclose(found, wanted, equal_nan=True, **tolerance)
    else:
        same = np.array_equal(found, wanted)
    if same:
        right.append(name)
    else:
        at = np.flatnonzero(~np.isclose(found, wanted, equal_nan=True, **tolerance))[:3]
        wrong.append(f"{name}: at {at.tolist()} {np.ravel(found)[at].tolist()} for {np.ravel(wanted)[at].tolist()}")


n = 1000
i32, f32, u64 = np.int32, np.float32, np.uint64
x = (random.random(n, dtype=f32) * 8 - 4).astype(f32)
y = random.random(n, dtype=f32)

out = Device(np.zeros(n, f32))
launch("fill_f32", (9,), (128,), out, f32(2.5), u64(n - 10))
expect("fill", out.back(), np.r_[np.full(n - 10, 2.5, f32), np.zeros(10, f32)])

out = Device(np.zeros(n, f32))
launch("saxpy", (3,), (64,), f32(2.5), Device(x), Device(y), out, u64(n))
expect("saxpy", out.back(), f32(2.5) * x + y, rtol=1e-6)

out = Device(np.arange(n, dtype=i32))
launch("increment", (2,), (96,), out, i32(n), i32(10))
expect("increment", out.back(), np.arange(n, dtype=i32) + 10)

wide = x.astype(np.float64)
one = [
    np.exp(wide), np.sqrt(np.abs(wide)), np.tanh(wide), np.log(np.abs(wide) + 1), np.exp(wide), 1 / (1 + np.exp(-wide)), 1 / np.sqrt(np.abs(wide) + 1), np.sin(wide),
    np.floor(wide), np.rint(wide), np.abs(wide) ** 1.5, np.maximum(wide, 0), np.where(wide > 0, wide, f32(0.01) * wide), np.cos((x * f32(1000)).astype(np.float64)),
    np.copysign(1, wide), np.trunc(wide), np.ceil(wide), wide / 3, np.fmod(x, f32(0.7)), np.arctan(wide), np.log1p(np.abs(wide)), np.minimum(wide, 0.5), np.exp2(wide),
    np.sin((x * f32(1e6)).astype(np.float64)),
]  # fmt: skip
fast = any("fast_math" in word for word in sys.argv)
for op, wanted in enumerate(one):
    # without range reduction these say nothing at large angles
    if fast and op in (13, 23):
        continue
    out = Device(np.zeros(n, f32))
    launch("unary_f32", (8,), (128,), Device(x), out, i32(n), i32(op))
    expect(f"unary_f32 {op}", out.back(), wanted.astype(f32), rtol=1e-3 if fast else 2e-6, atol=2e-5 if fast else 1e-6)

two = [
    np.exp(wide), np.sqrt(np.abs(wide)), np.tanh(wide), np.log(np.abs(wide) + 1), wide / 3, np.maximum(wide, 0.5), np.floor(wide), np.sin(wide), 1 / wide,
    1 / np.sqrt(np.abs(wide) + 1), np.rint(wide), np.abs(wide) ** 2.5, np.cbrt(wide), np.cos(wide * 1e8),
]  # fmt: skip
for op, wanted in enumerate(two):
    out = Device(np.zeros(n, np.float64))
    launch("unary_f64", (8,), (128,), Device(wide), out, i32(n), i32(op))
    expect(f"unary_f64 {op}", out.back(), wanted, rtol=1e-13, atol=1e-14)


def divided(a, b):
    """As C does: towards zero."""
    with np.errstate(over="ignore"):
        quotient = np.abs(a) // np.abs(b) * np.where((a < 0) != (b < 0), -1, 1)
    return quotient.astype(a.dtype)


a = random.integers(-(2**31) + 1, 2**31, n, dtype=np.int64).astype(i32)
b = random.integers(1, 5000, n).astype(i32) * random.choice([-1, 1], n).astype(i32)
ua, ub, la, lb = a.view(np.uint32), b.view(np.uint32), a.astype(np.int64), b.astype(np.int64)
three = [
    divided(la, lb), la - divided(la, lb) * lb, np.minimum(a, b), np.maximum(a, b), (la << (lb & 31)), a >> (b & 31), a & b, a | b, a ^ b, ~a,
    np.bitwise_count(ua), np.abs(a), ua // ub, ua % ub, la * lb >> 32, la * lb + 7, divided(la, np.int64(7) + 0 * la), la - divided(la, np.int64(10) + 0 * la) * 10, -a,
    np.ones(n),
]  # fmt: skip
for op, wanted in enumerate(three):
    out = Device(np.zeros(n, i32))
    launch("ints", (8,), (128,), Device(a), Device(b), out, i32(n), i32(op))
    expect(f"ints {op}", out.back(), wanted.astype(np.int64).astype(np.uint32).view(i32))

la = random.integers(-(2**62), 2**62, n)
lb = random.integers(1, 2**40, n) * random.choice([-1, 1], n)
with np.errstate(over="ignore"):
    four = [
        divided(la, lb), la - divided(la, lb) * lb, np.minimum(la, lb), la * lb, la >> (lb & 63), (la.view(u64) // lb.view(u64)).view(np.int64), np.abs(la),
    ]  # fmt: skip
for op, wanted in enumerate(four):
    out = Device(np.zeros(n, np.int64))
    launch("ints64", (8,), (128,), Device(la), Device(lb), out, i32(n), i32(op))
    expect(f"ints64 {op}", out.back(), wanted)

v = random.random(n) * 60000 - 30000
outs = [Device(np.zeros(n, kind)) for kind in (f32, i32, np.uint32, np.int64, np.uint8, np.int16)]
launch("convert", (8,), (128,), Device(v), *outs, i32(n))
wants = [v.astype(f32), v.astype(i32), np.abs(v).astype(np.uint32), np.rint(v).astype(np.int64), v.astype(i32).astype(np.uint8), v.astype(i32).astype(np.int16)]
for which, (out, wanted) in enumerate(zip(outs, wants)):
    expect(f"convert {which}", out.back(), wanted)

quads = x.reshape(-1, 4)
out = Device(np.zeros_like(quads))
launch("vectors", (2,), (128,), Device(quads), out, i32(len(quads)))
expect("vectors", out.back(), np.c_[quads[:, 0] + 1, quads[:, 1] * 2, quads[:, 2] - 3, -quads[:, 3]])

bytes_ = random.integers(0, 256, 5000, dtype=np.uint8)
out = Device(np.zeros(256, np.uint32))
launch("histogram", (40,), (128,), Device(bytes_), out, i32(len(bytes_)))
expect("histogram", out.back(), np.bincount(bytes_, minlength=256))

m = 40
left, right_ = random.random((m, m), dtype=f32), random.random((m, m), dtype=f32)
for name in ("matmul", "matmul_tiled"):
    out = Device(np.zeros((m, m), f32))
    launch(name, (3, 3), (16, 16), Device(left), Device(right_), out, i32(m))
    expect(name, out.back(), left @ right_, rtol=1e-4)

out = Device(np.zeros(1, f32))
launch("reduce", (4,), (128,), Device(y), out, i32(n), shared=128 * 4)
expect("reduce", out.back(), [y.sum(dtype=np.float64)], rtol=1e-5)

w = random.integers(-1000, 1000, 512).astype(i32)
out = Device(np.zeros(16, i32))
launch("reduce_warps", (4,), (128,), Device(w), out)
rows = w.reshape(16, 32)
expect("reduce_warps", out.back(), rows.sum(1) + 1000000 * (rows & 1).sum(1))

for time_ in range(2):
    out = Device(np.zeros(64, f32))
    launch("globals", (1,), (64,), out)
    expect(f"globals {time_}", out.back(), np.tile([1, 2, 3, 4], 16).astype(f32) + 5 + time_)
address, size = call(driver.cuModuleGetGlobal(module, b"counter"))
counter = np.zeros(1, i32)
call(driver.cuMemcpyDtoH(counter.ctypes.data, address, size))
expect("counter", counter, [7])

struct = np.zeros(1, np.dtype([("a", f32), ("b", i32), ("c", np.float64), ("p", u64)]))
source = Device(x)
struct[0] = (2, 3, 0.5, source.address)
out = Device(np.zeros(n, f32))
launch("by_value", (8,), (128,), struct, out, i32(n))
expect("by_value", out.back(), 2 * x + 3.5, rtol=1e-6)

out = Device(np.zeros(n, f32))
launch("calls", (8,), (128,), Device(y), out, i32(n))
wanted = np.zeros(n)
for k in range(7):
    wanted = np.where(np.arange(n) % 8 > k, wanted * y + 1, wanted)
expect("calls", out.back(), wanted.astype(f32), rtol=1e-5)

w = random.integers(0, 1000, n).astype(i32)
out = Device(np.zeros(n, i32))
launch("local_array", (8,), (128,), Device(w), out, i32(n))
expect("local_array", out.back(), w[(np.arange(n) + (w & 7)) % n])

big = Device(np.zeros(1 << 20, f32))
started = time.monotonic()
launch("fill_f32", (4096,), (256,), big, f32(1), u64(1 << 20))
seconds = time.monotonic() - started
expect("a large fill", big.back(), np.ones(1 << 20, f32))

# the last one, because the context is of no use after it
try:
    launch("out_of_bounds", (1,), (1,), Device(np.zeros(1, i32)))
    wrong.append("out_of_bounds: nothing happened")
except AssertionError as error:
    (right if "ILLEGAL_ADDRESS" in str(error) else wrong).append(f"out_of_bounds: {error}")

print(json.dumps({"right": right, "wrong": wrong, "fill_seconds": seconds}))
