// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffers and their handles: create, close, resize, info.
 */
#include <linux/compat.h>
#include <linux/nospec.h>
#include <linux/slab.h>

#include "sim.h"

static struct page **sim_buffer_array(u64 n_pages)
{
	return kvcalloc(n_pages, sizeof(struct page *), SIM_GFP_KV);
}

/* A buffer that no look-up finds yet, with room for as many pages but none of them. */
struct sim_buffer *sim_buffer_new(struct sim_opener *opener, u64 n_pages)
{
	struct sim_buffer *buffer;
	int r = -ENOMEM;

	if (!atomic_add_unless(&opener->account->n_buffers, 1, SIM_MAX_OPENER_BUFFERS))
		return ERR_PTR(-ENOSPC);
	buffer = kzalloc(sizeof(*buffer), SIM_GFP);
	if (!buffer)
		goto err_count;
	buffer->pages = sim_buffer_array(n_pages);
	if (!buffer->pages)
		goto err_buffer;
	kref_init(&buffer->ref);
	dma_resv_init(&buffer->resv);
	mutex_init(&buffer->change);
	init_rwsem(&buffer->lock);
	INIT_LIST_HEAD(&buffer->charges);
	INIT_LIST_HEAD(&buffer->bindings);
	buffer->sigbus = -1;
	buffer->poison = -1;
	buffer->n_pages = n_pages;
	buffer->capacity = n_pages;
	kref_get(&opener->dev->ref);
	buffer->dev = opener->dev;
	kref_get(&opener->account->ref);
	buffer->account = opener->account;
	buffer->memcg = get_mem_cgroup_from_mm(current->mm);
	sim_buffer_used(buffer);
	return buffer;

err_buffer:
	kfree(buffer);
err_count:
	atomic_dec(&opener->account->n_buffers);
	return ERR_PTR(r);
}

/* Frees a buffer that no look-up finds, and whose pages are gone. */
void sim_buffer_delete(struct sim_buffer *buffer)
{
	struct sim_device *dev = buffer->dev;

	sim_dmem_uncharge(buffer, buffer->n_charged);
	kvfree(buffer->accesses);
	kvfree(buffer->pages);
	mutex_destroy(&buffer->change);
	dma_resv_fini(&buffer->resv);
	mem_cgroup_put(buffer->memcg);
	atomic_dec(&buffer->account->n_buffers);
	sim_account_put(buffer->account);
	kfree(buffer);
	sim_device_put(dev);
}

static void sim_buffer_free(struct kref *ref)
{
	struct sim_buffer *buffer = container_of(ref, struct sim_buffer, ref);

	/* sim_evict() may be looking at it until it is erased, not afterwards. */
	xa_erase(&buffer->dev->buffers, buffer->slot);
	if (buffer->import)
		sim_import_end(buffer);
	else
		sim_mem_pages_put(buffer, buffer->pages, buffer->n_pages);
	sim_buffer_delete(buffer);
}

/* The last slot whose offsets a 32-bit process can map: offsets of mmap2() have 44 bits. */
static u32 sim_slot_most_compat(const struct sim_device *dev)
{
	return min_t(u64, SIM_MAX_BUFFERS, U32_MAX / dev->window_pages);
}

/*
 * Slots that the calling process may have buffers in. The lowest ones are for 32-bit processes, but
 * not all that these can map: buffers of 64-bit processes take the lowest that are left, and can be
 * imported by 32-bit ones as long as those last.
 */
static struct xa_limit sim_slots(const struct sim_device *dev)
{
	u32 most = sim_slot_most_compat(dev);

	if (in_compat_syscall())
		return XA_LIMIT(1, most);
	return XA_LIMIT(min_t(u32, most / 2, SIM_MAX_COMPAT_BUFFERS) + 1, SIM_MAX_BUFFERS);
}

/* Can the calling process map the buffer in that slot? */
bool sim_slot_is_mappable(const struct sim_device *dev, u32 slot)
{
	return !in_compat_syscall() || slot <= sim_slot_most_compat(dev);
}

/*
 * Gives the opener a handle, with the reference, and lets look-ups find the buffer: when this
 * returns 0, another thread may have closed the handle already.
 */
int sim_buffer_publish(struct sim_opener *opener, struct sim_buffer *buffer, u32 *ret_handle)
{
	struct sim_device *dev = opener->dev;
	int r;

	/* Reserved now; look-ups find the buffer once it is stored below. */
	r = xa_alloc(&dev->buffers, &buffer->slot, NULL, sim_slots(dev), SIM_GFP);
	if (r)
		return r == -EBUSY ? -ENOSPC : r;
	r = xa_reserve(&opener->handles, buffer->slot, SIM_GFP);
	if (r) {
		xa_erase(&dev->buffers, buffer->slot);
		buffer->slot = 0;
		return r;
	}

	*ret_handle = buffer->slot;
	buffer->n_handles = 1;
	/* Neither can fail: both places are reserved. The last one publishes. */
	xa_store(&dev->buffers, buffer->slot, buffer, GFP_KERNEL);
	xa_store(&opener->handles, buffer->slot, buffer, GFP_KERNEL);
	return 0;
}

