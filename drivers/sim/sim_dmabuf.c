// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffers as dma-bufs: exported for other devices and processes, and taken in
 * again by another opener of the same device. Dma-bufs of other exporters: sim_import.c.
 *
 * A buffer keeps the dma-bufs that it gave, one writable and one read-only, until its last
 * handle goes, as GEM does: an importer of two exports has one object. A dma-buf without other
 * users is idle and does not count as an export. All dma-bufs of a buffer share its dma_resv.
 */
#include <linux/dma-buf.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "sim.h"

/* The private data of a dma-buf, with a reference on the buffer. */
struct sim_export {
	struct sim_buffer *buffer;
	u64 n_pages;		/* as exported: a buffer does not shrink meanwhile */
	bool counted;		/* in buffer->n_exports; under buffer->lock */
	struct sim_brackets brackets;
};

/* Bytes of a segment that the device can take, whole pages. */
static unsigned int sim_dmabuf_segment(struct device *dev)
{
	size_t most = min_t(size_t, dma_max_mapping_size(dev), dma_get_max_seg_size(dev));

	return max_t(size_t, rounddown(most, PAGE_SIZE), PAGE_SIZE);
}

/*
 * True if the device reaches the pages themselves, and not copies in bounce buffers, and sees
 * stores of CPUs without being told. An IOMMU maps whole pages where they are, but dma_need_sync()
 * may be true for all behind one: always in 6.1, and later once any of the device was bounced.
 */
static bool sim_dmabuf_is_shared(struct device *dev, const struct sg_table *table)
{
	struct scatterlist *segment;
	unsigned int i;

	if (sim_uses_iommu(dev))
		return dev_is_dma_coherent(dev);
	for_each_sgtable_dma_sg(table, segment, i) {
		if (dma_need_sync(dev, sg_dma_address(segment)))
			return false;
	}
	return true;
}

/*
 * From the first mapping to the last, pages stay where they are: another device
 * has their addresses.
 */
static struct sg_table *sim_dmabuf_map(struct dma_buf_attachment *attachment,
				       enum dma_data_direction direction)
{
	struct sim_export *export = attachment->dmabuf->priv;
	struct sim_buffer *buffer = export->buffer;
	struct sg_table *table;
	int r;

	if (READ_ONCE(buffer->dev->gone))
		return ERR_PTR(-ENODEV);
	table = kzalloc(sizeof(*table), SIM_GFP);
	if (!table)
		return ERR_PTR(-ENOMEM);

	/* Neither growing, which replaces the array, nor a move comes between. */
	down_write(&buffer->lock);
	r = sim_mem_pin(buffer, false);
	if (!r) {
		r = sg_alloc_table_from_pages_segment(table, buffer->pages, export->n_pages, 0,
						      export->n_pages << PAGE_SHIFT,
						      sim_dmabuf_segment(attachment->dev),
						      SIM_GFP);
		if (r)
			sim_mem_unpin(buffer);
	}
	up_write(&buffer->lock);
	if (r)
		goto err_free;
	r = dma_map_sgtable(attachment->dev, table, direction, 0);
	if (r)
		goto err_table;
	if (!sim_dmabuf_is_shared(attachment->dev, table)) {
		r = -EOPNOTSUPP;
		goto err_map;
	}
	return table;

err_map:
	/* Copying back would overwrite the bytes that CPUs have stored since. */
	dma_unmap_sgtable(attachment->dev, table, direction, DMA_ATTR_SKIP_CPU_SYNC);
err_table:
	sg_free_table(table);
	down_write(&buffer->lock);
	sim_mem_unpin(buffer);
	up_write(&buffer->lock);
err_free:
	kfree(table);
	return ERR_PTR(r);
}

static void sim_dmabuf_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			     enum dma_data_direction direction)
{
	struct sim_export *export = attachment->dmabuf->priv;
	struct sim_buffer *buffer = export->buffer;

	dma_unmap_sgtable(attachment->dev, table, direction, 0);
	sg_free_table(table);
	kfree(table);
	down_write(&buffer->lock);
	sim_mem_unpin(buffer);
	up_write(&buffer->lock);
}

/*
 * The kernel waits for the fences of other drivers once this has returned, and fails the call
 * when a signal interrupts it. This function waits first, so that a bracket that was not begun
 * is not counted, unless a fence is added between the two waits and a signal ends the second.
 */
