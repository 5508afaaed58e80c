// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffers that are memory of other devices, taken in as dma-bufs.
 *
 * The attachment is a static one: the exporter keeps the memory where it is until
 * the last handle and binding are gone, or this device is, so nothing here has to follow its
 * moves. The engine reaches it by DMA addresses, as a device does. A CPU's map is the
 * exporter's own, and the exporter decides its fate.
 */
#include <linux/dma-buf.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/memremap.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "sim.h"

struct sim_import {
	struct sim_buffer *buffer; /* that has this import */
	struct dma_buf *dmabuf; /* with a reference */
	enum dma_data_direction direction;

	struct dma_buf_attachment *attachment;
	struct sg_table *table;
	/* In sim_device.imports, under its lock. The task that unlinks it ends the attachment. */
	struct list_head link;
};

/*
 * Exporters choose their errnos; callers get those of this device. An exporter of the same kind
 * has -ENOSPC, when as many pages as may be are pinned already.
 */
static int sim_import_errno(int r)
{
	return !r || r == -ENOMEM || r == -ENOSPC || r == -EINTR || r == -ERESTARTSYS ?
		       r : -EOPNOTSUPP;
}

/*
 * The page that a DMA address of this device stands for; NULL if there is none
 * that the engine could use: behind an IOMMU, in a bounce buffer, in another
 * device's own memory.
 */
static struct page *sim_import_page(struct device *dma, dma_addr_t address)
{
	phys_addr_t physical;

	if (get_dma_ops(dma) || device_iommu_mapped(dma) || dma_need_sync(dma, address))
		return NULL;
	physical = dma_to_phys(dma, address);
	if (offset_in_page(physical) || !pfn_valid(PHYS_PFN(physical)) ||
	    is_zone_device_page(pfn_to_page(PHYS_PFN(physical))))
		return NULL;
	return pfn_to_page(PHYS_PFN(physical));
}

static int sim_import_pages(struct sim_buffer *buffer)
{
	struct sg_dma_page_iter at;
	u64 n = 0;

	for_each_sgtable_dma_page(buffer->import->table, &at, 0) {
		struct page *page = sim_import_page(buffer->dev->parent,
						    sg_page_iter_dma_address(&at));

		if (!page || n == buffer->n_pages)
			return -EOPNOTSUPP;
		buffer->pages[n++] = page;
	}
	return n == buffer->n_pages ? 0 : -EOPNOTSUPP;
}

/* From here to sim_import_leave() the removal of the device waits. */
static int sim_import_enter(struct sim_device *dev)
{
	int r = 0;

	spin_lock(&dev->imports_lock);
	if (READ_ONCE(dev->gone))
		r = -ENODEV;
	else
		dev->n_attached++;
	spin_unlock(&dev->imports_lock);
	return r;
}

static void sim_import_leave(struct sim_device *dev)
{
	spin_lock(&dev->imports_lock);
	if (!--dev->n_attached)
		wake_up(&dev->detached);
	spin_unlock(&dev->imports_lock);
}

/* The exporter may wait for its own work here: the caller holds no lock that other openers take. */
static int sim_import_attach(struct sim_import *import)
{
	struct sim_device *dev = import->buffer->dev;
	int r;

	r = sim_import_enter(dev);
	if (r)
		return r;
	import->attachment = dma_buf_attach(import->dmabuf, dev->parent);
	if (IS_ERR(import->attachment)) {
		r = sim_import_errno(PTR_ERR(import->attachment));
		goto err_leave;
	}
	import->table = dma_buf_map_attachment_unlocked(import->attachment, import->direction);
	if (IS_ERR(import->table)) {
		r = sim_import_errno(PTR_ERR(import->table));
		goto err_detach;
	}
	return 0;

err_detach:
	dma_buf_detach(import->dmabuf, import->attachment);
err_leave:
	sim_import_leave(dev);
	return r;
}

/* Nothing uses the pages any more. The exporter may wait, as above. */
static void sim_import_detach(struct sim_import *import)
{
	dma_buf_unmap_attachment_unlocked(import->attachment, import->table, import->direction);
	dma_buf_detach(import->dmabuf, import->attachment);
	sim_import_leave(import->buffer->dev);
}

/* From here on, sim_imports_lose() may take the buffer's pages away and end the attachment. */
static int sim_import_link(struct sim_import *import)
{
	struct sim_device *dev = import->buffer->dev;
	int r = 0;

	spin_lock(&dev->imports_lock);
	if (READ_ONCE(dev->gone))
		r = -ENODEV;
	else
		list_add(&import->link, &dev->imports);
	spin_unlock(&dev->imports_lock);
	return r;
}