void sim_buffer_put(struct sim_buffer *buffer)
{
	kref_put(&buffer->ref, sim_buffer_free);
}

/*
 * A handle's reference. With the last one of all openers the buffer lets go of its dma-bufs,
 * which have references on it.
 */
void sim_buffer_handle_put(struct sim_buffer *buffer)
{
	struct dma_buf *dmabufs[2] = {};
	unsigned int i;

	down_write(&buffer->lock);
	if (!--buffer->n_handles) {
		for (i = 0; i < ARRAY_SIZE(dmabufs); i++)
			dmabufs[i] = sim_dmabuf_take(buffer, i, false);
	}
	up_write(&buffer->lock);
	sim_dmabufs_put(dmabufs);
	sim_buffer_put(buffer);
}

/* The buffer behind a handle of @opener, with a reference; NULL if none. */
struct sim_buffer *sim_buffer_get(struct sim_opener *opener, u32 handle)
{
	struct sim_buffer *buffer;

	xa_lock(&opener->handles);
	buffer = xa_load(&opener->handles, handle);
	if (buffer)
		kref_get(&buffer->ref);
	xa_unlock(&opener->handles);
	return buffer;
}

void sim_buffers_close(struct sim_opener *opener)
{
	struct sim_buffer *buffer;
	unsigned long slot;

	xa_for_each(&opener->handles, slot, buffer) {
		sim_buffer_handle_put(buffer);
		cond_resched();
	}
	xa_destroy(&opener->handles);
}

int sim_buffer_create(struct file *file, void *argument)
{
	struct hetsim_buffer_create *create = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_device *dev = opener->dev;
	struct sim_buffer *buffer;
	struct sim_lack lack = {};
	u64 n_pages, capacity;
	int r;

	create->place = array_index_nospec(create->place, SIM_N_PLACES);
	if (!(sim_cache_modes() & 1u << create->cache) || !dev->memory.limit[create->place])
		return -EOPNOTSUPP;
	r = sim_length_pages(&dev->memory, create->length, create->place, &n_pages);
	if (r)
		return r;
	r = sim_capacity_pages(&dev->memory, create, &capacity);
	if (r)
		return r;

	buffer = sim_buffer_new(opener, n_pages);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	buffer->place = create->place;
	buffer->cache = create->cache;
	buffer->capacity = capacity;
	buffer->pages_in[create->place] = n_pages;
	do {
		r = sim_mem_pages_get(buffer, create->place, buffer->pages, 0, n_pages, NULL,
				      false, &lack);
		if (r == -ENOSPC)
			r = sim_mem_make_room(buffer, &lack) ?: -EAGAIN;
	} while (r == -EAGAIN);
	if (r)
		goto err_buffer;

	r = sim_buffer_publish(opener, buffer, &create->handle);
	if (r)
		goto err_pages;
	create->offset = (u64)sim_slot_pgoff(dev, create->handle) << PAGE_SHIFT;
	return 0;

err_pages:
	sim_mem_pages_put(buffer, buffer->pages, n_pages);
err_buffer:
	sim_buffer_delete(buffer);
	return r;
}

int sim_buffer_close(struct file *file, void *argument)
{
	struct hetsim_buffer_close *close = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;

	buffer = sim_name_take(&opener->handles, close->handle);
	if (!buffer)
		return -ENOENT;
	sim_buffer_handle_put(buffer);
	return 0;
}

/*
 * All pages are there before anything changes. With buffer->change held.
 */
static int sim_buffer_grow(struct sim_buffer *buffer, u64 n_pages, struct sim_lack *lack)
{
	u64 old_n = buffer->n_pages, more = n_pages - old_n;
	struct page **pages, **old;
	atomic_t *accesses;
	int r;

	if (!sim_mem_may_pin_more(buffer, more)) {
		lack->n_pages = 0; /* no room of other openers helps */
		return -ENOSPC;
	}
	pages = sim_buffer_array(n_pages);
	if (!pages)
		return -ENOMEM;
	r = sim_mem_pages_get(buffer, buffer->place, pages, old_n, more, NULL, false, lack);
	if (r)
		goto err_array;

	down_write(&buffer->lock);
	r = sim_mem_pin_more(buffer, more);
	if (r) {
		up_write(&buffer->lock);
		goto err_pages;
	}
	/* A sample is of so many pages; one that can't grow keeps it. */
	accesses = buffer->accesses;
	buffer->accesses = NULL;
	old = buffer->pages;
	memcpy(pages, old, old_n * sizeof(*pages));
	buffer->pages = pages;
	buffer->n_pages = n_pages;
	buffer->capacity = max(buffer->capacity, n_pages);
	buffer->pages_in[buffer->place] += more;
	sim_va_rebind(buffer, old_n, more, false);
	up_write(&buffer->lock);
	kvfree(accesses);
	kvfree(old);
	return 0;

err_pages:
	sim_mem_pages_put(buffer, pages + old_n, more);
	sim_dmem_settle(buffer);
err_array:
	kvfree(pages);
	return r;
}