static int sim_dmabuf_begin(struct dma_buf *dmabuf, enum dma_data_direction direction)
{
	struct sim_export *export = dmabuf->priv;
	long left;
	int r;

	left = dma_resv_wait_timeout(dmabuf->resv,
				     dma_resv_usage_rw(direction != DMA_FROM_DEVICE),
				     true, MAX_SCHEDULE_TIMEOUT);
	if (left < 0)
		return left;
	if (READ_ONCE(export->buffer->dev->gone))
		return -ENODEV;
	r = sim_bracket_begin(&export->brackets);
	if (r)
		return r;
	sim_count(export->buffer->dev, export->buffer->account, SIM_BRACKETS, 1);
	return 0;
}

/* This device exists to find an end without its begin. */
static int sim_dmabuf_end(struct dma_buf *dmabuf, enum dma_data_direction direction)
{
	struct sim_export *export = dmabuf->priv;
	int r = sim_bracket_end(&export->brackets);

	if (r)
		sim_count(export->buffer->dev, export->buffer->account, SIM_BRACKETS_MISSED, 1);
	return r;
}

/*
 * The map is the buffer's, and is found by revocation as such: the dma-buf's file
 * has the address space of the device. Rights are looked at here, too: of a map of another
 * driver's object, which has this dma-buf behind it, mmap() has seen that driver's file.
 */
static int sim_dmabuf_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct sim_export *export = dmabuf->priv;
	struct sim_buffer *buffer = export->buffer;

	if (READ_ONCE(buffer->dev->gone))
		return -ENODEV;
	if (!(dmabuf->file->f_mode & FMODE_WRITE)) {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vma->vm_pgoff += sim_slot_pgoff(buffer->dev, buffer->slot);
	return sim_mmap_buffer(buffer, vma, false);
}

/*
 * For other drivers' CPU accesses: the pages stay meanwhile, as for their devices. Succeeds
 * even when the device is gone, which begin_cpu_access() reports: the kernel warns of an
 * exporter whose vmap() fails.
 */
static int sim_dmabuf_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct sim_export *export = dmabuf->priv;
	struct sim_buffer *buffer = export->buffer;
	pgprot_t protection = PAGE_KERNEL;
	void *address;

	if (buffer->cache == HETSIM_CACHE_COMBINE)
		protection = pgprot_writecombine(protection);
	sim_buffer_pin(buffer);
	down_read(&buffer->lock);
	address = vmap(buffer->pages, export->n_pages, VM_MAP, protection);
	up_read(&buffer->lock);
	if (!address) {
		down_write(&buffer->lock);
		sim_mem_unpin(buffer);
		up_write(&buffer->lock);
		return -ENOMEM;
	}
	iosys_map_set_vaddr(map, address);
	return 0;
}

static void sim_dmabuf_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct sim_export *export = dmabuf->priv;
	struct sim_buffer *buffer = export->buffer;

	vunmap(map->vaddr);
	down_write(&buffer->lock);
	sim_mem_unpin(buffer);
	up_write(&buffer->lock);
}

/* With buffer->lock held. */
static void sim_export_count(struct sim_export *export, bool counted)
{
	struct sim_buffer *buffer = export->buffer;

	if (export->counted == counted)
		return;
	export->counted = counted;
	WRITE_ONCE(buffer->n_exports, counted ? buffer->n_exports + 1 : buffer->n_exports - 1);
}

static void sim_export_end(struct sim_export *export)
{
	struct sim_buffer *buffer = export->buffer;

	sim_brackets_remove(&export->brackets);
	down_write(&buffer->lock);
	sim_export_count(export, false);
	up_write(&buffer->lock);
	sim_buffer_put(buffer);
	kfree(export);
}

static void sim_dmabuf_release(struct dma_buf *dmabuf)
{
	sim_export_end(dmabuf->priv);
}

static const struct dma_buf_ops sim_dmabuf_ops = {
	.map_dma_buf		= sim_dmabuf_map,
	.unmap_dma_buf		= sim_dmabuf_unmap,
	.begin_cpu_access	= sim_dmabuf_begin,
	.end_cpu_access		= sim_dmabuf_end,
	.mmap			= sim_dmabuf_mmap,
	.vmap			= sim_dmabuf_vmap,
	.vunmap			= sim_dmabuf_vunmap,
	.release		= sim_dmabuf_release,
};

/*
 * True if the buffer's own reference is the only one. A new user can then come only through the
 * buffer, under buffer->lock, which the caller holds. (A walk over the list of all dma-bufs may
 * hold a reference for a moment.)
 */
static bool sim_dmabuf_is_unused(struct dma_buf *dmabuf)
{
	return file_count(dmabuf->file) == 1;
}

/* The caller has a reference on the buffer; the dma-buf may have ended. */
bool sim_dmabuf_is_idle(struct sim_buffer *buffer, struct dma_buf *dmabuf)
{
	bool idle;

	down_read(&buffer->lock);
	idle = dmabuf && (dmabuf == buffer->dmabufs[0] || dmabuf == buffer->dmabufs[1]) &&
	       sim_dmabuf_is_unused(dmabuf);
	up_read(&buffer->lock);
	return idle;
}