/* True: the caller ends the attachment. False: sim_imports_lose() has ended it. */
static bool sim_import_unlink(struct sim_import *import)
{
	struct sim_device *dev = import->buffer->dev;
	bool linked;

	spin_lock(&dev->imports_lock);
	linked = !list_empty(&import->link);
	list_del_init(&import->link);
	spin_unlock(&dev->imports_lock);
	return linked;
}

/*
 * Takes a reference on the dma-buf. Once this returns 0, other tasks may have references on the
 * buffer.
 */
static int sim_import_begin(struct sim_buffer *buffer, struct dma_buf *dmabuf, bool write)
{
	struct sim_import *import;
	int r;

	import = kzalloc(sizeof(*import), SIM_GFP);
	if (!import)
		return -ENOMEM;
	INIT_LIST_HEAD(&import->link);
	import->buffer = buffer;
	get_dma_buf(dmabuf);
	import->dmabuf = dmabuf;
	import->direction = write ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
	r = sim_import_attach(import);
	if (r)
		goto err_put;
	buffer->import = import;
	r = sim_import_pages(buffer);
	if (r)
		goto err_detach;
	r = sim_import_link(import);
	if (r)
		goto err_detach;
	return 0;

err_detach:
	buffer->import = NULL;
	sim_import_detach(import);
err_put:
	dma_buf_put(dmabuf);
	kfree(import);
	return r;
}

/* Nothing uses the memory any more: no handle, no binding, no call. */
void sim_import_end(struct sim_buffer *buffer)
{
	struct sim_import *import = buffer->import;

	if (sim_import_unlink(import))
		sim_import_detach(import);
	dma_buf_put(import->dmabuf);
	kfree(import);
}

/*
 * Unlinks an attached import: with a reference on its buffer, because the last one ends it. NULL
 * if there is none but those that other tasks are ending.
 */
static struct sim_import *sim_import_take(struct sim_device *dev)
{
	struct sim_import *import;

	spin_lock(&dev->imports_lock);
	list_for_each_entry(import, &dev->imports, link) {
		if (kref_get_unless_zero(&import->buffer->ref)) {
			list_del_init(&import->link);
			spin_unlock(&dev->imports_lock);
			return import;
		}
	}
	spin_unlock(&dev->imports_lock);
	return NULL;
}

/*
 * The device goes, and is not attached to anything afterwards: the driver core then undoes the
 * preparation of its DMA. It is marked as gone, so nothing new begins. The buffers stay, without
 * pages.
 */
void sim_imports_lose(struct sim_device *dev)
{
	struct sim_import *import;

	while ((import = sim_import_take(dev))) {
		struct sim_buffer *buffer = import->buffer;
		u64 n_pages;

		/* The engine and sim_import_copy() use the pages with a lock held. */
		down_write(&buffer->lock);
		n_pages = buffer->n_pages;
		buffer->n_pages = 0;
		sim_va_rebind(buffer, 0, n_pages, false);
		up_write(&buffer->lock);
		sim_import_detach(import);
		sim_buffer_put(buffer);
		cond_resched();
	}
	/* Other tasks end attachments, or hear now that the device is gone. */
	wait_event(dev->detached, !READ_ONCE(dev->n_attached));
}

/* The fences of the buffer: all its users have the same, so an import has its exporter's. */
struct dma_resv *sim_buffer_resv(struct sim_buffer *buffer)
{
	return buffer->import ? buffer->import->dmabuf->resv : &buffer->resv;
}

#define SIM_IMPORT_LOOKS 256u /* at buffers, while other tasks wait for the handles */

/*
 * The handle that the opener has for the dma-buf already; 0 if none. With
 * opener->importing held, under which alone one comes.
 */
static u32 sim_import_find(struct sim_opener *opener, struct dma_buf *dmabuf)
{
	struct sim_buffer *buffer;
	unsigned int looks = 0;
	unsigned long slot;
	u32 found = 0;

	xa_lock(&opener->handles);
	xa_for_each(&opener->handles, slot, buffer) {
		if (buffer->import && buffer->import->dmabuf == dmabuf) {
			found = slot;
			break;
		}
		if (++looks % SIM_IMPORT_LOOKS)
			continue;
		xa_unlock(&opener->handles);
		cond_resched();
		xa_lock(&opener->handles);
	}
	xa_unlock(&opener->handles);
	return found;
}

