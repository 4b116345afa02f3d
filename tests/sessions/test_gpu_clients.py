"""Public clients of NVIDIA's libraries, unmodified and pinned (requirements-gpu.txt), on the stand-in.

They are what keeps it honest: nobody here wrote them, and on a machine with a GPU the same programs run on the GPU.
"""

import json
import os
import subprocess

import pytest

from harness import gpu as standin
from harness import proc
from harness.gpu_clients import PYTHON, Client, run
from harness.needs import cannot_run

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def machine(module_make_gpu):
    """Two GPUs for all tests that change nothing about them."""
    return module_make_gpu()


@pytest.fixture(autouse=True, scope="module")
def needs():
    missing = standin.missing()
    if not os.access(PYTHON, os.X_OK):
        missing.append(f"{PYTHON} (scripts/gpu-python.sh)")
    if missing:
        cannot_run("needs " + ", ".join(missing))


BINDINGS = """
import hashlib
import numpy
from cuda.bindings import driver

call(driver.cuInit(0))
count = call(driver.cuDeviceGetCount())
said = {"version": call(driver.cuDriverGetVersion()), "count": count, "uuids": [], "names": []}
contexts = []
for index in range(count):
    device = call(driver.cuDeviceGet(index))
    said["uuids"].append(bytes(call(driver.cuDeviceGetUuid(device)).bytes).hex())
    said["names"].append(call(driver.cuDeviceGetName(64, device)).split(b"\\0")[0].decode())
    contexts.append(call(driver.cuDevicePrimaryCtxRetain(device)))
call(driver.cuCtxSetCurrent(contexts[0]))
data = numpy.random.default_rng(7).integers(0, 256, 3 << 20, dtype=numpy.uint8)
buffer, copy = call(driver.cuMemAlloc(data.nbytes)), call(driver.cuMemAlloc(data.nbytes))
free, total = call(driver.cuMemGetInfo())
said["used"] = total - free
call(driver.cuMemcpyHtoD(buffer, data.ctypes.data, data.nbytes))
stream = call(driver.cuStreamCreate(0))
start, end = call(driver.cuEventCreate(0)), call(driver.cuEventCreate(0))
call(driver.cuEventRecord(start, stream))
call(driver.cuMemcpyDtoDAsync(copy, buffer, data.nbytes, stream))
call(driver.cuEventRecord(end, stream))
call(driver.cuStreamSynchronize(stream))
said["elapsed"] = call(driver.cuEventElapsedTime(start, end))
back = numpy.zeros_like(data)
call(driver.cuMemcpyDtoH(back.ctypes.data, copy, data.nbytes))
said["same"] = bool((back == data).all())
call(driver.cuMemsetD8(copy, 0x5A, 1000))
call(driver.cuMemcpyDtoH(back.ctypes.data, copy, 1001))
said["set"] = bool((back[:1000] == 0x5A).all() and back[1000] == data[1000])
call(driver.cuMemFree(buffer))
call(driver.cuMemFree(copy))
refused, = driver.cuMemFree(buffer)
said["freed twice"] = int(refused)
said["too much"] = int(driver.cuMemAlloc(1 << 50)[0])
say(**said)
"""


def test_cuda_bindings(machine):
    said = run(machine, BINDINGS)
    assert said["version"] == 13000
    assert said["count"] == 2
    assert said["uuids"] == [uuid.removeprefix("GPU-").replace("-", "") for uuid in machine.uuids()]
    assert said["names"] == ["NVIDIA H100 80GB HBM3"] * 2
    assert said["used"] >= 6 << 20
    assert said["same"]
    assert said["set"]
    assert said["elapsed"] >= 0
    assert said["freed twice"] == 1
    assert said["too much"] == 2