/*
 * Takes the buffer's reference to a kept dma-buf; the caller puts it after it has dropped
 * buffer->lock, which it holds here. An idle dma-buf stops counting as an export.
 */
struct dma_buf *sim_dmabuf_take(struct sim_buffer *buffer, unsigned int write, bool idle_only)
{
	struct dma_buf *dmabuf = buffer->dmabufs[write];
	bool unused = dmabuf && sim_dmabuf_is_unused(dmabuf);

	if (!dmabuf || (idle_only && !unused))
		return NULL;
	buffer->dmabufs[write] = NULL;
	if (unused)
		sim_export_count(dmabuf->priv, false);
	return dmabuf;
}

void sim_dmabufs_put(struct dma_buf **dmabufs)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (dmabufs[i])
			dma_buf_put(dmabufs[i]);
	}
}

/*
 * Makes a dma-buf that the buffer does not keep yet. The dma-buf keeps the buffer, and through its
 * file operations the module.
 */
static struct dma_buf *sim_dmabuf_make(struct sim_buffer *buffer, bool write)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct sim_export *export;
	struct dma_buf *dmabuf;

	export = kzalloc(sizeof(*export), SIM_GFP);
	if (!export)
		return ERR_PTR(-ENOMEM);
	kref_get(&buffer->ref);
	export->buffer = buffer;
	down_write(&buffer->lock);
	export->n_pages = buffer->n_pages;
	sim_export_count(export, true);
	up_write(&buffer->lock);
	sim_brackets_add(&export->brackets, buffer);

	info.ops = &sim_dmabuf_ops;
	info.size = export->n_pages << PAGE_SHIFT;
	info.flags = write ? O_RDWR : O_RDONLY;
	info.resv = &buffer->resv;
	info.priv = export;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		sim_export_end(export);
		return dmabuf;
	}
	WRITE_ONCE(export->brackets.dmabuf, dmabuf);
	dmabuf->file->f_mapping = buffer->dev->inode->i_mapping;
	return dmabuf;
}

/*
 * The dma-buf that the buffer keeps, with one more reference. If it keeps none of its present
 * length, it keeps @fresh from here on, in the place of a shorter one, *ret_old. NULL if it
 * keeps neither. With dev->brackets_lock held: the brackets of former users are closed before
 * a new user begins one.
 */
static struct dma_buf *sim_dmabuf_keep(struct sim_buffer *buffer, bool write,
				       struct dma_buf *fresh, struct dma_buf **ret_old)
{
	struct sim_export *export;
	struct dma_buf *dmabuf;
	bool unused = false;

	down_write(&buffer->lock);
	dmabuf = buffer->dmabufs[write];
	export = dmabuf ? dmabuf->priv : NULL;
	if (export && export->n_pages == buffer->n_pages) {
		unused = sim_dmabuf_is_unused(dmabuf);
	} else {
		dmabuf = fresh;
		export = dmabuf ? dmabuf->priv : NULL;
		/* Without a handle nothing would end the kept dma-buf. */
		if (dmabuf && (!buffer->n_handles || export->n_pages != buffer->n_pages))
			dmabuf = NULL;
		if (dmabuf) {
			*ret_old = sim_dmabuf_take(buffer, write, false);
			buffer->dmabufs[write] = dmabuf;
		}
	}
	if (dmabuf)
		get_dma_buf(dmabuf);
	up_write(&buffer->lock);
	if (unused)
		sim_brackets_miss(&export->brackets);
	return dmabuf;
}

static struct dma_buf *sim_dmabuf_get(struct sim_buffer *buffer, bool write)
{
	struct dma_buf *kept, *fresh, *old = NULL;
	struct mutex *lock = &buffer->dev->brackets_lock;

	mutex_lock(lock);
	kept = sim_dmabuf_keep(buffer, write, NULL, &old);
	mutex_unlock(lock);
	if (kept)
		return kept;
	fresh = sim_dmabuf_make(buffer, write);
	if (IS_ERR(fresh))
		return fresh;
	mutex_lock(lock);
	kept = sim_dmabuf_keep(buffer, write, fresh, &old);
	mutex_unlock(lock);
	if (old)
		dma_buf_put(old);
	if (!kept || kept == fresh)
		return fresh;
	dma_buf_put(fresh); /* another thread was here */
	return kept;
}

/*
 * How many of its dma-bufs are there for the next export alone, each of which has a reference
 * on the buffer. None, where it can't be told at once: the caller need not be able to sleep.
 */
