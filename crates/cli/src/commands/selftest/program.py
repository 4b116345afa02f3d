"""What `infinijup selftest` runs in a session: a process with known state on every GPU that it sees.

It fills a buffer on each GPU with bytes that depend on the GPU, and lets a kernel count rounds in GPU memory, on and on. Questions
come as a file `ask` in the working directory, {"nonce": …, "mark": …}, and are answered with a file `answer`. Everything in an answer
is read back from the GPUs: what this process merely remembers would prove nothing.

usage: program.py BYTES_FOR_EACH_GPU [MOST_GPUS]
"""

import ctypes
import hashlib
import json
import os
import sys
import time
import traceback

from cuda.bindings import driver

# `count[0] += 1`, as plain PTX: the driver compiles it, no toolkit is needed.
COUNT = b"""
.version 6.4
.target sm_50
.address_size 64
.visible .entry count(.param .u64 where)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [where];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    add.s32 %r2, %r1, 1;
    st.global.u32 [%rd2], %r2;
    ret;
}
\0"""
SAXPY = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
PIECE = 16 << 20
MARK_WORDS = 4096
PINNED = 1 << 20


def call(function, *arguments):
    """Calls the driver; its error is an exception."""
    code, *rest = function(*arguments)
    if int(code) != 0:
        raise RuntimeError(f"{function.__name__} answered {int(code)} ({code})")
    return rest[0] if len(rest) == 1 else rest


