/* A program with a random history, which knows at every moment what each byte of its memory must be.
 *
 *   history file PATH               writes the file that histories map and read from
 *   history run SEED FILE DIRECTORY runs until it is killed; is asked through DIRECTORY
 *   history helper SEED FILE        a short history of its own, verified at its end
 *
 * What a page holds is made from two numbers, its tag and its word; the book says them for each page of each mapping and for each block of the
 * heap. A worker is a thread with mappings, blocks and a book of its own, so that no worker waits for another. An operation changes
 * memory and then the book, or the book and then memory: between two operations both agree, and a restored program can be asked to come to such a
 * place and to compare.
 *
 * Books lie in shared memory, which is not copied ahead: CRIU saves it while everything stands still. So a book is always that of the
 * moment of the snapshot, and what it is compared with came another way. Beside it each worker counts its operations in memory of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define WORDS 512
#define HUGE_PAGE (2ul << 20)
#define WORKERS 3
#define SLOTS 16
#define MOST 640 /* pages of a mapping */
#define FILE_PAGES 700
#define BLOCKS 48
#define CHILDREN 1 /* of a worker, at a time */
#define FILE_TAG (1ull << 62)
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum sort { ANONYMOUS, HUGE, SHARED, OF_FILE };
enum kind { ALLOCATE, FREE, GROW, SHRINK, MOVE, THERE_AND_BACK, ADVISE, THROW_AWAY, LAZY_FREE, GUARD, PROTECT, WRITE, STORM, READ, DIRECT, PIPE,
            HEAP, PURGE, THREAD, FORK, EXEC, KINDS };
static const char *const kind_names[KINDS] = {"allocate", "free", "grow", "shrink", "move", "there-and-back", "advise", "throw-away",
    "lazy-free", "guard", "protect", "write", "storm", "read", "direct", "pipe", "heap", "purge", "thread", "fork", "exec"};

struct page { uint64_t tag, word; };
struct slot { char *at; uint32_t pages; enum sort sort; int is_protected; struct page page[MOST]; };
struct block { char *at; uint64_t size, tag; };
struct book {
    uint64_t random, operations, kinds[KINDS];
    struct slot slot[SLOTS];
    struct block block[BLOCKS];
};
struct worker {
    struct book *book;
    uint64_t operations; /* what the book says, in memory of its own */
    pid_t child[CHILDREN];
    int plain, direct, is_child;
};

/* Shared by a program and its children. */
struct common {
    int finish; /* children are to compare and to end */
    char complaint[512];
};
static struct common *common;
/* A move that fails may have given up its destination, and parts of its source; what another thread maps then may lie there, and must not be
 * unmapped with it. So moves are alone, and everything else that maps something is beside no move. */
static pthread_rwlock_t mapping = PTHREAD_RWLOCK_INITIALIZER;
static const char *file_name, *directory, *allocator;

/* ---- what memory must hold ---- */

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t next(struct worker *w) { return w->book->random = mix(w->book->random); }
static uint64_t below(struct worker *w, uint64_t limit) { return next(w) % limit; }

static void make_words(uint64_t *to, uint64_t tag, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) to[i] = tag ? mix(tag + i) : 0;
}

static uint64_t place_of_word(const struct page *page) { return page->tag % WORDS; }

static void make_page(uint64_t *to, const struct page *page) {
    make_words(to, page->tag, WORDS);
    if (page->word) to[place_of_word(page)] = page->word;
}

static void die(const char *what) {
    dprintf(2, "history: %s: %s\n", what, strerror(errno));
    _exit(9);
}

static int complain(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsnprintf(common->complaint, sizeof common->complaint, format, rest);
    va_end(rest);
    return 0;
}

static int same(const void *found, const void *expected, uint64_t bytes, const char *what) {
    if (memcmp(found, expected, bytes) == 0) return 1;
    const uint64_t *f = found, *e = expected;
    uint64_t differ = 0, zeros = 0, first = 0;
    for (uint64_t i = bytes / 8; i-- > 0;)
        if (f[i] != e[i]) {
            differ++;
            zeros += f[i] == 0;
            first = i;
        }
    return complain("%s at %p: %lu of %lu words differ, %lu are zero, the first at %lu is %lx and not %lx", what, found, differ, bytes / 8,
                    zeros, first, f[first], e[first]);
}

