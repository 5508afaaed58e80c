// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The table of ioctls and their one entry; the calls about the device itself.
 */
#include <linux/file.h>
#include <linux/nospec.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>

#include "sim.h"

const struct sim_kind sim_kinds[] = {
	[HETSIM_KIND_GPU] = {
		.name = "gpu",
		.granule_min = SZ_128M,
		.granule_max = SZ_128M,
		.dma_align = 4,
		.max_segment = SZ_1G,
	},
	[HETSIM_KIND_FPGA] = {
		.name = "fpga",
		.granule_min = SZ_64K,
		.granule_max = SZ_64K,
		.dma_align = 64,
		.max_segment = SZ_1M,
	},
	[HETSIM_KIND_NIC] = {
		.name = "nic",
		.granule_min = SZ_2M,
		.granule_max = SZ_4M,
		.dma_align = 8,
		.max_segment = SZ_4M,
	},
};

static int sim_handshake(struct file *file, void *argument)
{
	struct hetsim_handshake *shake = argument;
	struct sim_opener *opener = file->private_data;

	if (shake->flags & ~HETSIM_HANDSHAKE_ZERO_WHEN_LOST)
		return -EINVAL;

	shake->driver_major = HETSIM_VERSION_MAJOR;
	shake->driver_minor = HETSIM_VERSION_MINOR;
	shake->driver_features = SIM_FEATURES;
	shake->minimum_minor = SIM_MINOR_VERSION_MINIMUM;
	shake->accepted = shake->version_major == HETSIM_VERSION_MAJOR &&
			  shake->version_minor >= SIM_MINOR_VERSION_MINIMUM &&
			  !(shake->features & ~(u64)SIM_FEATURES);
	WRITE_ONCE(opener->zero_when_lost, shake->flags & HETSIM_HANDSHAKE_ZERO_WHEN_LOST);
	WRITE_ONCE(opener->accepted, shake->accepted);
	return 0;
}

static int sim_query(struct file *file, void *argument)
{
	struct hetsim_query *query = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_device *dev = opener->dev;
	const struct sim_kind *kind = &sim_kinds[dev->kind];
	u64 used[SIM_N_PLACES], mine[SIM_N_PLACES], opener_used = 0;
	unsigned int i;

	if (query->flags)
		return -EINVAL;

	spin_lock(&dev->memory_lock);
	memcpy(used, dev->pages_used, sizeof(used));
	memcpy(mine, opener->account->pages_used, sizeof(mine));
	spin_unlock(&dev->memory_lock);
	for (i = 0; i < SIM_N_PLACES; i++)
		opener_used += mine[i];

	query->index = dev->index;
	query->kind = dev->kind;
	query->page_size = PAGE_SIZE;
	query->cache_modes = sim_cache_modes();
	query->granule_min = kind->granule_min;
	query->granule_max = kind->granule_max;
	query->dma_align = kind->dma_align;
	query->max_segment = kind->max_segment;
	query->max_buffer = sim_max_pages(dev) << PAGE_SHIFT;
	query->vram_bytes = dev->pages_limit[HETSIM_PLACE_VRAM] << PAGE_SHIFT;
	query->vram_used = (used[HETSIM_PLACE_VRAM] + used[HETSIM_PLACE_WINDOW]) << PAGE_SHIFT;
	query->system_bytes = dev->pages_limit[HETSIM_PLACE_SYSTEM] << PAGE_SHIFT;
	query->system_used = used[HETSIM_PLACE_SYSTEM] << PAGE_SHIFT;
	query->opener_bytes = dev->opener_pages << PAGE_SHIFT;
	query->opener_used = opener_used << PAGE_SHIFT;
	query->window_bytes = dev->pages_limit[HETSIM_PLACE_WINDOW] << PAGE_SHIFT;
	query->window_used = used[HETSIM_PLACE_WINDOW] << PAGE_SHIFT;
	query->opener_system_bytes = dev->opener_system_pages << PAGE_SHIFT;
	query->opener_system_used = mine[HETSIM_PLACE_SYSTEM] << PAGE_SHIFT;
	query->max_queues = SIM_MAX_QUEUES;
	query->max_commands = SIM_MAX_COMMANDS;
	query->max_pending = SIM_MAX_PENDING;
	query->timeout_ms = SIM_TIMEOUT_MS;
	return 0;
}

static int sim_counters(struct file *file, void *argument)
{
	struct hetsim_counters *reply = argument;
	struct sim_opener *opener = file->private_data;
	const struct sim_counters *counters;
	__u64 *values = &reply->faults;
	unsigned int i;

	BUILD_BUG_ON(sizeof(*reply) - offsetof(struct hetsim_counters, faults) !=
		     SIM_N_COUNTERS * sizeof(*values));

	switch (reply->scope) {
	case HETSIM_SCOPE_OPENER:
		counters = &opener->account->counters;
		break;
	case HETSIM_SCOPE_DEVICE:
		counters = &opener->dev->counters;
		break;
	default:
		return -EINVAL;
	}
	sim_brackets_look(opener->dev);
	for (i = 0; i < SIM_N_COUNTERS; i++)
		values[i] = atomic64_read(&counters->value[i]);
	return 0;
}

