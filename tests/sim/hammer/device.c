// SPDX-License-Identifier: MIT
/* The device by its node: files are descriptors, which close under calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hammer.h"

const struct hammer_way *hammer_way;
const char *hammer_device;
const char *hammer_other;
_Atomic uint64_t hammer_window = 1ull << 30;

static _Atomic int fds[HAMMER_FILES] = { -1, -1, -1, -1 };

/* Half of the files are the other one's, if there is one. */
static const char *device_of(unsigned int file)
{
	return hammer_other && file >= HAMMER_FILES / 2 ? hammer_other : hammer_device;
}

static int kernel_open(unsigned int file)
{
	int fd = open(device_of(file), (hammer_chance(8) ? O_RDONLY : O_RDWR) | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	fd = atomic_exchange(&fds[file], fd);
	if (fd >= 0)
		close(fd);
	return 0;
}

static int kernel_call(unsigned int file, unsigned long cmd, void *argument)
{
	return (int)hammer_result(ioctl(atomic_load(&fds[file]), cmd, argument));
}

static void *kernel_map(unsigned int file, void *at, uint64_t length, int prot, int flags,
			uint64_t offset)
{
	return mmap(at, length, prot, flags, atomic_load(&fds[file]), (off_t)offset);
}

static ssize_t kernel_read(unsigned int file, void *to, uint64_t length, uint64_t offset)
{
	return hammer_result(pread(atomic_load(&fds[file]), to, length, (off_t)offset));
}

static ssize_t kernel_write(unsigned int file, const void *from, uint64_t length,
			    uint64_t offset)
{
	return hammer_result(pwrite(atomic_load(&fds[file]), from, length, (off_t)offset));
}

static int kernel_objects(const char *device)
{
	char path[128], line[512];
	int n = -1;
	FILE *list;

	snprintf(path, sizeof(path), "/sys/kernel/debug/hetsim/%s/objects",
		 strrchr(device, '/') + 1);
	list = fopen(path, "re");
	if (!list)
		return -errno;
	while (fgets(line, sizeof(line), list))
		if (n++ >= 0)
			fputs(line, stdout);
	fclose(list);
	return n;
}

static int kernel_close_all(void)
{
	unsigned int i;
	int n, more = 0;

	for (i = 0; i < HAMMER_FILES; i++)
		if (fds[i] >= 0)
			close(atomic_exchange(&fds[i], -1));
	n = kernel_objects(hammer_device);
	if (n >= 0 && hammer_other)
		more = kernel_objects(hammer_other);
	return more < 0 ? more : n + more;
}

static bool node_is_there(const char *device)
{
	return !access(device, F_OK);
}

static bool kernel_is_there(void)
{
	return node_is_there(hammer_device) && (!hammer_other || node_is_there(hammer_other));
}

/* 0 or a negative errno. */
static int tell_driver(const char *action, const char *number)
{
	char path[64], name[32];
	int fd, r = 0;

	snprintf(path, sizeof(path), "/sys/bus/platform/drivers/hetsim/%s", action);
	snprintf(name, sizeof(name), "hetsim.%s", number);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, name, strlen(name)) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* The driver goes and comes, the device stays; a spoilt call may have taken that away. */
static int rebind_one(const char *number)
{
	int r = tell_driver("unbind", number);

	return r ? r : tell_driver("bind", number);
}

static int replug_one(const char *device)
{
	struct hetsim_handshake shake = { .size = sizeof(shake),
					  .version_major = HETSIM_VERSION_MAJOR,
					  .version_minor = HETSIM_VERSION_MINOR };
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_UNPLUG };
	int plug = open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC);
	int fd = open(device, O_RDWR | O_CLOEXEC), r = 0;
	const char *number = device + strcspn(device, "0123456789");

	if (fd >= 0 && hammer_chance(2)) {
		close(fd);
		close(plug);
		return rebind_one(number);
	}
	/* A spoilt call may have taken it away before. */
	if (fd >= 0 &&
	    (ioctl(fd, HETSIM_HANDSHAKE, &shake) || ioctl(fd, HETSIM_INJECT, &inject)))
		r = -errno;
	if (!r && write(plug, number, strlen(number)) < 0)
		r = -errno;
	if (fd >= 0)
		close(fd);
	if (plug >= 0)
		close(plug);
	return r;
}

/* One that is away, or any. */
static int kernel_replug(void)
{
	bool other = hammer_other && (node_is_there(hammer_other) ? hammer_chance(2) : true);

	return replug_one(other && node_is_there(hammer_device) ? hammer_other : hammer_device);
}

const struct hammer_way hammer_kernel = {
	.name = "the module",
	.kernel = true,
	.open = kernel_open,
	.call = kernel_call,
	.map = kernel_map,
	.read = kernel_read,
	.write = kernel_write,
	.close_all = kernel_close_all,
	.is_there = kernel_is_there,
	.replug = kernel_replug,
};

int hammer_open(unsigned int file)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.flags = hammer_chance(2) ? HETSIM_HANDSHAKE_ZERO_WHEN_LOST : 0,
		.version_major = HETSIM_VERSION_MAJOR,
		.version_minor = HETSIM_VERSION_MINOR,
	};
	struct hetsim_query query = { .size = sizeof(query) };
	uint64_t window = HAMMER_PAGE;
	int r = hammer_way->open(file);

	hammer_count(HAMMER_OPEN, r);
	if (r)
		return r;
	if (hammer_way->call(file, HETSIM_HANDSHAKE, &shake) == 0)
		atomic_store(&hammer->features, shake.driver_features);
	if (hammer_way->call(file, HETSIM_QUERY, &query) == 0) {
		while (window < query.max_buffer)
			window *= 2;
		atomic_store(&hammer_window, window);
	}
	return 0;
}
