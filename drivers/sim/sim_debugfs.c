// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /sys/kernel/debug/hetsim/hetsimN/objects: every object of the device and its
 * maker. Maps and dma-bufs of a buffer are numbers in its line: /proc/PID/maps and the
 * kernel's own dma_buf/bufinfo name their owners. Only the heading is there once the last
 * object is gone. The objects of a device that was taken away are in hetsimN.lostK, which goes
 * with the last of them. Fences and timelines outlive both, and are in
 * lists of sim_fence.c's and sim_timeline.c's own.
 *
 * The pages of zeros of a lost map are not listed: like its page tables they are a part of
 * the map, which is counted, and no other map has them.
 */
#include <linux/debugfs.h>

#include "sim_queue.h"

#define SIM_DEBUGFS_LOOKS 256u /* at buffers, while other tasks wait for the list */

static struct dentry *sim_debugfs;
static struct dentry *sim_debugfs_plug;

static const char * const sim_places[] = {
	[HETSIM_PLACE_VRAM] = "vram",
	[HETSIM_PLACE_SYSTEM] = "system",
	[HETSIM_PLACE_WINDOW] = "window",
};

static const char * const sim_caches[] = {
	[HETSIM_CACHE_BACK] = "write-back",
	[HETSIM_CACHE_COMBINE] = "write-combining",
};

static void sim_bindings_show(struct seq_file *m, struct sim_opener *opener)
{
	struct sim_account *account = opener->account;
	struct rb_node *node;

	/*
	 * A change of bindings may take seconds. A wait for it with dev->lock held would hold up
	 * open(), which has a lock that the open() of all misc devices takes.
	 */
	if (!mutex_trylock(&opener->va.change)) {
		seq_printf(m, "binding\tbusy\t%llu\t%d\t%s\t0\n", account->id, account->pid,
			   account->comm);
		return;
	}
	for (node = rb_first(&opener->va.bindings); node; node = rb_next(node)) {
		struct sim_binding *binding = rb_entry(node, struct sim_binding, node);

		seq_printf(m, "binding\t0x%llx\t%llu\t%d\t%s\t%llu\n",
			   binding->span.start << PAGE_SHIFT, account->id, account->pid,
			   account->comm, binding->span.n_pages << (PAGE_SHIFT - 10));
		cond_resched();
	}
	mutex_unlock(&opener->va.change);
}

static int sim_objects_show(struct seq_file *m, void *unused)
{
	struct sim_device *dev = m->private;
	struct sim_opener *opener;
	struct sim_buffer *buffer;
	struct sim_queue *queue;
	unsigned int looks = 0;
	unsigned long index;

	seq_puts(m, "object\tname\towner\tpid\tcommand\tKiB\tplace\tcache\treferences\tmaps\texports\tpins\n");

	mutex_lock(&dev->lock);
	list_for_each_entry(opener, &dev->openers, link) {
		struct sim_account *account = opener->account;

		seq_printf(m, "opener\t%llu\t%llu\t%d\t%s\n", account->id, account->id,
			   account->pid, account->comm);
		xa_lock(&opener->queues);
		xa_for_each(&opener->queues, index, queue)
			seq_printf(m, "queue\t%lu\t%llu\t%d\t%s\n", index, account->id,
				   account->pid, account->comm);
		xa_unlock(&opener->queues);
		sim_bindings_show(m, opener);
		if (READ_ONCE(opener->va.mirror))
			seq_printf(m, "mirror\t%u\t%llu\t%d\t%s\n", sim_mirror_chunks(opener),
				   account->id, account->pid, account->comm);
	}
	mutex_unlock(&dev->lock);

	/* A buffer is erased before it is freed: none is before the lock is given up. */
	xa_lock(&dev->buffers);
	xa_for_each(&dev->buffers, index, buffer) {
		const char *place = buffer->import ? "foreign" :
						     sim_places[READ_ONCE(buffer->place)];
		/* Idle dma-bufs and their references have no user to show. */
		unsigned int idle = sim_dmabufs_idle(buffer);

		seq_printf(m, "buffer\t%lu\t%llu\t%d\t%s\t%llu\t%s\t%s\t%u\t%lld\t%u\t%u\n", index,
			   buffer->account->id, buffer->account->pid, buffer->account->comm,
			   READ_ONCE(buffer->n_pages) << (PAGE_SHIFT - 10),
			   place, sim_caches[buffer->cache],
			   kref_read(&buffer->ref) - idle, atomic64_read(&buffer->n_maps),
			   READ_ONCE(buffer->n_exports) - idle, READ_ONCE(buffer->n_pins));
		if (++looks % SIM_DEBUGFS_LOOKS)
			continue;
		xa_unlock(&dev->buffers);
		cond_resched();
		xa_lock(&dev->buffers);
	}
	xa_unlock(&dev->buffers);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sim_objects);

void sim_debugfs_add(struct sim_device *dev)
{
	dev->debugfs = debugfs_create_dir(dev->name, sim_debugfs);
	debugfs_create_file("objects", 0400, dev->debugfs, dev, &sim_objects_fops);
	debugfs_create_file("memcpy", 0600, dev->debugfs, dev, &sim_memcpy_fops);
}

/* Frees the name, which a fresh device may have next. */
void sim_debugfs_lose(struct sim_device *dev)
{
	static atomic_t n_lost;
	char name[48];

	sim_debugfs_remove(dev);
	snprintf(name, sizeof(name), "%s.lost%d", dev->name, atomic_inc_return(&n_lost));
	dev->debugfs = debugfs_create_dir(name, sim_debugfs);
	debugfs_create_file("objects", 0400, dev->debugfs, dev, &sim_objects_fops);
}

/* Waits for readers, which look at the device. */
void sim_debugfs_remove(struct sim_device *dev)
{
	debugfs_remove(dev->debugfs);
	dev->debugfs = NULL;
}

/* The number of a device that was unplugged: it is there again, a fresh one. */
static ssize_t sim_plug_write(struct file *file, const char __user *user, size_t n, loff_t *at)
{
	unsigned int index;
	int r;

	r = kstrtouint_from_user(user, n, 0, &index);
	r = r ?: sim_device_plug(index);
	return r ?: n;
}

static const struct file_operations sim_plug_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = sim_plug_write,
};

void sim_debugfs_init(void)
{
	sim_debugfs = debugfs_create_dir("hetsim", NULL);
	sim_fence_debugfs(sim_debugfs);
	sim_timeline_debugfs(sim_debugfs);
	sim_debugfs_plug = debugfs_create_file("plug", 0200, sim_debugfs, NULL, &sim_plug_fops);
}

/* Afterwards no device comes any more. */
void sim_debugfs_stop(void)
{
	debugfs_remove(sim_debugfs_plug);
}

void sim_debugfs_exit(void)
{
	debugfs_remove(sim_debugfs);
}
