// SPDX-License-Identifier: MIT
/*
 * The device's twin in this process. A file of it may not be closed under a call, so
 * each has a lock that calls share; and all pointers have to be memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "soft/soft.h"

#include "hammer.h"

static struct {
	pthread_rwlock_t lock; /* held for writing to open and close */
	struct soft_file *file;
} files[HAMMER_FILES] = {
	[0 ... HAMMER_FILES - 1] = { .lock = PTHREAD_RWLOCK_INITIALIZER },
};

static uint32_t device_index(void)
{
	return (uint32_t)strtoul(hammer_device + strlen("soft:"), NULL, 10);
}

/* The twin reports changes of pages: nothing to do, as signals are expected. */
static void pages_changed(void *user, uint32_t handle)
{
	(void)user;
	(void)handle;
}

static void lost(void *user)
{
	(void)user;
}

static int visit_maps(void *user, uint32_t handle, soft_visit *visit, void *context)
{
	(void)user;
	(void)handle;
	(void)visit;
	(void)context;
	return 0;
}

static const struct soft_hooks hooks = {
	.pages = pages_changed,
	.lost = lost,
	.maps = visit_maps,
};

static int twin_open(unsigned int file)
{
	struct soft_file *fresh = NULL;
	int r;

	setenv("HETMAP_SOFT", "devices=1 vram_mb=64 system_mb=64 bar_mb=16 test=1", 0);
	pthread_rwlock_wrlock(&files[file].lock);
	r = soft_open(device_index(), hammer_chance(8) ? O_RDONLY : O_RDWR, &hooks, NULL,
		      &fresh);
	if (!r) {
		if (files[file].file)
			soft_close(files[file].file);
		files[file].file = fresh;
	}
	pthread_rwlock_unlock(&files[file].lock);
	return r;
}

static int twin_call(unsigned int file, unsigned long cmd, void *argument)
{
	int r = -EBADF;

	pthread_rwlock_rdlock(&files[file].lock);
	if (files[file].file)
		r = soft_call(files[file].file, cmd, argument);
	pthread_rwlock_unlock(&files[file].lock);
	return r;
}

static void *twin_map(unsigned int file, void *at, uint64_t length, int prot, int flags,
		      uint64_t offset)
{
	void *got = MAP_FAILED;
	uint64_t fd_offset;
	int fd, r = -EBADF;

	pthread_rwlock_rdlock(&files[file].lock);
	if (files[file].file)
		r = soft_map_fd(files[file].file, offset, &fd, &fd_offset);
	if (!r)
		got = mmap(at, length, prot, flags, fd, (off_t)fd_offset);
	else
		errno = -r;
	pthread_rwlock_unlock(&files[file].lock);
	return got;
}

static ssize_t twin_read(unsigned int file, void *to, uint64_t length, uint64_t offset)
{
	ssize_t r = -EBADF;

	pthread_rwlock_rdlock(&files[file].lock);
	if (files[file].file)
		r = soft_read(files[file].file, to, length, offset);
	pthread_rwlock_unlock(&files[file].lock);
	return r;
}

static ssize_t twin_write(unsigned int file, const void *from, uint64_t length, uint64_t offset)
{
	ssize_t r = -EBADF;

	pthread_rwlock_rdlock(&files[file].lock);
	if (files[file].file)
		r = soft_write(files[file].file, from, length, offset);
	pthread_rwlock_unlock(&files[file].lock);
	return r;
}

static int twin_close_all(void)
{
	unsigned int i;

	for (i = 0; i < HAMMER_FILES; i++) {
		if (files[i].file)
			soft_close(files[i].file);
		files[i].file = NULL;
	}
	return (int)soft_objects(device_index());
}

static bool twin_is_there(void)
{
	struct soft_file *file;

	if (soft_open(device_index(), O_RDONLY, &hooks, NULL, &file))
		return false;
	soft_close(file);
	return true;
}

static int twin_replug(void)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_UNPLUG };
	int r = twin_call((unsigned int)hammer_random(HAMMER_FILES), HETSIM_INJECT, &inject);

	/* A spoilt call may have taken it away before. */
	return r && r != -ENODEV ? r : soft_plug(device_index());
}

const struct hammer_way hammer_soft = {
	.name = "the twin",
	.open = twin_open,
	.call = twin_call,
	.map = twin_map,
	.read = twin_read,
	.write = twin_write,
	.close_all = twin_close_all,
	.is_there = twin_is_there,
	.replug = twin_replug,
};
