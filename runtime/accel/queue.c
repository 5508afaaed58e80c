// SPDX-License-Identifier: MIT
/* Queues: making and ending them, and the functions that submit work. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "hook/hook.h"
#include "base/sys.h"

static void init(struct hm_queue *queue, const struct hm_accel_ops *ops)
{
	object_init(&queue->object, OBJECT_QUEUE);
	queue->ops = ops;
	CDS_INIT_LIST_HEAD(&queue->work);
	CDS_INIT_LIST_HEAD(&queue->free);
	pthread_mutex_init(&queue->lock, NULL);
	pthread_mutex_init(&queue->wait_lock, NULL);
	thread_condition_init(&queue->changed);
}

int hm_queue_create(struct hm_accel *accel, uint32_t flags, struct hm_queue **ret_queue)
{
	struct hm_queue *queue;
	int r;

	err_begin();
	r = object_check((struct hm_object *)accel, OBJECT_ACCEL);
	if (r)
		return r;
	if (!ret_queue || flags)
		return err_set(-EINVAL, "hm_queue_create: %s",
			       flags ? "flags must be 0" : "ret_queue is NULL");
	queue = sys_calloc(1, sizeof(*queue));
	if (!queue)
		return err_set(-ENOMEM, "no memory for a queue");
	r = accel->ops->queue_create(accel->data, &queue->data);
	if (r)
		goto err_free;
	init(queue, accel->ops);
	queue->accel = hm_accel_ref(accel);
	*ret_queue = queue;
	return 0;

err_free:
	free(queue);
	return r;
}

int queue_create_foreign(const struct hm_accel_ops *ops, struct hm_queue **ret_queue)
{
	struct hm_queue *queue = sys_calloc(1, sizeof(*queue));

	if (!queue)
		return err_set(-ENOMEM, "no memory for a fence");
	init(queue, ops);
	queue->foreign = true;
	queue->closed = true;
	*ret_queue = queue;
	return 0;
}

struct hm_queue *hm_queue_ref(struct hm_queue *queue)
{
	if (queue)
		object_ref(&queue->object);
	return queue;
}

void queue_free(struct hm_queue *queue)
{
	fence_free_pool(queue);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	pthread_mutex_destroy(&queue->wait_lock);
	free(queue);
}

/* ---- waiting for fences of other queues ---- */

static void end_waits_locked(struct hm_queue *queue)
{
	uint32_t i, n = queue->n_wait;

	for (i = 0; i < n; i++)
		hm_fence_unref(queue->wait[i]);
	free(queue->wait);
	queue->wait = NULL;
	queue->n_wait = 0;
}

int hm_queue_wait(struct hm_queue *queue, struct hm_fence *fence)
{
	struct hm_fence **wait;
	uint32_t n;
	int r;

	err_begin();
	r = object_check((struct hm_object *)queue, OBJECT_QUEUE);
	if (!r)
		r = object_check((struct hm_object *)fence, OBJECT_FENCE);
	/* Its own work is in order already. */
	if (r || fence->queue == queue)
		return r;
	pthread_mutex_lock(&queue->wait_lock);
	n = queue->n_wait;
	wait = sys_calloc(n + 1, sizeof(*wait));
	if (!wait) {
		r = err_set(-ENOMEM, "no memory for a queue to wait for %" PRIu32 " fences",
			    n + 1);
		goto out;
	}
	if (n)
		memcpy(wait, queue->wait, n * sizeof(*wait));
	wait[n] = hm_fence_ref(fence);
	free(queue->wait);
	queue->wait = wait;
	queue->n_wait = n + 1;
out:
	pthread_mutex_unlock(&queue->wait_lock);
	return r;
}

/*
 * Waits before anything is submitted: work given to a device must end by itself, and foreign
 * fences don't promise that [dma-buf.rst, "DMA Fences"]. Other submitters wait for the lock, and
 * find nothing left to wait for: also after a failure, since the next submission must follow the
 * remaining fences. The first error is returned.
 */