VMM = """
import numpy
from cuda.bindings import driver

call(driver.cuInit(0))
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
prop = driver.CUmemAllocationProp()
prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
prop.location.id = 0
grain = call(driver.cuMemGetAllocationGranularity(prop, driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
size = 2 * grain
address = call(driver.cuMemAddressReserve(size, 0, 0, 0))
first, second = call(driver.cuMemCreate(grain, prop, 0)), call(driver.cuMemCreate(grain, prop, 0))
call(driver.cuMemMap(address, grain, 0, first, 0))
call(driver.cuMemMap(int(address) + grain, grain, 0, second, 0))
access = driver.CUmemAccessDesc()
access.location = prop.location
access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
call(driver.cuMemSetAccess(address, size, [access], 1))
data = numpy.arange(size // 4, dtype=numpy.int32)
call(driver.cuMemcpyHtoD(address, data.ctypes.data, size))
# The two halves change places: what was written goes with the physical memory.
call(driver.cuMemUnmap(address, size))
call(driver.cuMemMap(address, grain, 0, second, 0))
call(driver.cuMemMap(int(address) + grain, grain, 0, first, 0))
call(driver.cuMemSetAccess(address, size, [access], 1))
back = numpy.zeros_like(data)
call(driver.cuMemcpyDtoH(back.ctypes.data, address, size))
half = len(data) // 2
swapped = bool((back[:half] == data[half:]).all() and (back[half:] == data[:half]).all())
call(driver.cuMemUnmap(address, size))
for handle in (first, second):
    call(driver.cuMemRelease(handle))
call(driver.cuMemAddressFree(address, size))
say(swapped=swapped)
"""


def test_cuda_bindings_maps_memory_itself(machine):
    assert run(machine, VMM)["swapped"]


# CUDA C++, compiled by NVIDIA's own NVRTC to PTX, launched by cuda-core.
CORE = r"""
import numpy
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r'''
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, size_t n) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) out[i] = a * x[i] + y[i];
}
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
'''
device = Device(int(sys.argv[1]))
device.set_current()
stream = device.create_stream()
module = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}")).compile("ptx")
saxpy, matmul = module.get_kernel("saxpy"), module.get_kernel("matmul")

def upload(array):
    buffer = device.allocate(array.nbytes, stream=stream)
    call(driver.cuMemcpyHtoDAsync(int(buffer.handle), array.ctypes.data, array.nbytes, int(stream.handle)))
    return buffer

def download(buffer, like):
    stream.sync()
    array = numpy.empty_like(like)
    call(driver.cuMemcpyDtoH(array.ctypes.data, int(buffer.handle), array.nbytes))
    return array

random = numpy.random.default_rng(1)
x, y = random.random(10_000, dtype=numpy.float32), random.random(10_000, dtype=numpy.float32)
out = upload(numpy.zeros_like(x))
dx, dy = upload(x), upload(y)
launch(stream, LaunchConfig(grid=8, block=128), saxpy, numpy.float32(2.5), dx, dy, out, numpy.uint64(x.size))
sum_right = bool(numpy.allclose(download(out, x), 2.5 * x + y))

n = 24
a, b = random.random((n, n), dtype=numpy.float32), random.random((n, n), dtype=numpy.float32)
da, db, dc = upload(a), upload(b), upload(numpy.zeros_like(a))
launch(stream, LaunchConfig(grid=(2, 2), block=(16, 16)), matmul, da, db, dc, numpy.int32(n))
product_right = bool(numpy.allclose(download(dc, a), a @ b, rtol=1e-4))
for buffer in (out, dx, dy, da, db, dc):
    buffer.close()
stream.close()
say(name=device.name, sum=sum_right, product=product_right)
"""


@pytest.mark.parametrize("index", [0, 1])
def test_cuda_core_compiles_and_launches(machine, index):
    assert run(machine, CORE, index) == {"name": "NVIDIA H100 80GB HBM3", "sum": True, "product": True}


NUMBA = """
import numpy
from numba import cuda

stream = cuda.stream()
pinned = cuda.pinned_array(100_000, dtype=numpy.float64)
pinned[:] = numpy.arange(100_000)
first = cuda.to_device(pinned, stream=stream)
second = cuda.device_array_like(first)
second.copy_to_device(first, stream=stream)
part = second[10:20]
back = cuda.pinned_array_like(pinned)
second.copy_to_host(back, stream=stream)
stream.synchronize()
whole, slice_ = bool((back == pinned).all()), part.copy_to_host().tolist()
with cuda.gpus[1]:
    other = cuda.to_device(numpy.ones(1000, dtype=numpy.int32))
    elsewhere = int(other.copy_to_host().sum())
free, total = cuda.current_context().get_memory_info()
say(whole=whole, slice=slice_, elsewhere=elsewhere, names=[gpu.name.decode() if isinstance(gpu.name, bytes) else gpu.name for gpu in cuda.gpus],
    used=total - free)
"""


def test_numba_arrays_streams_and_pinned_memory(machine):
    said = run(machine, NUMBA)
    assert said["whole"]
    assert said["slice"] == list(range(10, 20))
    assert said["elsewhere"] == 1000
    assert said["names"] == ["NVIDIA H100 80GB HBM3"] * 2
    assert said["used"] >= 2 * 800_000


