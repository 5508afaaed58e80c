// SPDX-License-Identifier: MIT
/*
 * Work on frames. What the library submitted is in flight on the map, and found there; other work
 * is in the frame's list of fences. A look at a fence may complete its work, which may call the
 * application: so the list is copied, and no lock is held meanwhile.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "base/sys.h"
#include "frame/frame.h"

static void end_fence(struct frame_fence *entry)
{
	hm_fence_unref(entry->fence);
	free(entry);
}

static void end_fences(struct cds_list_head *fences)
{
	struct frame_fence *entry, *next;

	cds_list_for_each_entry_safe(entry, next, fences, link)
		end_fence(entry);
}

void frame_drop_fences(struct hm_frame *frame)
{
	CDS_LIST_HEAD(to);

	pthread_mutex_lock(&frame->lock);
	cds_list_splice(&frame->fences, &to);
	CDS_INIT_LIST_HEAD(&frame->fences);
	frame->n_fence = 0;
	pthread_mutex_unlock(&frame->lock);
	end_fences(&to);
}

/* ---- without references: nobody else uses the list ---- */

/* Work that can't be looked at may go on for ever: its frame stays away. */
static bool is_over(struct hm_fence *fence)
{
	return !fence_poll(fence) || fence_is_done(fence);
}

static bool map_is_idle(struct hm_map *map)
{
	int r = map_use_wait(map, 0, hm_map_length(map), HM_WRITE, 0);

	return r != -ETIME && r != -EINPROGRESS;
}

bool frame_is_idle(struct hm_frame *frame)
{
	struct frame_fence *entry;
	bool idle = true;
	uint32_t i;

	err_hold();
	for (i = 0; i < frame->n_memory && idle; i++)
		idle = map_is_idle(frame->memory[i].map);
	if (idle)
		cds_list_for_each_entry(entry, &frame->fences, link) {
			idle = is_over(entry->fence);
			if (!idle)
				break;
		}
	if (idle)
		frame_drop_fences(frame);
	err_release();
	return idle;
}

/* ---- with references ---- */

/* An access waits for work that writes, and one that writes for all. */
static bool waits_for(uint32_t access, uint32_t work)
{
	return (access | work) & HM_WRITE;
}

/* Copies the fences for which @access waits, with a reference to each. The caller frees them. */
static int copy_fences(struct hm_frame *frame, uint32_t access, struct hm_fence ***ret_fences,
		       uint32_t *ret_n)
{
	struct frame_fence *entry;
	struct hm_fence **fences;
	uint32_t n = 0;
	int r = 0;

	*ret_fences = NULL;
	*ret_n = 0;
	pthread_mutex_lock(&frame->lock);
	if (!frame->n_fence)
		goto out;
	fences = sys_calloc(frame->n_fence, sizeof(struct hm_fence *));
	if (!fences) {
		r = err_set(-ENOMEM, "no memory for %" PRIu32 " fences of a frame",
			    frame->n_fence);
		goto out;
	}
	cds_list_for_each_entry(entry, &frame->fences, link)
		if (waits_for(access, entry->access))
			fences[n++] = hm_fence_ref(entry->fence);
	*ret_fences = fences;
	*ret_n = n;
out:
	pthread_mutex_unlock(&frame->lock);
	return r;
}

static void free_fences(struct hm_fence **fences, uint32_t n)
{
	while (n--)
		hm_fence_unref(fences[n]);
	free(fences);
}

/* Has it succeeded? Nobody need wait for it then. */
static bool is_settled(struct hm_fence *fence)
{
	return fence_is_done(fence) && !fence->work.status;
}

/* Forgets work that has succeeded, so that a frame with many users keeps no long list. */
static int prune(struct hm_frame *frame)
{
	struct frame_fence *entry, *next;
	struct hm_fence **fences;
	CDS_LIST_HEAD(to);
	uint32_t i, n;
	int r;

	r = copy_fences(frame, HM_WRITE, &fences, &n);
	if (r)
		return r;
	err_hold();
	for (i = 0; i < n; i++)
		fence_poll(fences[i]);
	err_release();
	free_fences(fences, n);
	pthread_mutex_lock(&frame->lock);
	cds_list_for_each_entry_safe(entry, next, &frame->fences, link)
		if (is_settled(entry->fence)) {
			cds_list_del(&entry->link);
			cds_list_add_tail(&entry->link, &to);
			frame->n_fence--;
		}
	pthread_mutex_unlock(&frame->lock);
	end_fences(&to);
	return 0;
}

