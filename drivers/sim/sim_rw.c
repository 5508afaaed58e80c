// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * pread() and pwrite() at a buffer's offset: the copying path that a map
 * replaces.
 */
#include <linux/highmem.h>
#include <linux/uio.h>

#include "sim.h"

#define SIM_RW_BATCH 16u

/*
 * References on up to SIM_RW_BATCH pages from @position on, because the copy
 * may fault and so can't be made under buffer->lock.
 */
static unsigned int sim_rw_hold(struct sim_buffer *buffer, u64 position, size_t length,
				struct page **pages, bool *ret_blocked)
{
	u64 index = position >> PAGE_SHIFT;
	u64 wanted = DIV_ROUND_UP(offset_in_page(position) + (u64)length, PAGE_SIZE);
	unsigned int n = 0;

	down_read(&buffer->lock);
	while (n < min_t(u64, wanted, SIM_RW_BATCH) && index + n < buffer->n_pages) {
		if (!sim_page_reachable(buffer->dev, buffer->pages[index + n])) {
			*ret_blocked = true;
			break;
		}
		pages[n] = buffer->pages[index + n];
		get_page(pages[n]);
		n++;
	}
	up_read(&buffer->lock);
	return n;
}

/*
 * A move may have replaced the page meanwhile: copies the bytes that were written to the old
 * page to where they belong.
 */
static void sim_rw_mend(struct sim_buffer *buffer, u64 index, struct page *page, size_t inside,
			size_t length)
{
	down_read(&buffer->lock);
	if (index < buffer->n_pages && buffer->pages[index] != page)
		memcpy_page(buffer->pages[index], inside, page, inside, length);
	up_read(&buffer->lock);
}

/* Bytes copied; less than asked at the buffer's end or at a bad pointer. */
static ssize_t sim_rw_copy(struct sim_buffer *buffer, u64 position, struct iov_iter *iter,
			   bool write)
{
	struct page *pages[SIM_RW_BATCH];
	ssize_t done = 0;

	while (iov_iter_count(iter)) {
		bool blocked = false;
		unsigned int n = sim_rw_hold(buffer, position + done, iov_iter_count(iter), pages,
					     &blocked);
		bool stopped = !n;
		unsigned int i;

		if (!n && !done && blocked)
			done = -ENXIO;
		else if (!n && !done && write)
			done = -ENOSPC;
		for (i = 0; i < n; i++) {
			size_t inside = offset_in_page(position + done);
			size_t want = min_t(size_t, PAGE_SIZE - inside, iov_iter_count(iter));
			size_t got = 0;

			if (!stopped && write)
				got = copy_page_from_iter(pages[i], inside, want, iter);
			else if (!stopped)
				got = copy_page_to_iter(pages[i], inside, want, iter);
			if (write && got)
				sim_rw_mend(buffer, (position + done) >> PAGE_SHIFT, pages[i],
					    inside, got);
			stopped |= got != want;
			done += got;
			put_page(pages[i]);
		}
		if (n && stopped && !done)
			done = -EFAULT;
		if (stopped)
			break;
		if (fatal_signal_pending(current) || READ_ONCE(buffer->dev->gone))
			break;
		cond_resched();
	}
	return done;
}

static ssize_t sim_rw(struct kiocb *iocb, struct iov_iter *iter, bool write)
{
	struct sim_opener *opener = iocb->ki_filp->private_data;
	struct sim_device *dev = opener->dev;
	u64 slot = ((u64)iocb->ki_pos >> PAGE_SHIFT) / dev->window_pages;
	struct sim_buffer *buffer;
	u64 position;
	ssize_t ret;

	if (!READ_ONCE(opener->accepted))
		return -EPROTO;
	if (READ_ONCE(dev->gone))
		return -ENODEV;
	if (slot > SIM_MAX_BUFFERS)
		return -ENOENT;
	buffer = sim_buffer_get(opener, slot);
	if (!buffer)
		return -ENOENT;
	sim_buffer_used(buffer);
	position = iocb->ki_pos - ((u64)sim_slot_pgoff(dev, slot) << PAGE_SHIFT);
	if (buffer->import)
		ret = sim_import_rw(buffer, position, iter, write);
	else
		ret = sim_rw_copy(buffer, position, iter, write);
	if (ret > 0) {
		sim_count(dev, buffer->account, write ? SIM_BYTES_WRITTEN : SIM_BYTES_READ, ret);
		iocb->ki_pos += ret;
	}
	sim_buffer_put(buffer);
	return ret;
}

ssize_t sim_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	return sim_rw(iocb, to, false);
}

ssize_t sim_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	return sim_rw(iocb, from, true);
}
