// SPDX-License-Identifier: MIT
/*
 * The twin's handles: the slot of each buffer on the device, and the open files that may name
 * it. A slot is a handle, and a window in the space of offsets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft/twin.h"

/* Slots that an array has at first. */
#define SLOTS_FIRST 64u

/* Takes a reference, unless the buffer is being freed. The caller holds dev->lock. */
static struct soft_buffer *buffer_hold(struct soft_buffer *buffer)
{
	uint32_t refs = buffer ? atomic_load(&buffer->refs) : 0;

	while (refs)
		if (atomic_compare_exchange_weak(&buffer->refs, &refs, refs + 1))
			return buffer;
	return NULL;
}

struct soft_buffer *soft_buffer_next(struct soft_device *dev, uint32_t *slot)
{
	struct soft_buffer *buffer = NULL;

	pthread_mutex_lock(&dev->lock);
	for (; !buffer && *slot < dev->n_slots; ++*slot) {
		buffer = buffer_hold(dev->buffers[*slot]);
		if (buffer)
			break;
	}
	pthread_mutex_unlock(&dev->lock);
	return buffer;
}

void soft_buffers_each(struct soft_device *dev, void (*run)(struct soft_buffer *buffer))
{
	struct soft_buffer *buffer;
	uint32_t slot;

	for (slot = 1; (buffer = soft_buffer_next(dev, &slot)); slot++) {
		run(buffer);
		soft_buffer_put(buffer);
	}
}

struct soft_buffer *soft_buffer_get(struct soft_file *file, uint32_t handle)
{
	struct soft_device *dev = file->dev;
	struct soft_buffer *buffer = NULL;

	pthread_mutex_lock(&dev->lock);
	if (handle < file->n_handles && file->handles[handle])
		buffer = buffer_hold(dev->buffers[handle]);
	pthread_mutex_unlock(&dev->lock);
	return buffer;
}

/* Returns the counter's address: readers are other processes, which see this memory. */
const uint64_t *soft_evictions(struct soft_file *file, uint32_t handle)
{
	struct soft_device *dev = file->dev;
	const uint64_t *counter = NULL;

	pthread_mutex_lock(&dev->lock);
	if (handle < file->n_handles && file->handles[handle])
		counter = (const uint64_t *)&dev->buffers[handle]->n_evictions;
	pthread_mutex_unlock(&dev->lock);
	return counter;
}

struct soft_buffer *soft_buffer_at(struct soft_file *file, uint64_t offset,
				   uint64_t *ret_position)
{
	uint64_t slot = (offset >> SIM_PAGE_SHIFT) / file->dev->window_pages;
	struct soft_buffer *buffer;

	buffer = slot <= SIM_MAX_BUFFERS ? soft_buffer_get(file, (uint32_t)slot) : NULL;
	if (buffer)
		*ret_position = offset - soft_slot_offset(file->dev, (uint32_t)slot);
	return buffer;
}

struct soft_buffer *soft_handle_take(struct soft_file *file, uint32_t handle)
{
	struct soft_device *dev = file->dev;
	struct soft_buffer *buffer = NULL;

	pthread_mutex_lock(&dev->lock);
	if (handle < file->n_handles && file->handles[handle]) {
		file->handles[handle] = false;
		buffer = dev->buffers[handle];
	}
	pthread_mutex_unlock(&dev->lock);
	return buffer;
}

void soft_buffers_close(struct soft_file *file)
{
	struct soft_buffer *buffer;
	uint32_t handle;

	for (handle = 1; handle < file->n_handles; handle++) {
		buffer = soft_handle_take(file, handle);
		if (buffer)
			soft_buffer_put(buffer);
	}
	free(file->handles);
	file->handles = NULL;
	file->n_handles = 0;
}

/* ---- slots, with dev->lock held ---- */

/* Replaces *@array by a longer one, with room for slot @slot at least. */
static int array_grow(void **array, uint32_t *n, uint32_t slot, size_t size)
{
	uint64_t wanted = max_u64(max_u64(SLOTS_FIRST, 2 * (uint64_t)*n), slot + 1ull);
	void *longer;

	if (slot < *n)
		return 0;
	wanted = min_u64(wanted, SIM_MAX_BUFFERS + 1);
	longer = sys_calloc(wanted, size);
	if (!longer)
		return -ENOMEM;
	if (*array)
		memcpy(longer, *array, *n * size);
	free(*array);
	*array = longer;
	*n = (uint32_t)wanted;
	return 0;
}

static int handles_grow(struct soft_file *file, uint32_t slot)
{
	void *handles = file->handles;
	int r = array_grow(&handles, &file->n_handles, slot, sizeof(*file->handles));

	file->handles = handles;
	return r;
}

static int slots_grow(struct soft_device *dev, uint32_t slot)
{
	void *buffers = dev->buffers;
	int r = array_grow(&buffers, &dev->n_slots, slot, sizeof(*dev->buffers));

	dev->buffers = buffers;
	return r;
}

/* Gives the buffer a slot, and the file a handle: from then on another thread may close it. */
static int buffer_publish_locked(struct soft_file *file, struct soft_buffer *buffer,
				 uint32_t *ret_handle)
{
	struct soft_device *dev = file->dev;
	uint32_t slot = 1;
	int r;

	if (dev->gone)
		return -ENODEV;
	while (slot < dev->n_slots && dev->buffers[slot])
		slot++;
	if (slot > SIM_MAX_BUFFERS)
		return -ENOSPC;
	r = slots_grow(dev, slot);
	if (r)
		return r;
	r = handles_grow(file, slot);
	if (r)
		return r;
	buffer->slot = slot;
	*ret_handle = slot;
	dev->buffers[slot] = buffer;
	dev->n_buffers++;
	file->handles[slot] = true;
	return 0;
}

int soft_buffer_publish(struct soft_file *file, struct soft_buffer *buffer,
			uint32_t *ret_handle)
{
	int r;

	pthread_mutex_lock(&file->dev->lock);
	r = buffer_publish_locked(file, buffer, ret_handle);
	pthread_mutex_unlock(&file->dev->lock);
	return r;
}

int soft_handle_add(struct soft_file *file, struct soft_buffer *buffer)
{
	struct soft_device *dev = file->dev;
	int r;

	pthread_mutex_lock(&dev->lock);
	r = handles_grow(file, buffer->slot);
	if (!r && !file->handles[buffer->slot]) {
		file->handles[buffer->slot] = true;
		atomic_fetch_add(&buffer->refs, 1);
	}
	pthread_mutex_unlock(&dev->lock);
	return r;
}

/* Until here other threads see the buffer, but can't get a reference any more. */
void soft_slot_free(struct soft_buffer *buffer)
{
	struct soft_device *dev = buffer->dev;

	pthread_mutex_lock(&dev->lock);
	dev->buffers[buffer->slot] = NULL;
	dev->n_buffers--;
	pthread_mutex_unlock(&dev->lock);
}
