// SPDX-License-Identifier: MIT
/*
 * One build at a time, of all processes that share a driver's cache of kernels.
 *
 * PoCL does not lock its cache. When two processes build one program, the second may remove the
 * program's bitcode and write it again while the first collects its binary. That binary has no
 * bitcode, and an assertion ends each process that loads it [pocl_write_file(), and
 * pocl_binary_get_kernels_metadata(), of PoCL 3.1 to 7.1].
 *
 * The lock is an open file description lock of fcntl(2) on a file in that cache. A record lock of
 * the process would not keep two copies of the library in one process apart, and the first close
 * of the file by either would end it. A child of fork(2) shares the description, and would hold
 * the lock as long as it lives, so the end of a build unlocks it instead of closing alone; only
 * a builder that is killed leaves it to such a child, until that calls execve(2) or exits. A
 * mutex spares threads the file. No fork handler takes the mutex: PoCL itself forks to call its
 * linker, and a child uses no OpenCL. The wait is bounded, because a process may be stopped in a
 * build.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/opencl/opencl.h"
#include "base/cache_folder.h"
#include "base/env.h"
#include "base/sys.h"

#define LOCK_NAME "hetmap.lock"
#define PATH_BYTES 4096

/* The longest wait is 30 seconds. */
#define NAP_MS 10
#define NAPS 3000

static pthread_mutex_t builders = PTHREAD_MUTEX_INITIALIZER;

/*
 * A wait ended without the lock: its holder is stopped, and every further kernel would wait as
 * long again, also one whose binary is stored. From then on one try has to do, until one succeeds.
 */
static _Atomic bool gave_up;

/* Where PoCL has its cache, by its own rule [pocl_cache_init_topdir()]. */
static int pocl_folder(char *path, size_t size)
{
	const char *cache = env_get("POCL_CACHE_DIR"), *base = env_get("XDG_CACHE_HOME");
	const char *home = env_get("HOME");
	int n;

	if (cache)
		n = snprintf(path, size, "%s", cache);
	else if (base && base[0])
		n = snprintf(path, size, "%s/pocl/kcache", base);
	else if (home)
		n = snprintf(path, size, "%s/.cache/pocl/kcache", home);
	else
		n = snprintf(path, size, "/tmp/pocl/kcache");
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* Drivers that do not lock their cache. For all others the lock is in hetmap's own cache. */
static const struct {
	const char *platform;
	int (*folder)(char *path, size_t size);
} caches[] = {
	{ "Portable Computing Language", pocl_folder },
};

static int lock_path(const struct opencl_device *device, char *path, size_t size)
{
	int (*find)(char *path, size_t size) = cache_folder;
	char folder[PATH_BYTES];
	size_t i;
	int n, r;

	for (i = 0; i < ARRAY_SIZE(caches); i++)
		if (!strcmp(caches[i].platform, device->platform_name))
			find = caches[i].folder;
	r = find(folder, sizeof(folder));
	if (r)
		return r;
	n = snprintf(path, size, "%s/" LOCK_NAME, folder);
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int set_lock(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	return sys_fcntl(fd, F_OFD_SETLK, (long)&lock);
}

/* A descriptor, or -EAGAIN: another builder holds it. The mutex is held. */
static int try_lock(const char *path)
{
	int fd = sys_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	int r;

	if (fd < 0)
		return fd;
	r = set_lock(fd, F_WRLCK);
	if (!r)
		return fd;
	sys_close(fd);
	return r == -EACCES ? -EAGAIN : r;
}

int build_lock_take(const struct opencl_device *device)
{
	char path[PATH_BYTES];
	int r, naps;

	r = lock_path(device, path, sizeof(path));
	if (r)
		return r;
	cache_make_folders(path);
	for (naps = 0; naps < NAPS; naps++) {
		r = -EAGAIN;
		if (!pthread_mutex_trylock(&builders)) {
			r = try_lock(path);
			if (r >= 0) {
				atomic_store(&gave_up, false);
				return r;
			}
			pthread_mutex_unlock(&builders);
			if (atomic_load(&gave_up))
				return r == -EAGAIN ? -ETIMEDOUT : r;
		}
		if (r != -EAGAIN)
			return r;
		sys_poll(NULL, 0, NAP_MS);
	}
	atomic_store(&gave_up, true);
	return -ETIMEDOUT;
}

void build_lock_drop(int lock)
{
	if (lock < 0)
		return;
	/* Closing it would not end the lock if a child has it, too. */
	set_lock(lock, F_UNLCK);
	sys_close(lock);
	pthread_mutex_unlock(&builders);
}
