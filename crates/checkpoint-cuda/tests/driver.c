/*
 * A driver's library for tests of the worker: no GPU, no processes, only answers.
 * VERSION is what cuDriverGetVersion says; with STUB it is a stub for the linker. Lock waits until the file $FAKE_GO exists and
 * then creates $FAKE_DONE; the others answer at once.
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
int cuCheckpointProcessGetState(int pid, int *state) {
    *state = 4;
    return 0;
}
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
#endif
