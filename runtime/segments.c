// SPDX-License-Identifier: MIT
/* Who has which segments of a buffer: lists that nobody has any more end. */
#include "segments.h"

#include <stdlib.h>

#include "buffer.h"
#include "sys.h"

static void put_spare(struct hm_buffer *buffer, struct segment_list *list)
{
	list->segment = NULL;
	pthread_mutex_lock(&buffer->segment_lock);
	list->next = buffer->spare;
	buffer->spare = list;
	pthread_mutex_unlock(&buffer->segment_lock);
}

/* Oldest first: an object of a list may be in older ones, too. */
static struct segment_list *take_unused(struct hm_buffer *buffer)
{
	struct segment_list *list;

	pthread_mutex_lock(&buffer->segment_lock);
	list = buffer->oldest;
	if (list == atomic_load(&buffer->segments) || atomic_load(&list->n_user))
		list = NULL;
	else
		buffer->oldest = list->next;
	pthread_mutex_unlock(&buffer->segment_lock);
	return list;
}

void segments_sweep(struct hm_buffer *buffer)
{
	struct segment_list *list;

	while ((list = take_unused(buffer))) {
		buffer_destroy_objects(buffer, list->segment + list->n_kept,
				       list->n - list->n_kept);
		free(list->segment);
		put_spare(buffer, list);
	}
}

static struct segment_list *take_spare(struct hm_buffer *buffer)
{
	struct segment_list *list;

	pthread_mutex_lock(&buffer->segment_lock);
	list = buffer->spare;
	if (list)
		buffer->spare = list->next;
	pthread_mutex_unlock(&buffer->segment_lock);
	return list ? list : sys_calloc(1, sizeof(*list));
}

int segments_create(struct hm_buffer *buffer, uint32_t n, struct segment_list **ret_list)
{
	struct hm_segment *segment = sys_calloc(n, sizeof(*segment));
	struct segment_list *list;

	if (!segment)
		goto err_memory;
	list = take_spare(buffer);
	if (!list)
		goto err_segment;
	list->segment = segment;
	*ret_list = list;
	return 0;

err_segment:
	free(segment);
err_memory:
	return err_set(-ENOMEM, "%s: no memory for the description of %u objects", buffer->name,
		       n);
}

void segments_abandon(struct hm_buffer *buffer, struct segment_list *list)
{
	free(list->segment);
	put_spare(buffer, list);
}

static void publish(struct hm_buffer *buffer, struct segment_list *list, uint32_t n)
{
	list->n = n;
	list->n_kept = 0;
	list->next = NULL;
	buffer->segment = list->segment;
	buffer->n_segment = n;
	atomic_store(&buffer->segments, list);
}

void segments_begin(struct hm_buffer *buffer, struct segment_list *list)
{
	buffer->oldest = list;
	publish(buffer, list, 1);
}

void segments_swap(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
		   uint32_t n_kept)
{
	struct segment_list *old = atomic_load(&buffer->segments);

	pthread_mutex_lock(&buffer->segment_lock);
	old->n_kept = n_kept;
	old->next = list;
	publish(buffer, list, n);
	pthread_mutex_unlock(&buffer->segment_lock);
	segments_sweep(buffer);
}

void segments_end(struct hm_buffer *buffer)
{
	struct segment_list *list = atomic_load(&buffer->segments), *next;

	buffer_destroy_objects(buffer, list->segment, list->n);
	free(list->segment);
	list->next = buffer->spare;
	for (; list; list = next) {
		next = list->next;
		free(list);
	}
}
