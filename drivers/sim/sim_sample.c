// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Which pages CPUs use: while a buffer is sampled, each page is mapped by itself
 * when it is touched, and counted; reading the counts unmaps all, so that a page that is
 * used again is counted again.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "sim.h"

#define SIM_SAMPLE_BATCH 512u

/* Starts a sample, with buffer->change held. The counts of a former one are gone. */
static int sim_sample_start(struct sim_buffer *buffer)
{
	atomic_t *fresh, *old;

	fresh = kvcalloc(buffer->n_pages, sizeof(*fresh), SIM_GFP_KV);
	if (!fresh)
		return -ENOMEM;
	down_write(&buffer->lock);
	old = buffer->accesses;
	buffer->accesses = fresh;
	up_write(&buffer->lock);
	sim_mmap_revoke(buffer, 0, buffer->n_pages);
	kvfree(old);
	return 0;
}

/* Stops a sample, with buffer->change held. A change of length does so, too: before it grows. */
void sim_sample_stop(struct sim_buffer *buffer)
{
	atomic_t *old;

	down_write(&buffer->lock);
	old = buffer->accesses;
	buffer->accesses = NULL;
	up_write(&buffer->lock);
	kvfree(old);
}

/* With buffer->lock held. */
static int sim_sample_check(const struct sim_buffer *buffer, u64 first, u64 n_pages)
{
	if (!buffer->accesses)
		return -ENOENT;
	return first > buffer->n_pages || n_pages > buffer->n_pages - first ? -ERANGE : 0;
}

static int sim_sample_batch(struct sim_buffer *buffer, u64 first, unsigned int n, u32 *batch)
{
	unsigned int i;
	int r;

	down_read(&buffer->lock);
	r = sim_sample_check(buffer, first, n);
	for (i = 0; i < n && !r; i++)
		batch[i] = atomic_read(&buffer->accesses[first + i]);
	up_read(&buffer->lock);
	return r;
}

static int sim_sample_read(struct sim_buffer *buffer, u64 first, u64 n_pages, u32 __user *user)
{
	u64 done = 0;
	u32 *batch;
	int r;

	batch = kmalloc_array(SIM_SAMPLE_BATCH, sizeof(*batch), GFP_KERNEL);
	if (!batch)
		return -ENOMEM;
	/* Before anything is written: a call that fails has told nothing. */
	down_read(&buffer->lock);
	r = sim_sample_check(buffer, first, n_pages);
	up_read(&buffer->lock);
	while (done < n_pages && !r) {
		unsigned int n = min_t(u64, n_pages - done, SIM_SAMPLE_BATCH);

		r = sim_sample_batch(buffer, first + done, n, batch);
		if (!r && copy_to_user(user + done, batch, n * sizeof(*batch)))
			r = -EFAULT;
		done += n;
		cond_resched();
	}
	kfree(batch);
	if (!r)
		sim_mmap_revoke(buffer, first, n_pages);
	return r;
}

int sim_buffer_sample(struct file *file, void *argument)
{
	struct hetsim_buffer_sample *sample = argument;
	struct sim_opener *opener = file->private_data;
	bool read = sample->action == HETSIM_SAMPLE_READ;
	struct sim_buffer *buffer;
	int r;

	buffer = sim_buffer_get(opener, sample->handle);
	if (!buffer)
		return -ENOENT;
	if (buffer->import) {
		r = -EOPNOTSUPP; /* its maps are not this device's */
		goto out;
	}
	/* Counts tell the maker's doings, and a start or stop ends the maker's own sample. */
	if (buffer->account != opener->account) {
		r = -EPERM;
		goto out;
	}
	if (read) {
		r = sim_sample_read(buffer, sample->offset >> PAGE_SHIFT,
				    sample->length >> PAGE_SHIFT,
				    u64_to_user_ptr(sample->counts));
		goto out;
	}
	if (mutex_lock_interruptible(&buffer->change)) {
		r = -EINTR;
		goto out;
	}
	r = sample->action == HETSIM_SAMPLE_START ? sim_sample_start(buffer) : 0;
	if (sample->action == HETSIM_SAMPLE_STOP)
		sim_sample_stop(buffer);
	mutex_unlock(&buffer->change);
out:
	sim_buffer_put(buffer);
	return r;
}