union sim_argument {
	u32 size;
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

/* A call on its way: its argument, and the open file that its answer has a descriptor of. */
struct sim_call {
	union sim_argument argument;
	struct file *file; /* with a reference; NULL: there is none */
	int fd;		   /* reserved for it */
};

/*
 * Reserves the descriptor that the answer of a call has, and takes over the reference on @file.
 * The process gets the descriptor once the answer is written, and not at all if it can't be.
 * Returns the descriptor, or a negative errno, which leaves the reference to the caller.
 */
int sim_reply_file(void *argument, struct file *file)
{
	struct sim_call *call = container_of(argument, struct sim_call, argument);
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		return fd;
	call->file = file;
	call->fd = fd;
	return fd;
}

static void sim_reply_end(struct sim_call *call, int r)
{
	if (!call->file)
		return;
	if (r) {
		put_unused_fd(call->fd);
		fput(call->file);
	} else {
		fd_install(call->fd, call->file);
	}
}

/*
 * @min_size reaches to the end of the last member of the structure's first
 * version: it stays when the structure grows. The answer is from @out to @out_end:
 * [out] members, and reserved ones between them, which are zero.
 */
struct sim_ioctl {
	unsigned int cmd;
	u32 size;
	u32 min_size;
	u32 out;
	u32 out_end;
	int (*run)(struct file *file, void *argument);
};

#define SIM_IOCTL(which, function, type, last, ...)                                \
	[HETSIM_NR_##which] = {                                                    \
		.cmd = HETSIM_##which,                                             \
		.size = sizeof(struct type) + BUILD_BUG_ON_ZERO(                   \
			sizeof(union sim_argument) < sizeof(struct type)),         \
		.min_size = offsetofend(struct type, last),                        \
		.run = function,                                                   \
		__VA_ARGS__                                                        \
	}
#define SIM_OUT(type, first, last)                                                 \
	.out = offsetof(struct type, first), .out_end = offsetofend(struct type, last)

static const struct sim_ioctl sim_ioctls[] = {
	SIM_IOCTL(HANDSHAKE, sim_handshake, hetsim_handshake, accepted,
		  SIM_OUT(hetsim_handshake, driver_major, accepted)),
	SIM_IOCTL(QUERY, sim_query, hetsim_query, window_used,
		  SIM_OUT(hetsim_query, index, opener_system_used)),
	SIM_IOCTL(COUNTERS, sim_counters, hetsim_counters, brackets_missed,
		  SIM_OUT(hetsim_counters, faults, engine_ns)),
	SIM_IOCTL(BUFFER_CREATE, sim_buffer_create, hetsim_buffer_create, capacity,
		  SIM_OUT(hetsim_buffer_create, handle, offset)),
	SIM_IOCTL(BUFFER_CLOSE, sim_buffer_close, hetsim_buffer_close, handle),
	SIM_IOCTL(BUFFER_RESIZE, sim_buffer_resize, hetsim_buffer_resize, length),
	SIM_IOCTL(BUFFER_INFO, sim_buffer_info, hetsim_buffer_info, window_bytes,
		  SIM_OUT(hetsim_buffer_info, place, evictions)),
	SIM_IOCTL(BUFFER_MOVE, sim_buffer_move, hetsim_buffer_move, length),
	SIM_IOCTL(BUFFER_SAMPLE, sim_buffer_sample, hetsim_buffer_sample, counts),
	SIM_IOCTL(BUFFER_WHEN_LOST, sim_buffer_when_lost, hetsim_buffer_when_lost, __reserved),
	SIM_IOCTL(EXPORT, sim_buffer_export, hetsim_export, __reserved,
		  SIM_OUT(hetsim_export, fd, fd)),
	SIM_IOCTL(IMPORT, sim_buffer_import, hetsim_import, offset,
		  SIM_OUT(hetsim_import, handle, offset)),
	SIM_IOCTL(BIND, sim_bind, hetsim_bind, length),
	SIM_IOCTL(UNBIND, sim_unbind, hetsim_unbind, length),
	SIM_IOCTL(QUEUE_CREATE, sim_queue_create, hetsim_queue_create, __reserved,
		  SIM_OUT(hetsim_queue_create, queue, queue)),
	SIM_IOCTL(QUEUE_DESTROY, sim_queue_destroy, hetsim_queue_destroy, queue),
	SIM_IOCTL(SUBMIT, sim_submit, hetsim_submit, seqno,
		  SIM_OUT(hetsim_submit, seqno, failures)),
	SIM_IOCTL(WAIT, sim_wait, hetsim_wait, fault_address,
		  SIM_OUT(hetsim_wait, status, fault_address)),
	SIM_IOCTL(FENCE_FD, sim_fence_fd, hetsim_fence_fd, flags,
		  SIM_OUT(hetsim_fence_fd, fd, fd)),
	SIM_IOCTL(QUEUE_EVENT, sim_queue_event, hetsim_queue_event, flags),
	SIM_IOCTL(INJECT, sim_inject, hetsim_inject, value),
};

long sim_ioctl(struct file *file, unsigned int cmd, unsigned long argument)
{
	struct sim_opener *opener = file->private_data;
	void __user *user = (void __user *)argument;
	const struct sim_ioctl *op;
	struct sim_call call = {};
	void *buf = &call.argument;
	u32 size, end;
	int r;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(sim_ioctls))
		return -ENOTTY;
	op = &sim_ioctls[array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(sim_ioctls))];
	if (!op->run || op->cmd != cmd)
		return -ENOTTY;

	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < op->min_size)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	r = copy_struct_from_user(buf, op->size, user, size);
	if (r)
		return r;
	call.argument.size = size; /* the caller may have changed it since */

	if (op->run != sim_handshake && !READ_ONCE(opener->accepted))
		return -EPROTO;
	if (READ_ONCE(opener->dev->gone))
		return -ENODEV;

	r = op->run(file, buf);
	end = min(size, op->out_end);
	if (!r && op->out < end && copy_to_user(user + op->out, buf + op->out, end - op->out))
		r = -EFAULT;
	sim_reply_end(&call, r);
	return r;
}
