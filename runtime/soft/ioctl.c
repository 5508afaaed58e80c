// SPDX-License-Identifier: MIT
/*
 * The twin's table of calls and their one entry; the calls about the device itself.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "soft/twin.h"

#define MINOR_VERSION_MINIMUM 0

const struct soft_kind soft_kinds[] = {
	[HETSIM_KIND_GPU] = {
		.name = "gpu",
		.granule_min = MIB(128),
		.granule_max = MIB(128),
		.dma_align = 4,
		.max_segment = GIB(1),
	},
	[HETSIM_KIND_FPGA] = {
		.name = "fpga",
		.granule_min = KIB(64),
		.granule_max = KIB(64),
		.dma_align = 64,
		.max_segment = MIB(1),
	},
	[HETSIM_KIND_NIC] = {
		.name = "nic",
		.granule_min = MIB(2),
		.granule_max = MIB(4),
		.dma_align = 8,
		.max_segment = MIB(4),
	},
};

static int handshake(struct soft_file *file, void *argument)
{
	struct hetsim_handshake *shake = argument;

	if (shake->flags & ~HETSIM_HANDSHAKE_ZERO_WHEN_LOST)
		return -EINVAL;
	shake->driver_major = HETSIM_VERSION_MAJOR;
	shake->driver_minor = HETSIM_VERSION_MINOR;
	shake->driver_features = SOFT_FEATURES;
	shake->minimum_minor = MINOR_VERSION_MINIMUM;
	shake->accepted = shake->version_major == HETSIM_VERSION_MAJOR &&
			  !(shake->features & ~SOFT_FEATURES);
	file->zero_when_lost = shake->flags & HETSIM_HANDSHAKE_ZERO_WHEN_LOST;
	file->accepted = shake->accepted;
	return 0;
}

static int query(struct soft_file *file, void *argument)
{
	struct hetsim_query *query = argument;
	struct soft_device *dev = file->dev;
	const struct soft_kind *kind = &soft_kinds[dev->kind];
	uint64_t used[SOFT_N_PLACES], mine[SOFT_N_PLACES], opener_used = 0;
	unsigned int i;

	if (query->flags)
		return -EINVAL;

	pthread_mutex_lock(&dev->memory_lock);
	memcpy(used, dev->pages_used, sizeof(used));
	memcpy(mine, file->account->pages_used, sizeof(mine));
	pthread_mutex_unlock(&dev->memory_lock);
	for (i = 0; i < SOFT_N_PLACES; i++)
		opener_used += mine[i];

	query->index = dev->index;
	query->kind = dev->kind;
	query->page_size = SOFT_PAGE;
	query->cache_modes = 1u << HETSIM_CACHE_BACK;
	query->granule_min = kind->granule_min;
	query->granule_max = kind->granule_max;
	query->dma_align = kind->dma_align;
	query->max_segment = kind->max_segment;
	query->max_buffer = soft_max_pages(dev) << SOFT_PAGE_SHIFT;
	query->vram_bytes = dev->pages_limit[HETSIM_PLACE_VRAM] << SOFT_PAGE_SHIFT;
	query->vram_used = (used[HETSIM_PLACE_VRAM] + used[HETSIM_PLACE_WINDOW])
			   << SOFT_PAGE_SHIFT;
	query->system_bytes = dev->pages_limit[HETSIM_PLACE_SYSTEM] << SOFT_PAGE_SHIFT;
	query->system_used = used[HETSIM_PLACE_SYSTEM] << SOFT_PAGE_SHIFT;
	query->opener_bytes = dev->opener_pages << SOFT_PAGE_SHIFT;
	query->opener_used = opener_used << SOFT_PAGE_SHIFT;
	query->window_bytes = dev->pages_limit[HETSIM_PLACE_WINDOW] << SOFT_PAGE_SHIFT;
	query->window_used = used[HETSIM_PLACE_WINDOW] << SOFT_PAGE_SHIFT;
	query->opener_system_bytes = dev->opener_system_pages << SOFT_PAGE_SHIFT;
	query->opener_system_used = mine[HETSIM_PLACE_SYSTEM] << SOFT_PAGE_SHIFT;
	query->max_queues = SOFT_MAX_QUEUES;
	query->max_commands = SOFT_MAX_COMMANDS;
	query->max_pending = SOFT_MAX_PENDING;
	query->timeout_ms = SOFT_TIMEOUT_MS;
	return 0;
}

static int counters(struct soft_file *file, void *argument)
{
	struct hetsim_counters *reply = argument;
	const struct soft_counters *counters;
	__u64 *values = &reply->faults;
	unsigned int i;

	_Static_assert(sizeof(*reply) - offsetof(struct hetsim_counters, faults) ==
			       SOFT_N_COUNTERS * sizeof(*values),
		       "the counters are those of the interface");

	if (reply->scope > HETSIM_SCOPE_DEVICE)
		return -EINVAL;
	counters = reply->scope == HETSIM_SCOPE_OPENER ? &file->account->counters :
							 &file->dev->counters;
	for (i = 0; i < SOFT_N_COUNTERS; i++)
		values[i] = atomic_load_explicit(&counters->value[i], memory_order_relaxed);
	return 0;
}

union soft_argument {
	uint32_t size;
	struct hetsim_handshake handshake;
	struct hetsim_query query;
	struct hetsim_counters counters;
	struct hetsim_buffer_create buffer_create;
	struct hetsim_buffer_close buffer_close;
	struct hetsim_buffer_resize buffer_resize;
	struct hetsim_buffer_info buffer_info;
	struct hetsim_buffer_move buffer_move;
	struct hetsim_buffer_sample buffer_sample;
	struct hetsim_buffer_when_lost buffer_when_lost;
	struct hetsim_export export;
	struct hetsim_import import;
	struct hetsim_bind bind;
	struct hetsim_unbind unbind;
	struct hetsim_queue_create queue_create;
	struct hetsim_queue_destroy queue_destroy;
	struct hetsim_submit submit;
	struct hetsim_wait wait;
	struct hetsim_fence_fd fence_fd;
	struct hetsim_queue_event queue_event;
	struct hetsim_inject inject;
};

/*
 * @min_size reaches to the end of the last member of the structure's first version: it stays
 * when the structure grows. The bytes from @out to @out_end return to the caller: [out] members,
 * and zeroed reserved ones between them.
 */