void frame_look(struct hm_frame *frame)
{
	uint32_t i;

	err_hold();
	for (i = 0; i < frame->n_memory; i++)
		map_is_idle(frame->memory[i].map);
	prune(frame); /* without memory the fences stay, and are looked at the next time */
	err_release();
}

bool frame_seems_idle(struct hm_frame *frame)
{
	struct frame_fence *entry;
	bool idle = true;
	uint32_t i;

	for (i = 0; i < frame->n_memory; i++)
		idle = idle && !atomic_load_explicit(&frame->memory[i].map->n_use,
						     memory_order_acquire);
	pthread_mutex_lock(&frame->lock);
	cds_list_for_each_entry(entry, &frame->fences, link)
		idle = idle && fence_is_done(entry->fence);
	pthread_mutex_unlock(&frame->lock);
	return idle;
}

static int check_access(const char *what, uint32_t access)
{
	if (access && !(access & ~(uint32_t)(HM_READ | HM_WRITE)))
		return 0;
	return err_set(-EINVAL, "%s: access 0x%" PRIx32 " is not HM_READ, HM_WRITE or both",
		       what, access);
}

int hm_frame_fence_add(struct hm_frame *frame, struct hm_fence *fence, uint32_t access)
{
	struct frame_fence *entry;
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (!r)
		r = object_check((struct hm_object *)fence, OBJECT_FENCE);
	if (!r)
		r = check_access("hm_frame_fence_add", access);
	if (!r)
		r = prune(frame);
	if (r)
		return r;
	entry = sys_calloc(1, sizeof(*entry));
	if (!entry)
		return err_set(-ENOMEM, "no memory for a fence of a frame");
	entry->fence = hm_fence_ref(fence);
	entry->access = access;
	pthread_mutex_lock(&frame->lock);
	cds_list_add_tail(&entry->link, &frame->fences);
	frame->n_fence++;
	pthread_mutex_unlock(&frame->lock);
	return 0;
}

int hm_frame_fence_get(struct hm_frame *frame, uint32_t access, struct hm_fence **ret_fence)
{
	struct hm_fence **fences, *all = NULL;
	uint32_t n;
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (r)
		return r;
	if (!ret_fence)
		return err_set(-EINVAL, "hm_frame_fence_get: ret_fence is NULL");
	r = check_access("hm_frame_fence_get", access);
	if (!r)
		r = prune(frame);
	if (!r)
		r = copy_fences(frame, access, &fences, &n);
	if (r)
		return r;
	if (n == 1)
		all = hm_fence_ref(fences[0]);
	else if (n)
		r = fence_merge(fences, n, &all);
	free_fences(fences, n);
	if (!r)
		*ret_fence = all;
	return r;
}

/* Waits for each; the result, and the text, are those of the first that failed. */
static int wait_each(struct hm_fence **fences, uint32_t n, uint64_t timeout_ns)
{
	uint64_t start = time_now_ns(), spent = 0;
	int r, first = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (first)
			err_hold();
		if (timeout_ns != UINT64_MAX && i)
			spent = min_u64(time_now_ns() - start, timeout_ns);
		r = fence_wait_and_tell(fences[i], timeout_ns - spent);
		if (first)
			err_release();
		if (!first || r == -ETIME)
			first = r;
		if (r == -ETIME)
			break;
	}
	return first;
}

int hm_frame_wait(struct hm_frame *frame, uint32_t access, uint64_t timeout_ns)
{
	struct hm_fence **fences;
	uint32_t n;
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (!r)
		r = check_access("hm_frame_wait", access);
	if (!r)
		r = copy_fences(frame, access, &fences, &n);
	if (r)
		return r;
	r = wait_each(fences, n, timeout_ns);
	free_fences(fences, n);
	if (r == -ETIME)
		return err_set(r, "work on the frame is not done yet");
	return r;
}
