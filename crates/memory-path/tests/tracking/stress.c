/* Does to memory whatever a program can do, as fast as it can, from several threads, until it is killed.
 *
 * What it writes does not matter, only that it is never the same twice: whoever follows it compares its pages with copies of them.
 * Each thread has mappings of its own, so that no thread unmaps what another one writes to. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define SLOTS 64ul
#define THREADS 3

static const char *file_name;
/* A move that fails may have given up its destination, and parts of its source; what another thread maps then may lie there, and must not be
 * unmapped with it. So moves are alone, and everything else that maps something is beside no move. */
static pthread_rwlock_t mapping = PTHREAD_RWLOCK_INITIALIZER;
static volatile unsigned long operations[THREADS];

struct state {
    uint64_t random;
    struct { char *p; unsigned long pages; int grows; } slot[SLOTS];
    char *heap[64];
    int direct, plain;
};

static uint64_t next(struct state *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(9);
}

static void fill(struct state *s, char *p, unsigned long pages) {
    unsigned long count = next(s) % 3 ? 1 + next(s) % 8 : 64;
    while (count--) {
        uint64_t *word = (uint64_t *)(p + next(s) % pages * PAGE + next(s) % 512 * 8);
        *word = next(s);
    }
}

static void fresh(struct state *s, int i) {
    static const unsigned long sizes[] = {1, 3, 17, 130, 600};
    unsigned long pages = sizes[next(s) % 5];
    int sort = next(s) % 8;
    char *p;
    if (sort == 0) {
        p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->plain, 0);
    } else if (sort == 1) {
        p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    } else {
        p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED && next(s) % 4 == 0) madvise(p, pages * PAGE, MADV_HUGEPAGE);
    }
    if (p == MAP_FAILED) die("mmap");
    s->slot[i].p = p;
    s->slot[i].pages = pages;
    s->slot[i].grows = sort > 1; /* behind the end of a file there is nothing */
    /* Some are filled for good, so that there is much to be kept; the others have holes. */
    if (sort > 1 && next(s) % 2)
        for (unsigned long page = 0; page < pages; page++) *(uint64_t *)(p + page * PAGE) = next(s);
    fill(s, p, pages);
}

static void give_back(struct state *s, int i) {
    if (munmap(s->slot[i].p, s->slot[i].pages * PAGE)) die("munmap");
    s->slot[i].p = NULL;
}

/* Advice of every kind. What concerns a mapping is said of all of it, as it would be cut in pieces otherwise; what concerns pages is said of
 * some: throw them away, fetch, merge or move them. Which kinds the kernel knows is its business. */
static const int for_mappings[] = {0 /* NORMAL */, 1, 2, 10 /* DONTFORK */, 11, 12 /* MERGEABLE */, 13, 14 /* HUGEPAGE */, 15,
                                   16 /* DONTDUMP */, 17, 18 /* WIPEONFORK */, 19};
static const int for_pages[] = {3 /* WILLNEED */, 4 /* DONTNEED */, 4, 8 /* FREE */, 20 /* COLD */, 21 /* PAGEOUT */, 22 /* POPULATE_READ */,
                                23 /* POPULATE_WRITE */, 24 /* DONTNEED_LOCKED */, 25 /* COLLAPSE */};

static void advise(struct state *s, int i) {
    unsigned long first = next(s) % s->slot[i].pages, pages = 1 + next(s) % (s->slot[i].pages - first);
    if (next(s) % 3 == 0) madvise(s->slot[i].p, s->slot[i].pages * PAGE, for_mappings[next(s) % 13]);
    else madvise(s->slot[i].p + first * PAGE, pages * PAGE, for_pages[next(s) % 10]);
}

/* A guard page for a moment: touching one kills, so nobody may while it is there. Not in shared memory, of which CRIU reads every page. */
static void guard(struct state *s, int i) {
    if (!s->slot[i].grows) return;
    char *p = s->slot[i].p + next(s) % s->slot[i].pages * PAGE;
    if (madvise(p, PAGE, 102) == 0) {
        usleep(50);
        if (madvise(p, PAGE, 103)) die("guard");
    }
}

static void resize(struct state *s, int i) {
    unsigned long pages = s->slot[i].pages, wanted = 1 + pages / 2;
    if (s->slot[i].grows && next(s) % 2) wanted = pages + 1 + next(s) % 60;
    char *q = mremap(s->slot[i].p, pages * PAGE, wanted * PAGE, MREMAP_MAYMOVE);
    if (q == MAP_FAILED) return; /* It is two mappings: one half was moved, or is followed and the other is not yet. */
    s->slot[i].p = q;
    s->slot[i].pages = wanted;
}

