// SPDX-License-Identifier: MIT
/*
 * The one entry of the twin's calls; the calls about the device itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "soft/mirror.h"

int soft_handshake(struct soft_file *file, void *argument)
{
	struct hetsim_handshake *shake = argument;

	sim_handshake_answer(shake, soft_mirror_works() ? HETSIM_FEATURE_MIRROR : 0);
	file->zero_when_lost = shake->flags & HETSIM_HANDSHAKE_ZERO_WHEN_LOST;
	file->accepted = shake->accepted;
	return 0;
}

int soft_query(struct soft_file *file, void *argument)
{
	struct hetsim_query *query = argument;
	struct soft_device *dev = file->dev;

	query->index = dev->index;
	query->cache_modes = 1u << HETSIM_CACHE_BACK;
	pthread_mutex_lock(&dev->memory_lock);
	sim_query_answer(dev->kind, &dev->memory, file->account->pages_used, query);
	pthread_mutex_unlock(&dev->memory_lock);
	return 0;
}

int soft_counters(struct soft_file *file, void *argument)
{
	struct hetsim_counters *reply = argument;
	const struct soft_counters *counters = reply->scope == HETSIM_SCOPE_OPENER ?
						       &file->account->counters :
						       &file->dev->counters;
	__u64 *values = &reply->faults;
	unsigned int i;

	for (i = 0; i < SIM_N_COUNTERS; i++)
		values[i] = atomic_load_explicit(&counters->value[i], memory_order_relaxed);
	return 0;
}

static int (*const calls[])(struct soft_file *file, void *argument) = {
#define HETSIM_CALL(NAME, name, last) [HETSIM_NR_##NAME] = soft_##name,
#include "model/calls.h"
};

/* May the call change CPUs' view of buffers, also on failure? */
static bool changes_view(unsigned long cmd)
{
	return cmd == HETSIM_BUFFER_CREATE || cmd == HETSIM_BUFFER_RESIZE ||
	       cmd == HETSIM_BUFFER_MOVE || cmd == HETSIM_INJECT;
}

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
	const struct sim_layout *layout = cmd <= UINT_MAX ? sim_layout_find(cmd) : NULL;
	union sim_argument buf;
	uint32_t size, end;
	int r;

	if (!layout)
		return -ENOTTY;
	if (!argument)
		return -EFAULT;
	memcpy(&size, argument, sizeof(size));
	if (size < layout->min_size)
		return -EINVAL;
	if (size > SIM_PAGE_SIZE)
		return -E2BIG;
	r = tail_check(argument, layout->size, size);
	if (r)
		return r;
	memset(&buf, 0, sizeof(buf));
	memcpy(&buf, argument, min_u64(size, layout->size));
	buf.size = size;

	r = soft_file_check(file);
	if (r && !(r == -EPROTO && cmd == HETSIM_HANDSHAKE))
		return r;
	if (file->dev->gone)
		return -ENODEV;

	r = sim_argument_check((unsigned int)cmd, &buf, (file->flags & O_ACCMODE) != O_RDONLY);
	if (!r) {
		r = calls[_IOC_NR(cmd)](file, &buf);
		if (changes_view(cmd))
			soft_show(file->dev);
	}
	/* A call that raced with the device's end, or came later, failed for that reason. */
	if (r)
		return file->dev->gone ? -ENODEV : r;
	end = (uint32_t)min_u64(size, layout->out_end);
	if (layout->out < end)
		memcpy((char *)argument + layout->out, (const char *)&buf + layout->out,
		       end - layout->out);
	return 0;
}