/* Compares everything that a worker has. */
static int verify(struct worker *w, int number, uint64_t *pages) {
    static const char *const sorts[] = {"anonymous", "huge", "shared", "of a file"};
    uint64_t expected[1 << 14];
    char what[160];
    if (w->operations != w->book->operations)
        return complain("worker %d: %lu operations, %lu in the book", number, w->operations, w->book->operations);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &w->book->slot[i];
        if (!s->at) continue;
        if (s->is_protected && mprotect(s->at, s->pages * PAGE, PROT_READ | PROT_WRITE)) return complain("slot %d cannot be read", i);
        s->is_protected = 0;
        for (uint32_t n = 0; n < s->pages; n++) {
            make_page(expected, &s->page[n]);
            snprintf(what, sizeof what, "worker %d, mapping %d (%s, %u pages), page %u, tag %lx, word %lx", number, i, sorts[s->sort],
                     s->pages, n, s->page[n].tag, s->page[n].word);
            if (!same(s->at + n * PAGE, expected, PAGE, what)) return 0;
        }
        *pages += s->pages;
    }
    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &w->book->block[i];
        if (!b->at) continue;
        make_words(expected, b->tag, b->size / 8);
        snprintf(what, sizeof what, "worker %d, block %d of the heap, tag %lx", number, i, b->tag);
        if (!same(b->at, expected, b->size, what)) return 0;
    }
    return 1;
}

/* ---- writing ---- */

static void write_page(struct worker *w, struct slot *s, uint32_t n) {
    s->page[n] = (struct page){next(w) >> 2 | 1, 0};
    make_page((uint64_t *)(s->at + n * PAGE), &s->page[n]);
}

static void write_word(struct worker *w, struct slot *s, uint32_t n) {
    s->page[n].word = next(w) | 1;
    *(uint64_t *)(s->at + n * PAGE + place_of_word(&s->page[n]) * 8) = s->page[n].word;
}

static void write_some(struct worker *w, struct slot *s) {
    for (uint64_t count = 1 + below(w, 12); count-- > 0;) {
        uint32_t n = below(w, s->pages);
        if (below(w, 2)) write_page(w, s, n);
        else write_word(w, s, n);
    }
}

static void storm(struct worker *w, struct slot *s) {
    for (uint64_t rounds = 1 + below(w, 8); rounds-- > 0;)
        for (uint32_t n = 0; n < s->pages; n++) write_word(w, s, n);
}

/* ---- mappings ---- */

/* What a page is when nobody has written to it. */
static void untouched(struct slot *s, uint32_t first, uint32_t pages) {
    for (uint32_t n = first; n < first + pages; n++) s->page[n] = (struct page){s->sort == OF_FILE ? FILE_TAG + n : 0, 0};
}

static char *anonymous(uint64_t pages, int protection) {
    char *at = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    return at;
}

/* Where huge pages fit. */
static char *aligned(uint64_t pages) {
    char *at = anonymous(pages + HUGE_PAGE / PAGE, PROT_READ | PROT_WRITE);
    char *first = (char *)(((uintptr_t)at + HUGE_PAGE - 1) & -HUGE_PAGE);
    if (first > at && munmap(at, first - at)) die("munmap");
    char *end = at + pages * PAGE + HUGE_PAGE;
    if (end > first + pages * PAGE && munmap(first + pages * PAGE, end - first - pages * PAGE)) die("munmap");
    madvise(first, pages * PAGE, MADV_HUGEPAGE);
    return first;
}

static void allocate(struct worker *w, struct slot *s) {
    static const uint32_t sizes[] = {1, 3, 17, 60, 200};
    uint64_t choice = below(w, 20);
    s->sort = choice == 0 ? HUGE : choice < 3 ? SHARED : choice < 5 ? OF_FILE : ANONYMOUS;
    s->pages = s->sort == HUGE ? 512 + below(w, 100) : sizes[below(w, 5)];
    s->is_protected = 0;
    int flags = s->sort == SHARED ? MAP_SHARED | MAP_ANONYMOUS : MAP_PRIVATE;
    if (s->sort == HUGE) s->at = aligned(s->pages);
    else if (s->sort == ANONYMOUS) s->at = anonymous(s->pages, PROT_READ | PROT_WRITE);
    else s->at = mmap(NULL, s->pages * PAGE, PROT_READ | PROT_WRITE, flags, s->sort == OF_FILE ? w->plain : -1, 0);
    if (s->at == MAP_FAILED) die("mmap");
    untouched(s, 0, s->pages);
    write_some(w, s);
    if (below(w, 2)) storm(w, s);
}