static int wait_for_others(struct hm_queue *queue)
{
	uint32_t i, failed = 0;
	int r = 0, waited;

	pthread_mutex_lock(&queue->wait_lock);
	for (i = 0; i < queue->n_wait; i++) {
		waited = fence_wait(queue->wait[i], UINT64_MAX);
		if (waited && !r) {
			r = waited;
			failed = i;
		}
	}
	if (r) {
		/* Again for its sentence: later waits may have replaced the text. */
		fence_wait(queue->wait[failed], UINT64_MAX);
		err_prefix(r, "a fence that the queue waited for");
	}
	end_waits_locked(queue);
	pthread_mutex_unlock(&queue->wait_lock);
	return r;
}

void hm_queue_unref(struct hm_queue *queue)
{
	bool last;

	if (!queue || !object_put(&queue->object))
		return;
	err_hold();
	fence_drain(queue);
	end_waits_locked(queue); /* no other thread has the queue */
	queue->ops->queue_destroy(queue->data);
	hm_accel_unref(queue->accel);
	pthread_mutex_lock(&queue->lock);
	queue->object.kind = OBJECT_FREED;
	queue->closed = true;
	last = !queue->n_fence;
	pthread_mutex_unlock(&queue->lock);
	/* If not, the thread that drops the last fence does it. */
	if (last)
		queue_free(queue);
	err_release();
}

/* Undoes a failed submit; after a good one hands out a reference if wanted. */
static int end_submit(struct hm_fence *fence, int r, struct hm_fence **ret_fence)
{
	if (unlikely(r)) {
		fence_abandon(fence);
		return r;
	}
	if (ret_fence)
		object_ref(&fence->object);
	fence_submitted(fence);
	if (ret_fence)
		*ret_fence = fence;
	return 0;
}

static int begin_submit(struct hm_queue *queue, struct hm_fence **ret_fence)
{
	int r = 0;

	fence_reap(queue);
	if (unlikely(atomic_load_explicit(&queue->n_wait, memory_order_acquire)))
		r = wait_for_others(queue);
	return r ? r : fence_create(queue, ret_fence);
}

static int check_grid(const struct hm_kernel *kernel, const uint64_t grid[3])
{
	uint64_t items;

	if (!grid[0] || !grid[1] || !grid[2] ||
	    __builtin_mul_overflow(grid[0], grid[1], &items) ||
	    __builtin_mul_overflow(items, grid[2], &items))
		return err_set(-EINVAL,
			       "kernel %s: a grid of %" PRIu64 " x %" PRIu64 " x %" PRIu64
			       " work items; unused dimensions are 1",
			       kernel->desc.name, grid[0], grid[1], grid[2]);
	return 0;
}

/* ---- asking the access hook ---- */

/* Adds the allocation or the range that @arg names. A bad pointer fails later. */
static void add_range(struct hm_access_request *request, const struct hm_arg *arg)
{
	uint64_t length = arg->length;
	struct hm_pointer_info info;

	if (arg->kind != HM_ARG_POINTER && arg->kind != HM_ARG_ANY)
		return;
	if (!length && !hm_pointer_find(arg->pointer, &info))
		length = info.length;
	request->access |= arg->access;
	if (__builtin_add_overflow(request->size, length, &request->size))
		request->size = UINT64_MAX;
}

static int ask(const struct hm_queue *queue, const char *kernel, const struct hm_arg *args,
	       uint32_t n_arg)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_LAUNCH,
		.accel = queue->accel->name,
		.kernel = kernel,
	};
	uint32_t i;

	for (i = 0; i < n_arg; i++)
		add_range(&request, &args[i]);
	return hook_ask(&request);
}

/* Asked before the kernel is built, and before any wait. */
static int hook_launch(const struct hm_queue *queue, const struct hm_kernel *kernel,
		       const struct hm_arg *args, uint32_t n_arg)
{
	return hook_hooked() ? ask(queue, kernel->desc.name, args, n_arg) : 0;
}

static int hook_copy(const struct hm_queue *queue, const void *to, const void *from,
		     uint64_t length)
{
	const struct hm_arg args[] = {
		HM_RANGE(to, length, HM_WRITE),
		HM_RANGE(from, length, HM_READ),
	};

	return hook_hooked() ? ask(queue, NULL, args, ARRAY_SIZE(args)) : 0;
}

static int hook_fill(const struct hm_queue *queue, const void *to, uint64_t length)
{
	const struct hm_arg arg = HM_RANGE(to, length, HM_WRITE);

	return hook_hooked() ? ask(queue, NULL, &arg, 1) : 0;
}

/* ---- submitting ---- */