/* To where something else was, beside something else, so that mappings merge. */
static void move(struct state *s, int i) {
    unsigned long bytes = s->slot[i].pages * PAGE;
    char *to = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (to == MAP_FAILED) die("mmap");
    char *q = mremap(s->slot[i].p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (q == MAP_FAILED) {
        /* It is several mappings, and some may have been moved. */
        munmap(to, bytes);
        give_back(s, i);
    } else s->slot[i].p = q;
}

/* The second half away and back: it loses and finds its neighbour. Its place is kept, or another thread would take it. */
static void there_and_back(struct state *s, int i) {
    unsigned long half = s->slot[i].pages / 2;
    if (half == 0 || !s->slot[i].grows) return;
    char *second = s->slot[i].p + (s->slot[i].pages - half) * PAGE;
    char *to = mmap(NULL, half * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (to == MAP_FAILED) die("mmap");
    if (mremap(second, half * PAGE, half * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == MAP_FAILED) {
        munmap(to, half * PAGE);
        give_back(s, i);
        return;
    }
    fill(s, to, half);
    if (mremap(to, half * PAGE, half * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, second) == MAP_FAILED) {
        munmap(to, half * PAGE);
        give_back(s, i);
        return;
    }
    fill(s, s->slot[i].p, s->slot[i].pages);
}

/* Written by the kernel: through the cache, around it, from a pipe. */
static void by_the_kernel(struct state *s, int i) {
    unsigned long first = next(s) % s->slot[i].pages;
    char *p = s->slot[i].p + first * PAGE;
    int f = next(s) % 2 ? s->direct : s->plain;
    if (f >= 0 && pread(f, p, PAGE, (long)(next(s) % 64 * PAGE)) < 0 && errno != EINVAL && errno != EFAULT) die("pread");
    int ends[2];
    if (pipe(ends)) return;
    if (write(ends[1], &s->random, 8) == 8 && read(ends[0], p + 80, 8) != 8) die("read");
    close(ends[0]);
    close(ends[1]);
}

static void protect(struct state *s, int i) {
    static const int kinds[] = {PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC};
    unsigned long first = next(s) % s->slot[i].pages, pages = s->slot[i].pages - first;
    if (mprotect(s->slot[i].p + first * PAGE, pages * PAGE, kinds[next(s) % 3])) die("mprotect");
    if (next(s) % 2) usleep(100);
    if (mprotect(s->slot[i].p + first * PAGE, pages * PAGE, PROT_READ | PROT_WRITE)) die("mprotect back");
}

static void heap(struct state *s) {
    int i = next(s) % 64;
    unsigned long size = 16ul << next(s) % 12;
    free(s->heap[i]);
    s->heap[i] = malloc(size);
    if (s->heap[i]) memset(s->heap[i], (int)next(s), size);
}

static void child(struct state *s) {
    pid_t pid = fork();
    if (pid < 0) return;
    if (pid == 0) {
        for (unsigned long i = 0; i < SLOTS; i++)
            if (s->slot[i].p) break;
        _exit(0);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}

static void *short_life(void *unused) {
    volatile char stack[3 * PAGE];
    for (unsigned long i = 0; i < sizeof stack; i += PAGE) stack[i] = (char)i;
    return unused;
}

static void operate(struct state *s, int i, int what) {
    if (!s->slot[i].p) fresh(s, i);
    else if (what < 16) fill(s, s->slot[i].p, s->slot[i].pages);
    else if (what < 20) advise(s, i);
    else if (what < 23) resize(s, i);
    else if (what < 25) move(s, i);
    else if (what < 27) there_and_back(s, i);
    else if (what < 30) by_the_kernel(s, i);
    else if (what < 32) protect(s, i);
    else if (what < 34) give_back(s, i);
    else if (what < 35) guard(s, i);
    else if (what < 39) heap(s);
    else {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_life, NULL) == 0) pthread_join(thread, NULL);
    }
}

static void *work(void *number) {
    static struct state states[THREADS];
    unsigned long own = (unsigned long)number;
    struct state *s = &states[own];
    s->random = 0x9e3779b97f4a7c15ull * (own + 1) ^ (uint64_t)getpid();
    s->plain = open(file_name, O_RDONLY);
    s->direct = open(file_name, O_RDONLY | O_DIRECT);
    if (s->plain < 0) die("open");
    for (;; operations[own]++) {
        /* Some are touched all the time, and some hardly ever. */
        uint64_t hot = next(s) % SLOTS;
        int i = (int)(hot * hot / SLOTS * hot / SLOTS), what = next(s) % 40;
        /* Before the lock, which a child would have for ever. */
        if (s->slot[i].p && what == 39 && next(s) % 8 == 0) {
            child(s);
            continue;
        }
        if (what >= 23 && what < 27) pthread_rwlock_wrlock(&mapping);
        else pthread_rwlock_rdlock(&mapping);
        operate(s, i, what);
        pthread_rwlock_unlock(&mapping);
    }
    return number;
}

int main(int count, char **words) {
    if (count != 2) return 2;
    file_name = words[1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char *block[16];
    pthread_t thread;
    for (unsigned long i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, work, (void *)i)) die("thread");
    for (unsigned long told = 0;; told++) {
        /* The first thread has the heap that grows and shrinks by brk, and counts for whoever listens. */
        pthread_rwlock_rdlock(&mapping);
        for (int i = 0; i < 16; i++)
            if ((block[i] = malloc(60000))) memset(block[i], (int)told, 60000);
        pthread_rwlock_unlock(&mapping);
        usleep(20000);
        pthread_rwlock_rdlock(&mapping);
        for (int i = 0; i < 16; i++) free(block[i]);
        malloc_trim(0);
        pthread_rwlock_unlock(&mapping);
        unsigned long all = 0;
        for (int i = 0; i < THREADS; i++) all += operations[i];
        printf("%lu\n", all);
        fflush(stdout);
    }
}