# Holds a pattern on both GPUs and says its hash and its pointers when asked.
HOLDER = """
import hashlib, os
import numpy
from cuda.bindings import driver

SIZE = 8 << 20
call(driver.cuInit(0))
contexts, buffers = [], []
for index in range(2):
    contexts.append(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(index)))))
    call(driver.cuCtxSetCurrent(contexts[-1]))
    buffers.append(int(call(driver.cuMemAlloc(SIZE))))
    data = numpy.random.default_rng(index).integers(0, 256, SIZE, dtype=numpy.uint8)
    call(driver.cuMemcpyHtoD(buffers[-1], data.ctypes.data, SIZE))

def look():
    digest = hashlib.sha256()
    for context, buffer in zip(contexts, buffers):
        call(driver.cuCtxSetCurrent(context))
        data = numpy.zeros(SIZE, dtype=numpy.uint8)
        call(driver.cuMemcpyDtoH(data.ctypes.data, buffer, SIZE))
        digest.update(data)
    return {"buffers": buffers, "hash": digest.hexdigest()}

while True:
    say(**look())
    if heard() == "end":
        break
"""

# NVIDIA's own client of the checkpoint calls, driven by us word by word.
CHECKPOINT = """
from cuda.core import checkpoint

process = checkpoint.Process(int(sys.argv[1]))
say(ready=True)
while True:
    word = heard()
    if not word:
        break
    try:
        if word == "state":
            say(state=process.state, thread=process.restore_thread_id)
        elif word == "restore swapped":
            from cuda.core import Device
            first, second = Device(0).uuid, Device(1).uuid
            process.restore({first: second, second: first})
            say(done=word)
        elif word == "lock":
            process.lock(5000)
            say(done=word)
        else:
            getattr(process, word)()
            say(done=word)
    except Exception as error:
        say(refused=str(error))
"""


def test_cuda_core_checkpoints_another_process(gpu):
    with Client(gpu, HOLDER) as holder, Client(gpu, CHECKPOINT, holder.pid) as tool:
        before = holder.hear()
        tool.hear()
        assert gpu.bytes_held() == 16 << 20
        said = tool.ask("state")
        assert said["state"] == "running"
        assert os.path.exists(f"/proc/{holder.pid}/task/{said['thread']}")
        assert "ILLEGAL_STATE" in tool.ask("checkpoint")["refused"]

        assert tool.ask("lock") == {"done": "lock"}
        assert tool.ask("state")["state"] == "locked"
        assert tool.ask("checkpoint") == {"done": "checkpoint"}
        assert tool.ask("state")["state"] == "checkpointed"
        assert gpu.bytes_held() == 0
        assert device_files(holder.pid) == []
        # Its next call waits; it is neither lost nor refused.
        holder.tell()
        assert tool.ask("restore") == {"done": "restore"}
        assert tool.ask("state")["state"] == "locked"
        assert gpu.bytes_held() == 16 << 20
        assert tool.ask("unlock") == {"done": "unlock"}
        assert tool.ask("state")["state"] == "running"
        assert holder.hear() == before
        assert holder.ask() == before


def test_cuda_core_restores_onto_other_gpus(gpu):
    with Client(gpu, HOLDER) as holder, Client(gpu, CHECKPOINT, holder.pid) as tool:
        before = holder.hear()
        tool.hear()
        for word in ("lock", "checkpoint", "restore swapped", "unlock"):
            assert tool.ask(word) == {"done": word}
        assert holder.ask() == before
        assert sorted(gpu.status()["processes"][0]["gpus"]) == sorted(gpu.uuids())


def test_an_older_driver_has_no_checkpoint_calls(make_gpu):
    older = make_gpu(level=555)
    with Client(older, HOLDER) as holder, Client(older, CHECKPOINT, holder.pid) as tool:
        holder.hear()
        tool.hear()
        assert "not supported by the installed NVIDIA driver" in tool.ask("lock")["refused"]
        holder.ask()


