/*
 * keepname: what a session has mapped from /dev/shm keeps a name.
 *
 * A mapping of a file without a name can be saved only by following /proc/PID/map_files, which the kernel allows to nobody but
 * the machine's root. glibc makes such files all the time: sem_open() maps a semaphore under a temporary name that it removes at
 * once, and Python's multiprocessing unlinks each lock, queue and pool as soon as it has it. So this library, which every command
 * of a box is started with (LD_PRELOAD), does three things differently:
 *
 *  - sem_open() with O_CREAT opens the finished semaphore a second time, so that what is mapped is mapped under its final name;
 *  - sem_unlink(), shm_unlink() and unlink() of a regular file in /dev/shm rename it into /dev/shm/.kept, where no program looks.
 *    For the program the old name is gone, as it asked;
 *  - everything else goes to the C library as it is.
 *
 * /dev/shm belongs to the box and ends with it, and with it what was kept.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHM "/dev/shm/"
#define KEPT SHM ".kept"
#define NOREPLACE 1

/* Whether the file had a name in /dev/shm, and has a hidden one now. errno stays as it was. */
static int keep(const char *path)
{
	static unsigned count;
	struct stat file;
	char hidden[sizeof KEPT + 64];
	int before = errno, kept;

	if (lstat(path, &file) != 0 || !S_ISREG(file.st_mode)) {
		errno = before;
		return 0;
	}
	mkdir(KEPT, 0700);
	snprintf(hidden, sizeof hidden, KEPT "/%d.%u.%lu", (int)getpid(), __sync_add_and_fetch(&count, 1),
		 (unsigned long)file.st_ino);
	kept = syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, hidden, NOREPLACE) == 0;
	errno = before;
	return kept;
}

/* The path of a shared memory object or semaphore; 0 if the name is none. */
static int path_of(const char *prefix, const char *name, char *path, size_t size)
{
	int length;

	while (*name == '/')
		name++;
	if (*name == 0 || strchr(name, '/'))
		return 0;
	length = snprintf(path, size, SHM "%s%s", prefix, name);
	return length > 0 && (size_t)length < size;
}

sem_t *sem_open(const char *name, int flags, ...)
{
	static sem_t *(*next)(const char *, int, ...);
	sem_t *made;
	va_list rest;
	mode_t mode;
	unsigned value;

	if (!next)
		next = dlsym(RTLD_NEXT, "sem_open");
	if (!(flags & O_CREAT))
		return next(name, flags);
	va_start(rest, flags);
	mode = va_arg(rest, mode_t);
	value = va_arg(rest, unsigned);
	va_end(rest);
	made = next(name, flags, mode, value);
	if (made == SEM_FAILED)
		return made;
	sem_close(made);
	return next(name, 0);
}

int sem_unlink(const char *name)
{
	static int (*next)(const char *);
	char path[512];

	if (path_of("sem.", name, path, sizeof path) && keep(path))
		return 0;
	if (!next)
		next = dlsym(RTLD_NEXT, "sem_unlink");
	return next(name);
}

int shm_unlink(const char *name)
{
	static int (*next)(const char *);
	char path[512];

	if (path_of("", name, path, sizeof path) && keep(path))
		return 0;
	if (!next)
		next = dlsym(RTLD_NEXT, "shm_unlink");
	return next(name);
}

int unlink(const char *path)
{
	static int (*next)(const char *);

	if (strncmp(path, SHM, sizeof SHM - 1) == 0 && strncmp(path, KEPT, sizeof KEPT - 1) != 0 && keep(path))
		return 0;
	if (!next)
		next = dlsym(RTLD_NEXT, "unlink");
	return next(path);
}
