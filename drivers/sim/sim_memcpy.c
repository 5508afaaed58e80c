// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /sys/kernel/debug/hetsim/hetsimN/memcpy: bare memcpy() of one buffer's pages into
 * another's, to compare the engine's copy with. "DESTINATION SOURCE", two handles of
 * whatever opener, is written; how many ns it took is read from the same open file.
 */
#include <linux/debugfs.h>
#include <linux/highmem.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "sim.h"

struct sim_memcpy {
	struct sim_device *dev;
	u64 ns; /* that the last one took */
};

/* Finds the buffer, with a reference; NULL if the slot has none of this device's memory. */
static struct sim_buffer *sim_memcpy_buffer(struct sim_device *dev, unsigned int slot)
{
	struct sim_buffer *buffer;

	xa_lock(&dev->buffers);
	buffer = xa_load(&dev->buffers, slot);
	if (buffer && (buffer->import || !kref_get_unless_zero(&buffer->ref)))
		buffer = NULL;
	xa_unlock(&dev->buffers);
	return buffer;
}

/* With both locks held. */
static u64 sim_memcpy_pages(struct sim_buffer *to, struct sim_buffer *from)
{
	u64 n = min(to->n_pages, from->n_pages), i;
	u64 start = ktime_get_ns();

	for (i = 0; i < n; i++) {
		void *source = kmap_local_page(from->pages[i]);
		void *destination = kmap_local_page(to->pages[i]);

		memcpy(destination, source, PAGE_SIZE);
		kunmap_local(destination);
		kunmap_local(source);
		cond_resched();
	}
	return ktime_get_ns() - start;
}

/* Two locks of a kind: in the order of their slots. */
static u64 sim_memcpy_locked(struct sim_buffer *to, struct sim_buffer *from)
{
	struct sim_buffer *first = to->slot < from->slot ? to : from;
	struct sim_buffer *second = first == to ? from : to;
	u64 ns;

	down_read(&first->lock);
	down_read_nested(&second->lock, SINGLE_DEPTH_NESTING);
	ns = sim_memcpy_pages(to, from);
	up_read(&second->lock);
	up_read(&first->lock);
	return ns;
}

static ssize_t sim_memcpy_write(struct file *file, const char __user *user, size_t n, loff_t *at)
{
	struct sim_memcpy *state = file->private_data;
	struct sim_buffer *to, *from;
	unsigned int slots[2];
	char text[32];
	int r = n;

	if (n >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, user, n))
		return -EFAULT;
	text[n] = 0;
	if (sscanf(text, "%u %u", &slots[0], &slots[1]) != 2 || slots[0] == slots[1])
		return -EINVAL;
	to = sim_memcpy_buffer(state->dev, slots[0]);
	if (!to)
		return -ENOENT;
	from = sim_memcpy_buffer(state->dev, slots[1]);
	if (!from) {
		r = -ENOENT;
		goto out_to;
	}
	WRITE_ONCE(state->ns, sim_memcpy_locked(to, from));
	sim_buffer_put(from);
out_to:
	sim_buffer_put(to);
	return r;
}

static ssize_t sim_memcpy_read(struct file *file, char __user *user, size_t n, loff_t *at)
{
	struct sim_memcpy *state = file->private_data;
	char text[32];
	int length = snprintf(text, sizeof(text), "%llu\n", READ_ONCE(state->ns));

	return simple_read_from_buffer(user, n, at, text, length);
}

static int sim_memcpy_open(struct inode *inode, struct file *file)
{
	struct sim_memcpy *state = kzalloc(sizeof(*state), GFP_KERNEL);

	if (!state)
		return -ENOMEM;
	state->dev = inode->i_private;
	file->private_data = state;
	return 0;
}

static int sim_memcpy_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

const struct file_operations sim_memcpy_fops = {
	.owner = THIS_MODULE,
	.open = sim_memcpy_open,
	.release = sim_memcpy_release,
	.read = sim_memcpy_read,
	.write = sim_memcpy_write,
};