int hm_queue_launch(struct hm_queue *queue, struct hm_kernel *kernel, const uint64_t grid[3],
		    const struct hm_arg *args, uint32_t n_arg, struct hm_fence **ret_fence)
{
	struct kernel_build *build;
	struct hm_fence *fence;
	int r;

	err_begin();
	r = object_check((struct hm_object *)queue, OBJECT_QUEUE);
	if (!r)
		r = object_check((struct hm_object *)kernel, OBJECT_KERNEL);
	if (unlikely(r))
		return r;
	if (unlikely(!grid || (n_arg && !args) || n_arg > HM_KERNEL_MAX_ARGS))
		return err_set(-EINVAL,
			       "kernel %s: grid or args is NULL, or %" PRIu32 " arguments are "
			       "more than %d",
			       kernel->desc.name, n_arg, HM_KERNEL_MAX_ARGS);
	r = check_grid(kernel, grid);
	if (!r)
		r = hook_launch(queue, kernel, args, n_arg);
	if (!r)
		r = kernel_get_build(kernel, queue->accel, &build);
	if (!r)
		r = parameters_check(&build->parameters, kernel->desc.name, args, n_arg);
	if (!r)
		r = begin_submit(queue, &fence);
	if (unlikely(r))
		return r;
	fence->kernel = hm_kernel_ref(kernel);
	fence->work.kind = HM_WORK_LAUNCH;
	fence->work.kernel = build->data;
	fence->writes = build->parameters.writes;
	memcpy(fence->work.grid, grid, sizeof(fence->work.grid));
	if (n_arg)
		memcpy(fence->work.arg, args, n_arg * sizeof(*args));
	fence->work.n_arg = n_arg;
	r = launch_submit(queue, fence);
	return end_submit(fence, r, ret_fence);
}

static void set_range(struct hm_fence *fence, uint32_t index, const void *pointer,
		      uint64_t length, uint32_t access)
{
	struct hm_accel_range *range = &fence->work.range[index];

	range->pointer = (char *)(uintptr_t)pointer;
	range->length = length;
	range->access = access;
	range->memory = NULL;
}

int hm_queue_copy(struct hm_queue *queue, void *to, const void *from, uint64_t length,
		  struct hm_fence **ret_fence)
{
	struct hm_fence *fence;
	int r;

	err_begin();
	r = object_check((struct hm_object *)queue, OBJECT_QUEUE);
	if (r)
		return r;
	if (!length || (uintptr_t)to > UINTPTR_MAX - length ||
	    (uintptr_t)from > UINTPTR_MAX - length)
		return err_set(-EINVAL, "hm_queue_copy: a length of %" PRIu64 " bytes", length);
	/* Through two maps: launch.c. */
	if (ranges_overlap((uintptr_t)to, length, (uintptr_t)from, length))
		return err_set(-EINVAL,
			       "hm_queue_copy: %" PRIu64 " bytes at %p and at %p overlap",
			       length, to, from);
	r = hook_copy(queue, to, from, length);
	if (!r)
		r = begin_submit(queue, &fence);
	if (r)
		return r;
	fence->work.kind = HM_WORK_COPY;
	set_range(fence, 0, to, length, HM_WRITE);
	set_range(fence, 1, from, length, HM_READ);
	r = transfer_submit(queue, 2, fence);
	return end_submit(fence, r, ret_fence);
}

int hm_queue_fill(struct hm_queue *queue, void *to, uint32_t word, uint64_t length,
		  struct hm_fence **ret_fence)
{
	struct hm_fence *fence;
	int r;

	err_begin();
	r = object_check((struct hm_object *)queue, OBJECT_QUEUE);
	if (r)
		return r;
	if (!length || !is_aligned(length, 4) || !is_aligned((uintptr_t)to, 4))
		return err_set(-EINVAL,
			       "hm_queue_fill: %" PRIu64 " bytes at %p: both must be multiples "
			       "of 4, and the length not 0",
			       length, to);
	r = hook_fill(queue, to, length);
	if (!r)
		r = begin_submit(queue, &fence);
	if (r)
		return r;
	fence->work.kind = HM_WORK_FILL;
	fence->work.arg[0].u32 = word;
	set_range(fence, 0, to, length, HM_WRITE);
	r = transfer_submit(queue, 1, fence);
	return end_submit(fence, r, ret_fence);
}
