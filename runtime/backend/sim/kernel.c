// SPDX-License-Identifier: MIT
/* The port to an open /dev/hetsimN: the kernel module's devices. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/util.h"

#include "backend/sim/port.h"

/* The module's own limit on its parameter "devices". */
#define KERNEL_MAX_DEVICES 16

/* A struct sim_port's file is a descriptor, plus 1: never NULL. */
static void *file_of_fd(int fd)
{
	return (void *)((intptr_t)fd + 1);
}

static int fd_of_file(void *file)
{
	return (int)((intptr_t)file - 1);
}

static const char *node(uint32_t index, char *path, size_t size)
{
	snprintf(path, size, "/dev/hetsim%u", index);
	return path;
}

/* An unplugged device leaves a gap: later devices keep their numbers. */
static uint32_t kernel_count(void)
{
	char path[32];
	uint32_t i, n = 0;

	for (i = 0; i < KERNEL_MAX_DEVICES; i++)
		if (!sys_access(node(i, path, sizeof(path)), F_OK))
			n = i + 1;
	return n;
}

static int explain_open(int r, uint32_t index)
{
	char path[32];

	node(index, path, sizeof(path));
	switch (r) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		return err_set(-ENODEV,
			       "there is no %s: load the module (insmod hetsim.ko "
			       "devices=%u), try it in a machine by \"make vm\", or use "
			       "\"soft:0\", which needs no module",
			       path, index + 1);
	case -EACCES:
	case -EPERM:
		return err_set(-EACCES,
			       "%s may not be opened for reading and writing: its mode is no "
			       "longer the module's: chmod 0666 %s, or use \"soft:0\"",
			       path, path);
	case -EMFILE:
	case -ENFILE:
		return rlimits_explain_fd(r, path);
	default:
		return err_set(r, "opening %s: %s", path, err_name(r));
	}
}

static int kernel_open(struct sim_port *port, uint32_t index, void **ret_file)
{
	char path[32];
	int fd;

	(void)port;
	fd = sys_open(node(index, path, sizeof(path)), O_RDWR, 0);
	if (fd < 0)
		return explain_open(fd, index);
	*ret_file = file_of_fd(fd);
	return 0;
}

static void kernel_close(void *file)
{
	sys_close(fd_of_file(file));
}

static int kernel_call(void *file, unsigned long cmd, void *argument)
{
	return sys_ioctl(fd_of_file(file), cmd, argument);
}

static int kernel_map_fd(void *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset)
{
	*ret_fd = fd_of_file(file);
	*ret_fd_offset = offset;
	return 0;
}

static ssize_t kernel_read(void *file, void *to, uint64_t length, uint64_t offset)
{
	return sys_pread(fd_of_file(file), to, length, offset);
}

static ssize_t kernel_write(void *file, const void *from, uint64_t length, uint64_t offset)
{
	return sys_pwrite(fd_of_file(file), from, length, offset);
}

const struct sim_port_ops sim_port_kernel = {
	.name = "sim",
	.settings = "the module's parameters",
	.sharers = "all processes have",
	.queue_limits = "one user or to all processes",
	.count = kernel_count,
	.open = kernel_open,
	.close = kernel_close,
	.call = kernel_call,
	.map_fd = kernel_map_fd,
	.read = kernel_read,
	.write = kernel_write,
};
