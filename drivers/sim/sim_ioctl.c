// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The one entry of the ioctls; the calls about the device itself.
 */
#include <linux/file.h>
#include <linux/uaccess.h>

#include "sim.h"

int sim_handshake(struct file *file, void *argument)
{
	struct hetsim_handshake *shake = argument;
	struct sim_opener *opener = file->private_data;

	sim_handshake_answer(shake, SIM_MORE_FEATURES);
	WRITE_ONCE(opener->zero_when_lost, shake->flags & HETSIM_HANDSHAKE_ZERO_WHEN_LOST);
	WRITE_ONCE(opener->accepted, shake->accepted);
	return 0;
}

int sim_query(struct file *file, void *argument)
{
	struct hetsim_query *query = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_device *dev = opener->dev;

	sim_store_drain(dev->store);
	query->index = dev->index;
	query->cache_modes = sim_cache_modes();
	spin_lock(&dev->memory_lock);
	sim_query_answer(dev->kind, &dev->memory, opener->account->pages_used, query);
	spin_unlock(&dev->memory_lock);
	return 0;
}

int sim_counters(struct file *file, void *argument)
{
	struct hetsim_counters *reply = argument;
	struct sim_opener *opener = file->private_data;
	const struct sim_counters *counters = reply->scope == HETSIM_SCOPE_OPENER ?
						      &opener->account->counters :
						      &opener->dev->counters;
	__u64 *values = &reply->faults;
	unsigned int i;

	sim_brackets_look(opener->dev);
	for (i = 0; i < SIM_N_COUNTERS; i++)
		values[i] = atomic64_read(&counters->value[i]);
	return 0;
}

/* A call on its way: its argument, and the open files that its answer has descriptors of. */
struct sim_call {
	union sim_argument argument;
	unsigned int n_files;
	struct file *file[HETSIM_MAX_SYNCS]; /* each with a reference */
	int fd[HETSIM_MAX_SYNCS]; /* reserved for them */
};

/*
 * Reserves a descriptor that the answer of a call has, and takes over the reference on @file.
 * The process gets the descriptor once the answer is written, and not at all if it can't be.
 * Returns the descriptor, or a negative errno, which leaves the reference to the caller.
 */
int sim_reply_file(void *argument, struct file *file)
{
	struct sim_call *call = container_of(argument, struct sim_call, argument);
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		return fd;
	call->file[call->n_files] = file;
	call->fd[call->n_files++] = fd;
	return fd;
}

static void sim_reply_end(struct sim_call *call, int r)
{
	unsigned int i;

	for (i = 0; i < call->n_files; i++) {
		if (r) {
			put_unused_fd(call->fd[i]);
			fput(call->file[i]);
		} else {
			fd_install(call->fd[i], call->file[i]);
		}
	}
}

static int (*const sim_calls[])(struct file *file, void *argument) = {
#define HETSIM_CALL(NAME, name, last) \
	[HETSIM_NR_##NAME] = sim_##name,
#include "model/calls.h"
};

long sim_ioctl(struct file *file, unsigned int cmd, unsigned long argument)
{
	struct sim_opener *opener = file->private_data;
	void __user *user = (void __user *)argument;
	const struct sim_layout *layout = sim_layout_find(cmd);
	struct sim_call call = {};
	void *buf = &call.argument;
	u32 size, end;
	int r;

	if (!layout)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < layout->min_size)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	r = copy_struct_from_user(buf, layout->size, user, size);
	if (r)
		return r;
	call.argument.size = size; /* the caller may have changed it since */

	if (cmd != HETSIM_HANDSHAKE && !READ_ONCE(opener->accepted))
		return -EPROTO;
	if (READ_ONCE(opener->dev->gone))
		return -ENODEV;

	r = sim_argument_check(cmd, buf, file->f_mode & FMODE_WRITE);
	if (r)
		return r;
	r = sim_calls[_IOC_NR(layout->cmd)](file, buf);
	end = min(size, layout->out_end);
	if (!r && layout->out < end &&
	    copy_to_user(user + layout->out, buf + layout->out, end - layout->out))
		r = -EFAULT;
	sim_reply_end(&call, r);
	return r;
}