static void give_back(struct slot *s) {
    if (munmap(s->at, s->pages * PAGE)) die("munmap");
    s->at = NULL;
}

static int is_private(const struct slot *s) { return s->sort == ANONYMOUS || s->sort == HUGE; }

/* mremap goes over one mapping only, and what is followed may be two where it would be one: then it is done by hand. */
static void resize(struct slot *s, uint32_t pages) {
    char *to = mremap(s->at, s->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
    if (to == MAP_FAILED) {
        to = anonymous(pages, PROT_READ | PROT_WRITE);
        memcpy(to, s->at, (pages < s->pages ? pages : s->pages) * PAGE);
        if (munmap(s->at, s->pages * PAGE)) die("munmap");
    }
    if (pages > s->pages) untouched(s, s->pages, pages - s->pages);
    s->at = to;
    s->pages = pages;
}

/* If it is several mappings, some may have been moved and some not: all of it goes. */
static void move(struct slot *s) {
    char *to = anonymous(s->pages, PROT_NONE);
    if (mremap(s->at, s->pages * PAGE, s->pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
        if (munmap(to, s->pages * PAGE)) die("munmap");
        give_back(s);
    } else s->at = to;
}

/* The second half away and back; its place is kept meanwhile, and it is written to elsewhere. */
static void there_and_back(struct worker *w, struct slot *s) {
    uint32_t half = s->pages / 2, first = s->pages - half;
    if (half == 0) return;
    char *second = s->at + first * PAGE, *to = anonymous(half, PROT_NONE);
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    int is_lost = mremap(second, half * PAGE, half * PAGE, flags | MREMAP_DONTUNMAP, to) == MAP_FAILED;
    if (!is_lost) {
        for (uint32_t n = first; n < s->pages; n += 1 + below(w, 40)) {
            s->page[n] = (struct page){next(w) >> 2 | 1, 0};
            make_page((uint64_t *)(to + (n - first) * PAGE), &s->page[n]);
        }
        is_lost = mremap(to, half * PAGE, half * PAGE, flags, second) == MAP_FAILED;
    }
    if (is_lost) {
        if (munmap(to, half * PAGE)) die("munmap");
        give_back(s);
    }
}

/* Advice that changes nothing that can be read. What concerns forks is taken back at once, so that children have what their book says. */
static void advise(struct worker *w, struct slot *s) {
    static const int whole[] = {0 /* NORMAL */, 1, 2, 10 /* DONTFORK */, 12 /* MERGEABLE */, 13, 14 /* HUGEPAGE */, 15, 16 /* DONTDUMP */, 17,
                                18 /* WIPEONFORK */};
    static const int parts[] = {3 /* WILLNEED */, 20 /* COLD */, 21 /* PAGEOUT */, 22 /* POPULATE_READ */, 23 /* POPULATE_WRITE */,
                                25 /* COLLAPSE */};
    if (below(w, 2)) {
        int kind = whole[below(w, 11)];
        madvise(s->at, s->pages * PAGE, kind);
        if (kind == 10 || kind == 18) madvise(s->at, s->pages * PAGE, kind + 1);
    } else {
        uint32_t first = below(w, s->pages), pages = 1 + below(w, s->pages - first);
        madvise(s->at + first * PAGE, pages * PAGE, parts[below(w, 6)]);
    }
}

static void throw_away(struct worker *w, struct slot *s) {
    uint32_t first = below(w, s->pages), pages = 1 + below(w, s->pages - first);
    /* Of shared memory only REMOVE makes zeros. */
    int kind = s->sort == SHARED ? 9 : below(w, 4) ? 4 /* DONTNEED */ : 24 /* DONTNEED_LOCKED */;
    if (madvise(s->at + first * PAGE, pages * PAGE, kind)) die("madvise");
    untouched(s, first, pages);
}

/* What is freed so is there or gone, as the kernel likes, until it is written to. */
static void lazy_free(struct worker *w, struct slot *s) {
    uint32_t first = below(w, s->pages), pages = 1 + below(w, s->pages - first);
    if (madvise(s->at + first * PAGE, pages * PAGE, 8 /* FREE */)) die("madvise");
    for (uint32_t n = first; n < first + pages; n++) write_page(w, s, n);
}

/* Touching it would kill, so it is there for a moment only; then there are zeros. */
static void guard(struct worker *w, struct slot *s) {
    uint32_t first = below(w, s->pages), pages = 1 + below(w, s->pages - first);
    if (madvise(s->at + first * PAGE, pages * PAGE, 102)) return; /* The kernel does not know it. */
    usleep(50);
    if (madvise(s->at + first * PAGE, pages * PAGE, 103)) die("a guard stays");
    untouched(s, first, pages);
}

static void protect(struct worker *w, struct slot *s) {
    static const int kinds[] = {PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC};
    uint32_t first = below(w, s->pages);
    if (mprotect(s->at + first * PAGE, (s->pages - first) * PAGE, kinds[below(w, 3)])) die("mprotect");
    s->is_protected = 1; /* until something else is done to it */
}

/* ---- written by others ---- */

static enum kind by_the_kernel(struct worker *w, struct slot *s) {
    uint32_t n = below(w, s->pages), pages = 1 + below(w, s->pages - n < 16 ? s->pages - n : 16), from = below(w, FILE_PAGES - 16);
    enum kind kind = below(w, 2) ? READ : DIRECT;
    if (below(w, 4) == 0) {
        int ends[2];
        uint64_t word = next(w) | 1;
        if (pipe(ends) || write(ends[1], &word, 8) != 8) die("pipe");
        s->page[n].word = word;
        if (read(ends[0], s->at + n * PAGE + place_of_word(&s->page[n]) * 8, 8) != 8) die("read from a pipe");
        close(ends[0]);
        close(ends[1]);
        return PIPE;
    }
    if (pread(kind == DIRECT ? w->direct : w->plain, s->at + n * PAGE, pages * PAGE, from * PAGE) != (ssize_t)(pages * PAGE)) die("pread");
    for (uint32_t i = 0; i < pages; i++) s->page[n + i] = (struct page){FILE_TAG + from + i, 0};
    return kind;
}

struct errand { uint64_t *to; struct page page; };

static void *of_short_life(void *errand) {
    make_page(((struct errand *)errand)->to, &((struct errand *)errand)->page);
    return NULL;
}

static void by_threads(struct worker *w, struct slot *s) {
    pthread_t thread[3];
    struct errand errand[3];
    int count = 0;
    for (uint32_t n = below(w, s->pages); count < 3 && n < s->pages; n++, count++) {
        s->page[n] = (struct page){next(w) >> 2 | 1, 0};
        errand[count] = (struct errand){(uint64_t *)(s->at + n * PAGE), s->page[n]};
        if (pthread_create(&thread[count], NULL, of_short_life, &errand[count])) die("thread");
    }
    while (count-- > 0) pthread_join(thread[count], NULL);
}

/* ---- the heap ---- */

static void heap(struct worker *w) {
    struct block *b = &w->book->block[below(w, BLOCKS)];
    uint64_t size = 16ul << below(w, 14), tag = next(w) >> 2 | 1;
    if (b->at && below(w, 2)) {
        free(b->at);
        b->at = NULL;
        return;
    }
    b->at = realloc(b->at, size);
    if (!b->at) die("realloc");
    make_words((uint64_t *)b->at, tag, size / 8);
    b->size = size;
    b->tag = tag;
}

/* What other allocators than glibc's have to give back what they do not use. Looked up once: a child of many threads may not. */
static void (*mimalloc_collect)(int);
static int (*jemalloc_control)(const char *, void *, size_t *, void *, size_t);

static const char *find_allocator(void) {
    *(void **)&mimalloc_collect = dlsym(RTLD_DEFAULT, "mi_collect");
    *(void **)&jemalloc_control = dlsym(RTLD_DEFAULT, "mallctl");
    return mimalloc_collect ? "mimalloc" : jemalloc_control ? "jemalloc" : "glibc";
}

static void purge(void) {
    if (mimalloc_collect) mimalloc_collect(1);
    else if (jemalloc_control) jemalloc_control("arena.4096.purge", NULL, NULL, NULL, 0); /* all arenas */
    else malloc_trim(0);
}

/* ---- children ---- */

static void operate(struct worker *w);

static struct book *new_book(void) {
    struct book *book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (book == MAP_FAILED) die("a book");
    return book;
}

/* A child has the memory of its parent and a book of its own. What is shared is its parent's. */
static void be_a_child(struct worker *w, struct book *book) {
    w->book = book;
    w->is_child = 1;
    pthread_rwlock_init(&mapping, NULL); /* Another thread of the parent may have had it. */
    memset(w->child, 0, sizeof w->child);
    for (int i = 0; i < SLOTS; i++)
        if (book->slot[i].at && book->slot[i].sort == SHARED) give_back(&book->slot[i]);
    book->random = mix(book->random + getpid());
    uint64_t pages = 0;
    for (uint64_t left = 200 + below(w, 4000); left > 0 && !__atomic_load_n(&common->finish, __ATOMIC_RELAXED); left--) operate(w);
    _exit(verify(w, 100 + getpid(), &pages) ? 0 : 8);
}

static void reap(struct worker *w, int how) {
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t ended = w->child[i] ? waitpid(w->child[i], &status, how) : 0;
        if (ended < 0) die("waitpid");
        if (ended == 0) continue;
        w->child[i] = 0;
        if (status != 0 && !common->complaint[0]) complain("a child ended with status %x", status);
    }
}

static int beget(struct worker *w, int is_exec) {
    if (w->is_child) return 0;
    reap(w, WNOHANG);
    int i = 0;
    while (i < CHILDREN && w->child[i]) i++;
    if (i == CHILDREN) return 0;
    char seed[32];
    snprintf(seed, sizeof seed, "%lu", next(w) >> 1);
    /* Before the fork: after it the worker writes on in its own. */
    pthread_rwlock_rdlock(&mapping);
    struct book *book = new_book();
    pthread_rwlock_unlock(&mapping);
    memcpy(book, w->book, sizeof *book);
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
        if (!is_exec) be_a_child(w, book);
        execl("/proc/self/exe", "history", "helper", seed, file_name, (char *)NULL);
        die("exec");
    }
    munmap(book, sizeof *book);
    w->child[i] = pid;
    return 1;
}

