/*
 * A driver's library for tests of the worker: no GPU, no processes, only answers.
 * VERSION is what cuDriverGetVersion says; with STUB it is a stub for the linker. Lock waits until the file $FAKE_GO exists and
 * then creates $FAKE_DONE; the others answer at once.
 *
 * From VERSION 13040 on it has one process with memory on two GPUs, and custom storage: the memory is only there between a
 * checkpoint or restore and its completion, and unlock fails if what came back is not what was taken.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

int cuDriverGetVersion(int *version) {
#ifdef STUB
    return 34;
#else
    *version = VERSION;
    return 0;
#endif
}

#if VERSION >= 12080
static int initialised;

int cuInit(unsigned flags) {
    initialised = 1;
    return flags;
}
int cuGetErrorName(int code, const char **name) {
    if (code != 401) return 1;
    *name = "CUDA_ERROR_ILLEGAL_STATE";
    return 0;
}
int cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
    *tid = pid + 1;
    return 0;
}
#if VERSION < 13040
int cuCheckpointProcessGetState(int pid, int *state) {
    *state = 4;
    return 0;
}
#endif
int cuCheckpointProcessLock(int pid, unsigned *args) {
    const char *go = getenv("FAKE_GO"), *done = getenv("FAKE_DONE");
    int at;
    if (args[0] == 12345)
        while (access(go, F_OK)) usleep(10000);
    for (at = 1; at < 16; at++)
        if (args[at]) return 1;
    close(open(done, O_CREAT | O_WRONLY, 0600));
    return 0;
}
#if VERSION < 13040
int cuCheckpointProcessCheckpoint(int pid, void *args) {
    return args ? 1 : 401;
}
/* 0 for the two pairs of the test, given as the header says, after cuInit; else a number that says what is wrong. */
int cuCheckpointProcessRestore(int pid, unsigned char *args) {
    unsigned char *pairs, expected[64];
    int at;
    if (!initialised) return 3;
    for (at = 12; at < 64; at++)
        if (args[at]) return 1000 + at;
    memcpy(&pairs, args, 8);
    if (!pairs) return args[8] ? 2000 : 2001;
    if (args[8] != 2 || args[9]) return 2002;
    memset(expected, 1, 16), memset(expected + 16, 2, 16), memset(expected + 32, 2, 16), memset(expected + 48, 1, 16);
    return memcmp(pairs, expected, 64) ? 2003 : 0;
}
int cuCheckpointProcessUnlock(int pid, void *args) {
    return 999;
}
#else
#define SIZE ((9 << 20) + 5)
static unsigned char vram[2][SIZE];
static int contexts[2], streams[2], retained[2], state = 1, swapped;
static void *current;
static struct {
    unsigned long long address;
    size_t size;
    void *stream;
} data[2];
static struct {
    void *handle;
    void *data;
    unsigned count;
} info;

static unsigned char byte(int gpu, size_t at) {
    return (at * 13 + gpu * 7 + (at >> 16)) % 251;
}
static int map(void **out, int next) {
    int gpu;
    if (!initialised || !retained[0] || !retained[1]) return 201;
    for (gpu = 0; gpu < 2; gpu++) {
        data[gpu].address = (unsigned long long)vram[gpu];
        data[gpu].size = SIZE;
        data[gpu].stream = &streams[gpu];
    }
    info.handle = &info, info.data = data, info.count = 2;
    *out = &info;
    state = next;
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = 2;
    return 0;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = 10 + ordinal;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, device - 9, 16);
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    retained[device - 10]++;
    *context = &contexts[device - 10];
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    retained[device - 10]--;
    return 0;
}
int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}
int cuStreamGetCtx(void *stream, void **context) {
    *context = &contexts[(int *)stream - streams];
    return 0;
}
static int reachable(unsigned long long address, size_t size) {
    int gpu = address >= (unsigned long long)vram[1];
    unsigned long long start = (unsigned long long)vram[gpu];
    if (state < 4 || current != &contexts[gpu]) return 201;
    return address < start || address + size > start + SIZE ? 1 : 0;
}
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) {
    int code = reachable(from, size);
    if (!code) memcpy(to, (void *)from, size);
    return code;
}
int cuMemcpyHtoD_v2(unsigned long long to, void *from, size_t size) {
    int code = reachable(to, size);
    if (!code) memcpy((void *)to, from, size);
    return code;
}
int cuCheckpointProcessGetState(int pid, int *now) {
    *now = state;
    return 0;
}
int cuCheckpointProcessCheckpoint(int pid, void ***args) {
    int gpu;
    size_t at;
    if (state != 1) return 401;
    for (gpu = 0; gpu < 2; gpu++)
        for (at = 0; at < SIZE; at++) vram[gpu][at] = byte(gpu, at);
    return map(args[0], 4);
}
int cuCheckpointProcessRestore(int pid, void ***args) {
    if (state != 2) return 401;
    swapped = args[0] != 0;
    memset(vram, 0xee, sizeof vram);
    return map(args[2], 5);
}
int cuCheckpointOperationComplete(void *handle) {
    if (handle != &info || state < 4) return 1;
    if (state == 4) memset(vram, 0xee, sizeof vram);
    state = state == 4 ? 2 : 1;
    return 0;
}
int cuCheckpointProcessUnlock(int pid, void *args) {
    int gpu;
    size_t at;
    if (state != 1 || retained[0] || retained[1]) return 401;
    for (gpu = 0; gpu < 2; gpu++)
        for (at = 0; at < SIZE; at++)
            if (vram[gpu][at] != byte(swapped ? !gpu : gpu, at)) return 999;
    state = 0;
    return 0;
}
#endif
#endif