unsigned int sim_dmabufs_idle(struct sim_buffer *buffer)
{
	unsigned int i, n = 0;

	if (!down_read_trylock(&buffer->lock))
		return 0;
	for (i = 0; i < ARRAY_SIZE(buffer->dmabufs); i++)
		n += buffer->dmabufs[i] && sim_dmabuf_is_unused(buffer->dmabufs[i]);
	up_read(&buffer->lock);
	return n;
}

/*
 * The device is marked as gone, and devices with a dynamic attachment hear of it. Their mappings
 * stay until they undo them; the kernel maps and tells under the same lock, so that none is made
 * afterwards (6.1 maps a dynamic attachment without it). With the list's lock held, under which
 * alone dma-bufs end.
 */
void sim_dmabufs_revoke(struct sim_device *dev)
{
	struct sim_brackets *brackets;

	mutex_lock(&dev->brackets_lock);
	list_for_each_entry(brackets, &dev->brackets, link) {
		struct dma_buf *dmabuf = READ_ONCE(brackets->dmabuf);

		if (!dmabuf)
			continue; /* being made */
		dma_resv_lock(dmabuf->resv, NULL);
		dma_buf_move_notify(dmabuf);
		dma_resv_unlock(dmabuf->resv);
		cond_resched();
	}
	mutex_unlock(&dev->brackets_lock);
}

int sim_export(struct file *file, void *argument)
{
	struct hetsim_export *ask = argument;
	struct sim_buffer *buffer;
	struct dma_buf *dmabuf;
	int fd, r = 0;

	buffer = sim_buffer_get(file->private_data, ask->handle);
	if (!buffer)
		return -ENOENT;
	if (buffer->import) {
		r = -EOPNOTSUPP; /* its own exporter exports it */
		goto out;
	}
	dmabuf = sim_dmabuf_get(buffer, ask->flags & HETSIM_EXPORT_WRITE);
	if (IS_ERR(dmabuf)) {
		r = PTR_ERR(dmabuf);
		goto out;
	}
	fd = sim_reply_file(argument, dmabuf->file);
	if (fd < 0) {
		dma_buf_put(dmabuf);
		r = fd;
		goto out;
	}
	ask->fd = fd;
out:
	sim_buffer_put(buffer);
	return r;
}

static struct sim_buffer *sim_dmabuf_buffer(struct dma_buf *dmabuf)
{
	return ((struct sim_export *)dmabuf->priv)->buffer;
}

/*
 * A buffer of this device, which the dma-buf has a reference on, is itself again. Where its
 * last handle has gone meanwhile it keeps the dma-buf anew, so that there is one still.
 */
static int sim_dmabuf_handle(struct sim_opener *opener, struct dma_buf *dmabuf, u32 *ret_handle)
{
	bool write = dmabuf->file->f_mode & FMODE_WRITE;
	struct sim_export *export = dmabuf->priv;
	struct sim_buffer *buffer = export->buffer;
	void *old;

	if (!sim_slot_is_mappable(buffer->dev, buffer->slot))
		return -EOPNOTSUPP;
	kref_get(&buffer->ref);
	down_write(&buffer->lock);
	buffer->n_handles++;
	if (!buffer->dmabufs[write] && export->n_pages == buffer->n_pages) {
		get_dma_buf(dmabuf);
		buffer->dmabufs[write] = dmabuf;
	}
	up_write(&buffer->lock);
	old = xa_cmpxchg(&opener->handles, buffer->slot, NULL, buffer, SIM_GFP);
	if (old)
		sim_buffer_handle_put(buffer); /* the one that is there has a reference */
	if (xa_is_err(old))
		return xa_err(old);
	*ret_handle = buffer->slot;
	return 0;
}

int sim_import(struct file *file, void *argument)
{
	struct hetsim_import *ask = argument;
	struct sim_opener *opener = file->private_data;
	bool write = file->f_mode & FMODE_WRITE;
	struct dma_buf *dmabuf;
	int r;

	dmabuf = dma_buf_get(ask->fd);
	if (IS_ERR(dmabuf))
		return -EINVAL;
	/* A handle has the rights of the open file that it is on. */
	if (write && !(dmabuf->file->f_mode & FMODE_WRITE))
		r = -EACCES;
	else if (dmabuf->ops == &sim_dmabuf_ops && sim_dmabuf_buffer(dmabuf)->dev == opener->dev)
		r = sim_dmabuf_handle(opener, dmabuf, &ask->handle);
	else
		r = sim_import_foreign(opener, dmabuf, write, &ask->handle);
	if (!r) {
		ask->length = dmabuf->size;
		ask->offset = (u64)sim_slot_pgoff(opener->dev, ask->handle) << PAGE_SHIFT;
	}
	dma_buf_put(dmabuf);
	return r;
}