static int sim_import_new(struct sim_opener *opener, struct dma_buf *dmabuf, bool write,
			  u32 *ret_handle)
{
	struct sim_buffer *buffer;
	int r;

	if (!dmabuf->size || offset_in_page(dmabuf->size))
		return -EOPNOTSUPP;
	if (dmabuf->size >> PAGE_SHIFT > sim_memory_most(&opener->dev->memory))
		return -ENOSPC;
	buffer = sim_buffer_new(opener, dmabuf->size >> PAGE_SHIFT);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	buffer->place = HETSIM_PLACE_SYSTEM;
	r = sim_import_begin(buffer, dmabuf, write);
	if (r) {
		sim_buffer_delete(buffer);
		return r;
	}
	r = sim_buffer_publish(opener, buffer, ret_handle);
	if (r)
		sim_buffer_put(buffer); /* sim_imports_lose() may have a reference, too */
	return r;
}

/* The handle for memory of another device: one, however many threads ask for it. */
int sim_import_foreign(struct sim_opener *opener, struct dma_buf *dmabuf, bool write,
		       u32 *ret_handle)
{
	u32 handle;
	int r = 0;

	if (mutex_lock_interruptible(&opener->importing))
		return -EINTR;
	handle = sim_import_find(opener, dmabuf);
	if (handle)
		*ret_handle = handle;
	else
		r = sim_import_new(opener, dmabuf, write, ret_handle);
	mutex_unlock(&opener->importing);
	return r;
}

/* The map is the exporter's, as if it had been made of the dma-buf. */
int sim_import_mmap(struct sim_buffer *buffer, struct vm_area_struct *vma)
{
	struct dma_buf *dmabuf = buffer->import->dmabuf;
	u64 first;
	int r;

	r = sim_mmap_check(buffer, vma, &first);
	if (r)
		return r;
	if (!dmabuf->ops->mmap)
		return -EOPNOTSUPP;
	return sim_import_errno(dma_buf_mmap(dmabuf, vma, first));
}

/*
 * Copies a part of a page, with the lock held that keeps the page in place. Memory of the caller
 * that is absent is not brought in. Returns the number of bytes copied, or -ENODEV.
 */
static ssize_t sim_import_copy_page(struct sim_buffer *buffer, u64 position, size_t length,
				    struct iov_iter *iter, bool write)
{
	u64 index = position >> PAGE_SHIFT;
	size_t inside = offset_in_page(position);
	ssize_t got = -ENODEV;

	down_read(&buffer->lock);
	pagefault_disable();
	if (index < buffer->n_pages && write)
		got = copy_page_from_iter(buffer->pages[index], inside, length, iter);
	else if (index < buffer->n_pages)
		got = copy_page_to_iter(buffer->pages[index], inside, length, iter);
	pagefault_enable();
	up_read(&buffer->lock);
	return got;
}

/*
 * Bytes copied; less than asked at a bad pointer, when the caller is to die, or when a signal comes
 * while nothing is copied: memory that faults bring in may be taken away before each copy.
 */
static ssize_t sim_import_copy(struct sim_buffer *buffer, u64 position, size_t length,
			       struct iov_iter *iter, bool write)
{
	size_t done = 0;

	while (done < length && !fatal_signal_pending(current)) {
		size_t inside = offset_in_page(position + done);
		size_t want = min_t(size_t, length - done, PAGE_SIZE - inside), missing;
		ssize_t got;

		missing = write ? fault_in_iov_iter_readable(iter, want) :
				  fault_in_iov_iter_writeable(iter, want);
		if (missing == want)
			return done ?: -EFAULT;
		got = sim_import_copy_page(buffer, position + done, want - missing, iter, write);
		if (!got && signal_pending(current))
			got = -EINTR;
		if (got < 0)
			return done ?: got;
		done += got;
		cond_resched();
	}
	return done;
}

/*
 * pread() and pwrite(), in the brackets that the exporter wants, and on the pages that
 * the engine uses: its vmap() would take memory, and the kernel warns where there is none.
 */
ssize_t sim_import_rw(struct sim_buffer *buffer, u64 position, struct iov_iter *iter, bool write)
{
	enum dma_data_direction direction = write ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	struct dma_buf *dmabuf = buffer->import->dmabuf;
	u64 size = dmabuf->size;
	ssize_t ret;

	if (position >= size)
		return write && iov_iter_count(iter) ? -ENOSPC : 0;
	ret = sim_import_errno(dma_buf_begin_cpu_access(dmabuf, direction));
	if (ret)
		return ret;
	ret = sim_import_copy(buffer, position,
			      min_t(u64, iov_iter_count(iter), size - position), iter, write);
	dma_buf_end_cpu_access(dmabuf, direction);
	return ret;
}