struct soft_ioctl {
	unsigned long cmd;
	uint32_t size;
	uint32_t min_size;
	uint32_t out;
	uint32_t out_end;
	int (*run)(struct soft_file *file, void *argument);
	bool shows; /* may change CPUs' view of buffers, also on failure */
};

#define SOFT_IOCTL(which, function, type, last, ...)                   \
	[HETSIM_NR_##which] = { .cmd = HETSIM_##which,                 \
				.size = sizeof(struct type),           \
				.min_size = END_OF(struct type, last), \
				.run = function,                       \
				__VA_ARGS__ }
#define OUT(type, first, last) \
	.out = offsetof(struct type, first), .out_end = END_OF(struct type, last)
#define SHOWS .shows = true

static const struct soft_ioctl soft_ioctls[] = {
	SOFT_IOCTL(HANDSHAKE, handshake, hetsim_handshake, accepted,
		   OUT(hetsim_handshake, driver_major, accepted)),
	SOFT_IOCTL(QUERY, query, hetsim_query, window_used,
		   OUT(hetsim_query, index, opener_system_used)),
	SOFT_IOCTL(COUNTERS, counters, hetsim_counters, brackets_missed,
		   OUT(hetsim_counters, faults, engine_ns)),
	SOFT_IOCTL(BUFFER_CREATE, soft_buffer_create, hetsim_buffer_create, capacity,
		   OUT(hetsim_buffer_create, handle, offset), SHOWS),
	SOFT_IOCTL(BUFFER_CLOSE, soft_buffer_close, hetsim_buffer_close, handle),
	SOFT_IOCTL(BUFFER_RESIZE, soft_buffer_resize, hetsim_buffer_resize, length, SHOWS),
	SOFT_IOCTL(BUFFER_INFO, soft_buffer_info, hetsim_buffer_info, window_bytes,
		   OUT(hetsim_buffer_info, place, evictions)),
	SOFT_IOCTL(BUFFER_MOVE, soft_buffer_move, hetsim_buffer_move, length, SHOWS),
	SOFT_IOCTL(BUFFER_SAMPLE, soft_buffer_sample, hetsim_buffer_sample, counts),
	SOFT_IOCTL(BUFFER_WHEN_LOST, soft_buffer_when_lost, hetsim_buffer_when_lost,
		   __reserved),
	SOFT_IOCTL(EXPORT, soft_buffer_export, hetsim_export, __reserved,
		   OUT(hetsim_export, fd, fd)),
	SOFT_IOCTL(IMPORT, soft_buffer_import, hetsim_import, offset,
		   OUT(hetsim_import, handle, offset)),
	SOFT_IOCTL(BIND, soft_bind, hetsim_bind, length),
	SOFT_IOCTL(UNBIND, soft_unbind, hetsim_unbind, length),
	SOFT_IOCTL(QUEUE_CREATE, soft_queue_create, hetsim_queue_create, __reserved,
		   OUT(hetsim_queue_create, queue, queue)),
	SOFT_IOCTL(QUEUE_DESTROY, soft_queue_destroy, hetsim_queue_destroy, queue),
	SOFT_IOCTL(SUBMIT, soft_submit, hetsim_submit, seqno,
		   OUT(hetsim_submit, seqno, failures)),
	SOFT_IOCTL(WAIT, soft_wait, hetsim_wait, fault_address,
		   OUT(hetsim_wait, status, fault_address)),
	SOFT_IOCTL(FENCE_FD, soft_fence_fd, hetsim_fence_fd, flags,
		   OUT(hetsim_fence_fd, fd, fd)),
	SOFT_IOCTL(QUEUE_EVENT, soft_queue_event, hetsim_queue_event, flags),
	SOFT_IOCTL(INJECT, soft_inject, hetsim_inject, value, SHOWS),
};

