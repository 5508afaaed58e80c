// SPDX-License-Identifier: MIT
/* The port to the twin in this process: runtime/soft. */
#include <errno.h>
#include <fcntl.h>

#include "base/err.h"
#include "fault/reach.h"
#include "soft/soft.h"

#include "backend/sim/port.h"

/* Runs in the thread that harms a page, or moves pages. */
static void on_pages(void *user, uint32_t handle)
{
	const void *object = sim_object_of(user, handle);

	if (object)
		reach_changed(object);
}

static void on_lost(void *user)
{
	sim_port_lost_maps(user);
}

static int on_maps(void *user, uint32_t handle, soft_visit *visit, void *context)
{
	const void *object = sim_object_of(user, handle);

	return object ? reach_visit(object, visit, context) : 0;
}

static const struct soft_hooks hooks = {
	.pages = on_pages,
	.lost = on_lost,
	.maps = on_maps,
};

static int twin_open(struct sim_port *port, uint32_t index, void **ret_file)
{
	struct soft_file *file;
	int r;

	r = soft_open(index, O_RDWR, &hooks, port, &file);
	if (!r)
		*ret_file = file;
	return r;
}

static void twin_close(void *file)
{
	soft_close(file);
}

static int twin_call(void *file, unsigned long cmd, void *argument)
{
	return soft_call(file, cmd, argument);
}

static int twin_submit(void *file, struct hetsim_submit *submit)
{
	return soft_submit_own(file, submit);
}

static int twin_map_fd(void *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset)
{
	return soft_map_fd(file, offset, ret_fd, ret_fd_offset);
}

static bool twin_hidden(void *file, uint32_t handle, uint64_t offset, uint64_t length,
			uint64_t *ret_length)
{
	return soft_hidden(file, handle, offset, length, ret_length);
}

static const uint64_t *twin_evictions(void *file, uint32_t handle)
{
	return soft_evictions(file, handle);
}

static bool twin_is_gone(const void *file)
{
	return soft_is_gone(file);
}

static ssize_t twin_read(void *file, void *to, uint64_t length, uint64_t offset)
{
	return soft_read(file, to, length, offset);
}

static ssize_t twin_write(void *file, const void *from, uint64_t length, uint64_t offset)
{
	return soft_write(file, from, length, offset);
}

const struct sim_port_ops sim_port_soft = {
	.name = "soft",
	.settings = "HETMAP_SOFT",
	.sharers = "this process has",
	.queue_limits = "this process",
	.count = soft_count,
	.open = twin_open,
	.close = twin_close,
	.call = twin_call,
	.submit = twin_submit,
	.map_fd = twin_map_fd,
	.hidden = twin_hidden,
	.evictions = twin_evictions,
	.is_gone = twin_is_gone,
	.read = twin_read,
	.write = twin_write,
};
