"""Cells that work on the GPU through NVIDIA's own bindings, as a notebook would."""

# A buffer of MIB MiB on the GPU with a pattern that can be checked, and a model of four weights that is trained by least squares.
SETUP = r'''
import time, warnings
import numpy
warnings.simplefilter('ignore')  # the compiler is newer than the stand-in's driver
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

def call(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]

SOURCE = """
extern "C" __global__ void step(float *w, const float *x, const float *y, int n, float rate) {
    int k = threadIdx.x;
    float gradient = 0.0f;
    for (int i = 0; i < n; i++) {
        float guess = 0.0f;
        for (int j = 0; j < 4; j++) guess += w[j] * x[4 * i + j];
        gradient += (guess - y[i]) * x[4 * i + k];
    }
    __syncthreads();
    w[k] -= rate * gradient / n;
}
"""
device = Device(0)
device.set_current()
stream = device.create_stream()
step = Program(SOURCE, code_type="c++", options=ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx").get_kernel("step")

def upload(array):
    buffer = int(call(driver.cuMemAlloc(array.nbytes)))
    call(driver.cuMemcpyHtoD(buffer, array.ctypes.data, array.nbytes))
    return buffer

def download(buffer, count, kind):
    array = numpy.empty(count, dtype=kind)
    call(driver.cuMemcpyDtoH(array.ctypes.data, buffer, array.nbytes))
    return array

noise = numpy.random.default_rng(SEED)
truth = numpy.array([1.0, -2.0, 0.5, SEED], dtype=numpy.float32)
inputs = noise.standard_normal((16, 4), dtype=numpy.float32)
x, y, w = upload(inputs), upload(inputs @ truth), upload(numpy.zeros(4, dtype=numpy.float32))
size = MIB << 20
data = int(call(driver.cuMemAlloc(size)))
call(driver.cuMemsetD32(data, 0x1000 + SEED, size // 4))
epoch = 0

def train(epochs, pause=0.0):
    global epoch
    for _ in range(epochs):
        launch(stream, LaunchConfig(grid=1, block=4), step, w, x, y, numpy.int32(16), numpy.float32(0.1))
        stream.sync()
        epoch += 1
        if epoch % 10 == 0:
            with open("loss.csv", "a") as log:
                print(epoch, loss(), sep=",", file=log)
        time.sleep(pause)

def loss():
    return round(float(numpy.abs(download(w, 4, numpy.float32) - truth).max()), 4)

def whole():
    "Whether the big buffer is as it was."
    return bool((download(data, size // 4, numpy.uint32) == 0x1000 + SEED).all())
print("on the GPU:", size >> 20, "MiB")
'''


def setup(mib: int, seed: int = 1) -> str:
    """The first cell of a notebook with this much on the GPU."""
    return f"MIB, SEED = {mib}, {seed}\n{SETUP}"