/* With buffer->change held. The array keeps its length until the next growth. */
static int sim_buffer_shrink(struct sim_buffer *buffer, u64 n_pages)
{
	struct dma_buf *idle[2];
	u64 old_n = buffer->n_pages, i;

	/* From here on no fault brings back the pages that the next step takes away. */
	down_write(&buffer->lock);
	for (i = 0; i < ARRAY_SIZE(idle); i++)
		idle[i] = sim_dmabuf_take(buffer, i, true);
	if (buffer->n_exports) {
		up_write(&buffer->lock);
		sim_dmabufs_put(idle);
		return -EBUSY;
	}
	buffer->n_pages = n_pages;
	for (i = n_pages; i < old_n; i++)
		buffer->pages_in[sim_page_place(buffer->pages[i])]--;
	sim_va_rebind(buffer, n_pages, old_n - n_pages, false);
	up_write(&buffer->lock);
	sim_dmabufs_put(idle);

	sim_sample_stop(buffer);
	sim_mmap_revoke(buffer, n_pages, old_n - n_pages);
	sim_mem_pages_put(buffer, buffer->pages + n_pages, old_n - n_pages);
	sim_dmem_settle(buffer);
	return 0;
}

static int sim_buffer_set(struct sim_buffer *buffer, u64 length, struct sim_lack *lack)
{
	u64 n_pages;
	int r;

	if (mutex_lock_interruptible(&buffer->change))
		return -EINTR;
	r = sim_length_pages(&buffer->dev->memory, length, buffer->place, &n_pages);
	if (!r && buffer->import)
		r = -EOPNOTSUPP;
	if (!r && n_pages > buffer->n_pages)
		r = sim_buffer_grow(buffer, n_pages, lack);
	else if (!r && n_pages < buffer->n_pages)
		r = sim_buffer_shrink(buffer, n_pages);
	mutex_unlock(&buffer->change);
	return r;
}

/*
 * The maker may change the length: it is charged, and its bytes go. Once the maker's file is
 * closed, every opener that has the buffer may.
 */
static bool sim_buffer_may_resize(struct sim_opener *opener, struct sim_buffer *buffer)
{
	return buffer->account == opener->account || READ_ONCE(buffer->account->closed);
}

int sim_buffer_resize(struct file *file, void *argument)
{
	struct hetsim_buffer_resize *resize = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;
	struct sim_lack lack = {};
	int r;

	buffer = sim_buffer_get(opener, resize->handle);
	if (!buffer)
		return -ENOENT;
	if (!sim_buffer_may_resize(opener, buffer)) {
		r = -EPERM;
		goto out_put;
	}
	do {
		r = sim_buffer_set(buffer, resize->length, &lack);
		if (r == -ENOSPC)
			r = sim_mem_make_room(buffer, &lack) ?: -EAGAIN;
	} while (r == -EAGAIN);
out_put:
	sim_buffer_put(buffer);
	return r;
}

int sim_buffer_info(struct file *file, void *argument)
{
	struct hetsim_buffer_info *info = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;

	buffer = sim_buffer_get(opener, info->handle);
	if (!buffer)
		return -ENOENT;
	down_read(&buffer->lock);
	info->length = buffer->n_pages << PAGE_SHIFT;
	info->vram_bytes = buffer->pages_in[HETSIM_PLACE_VRAM] << PAGE_SHIFT;
	info->system_bytes = buffer->pages_in[HETSIM_PLACE_SYSTEM] << PAGE_SHIFT;
	info->window_bytes = buffer->pages_in[HETSIM_PLACE_WINDOW] << PAGE_SHIFT;
	info->cache = buffer->import ? HETSIM_CACHE_BACK : sim_cache_of(buffer->pages[0]);
	up_read(&buffer->lock);
	info->place = READ_ONCE(buffer->place);
	info->offset = (u64)sim_slot_pgoff(buffer->dev, buffer->slot) << PAGE_SHIFT;
	info->maps = atomic64_read(&buffer->n_maps);
	info->evictions = atomic64_read(&buffer->n_evictions);
	sim_buffer_put(buffer);
	return 0;
}