ML = """
import os, pynvml as n

n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
first = handles[0]
pci, memory = n.nvmlDeviceGetPciInfo(first), n.nvmlDeviceGetMemoryInfo(first)
second = n.nvmlDeviceGetMemoryInfo(first, version=n.nvmlMemory_v2)

def refused(question, *words):
    try:
        question(*words)
    except n.NVMLError as error:
        return error.value

say(
    driver=n.nvmlSystemGetDriverVersion(),
    cuda=n.nvmlSystemGetCudaDriverVersion(),
    nvml=n.nvmlSystemGetNVMLVersion(),
    uuids=[n.nvmlDeviceGetUUID(handle) for handle in handles],
    by_uuid=n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(handles[1]))),
    by_bus=n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(handles[1]).busId)),
    name=n.nvmlDeviceGetName(first),
    minors=[n.nvmlDeviceGetMinorNumber(handle) for handle in handles],
    pci=[hex(pci.pciDeviceId), pci.bus, pci.busId],
    capability=n.nvmlDeviceGetCudaComputeCapability(first),
    memory=[memory.total, memory.used, memory.free],
    second=[second.total, second.used, second.free],
    processes=[[[process.pid, process.usedGpuMemory] for process in n.nvmlDeviceGetComputeRunningProcesses(handle)] for handle in handles],
    graphics=n.nvmlDeviceGetGraphicsRunningProcesses(first),
    mps=[process.pid for process in n.nvmlDeviceGetMPSComputeRunningProcesses(first)],
    mig=n.nvmlDeviceGetMigMode(first),
    persistence=n.nvmlDeviceGetPersistenceMode(first),
    compute=n.nvmlDeviceGetComputeMode(first),
    temperature=n.nvmlDeviceGetTemperature(first, n.NVML_TEMPERATURE_GPU),
    utilisation=n.nvmlDeviceGetUtilizationRates(first).gpu,
    clock=n.nvmlDeviceGetClockInfo(first, n.NVML_CLOCK_SM),
    power=n.nvmlDeviceGetPowerUsage(first),
    confidential=n.nvmlSystemGetConfComputeState().ccFeature,
    fan=refused(n.nvmlDeviceGetFanSpeed, first),
    ecc=refused(n.nvmlDeviceGetEccMode, first),
    link=refused(n.nvmlDeviceGetNvLinkState, first, 0),
    events=refused(n.nvmlEventSetCreate),
    nowhere=refused(n.nvmlDeviceGetHandleByIndex, 99),
    nobody=refused(n.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000"),
)
n.nvmlShutdown()
assert refused(n.nvmlDeviceGetCount) == n.NVML_ERROR_UNINITIALIZED
assert not [fd for fd in os.listdir("/proc/self/fd") if "nvidia" in (os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}") or "")]
"""


def test_nvidia_ml_py(gpu):
    with Client(gpu, HOLDER) as holder:
        holder.hear()
        said = run(gpu, ML)
    size = 4 << 30
    assert said["driver"] == "580.95.05"
    assert said["cuda"] == 13000
    assert said["nvml"] == "13.580.95.05"
    assert said["uuids"] == gpu.uuids()
    assert (said["by_uuid"], said["by_bus"]) == (1, 1)
    assert said["name"] == "NVIDIA H100 80GB HBM3"
    assert said["minors"] == [0, 1]
    assert said["pci"] == ["0x233010de", 0x17, "00000000:17:00.0"]
    assert said["capability"] == [9, 0]
    total, used, free = said["memory"]
    assert (total, used + free) == (size, size)
    assert used >= 8 << 20
    assert said["second"] == said["memory"]
    assert said["processes"] == [[[holder.pid, 8 << 20]], [[holder.pid, 8 << 20]]]
    assert said["graphics"] == said["mps"] == []
    assert said["mig"] == [0, 0]
    assert (said["persistence"], said["compute"], said["confidential"]) == (1, 0, 0)
    assert said["utilisation"] in range(101)
    assert min(said["temperature"], said["clock"], said["power"]) > 0
    assert [said[key] for key in ("fan", "ecc", "link", "events")] == [3, 3, 3, 3]
    assert (said["nowhere"], said["nobody"]) == (2, 6)


MODES = """
import pynvml as n

n.nvmlInit()
first, second = (n.nvmlDeviceGetHandleByIndex(index) for index in range(2))
instances = [n.nvmlDeviceGetMigDeviceHandleByIndex(first, number) for number in range(2)]
remote = n.nvmlDeviceGetNvLinkRemotePciInfo(first, 0).busId
say(
    mig=n.nvmlDeviceGetMigMode(first),
    instances=[n.nvmlDeviceGetUUID(instance)[:4] for instance in instances],
    are=[n.nvmlDeviceIsMigDeviceHandle(handle).value for handle in (first, *instances)],
    parent=n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instances[1])),
    persistence=[n.nvmlDeviceGetPersistenceMode(handle) for handle in (first, second)],
    links=[n.nvmlDeviceGetNvLinkState(first, link) for link in range(3)],
    remote=(remote.decode() if isinstance(remote, bytes) else remote) == n.nvmlDeviceGetPciInfo(second).busId,
    plain=[process.pid for process in n.nvmlDeviceGetComputeRunningProcesses(first)],
    mps=[process.pid for process in n.nvmlDeviceGetMPSComputeRunningProcesses(first)],
    confidential=n.nvmlSystemGetConfComputeState().ccFeature,
)
"""


