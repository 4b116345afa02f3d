/* A process that does to its memory what it is told: one command a line, one line of answer. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

static volatile long errors, rounds, traps;

static char *map(void *at, unsigned long pages, int flags) {
    char *p = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED) {
        printf("mmap: %s\n", strerror(errno));
        exit(1);
    }
    return p;
}

/* Grows a mapping page by page, which moves it now and then, and begins anew. */
static void *grow(void *unused) {
    for (;;) {
        unsigned long pages = 4;
        char *p = map(NULL, pages, PRIVATE);
        memset(p, 1, pages * PAGE);
        while (pages < 64) {
            char *q = mremap(p, pages * PAGE, (pages + 1) * PAGE, MREMAP_MAYMOVE);
            if (q == MAP_FAILED) {
                errors++;
                break;
            }
            p = q;
            p[pages * PAGE] = 2;
            pages++;
        }
        munmap(p, pages * PAGE);
        rounds++;
    }
    return unused;
}

static void *one_short_life(void *unused) {
    rounds++;
    return unused;
}

/* Is never without a thread that is just being born or ending. */
static void *beget(void *unused) {
    for (;;) {
        pthread_t child;
        if (pthread_create(&child, NULL, one_short_life, NULL) == 0) pthread_join(child, NULL);
    }
    return unused;
}

/* Calls that a careless stop would cut short. */
static void *wait_in_calls(void *unused) {
    int ends[2];
    if (pipe(ends)) exit(1);
    for (;;) {
        struct timespec t = {0, 3000000};
        if (nanosleep(&t, NULL)) errors++;
        if (write(ends[1], "x", 1) != 1) errors++;
        char c;
        if (read(ends[0], &c, 1) != 1) errors++;
        rounds++;
    }
    return unused;
}

static void *wait_in_read(void *unused) {
    int ends[2];
    char c;
    if (pipe(ends)) exit(1);
    for (;;)
        if (read(ends[0], &c, 1) != 1) errors++;
    return unused;
}

static void on_trap(int signal) {
    (void)signal;
    traps++;
}

static void begin(void *(*work)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) exit(1);
}

int main(int count, char **words) {
    (void)count;
    char line[256], name[32];
    setvbuf(stdout, NULL, _IOLBF, 4096);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        unsigned long a = 0, b = 0, c = 0, d = 0;
        sscanf(line, "%31s %lx %lx %lx %lx", name, &a, &b, &c, &d);
        if (!strcmp(name, "map")) {
            printf("%lx\n", (unsigned long)map(NULL, a, PRIVATE));
        } else if (!strcmp(name, "map-at")) {
            printf("%lx\n", (unsigned long)map((void *)a, b, PRIVATE | MAP_FIXED));
        } else if (!strcmp(name, "map-file")) { /* its own program, privately */
            int f = open("/proc/self/exe", O_RDONLY);
            char *p = mmap(NULL, a * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0);
            close(f);
            printf("%lx\n", (unsigned long)p);
        } else if (!strcmp(name, "fill")) { /* address, pages, every so many-th, byte */
            for (unsigned long p = 0; p < b; p += c) memset((char *)a + p * PAGE, (int)d, PAGE);
            puts("done");
        } else if (!strcmp(name, "move")) { /* address, pages, to */
            void *q = mremap((void *)a, b * PAGE, b * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)c);
            puts(q == (void *)c ? "done" : strerror(errno));
        } else if (!strcmp(name, "protect")) {
            puts(mprotect((void *)a, b * PAGE, (int)c) ? strerror(errno) : "done");
        } else if (!strcmp(name, "drop")) {
            puts(madvise((void *)a, b * PAGE, MADV_DONTNEED) ? strerror(errno) : "done");
        } else if (!strcmp(name, "read-file")) { /* address, pages: by the kernel, not by us */
            int f = open("/dev/zero", O_RDONLY);
            puts(read(f, (void *)a, b * PAGE) == (long)(b * PAGE) ? "done" : strerror(errno));
            close(f);
        } else if (!strcmp(name, "grow")) {
            begin(grow);
            puts("done");
        } else if (!strcmp(name, "beget")) {
            begin(beget);
            puts("done");
        } else if (!strcmp(name, "wait")) {
            begin(wait_in_calls);
            begin(wait_in_read);
            puts("done");
        } else if (!strcmp(name, "rounds")) {
            printf("%lx\n", (unsigned long)rounds);
        } else if (!strcmp(name, "errors")) {
            printf("%lx\n", (unsigned long)errors);
        } else if (!strcmp(name, "catch-trap")) {
            signal(SIGTRAP, on_trap);
            puts("done");
        } else if (!strcmp(name, "trap")) {
            raise(SIGTRAP);
            printf("%lx\n", (unsigned long)traps);
        } else if (!strcmp(name, "ignore-trap")) {
            signal(SIGTRAP, SIG_IGN);
            puts("done");
        } else if (!strcmp(name, "fork")) {
            pid_t child = fork();
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) pause();
            }
            printf("%lx\n", (unsigned long)child);
        } else if (!strcmp(name, "exec")) {
            execv("/proc/self/exe", words);
            puts(strerror(errno));
        } else if (!strcmp(name, "filter")) {
            fflush(stdout);
            puts(prctl(PR_SET_SECCOMP, 1) ? strerror(errno) : "done");
        } else {
            puts("what?");
        }
        fflush(stdout);
    }
    return 0;
}