/* ---- a worker ---- */

static enum kind change(struct worker *w, struct slot *s, uint64_t what) {
    if (what >= 92) return heap(w), HEAP;
    if (what >= 90) return purge(), PURGE;
    if (!s->at) return allocate(w, s), ALLOCATE;
    if (s->is_protected && mprotect(s->at, s->pages * PAGE, PROT_READ | PROT_WRITE)) die("mprotect back");
    s->is_protected = 0;
    if (what < 5 && is_private(s)) return move(s), MOVE;
    if (what < 9 && is_private(s)) return there_and_back(w, s), THERE_AND_BACK;
    if (what < 14) return give_back(s), FREE;
    if (what < 19 && is_private(s) && s->pages < MOST) return resize(s, s->pages + 1 + below(w, MOST - s->pages) / 8), GROW;
    if (what < 23 && is_private(s) && s->pages > 1) return resize(s, 1 + below(w, s->pages - 1)), SHRINK;
    if (what < 31) return advise(w, s), ADVISE;
    if (what < 38) return throw_away(w, s), THROW_AWAY;
    if (what < 41 && is_private(s)) return lazy_free(w, s), LAZY_FREE;
    if (what < 44 && is_private(s)) return guard(w, s), GUARD;
    if (what < 49) return protect(w, s), PROTECT;
    if (what < 56) return by_the_kernel(w, s);
    if (what < 58) return by_threads(w, s), THREAD;
    if (what < 62) return storm(w, s), STORM;
    return write_some(w, s), WRITE;
}