def pattern(index, offset, size):
    """The bytes of GPU `index` from `offset` on; a page is a hash and its number, so that no two pages are alike."""
    pages = []
    for page in range(offset // 4096, (offset + size + 4095) // 4096):
        digest = hashlib.blake2b(f"{index} {page}".encode(), digest_size=32).digest()
        pages.append(digest * 16 + bytes(3584))
    return b"".join(pages)[:size]


class Gpu:
    """The state on one GPU."""

    def __init__(self, index, size):
        self.index, self.size = index, size
        self.device = call(driver.cuDeviceGet, index)
        self.context = call(driver.cuDevicePrimaryCtxRetain, self.device)
        self.enter()
        self.stream = call(driver.cuStreamCreate, 1)
        self.buffer = call(driver.cuMemAlloc, size)
        self.words = call(driver.cuMemAlloc, 4 * (1 + MARK_WORDS))
        call(driver.cuMemsetD32, self.words, 0, 1 + MARK_WORDS)
        for offset in range(0, size, PIECE):
            piece = pattern(index, offset, min(PIECE, size - offset))
            source = ctypes.create_string_buffer(piece, len(piece))
            call(driver.cuMemcpyHtoD, int(self.buffer) + offset, ctypes.addressof(source), len(piece))
        self.ptx = ctypes.create_string_buffer(COUNT, len(COUNT))
        self.module = call(driver.cuModuleLoadData, ctypes.addressof(self.ptx))
        self.kernel = call(driver.cuModuleGetFunction, self.module, b"count")
        self.reserved = self.reserve()
        self.pinned = int(call(driver.cuMemHostAlloc, PINNED, 0))
        ctypes.memmove(self.pinned, pattern(index, 1 << 40, PINNED), PINNED)

    def enter(self):
        call(driver.cuCtxSetCurrent, self.context)

    def reserve(self):
        """Memory by the virtual memory calls, as PyTorch's expandable segments are: address and size, or None."""
        try:
            wish = driver.CUmemAllocationProp()
            wish.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            wish.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            wish.location.id = self.index
            minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
            size = int(call(driver.cuMemGetAllocationGranularity, wish, minimum))
            handle = call(driver.cuMemCreate, size, wish, 0)
            address = call(driver.cuMemAddressReserve, size, 0, 0, 0)
            call(driver.cuMemMap, address, size, 0, handle, 0)
            access = driver.CUmemAccessDesc()
            access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = self.index
            access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            call(driver.cuMemSetAccess, address, size, [access], 1)
            call(driver.cuMemsetD32, address, 0x5EED0000 + self.index, size // 4)
            return int(address), size
        except (RuntimeError, AttributeError, TypeError) as error:
            print(f"no virtual memory calls on GPU {self.index}: {error}", flush=True)
            return None

    def count(self):
        """One round: a kernel on a stream of its own."""
        self.enter()
        arguments = ((int(self.words),), (ctypes.c_void_p,))
        call(driver.cuLaunchKernel, self.kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, arguments, 0)
        call(driver.cuStreamSynchronize, self.stream)

    def mark(self, value):
        self.enter()
        call(driver.cuMemsetD32, int(self.words) + 4, value, MARK_WORDS)
        call(driver.cuCtxSynchronize)

    def read(self, address, size):
        target = ctypes.create_string_buffer(size)
        call(driver.cuMemcpyDtoH, ctypes.addressof(target), address, size)
        return target.raw

    def report(self):
        """All of it, read back."""
        self.enter()
        digest = hashlib.blake2b(digest_size=32)
        for offset in range(0, self.size, PIECE):
            digest.update(self.read(int(self.buffer) + offset, min(PIECE, self.size - offset)))
        words = self.read(int(self.words), 4 * (1 + MARK_WORDS))
        words = [int.from_bytes(words[at : at + 4], "little") for at in range(0, len(words), 4)]
        reserved = None
        if self.reserved:
            address, size = self.reserved
            content = hashlib.blake2b(self.read(address, size), digest_size=32).hexdigest()
            reserved = {"pointer": address, "hash": content}
        pinned = hashlib.blake2b(ctypes.string_at(self.pinned, PINNED), digest_size=32).hexdigest()
        return {
            "pointers": [int(self.buffer), int(self.words)],
            "bytes": self.size,
            "hash": digest.hexdigest(),
            "count": words[0],
            "mark": words[1] if len(set(words[1:])) == 1 else None,
            "reserved": reserved,
            "pinned": {"pointer": self.pinned, "hash": pinned},
        }


class Compiled:
    """CUDA C++ by NVRTC and cuda-core, if they are there."""

    def __init__(self):
        from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

        self.launch, self.config, self.size = launch, LaunchConfig, 1 << 16
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        options = ProgramOptions(arch=f"sm_{self.device.arch}")
        module = Program(SAXPY, code_type="c++", options=options).compile("ptx")
        self.kernel = module.get_kernel("saxpy")
        self.x = self.device.allocate(4 * self.size, stream=self.stream)
        self.y = self.device.allocate(4 * self.size, stream=self.stream)
        self.stream.sync()

    def report(self):
        """Computes y = 2 x + y with the kernel that was compiled at the start, and looks at the result."""
        self.device.set_current()
        ones = (ctypes.c_float * self.size)(*([1.0] * self.size))
        for buffer in (self.x, self.y):
            call(driver.cuMemcpyHtoD, int(buffer.handle), ctypes.addressof(ones), 4 * self.size)
        config = self.config(grid=self.size // 256, block=256)
        arguments = (ctypes.c_float(2.0), int(self.x.handle), int(self.y.handle), ctypes.c_int(self.size))
        self.launch(self.stream, config, self.kernel, *arguments)
        self.stream.sync()
        result = (ctypes.c_float * self.size)()
        call(driver.cuMemcpyDtoH, ctypes.addressof(result), int(self.y.handle), 4 * self.size)
        wrong = sum(1 for value in result if value != 3.0)
        return {"pointers": [int(self.x.handle), int(self.y.handle)], "wrong": wrong}


class Torch:
    """A matrix product by PyTorch, if it is there."""

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        self.torch = torch
        torch.manual_seed(4)
        self.left = torch.randn(512, 512, device="cuda")
        self.right = torch.randn(512, 512, device="cuda")
        self.before = self.digest(self.left @ self.right)

    def digest(self, tensor):
        self.torch.cuda.synchronize()
        return hashlib.blake2b(tensor.cpu().numpy().tobytes(), digest_size=32).hexdigest()

    def report(self):
        """The same product of the same tensors, computed now."""
        now = self.digest(self.left @ self.right)
        return {"pointers": [self.left.data_ptr(), self.right.data_ptr()], "wrong": int(now != self.before), "hash": now}


def optional(kind):
    """An optional part and None, or None and why it is not there."""
    try:
        return kind(), None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported and the rest goes on
        return None, f"{type(error).__name__}: {error}"


def asked():
    """The question in the file; None if there is none that is whole."""
    try:
        with open("ask", encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def answer(content):
    with open("answer.new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace("answer.new", "answer")


def main():
    size, most = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 64
    call(driver.cuInit, 0)
    gpus = [Gpu(index, size) for index in range(min(most, call(driver.cuDeviceGetCount)))]
    compiled, no_compiled = optional(Compiled)
    torch, no_torch = optional(Torch)
    rounds, last = 0, None
    print(f"ready with {len(gpus)} GPUs", flush=True)
    while True:
        for gpu in gpus:
            gpu.count()
        rounds += 1
        question = asked()
        if question and question["nonce"] != last:
            if question.get("mark") is not None:
                for gpu in gpus:
                    gpu.mark(question["mark"])
            last = question["nonce"]
            answer(
                {
                    "nonce": last,
                    "pid": os.getpid(),
                    "rounds": rounds,
                    "gpus": [gpu.report() for gpu in gpus],
                    "compiled": compiled.report() if compiled else None,
                    "torch": torch.report() if torch else None,
                    "absent": {"compiled": no_compiled, "torch": no_torch},
                }
            )
        time.sleep(0.002)


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001 - whoever waits for an answer is told why there will be none
        answer({"nonce": None, "error": traceback.format_exc()})
        raise