def test_what_nvml_is_told_to_say(gpu):
    gpu.nvml(mig={"0": 2}, persistence={"1": False}, nvlink=True, mps=True, confidential=True, zero_byte_pids=[1])
    with Client(gpu, HOLDER) as holder:
        holder.hear()
        said = run(gpu, MODES)
    assert said["mig"] == [1, 1]
    assert said["instances"] == ["MIG-", "MIG-"]
    assert said["are"] == [0, 1, 1]
    assert said["parent"] == 0
    assert said["persistence"] == [1, 0]
    assert said["links"] == [1, 0, 0]
    assert said["remote"]
    # Somebody who holds nothing is listed, as real drivers do.
    assert said["plain"] == [1]
    assert said["mps"] == [holder.pid]
    assert said["confidential"] == 1


LOST = """
import pynvml as n

n.nvmlInit()
answers = []
for index in range(n.nvmlDeviceGetCount()):
    try:
        answers.append(n.nvmlDeviceGetMinorNumber(n.nvmlDeviceGetHandleByIndex(index)))
    except n.NVMLError_GpuIsLost as error:
        answers.append(str(error))
say(answers=answers)
"""


def test_a_lost_gpu(gpu):
    gpu.lose(0)
    assert run(gpu, LOST)["answers"] == ["GPU is lost", 1]


def test_gpustat(gpu):
    with Client(gpu, HOLDER) as holder:
        holder.hear()
        command = [PYTHON, "-m", "gpustat", "--json"]
        done = subprocess.run(command, env={**os.environ, **gpu.env()}, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["driver_version"] == "580.95.05"
        assert [entry["uuid"] for entry in said["gpus"]] == gpu.uuids()
        for entry in said["gpus"]:
            assert entry["name"] == "NVIDIA H100 80GB HBM3"
            assert entry["memory.total"] == 4096
            assert [(process["pid"], process["gpu_memory_usage"]) for process in entry["processes"]] == [(holder.pid, 8)]


def test_no_driver_and_no_nodes(gpu):
    program = """
import pynvml as n
from cuda.bindings import driver
try:
    n.nvmlInit()
except n.NVMLError as error:
    say(nvml=error.value, cuda=int(driver.cuInit(0)[0]))
"""
    gpu.stop()
    assert run(gpu, program) == {"nvml": 9, "cuda": 100}


# A process at work on the stand-in: the quiesce package waits for its streams.
RESTING = """
import sys
sys.path.insert(0, sys.argv[1])
import infinijup
import numpy
from cuda.bindings import driver
from cuda.core import Device
from numba import cuda

device = Device(1)
device.set_current()
stream = device.create_stream()
buffer = device.allocate(1 << 20, stream=stream)
cuda.select_device(0)
array = cuda.to_device(numpy.arange(1000), stream=cuda.stream())
device.set_current()
order = []
infinijup.on_quiesce(lambda: order.append("rests"))
infinijup.on_resume(lambda: order.append("works"))
before = int(call(driver.cuCtxGetCurrent()))
with infinijup.quiesced() as waited:
    order.append("inside")
say(waited=waited, order=order, unchanged=int(call(driver.cuCtxGetCurrent())) == before, array=int(array.copy_to_host().sum()))
"""


def test_the_quiesce_package_waits_for_numba_and_cuda_core(machine):
    package = os.path.join(os.path.dirname(__file__), "../../python/infinijup")
    said = run(machine, RESTING, os.path.abspath(package))
    assert said == {"waited": ["numba", "cuda.core"], "order": ["rests", "inside", "works"], "unchanged": True, "array": 499500}


def test_two_machines_at_a_time(make_gpu):
    first, second = make_gpu(gpus=1), make_gpu(gpus=2)
    assert not set(first.uuids()) & set(second.uuids())
    with Client(second, HOLDER) as holder:
        holder.hear()
        assert (first.bytes_held(), second.bytes_held()) == (0, 16 << 20)
    proc.until("memory of a process that ended is free", lambda: second.bytes_held() == 0)


def device_files(pid):
    """Device files that a process has open."""
    names = [proc.link(pid, f"fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    return sorted(name for name in names if name.startswith("/dev/nvidia"))
