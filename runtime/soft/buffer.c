// SPDX-License-Identifier: MIT
/* The twin's buffers: create, close, resize, info. */
#include <errno.h>
#include <stdlib.h>

#include "soft/twin.h"

/* Makes a buffer without pages, which has no slot yet. */
static int buffer_new(struct soft_file *file, struct soft_buffer **ret_buffer)
{
	struct soft_account *account = file->account;
	struct soft_buffer *buffer;
	int r;

	if (atomic_fetch_add(&account->n_buffers, 1) >= SIM_MAX_OPENER_BUFFERS) {
		r = -ENOSPC;
		goto err_count;
	}
	buffer = sys_calloc(1, sizeof(*buffer));
	if (!buffer) {
		r = -ENOMEM;
		goto err_count;
	}
	atomic_init(&buffer->refs, 1);
	pthread_mutex_init(&buffer->change, NULL);
	soft_rwlock_init(&buffer->lock);
	CDS_INIT_LIST_HEAD(&buffer->bindings);
	CDS_INIT_LIST_HEAD(&buffer->fences);
	buffer->sigbus = SOFT_NO_PAGE;
	buffer->poison = SOFT_NO_PAGE;
	atomic_fetch_add(&file->dev->refs, 1);
	buffer->dev = file->dev;
	atomic_fetch_add(&account->refs, 1);
	buffer->account = account;
	soft_buffer_used(buffer);
	*ret_buffer = buffer;
	return 0;

err_count:
	atomic_fetch_sub(&account->n_buffers, 1);
	return r;
}

/* Frees a buffer that has neither slot nor pages any more. */
static void buffer_delete(struct soft_buffer *buffer)
{
	struct soft_device *dev = buffer->dev;

	soft_fences_free(buffer);
	pthread_rwlock_destroy(&buffer->lock);
	pthread_mutex_destroy(&buffer->change);
	atomic_fetch_sub(&buffer->account->n_buffers, 1);
	soft_account_put(buffer->account);
	free(buffer);
	soft_device_put(dev);
}

static void buffer_free(struct soft_buffer *buffer)
{
	unsigned int place;

	soft_sample_stop(buffer);
	soft_pages_free(buffer);
	for (place = 0; place < SIM_N_PLACES; place++)
		soft_memory_give(buffer, place, buffer->pages_in[place]);
	buffer_delete(buffer);
}

void soft_buffer_put(struct soft_buffer *buffer)
{
	if (atomic_fetch_sub(&buffer->refs, 1) != 1)
		return;
	soft_slot_free(buffer);
	buffer_free(buffer);
}

int soft_buffer_create(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_create *create = argument;
	struct soft_device *dev = file->dev;
	struct soft_buffer *buffer = NULL;
	struct sim_lack lack = { 0 };
	uint64_t n_pages, capacity;
	int r;

	if (create->cache != HETSIM_CACHE_BACK || !dev->memory.limit[create->place])
		return -EOPNOTSUPP;
	r = sim_length_pages(&dev->memory, create->length, create->place, &n_pages);
	if (r)
		return r;
	r = sim_capacity_pages(&dev->memory, create, &capacity);
	if (r)
		return r;

	r = buffer_new(file, &buffer);
	if (r)
		return r;
	buffer->place = create->place;
	buffer->cache = create->cache;
	buffer->n_pages = n_pages;
	buffer->capacity = capacity;
	do {
		r = soft_memory_take(buffer, create->place, n_pages, NULL, false, &lack);
	} while (r == -ENOSPC && !soft_memory_make_room(buffer, &lack));
	if (r)
		goto err_buffer;
	r = soft_pages_make(buffer);
	if (r)
		goto err_memory;
	buffer->pages_in[create->place] = n_pages;
	r = soft_buffer_publish(file, buffer, &create->handle);
	if (r)
		goto err_pages;
	create->offset = soft_slot_offset(dev, create->handle);
	return 0;

err_pages:
	soft_pages_free(buffer);
err_memory:
	soft_memory_give(buffer, create->place, n_pages);
err_buffer:
	buffer_delete(buffer);
	return r;
}

int soft_buffer_close(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_close *close = argument;
	struct soft_buffer *buffer = soft_handle_take(file, close->handle);

	if (!buffer)
		return -ENOENT;
	soft_buffer_put(buffer);
	return 0;
}

/* The process itself unplugs the device: no map raises SIGBUS before it is replaced. */
int soft_buffer_when_lost(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_when_lost *lost = argument;
	struct soft_buffer *buffer;

	buffer = soft_buffer_get(file, lost->handle);
	if (!buffer)
		return -ENOENT;
	soft_buffer_put(buffer);
	return lost->when == HETSIM_WHEN_LOST_DEFAULT ? 0 : -EOPNOTSUPP;
}

/* The caller holds buffer->change. */
static int buffer_resize(struct soft_buffer *buffer, uint64_t length, struct sim_lack *lack)
{
	uint64_t n_pages;
	int r;

	if (buffer->dev->gone)
		return -ENODEV;
	r = sim_length_pages(&buffer->dev->memory, length, buffer->place, &n_pages);
	if (r)
		return r;
	if (n_pages != buffer->n_pages)
		soft_sample_stop(buffer);
	if (n_pages > buffer->n_pages)
		return soft_pages_grow(buffer, n_pages, lack);
	return n_pages < buffer->n_pages ? soft_pages_shrink(buffer, n_pages) : 0;
}

/*
 * May the file change the buffer's length? Its maker may: the bytes count as the maker's, and
 * are lost in a shrink. Once the maker has closed its file, any opener with a handle may.
 */
static bool may_resize(const struct soft_file *file, const struct soft_buffer *buffer)
{
	return buffer->account == file->account || atomic_load(&buffer->account->closed);
}

int soft_buffer_resize(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_resize *resize = argument;
	struct sim_lack lack = { 0 };
	struct soft_buffer *buffer;
	int r;

	buffer = soft_buffer_get(file, resize->handle);
	if (!buffer)
		return -ENOENT;
	if (!may_resize(file, buffer)) {
		r = -EPERM;
		goto out;
	}
	do {
		pthread_mutex_lock(&buffer->change);
		r = buffer_resize(buffer, resize->length, &lack);
		pthread_mutex_unlock(&buffer->change);
	} while (r == -ENOSPC && !soft_memory_make_room(buffer, &lack));
out:
	soft_buffer_put(buffer);
	return r;
}

int soft_buffer_info(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_info *info = argument;
	struct soft_buffer *buffer = soft_buffer_get(file, info->handle);

	if (!buffer)
		return -ENOENT;
	pthread_rwlock_rdlock(&buffer->lock);
	info->length = buffer->n_pages << SIM_PAGE_SHIFT;
	info->vram_bytes = buffer->pages_in[HETSIM_PLACE_VRAM] << SIM_PAGE_SHIFT;
	info->system_bytes = buffer->pages_in[HETSIM_PLACE_SYSTEM] << SIM_PAGE_SHIFT;
	info->window_bytes = buffer->pages_in[HETSIM_PLACE_WINDOW] << SIM_PAGE_SHIFT;
	pthread_rwlock_unlock(&buffer->lock);
	info->place = buffer->place;
	info->cache = buffer->cache;
	info->offset = soft_slot_offset(buffer->dev, buffer->slot);
	info->maps = 0; /* not known: only the application maps the file */
	info->evictions = buffer->n_evictions;
	soft_buffer_put(buffer);
	return 0;
}
