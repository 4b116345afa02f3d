// Kernels for test_gpu_kernels.py, compiled by NVRTC when the test runs. One entry for each thing that the stand-in's interpreter
// has to get right; `op` picks one of several, so that a module stays one compilation.

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;

extern "C" __global__ void fill_f32(float *x, float value, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, size_t n) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step) out[i] = a * x[i] + y[i];
}

extern "C" __global__ void increment(int *x, int n, int times) {
    for (int round = 0; round < times; ++round)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += 1;
}

extern "C" __global__ void unary_f32(const float *x, float *out, int n, int op) {
    INDEX
    float v = x[i];
    switch (op) {
        case 0: v = expf(v); break;
        case 1: v = sqrtf(fabsf(v)); break;
        case 2: v = tanhf(v); break;
        case 3: v = logf(fabsf(v) + 1.f); break;
        case 4: v = __expf(v); break;
        case 5: v = 1.f / (1.f + expf(-v)); break;
        case 6: v = rsqrtf(fabsf(v) + 1.f); break;
        case 7: v = sinf(v); break;
        case 8: v = floorf(v); break;
        case 9: v = rintf(v); break;
        case 10: v = powf(fabsf(v), 1.5f); break;
        case 11: v = fmaxf(v, 0.f); break;
        case 12: v = v > 0.f ? v : 0.01f * v; break;
        case 13: v = cosf(v * 1000.f); break;
        case 14: v = copysignf(1.f, v); break;
        case 15: v = truncf(v); break;
        case 16: v = ceilf(v); break;
        case 17: v = v / 3.f; break;
        case 18: v = fmodf(v, 0.7f); break;
        case 19: v = atanf(v); break;
        case 20: v = log1pf(fabsf(v)); break;
        case 21: v = fminf(v, 0.5f); break;
        case 22: v = exp2f(v); break;
        case 23: v = sinf(v * 1e6f); break;
    }
    out[i] = v;
}

extern "C" __global__ void unary_f64(const double *x, double *out, int n, int op) {
    INDEX
    double v = x[i];
    switch (op) {
        case 0: v = exp(v); break;
        case 1: v = sqrt(fabs(v)); break;
        case 2: v = tanh(v); break;
        case 3: v = log(fabs(v) + 1.0); break;
        case 4: v = v / 3.0; break;
        case 5: v = fmax(v, 0.5); break;
        case 6: v = floor(v); break;
        case 7: v = sin(v); break;
        case 8: v = 1.0 / v; break;
        case 9: v = rsqrt(fabs(v) + 1.0); break;
        case 10: v = rint(v); break;
        case 11: v = pow(fabs(v), 2.5); break;
        case 12: v = cbrt(v); break;
        case 13: v = cos(v * 1e8); break;
    }
    out[i] = v;
}

extern "C" __global__ void ints(const int *a, const int *b, int *out, int n, int op) {
    INDEX
    int x = a[i], y = b[i], v = 0;
    switch (op) {
        case 0: v = x / y; break;
        case 1: v = x % y; break;
        case 2: v = min(x, y); break;
        case 3: v = max(x, y); break;
        case 4: v = x << (y & 31); break;
        case 5: v = x >> (y & 31); break;
        case 6: v = x & y; break;
        case 7: v = x | y; break;
        case 8: v = x ^ y; break;
        case 9: v = ~x; break;
        case 10: v = __popc(x); break;
        case 11: v = abs(x); break;
        case 12: v = (int)((unsigned)x / (unsigned)y); break;
        case 13: v = (int)((unsigned)x % (unsigned)y); break;
        case 14: v = __mulhi(x, y); break;
        case 15: v = x * y + 7; break;
        case 16: v = x / 7; break;
        case 17: v = x % 10; break;
        case 18: v = -x; break;
        case 19: v = (x && y) || !x; break;
    }
    out[i] = v;
}

extern "C" __global__ void ints64(const long long *a, const long long *b, long long *out, int n, int op) {
    INDEX
    long long x = a[i], y = b[i], v = 0;
    switch (op) {
        case 0: v = x / y; break;
        case 1: v = x % y; break;
        case 2: v = x < y ? x : y; break;
        case 3: v = x * y; break;
        case 4: v = x >> (y & 63); break;
        case 5: v = (long long)((unsigned long long)x / (unsigned long long)y); break;
        case 6: v = llabs(x); break;
    }
    out[i] = v;
}

extern "C" __global__ void convert(const double *x, float *f, int *i32, unsigned *u32, long long *i64, unsigned char *u8, short *i16, int n) {
    INDEX
    f[i] = (float)x[i];
    i32[i] = (int)x[i];
    u32[i] = (unsigned)fabs(x[i]);
    i64[i] = __double2ll_rn(x[i]);
    u8[i] = (unsigned char)(int)x[i];
    i16[i] = (short)(int)x[i];
}

extern "C" __global__ void vectors(const float4 *x, float4 *out, int n) {
    INDEX
    float4 v = x[i];
    v.x += 1; v.y *= 2; v.z -= 3; v.w = -v.w;
    out[i] = v;
}

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
    INDEX
    atomicAdd(&bins[x[i]], 1u);
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

#define TILE 16
extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int tile = 0; tile < (n + TILE - 1) / TILE; ++tile) {
        left[y][x] = row < n && tile * TILE + x < n ? a[row * n + tile * TILE + x] : 0.f;
        right[y][x] = column < n && tile * TILE + y < n ? b[(tile * TILE + y) * n + column] : 0.f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void reduce(const float *x, float *out, int n) {
    extern __shared__ float part[];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    part[t] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, part[0]);
}

extern "C" __global__ void reduce_warps(const int *x, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    for (int step = 16; step > 0; step >>= 1) v += __shfl_down_sync(0xffffffffu, v, step);
    unsigned odd = __ballot_sync(0xffffffffu, x[i] & 1);
    if ((threadIdx.x & 31) == 0) out[i / 32] = v + 1000000 * __popc(odd);
}

__device__ int counter = 5;
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
extern "C" __global__ void globals(float *out) {
    int t = threadIdx.x;
    out[t] = table[t & 3] + counter;
    __syncthreads();
    if (t == 0) counter += 1;
}

struct Several { float a; int b; double c; const float *p; };
extern "C" __global__ void by_value(Several s, float *out, int n) {
    INDEX
    out[i] = s.a * s.p[i] + s.b + (float)s.c;
}

__device__ __noinline__ float polynomial(float x, int k) {
    float sum = 0;
    for (int i = 0; i < k; i++) sum = sum * x + 1.f;
    return sum;
}
extern "C" __global__ void calls(const float *x, float *out, int n) {
    INDEX
    out[i] = polynomial(x[i], i & 7);
}

extern "C" __global__ void local_array(const int *x, int *out, int n) {
    INDEX
    int a[8];
    for (int k = 0; k < 8; k++) a[k] = x[(i + k) % n];
    out[i] = a[x[i] & 7];
}

extern "C" __global__ void out_of_bounds(int *x) { x[1 << 28] = 1; }
extern "C" __global__ void endless(volatile int *x) { while (*x == 0) {} }