static void operate(struct worker *w) {
    uint64_t warm = below(w, SLOTS), what = below(w, 100);
    struct slot *s = &w->book->slot[warm * warm / SLOTS]; /* some are touched all the time */
    if (what >= 98) {
        enum kind kind = what == 98 ? FORK : EXEC;
        w->book->kinds[kind] += beget(w, kind == EXEC);
    } else {
        if (what < 9) pthread_rwlock_wrlock(&mapping);
        else pthread_rwlock_rdlock(&mapping);
        w->book->kinds[change(w, s, what)]++;
        pthread_rwlock_unlock(&mapping);
    }
    w->book->operations++;
    w->operations++;
    /* So that there is a processor left for whoever looks after it. */
    if (below(w, 8) == 0) usleep(below(w, 6000));
}

static void set_up(struct worker *w, uint64_t seed) {
    w->book = new_book();
    w->book->random = mix(seed);
    w->plain = open(file_name, O_RDONLY | O_CLOEXEC);
    w->direct = open(file_name, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (w->plain < 0 || w->direct < 0) die("open");
}

static struct worker workers[WORKERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int halt, parked;

static void *work(void *number) {
    struct worker *w = &workers[(uintptr_t)number];
    for (;;) {
        if (__atomic_load_n(&halt, __ATOMIC_RELAXED)) {
            pthread_mutex_lock(&lock);
            parked++;
            pthread_cond_broadcast(&changed);
            while (halt) pthread_cond_wait(&changed, &lock);
            parked--;
            pthread_cond_broadcast(&changed);
            pthread_mutex_unlock(&lock);
        }
        operate(w);
    }
    return NULL;
}

/* ---- what it is asked ---- */

static uint32_t handled[16]; /* the last requests, newest first: what this program remembers of its life */

static int check(uint64_t *pages) {
    pthread_mutex_lock(&lock);
    __atomic_store_n(&halt, 1, __ATOMIC_RELAXED);
    while (parked < WORKERS) pthread_cond_wait(&changed, &lock);
    __atomic_store_n(&common->finish, 1, __ATOMIC_RELAXED);
    int ok = 1;
    for (int i = 0; i < WORKERS && ok; i++) {
        reap(&workers[i], 0);
        ok = !common->complaint[0] && verify(&workers[i], i, pages);
    }
    __atomic_store_n(&common->finish, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&halt, 0, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&changed);
    while (parked > 0) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return ok;
}

static void answer(uint32_t number, const char *verb) {
    char temporary[300], path[300];
    uint64_t pages = 0, operations = 0, kinds[KINDS] = {0};
    int ok = strcmp(verb, "check") != 0 || check(&pages);
    memmove(&handled[1], &handled[0], sizeof handled - sizeof handled[0]);
    handled[0] = number;
    for (int i = 0; i < WORKERS; i++) {
        operations += workers[i].book->operations;
        for (int k = 0; k < KINDS; k++) kinds[k] += workers[i].book->kinds[k];
    }
    snprintf(temporary, sizeof temporary, "%s/.new", directory);
    snprintf(path, sizeof path, "%s/answer.%u", directory, number);
    int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) die("answer");
    dprintf(file, "{\"ok\": %s, \"complaint\": \"%s\", \"pages\": %lu, \"operations\": %lu, \"allocator\": \"%s\", \"remembers\": [", ok ? "true" : "false",
            common->complaint, pages, operations, allocator);
    for (int i = 0; i < 16 && handled[i]; i++) dprintf(file, "%s%u", i ? ", " : "", handled[i]);
    dprintf(file, "], \"kinds\": {");
    for (int k = 0; k < KINDS; k++) dprintf(file, "%s\"%s\": %lu", k ? ", " : "", kind_names[k], kinds[k]);
    dprintf(file, "}}\n");
    if (close(file) || rename(temporary, path)) die("answer");
}

/* `NUMBER VERB` in a file that is put there whole, and removed by whoever asked. */
static void listen_for_requests(void) {
    char path[300], verb[16];
    snprintf(path, sizeof path, "%s/ask", directory);
    for (;;) {
        char text[64] = "";
        uint32_t number = 0;
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) < 0 || sscanf(text, "%u %15s", &number, verb) != 2) number = 0;
            close(file);
        }
        if (number && number != handled[0]) answer(number, verb);
        usleep(3000);
    }
}