/* Members that the twin does not know must be zero. */
static int tail_check(const char *user, uint32_t from, uint32_t size)
{
	uint32_t i;

	for (i = from; i < size; i++)
		if (user[i])
			return -E2BIG;
	return 0;
}

int soft_call(struct soft_file *file, unsigned long cmd, void *argument)
{
	const struct soft_ioctl *op;
	union soft_argument buf;
	uint32_t size, end;
	int r;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(soft_ioctls))
		return -ENOTTY;
	op = &soft_ioctls[_IOC_NR(cmd)];
	if (!op->run || op->cmd != cmd)
		return -ENOTTY;
	if (!argument)
		return -EFAULT;
	memcpy(&size, argument, sizeof(size));
	if (size < op->min_size)
		return -EINVAL;
	if (size > SOFT_PAGE)
		return -E2BIG;
	r = tail_check(argument, op->size, size);
	if (r)
		return r;
	memset(&buf, 0, sizeof(buf));
	memcpy(&buf, argument, min_u64(size, op->size));
	buf.size = size;

	r = soft_file_check(file);
	if (r && !(r == -EPROTO && op->run == handshake))
		return r;
	if (file->dev->gone)
		return -ENODEV;

	/* A call that raced with the device's end, or came later, failed for that reason. */
	r = op->run(file, &buf);
	if (op->shows)
		soft_show(file->dev);
	if (r)
		return file->dev->gone ? -ENODEV : r;
	end = (uint32_t)min_u64(size, op->out_end);
	if (op->out < end)
		memcpy((char *)argument + op->out, (const char *)&buf + op->out, end - op->out);
	return 0;
}