static void write_file(const char *path) {
    static uint64_t page[WORDS];
    FILE *file = fopen(path, "w");
    if (!file) die(path);
    for (uint64_t n = 0; n < FILE_PAGES; n++) {
        make_page(page, &(struct page){FILE_TAG + n, 0});
        if (fwrite(page, PAGE, 1, file) != 1) die(path);
    }
    if (fclose(file)) die(path);
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "file") == 0) {
        write_file(words[2]);
        return 0;
    }
    if (count < 4) return 2;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED) die("mmap");
    allocator = find_allocator();
    uint64_t seed = strtoull(words[2], NULL, 10);
    file_name = words[3];
    if (strcmp(words[1], "helper") == 0) {
        struct worker *w = &workers[0];
        set_up(w, seed);
        w->is_child = 1;
        uint64_t pages = 0;
        for (uint64_t left = 50 + below(w, 200); left > 0; left--) operate(w);
        if (verify(w, 0, &pages)) return 0;
        dprintf(2, "history: helper: %s\n", common->complaint);
        return 8;
    }
    if (count != 5) return 2;
    directory = words[4];
    for (uintptr_t i = 0; i < WORKERS; i++) {
        pthread_t thread;
        set_up(&workers[i], seed * WORKERS + i);
        if (pthread_create(&thread, NULL, work, (void *)i)) die("thread");
    }
    listen_for_requests();
    return 0;
}
