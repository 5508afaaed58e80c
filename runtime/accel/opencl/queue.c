// SPDX-License-Identifier: MIT
/*
 * Command queues, each in order. Work is the commands that copy its bytes in, the kernel, and
 * the commands that copy them back.
 *
 * work->data[0] is the event of the last command, data[1] the kernel's where that is another
 * one: an in-order queue need not pass a failure on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "accel/opencl/opencl.h"
#include "arch/cpu.h"
#include "base/sys.h"

/* A timed wait, for which OpenCL has no call: looks, then naps between looks. */
#define LOOK_NS 20000
#define NAP_MIN_NS 20000
#define NAP_MAX_NS 1000000

/* Serialises reports of a failure by several waiters. */
static pthread_mutex_t failure_mutex = PTHREAD_MUTEX_INITIALIZER;

int opencl_queue_create(void *accel, void **ret_queue)
{
	struct opencl *cl = accel;
	struct opencl_watch watch;
	struct opencl_queue *queue;
	cl_int error;
	int r;

	queue = sys_calloc(1, sizeof(*queue));
	if (!queue)
		return err_set(-ENOMEM, "no memory for a queue of opencl:%u", cl->index);
	queue->cl = cl;
	opencl_watch_begin(&watch);
	queue->queue =
		clCreateCommandQueueWithProperties(cl->context, cl->device->id, NULL, &error);
	opencl_watch_device(&watch, cl->device);
	if (error) {
		r = cl_error(error, "opencl:%u: clCreateCommandQueueWithProperties", cl->index);
		free(queue);
		return r;
	}
	pthread_mutex_init(&queue->lock, NULL);
	*ret_queue = queue;
	return 0;
}

void opencl_queue_destroy(void *data)
{
	struct opencl_queue *queue = data;
	uint32_t i;

	for (i = 0; i < HM_KERNEL_MAX_ARGS; i++)
		if (queue->staging[i].memory)
			clReleaseMemObject(queue->staging[i].memory);
	clReleaseCommandQueue(queue->queue);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

int opencl_staging(struct opencl_queue *queue, uint32_t slot, uint64_t size, cl_mem *ret_memory)
{
	cl_mem memory = queue->staging[slot].memory;
	cl_int error;

	if (queue->staging[slot].size < size) {
		/* The commands that use the old buffer hold it. */
		if (memory)
			clReleaseMemObject(memory);
		queue->staging[slot].memory = NULL;
		queue->staging[slot].size = 0;
		memory = clCreateBuffer(queue->cl->context, CL_MEM_READ_WRITE, size, NULL,
					&error);
		if (error)
			return cl_error(error, "a device buffer of %llu bytes to copy through",
					(unsigned long long)size);
		queue->staging[slot].memory = memory;
		queue->staging[slot].size = size;
	}
	*ret_memory = memory;
	return 0;
}

/* ---- launch ---- */

static bool is_pointer(const struct hm_accel_work *work, uint32_t i)
{
	return work->arg[i].kind == HM_ARG_POINTER;
}

static int bring(cl_command_queue queue, cl_mem memory, const struct hm_accel_range *range)
{
	cl_int error;

	if (unlikely(opencl_view_by_hand(range->view)))
		return opencl_bring_by_hand(queue, memory, 0, range->pointer, range->length);
	error = clEnqueueWriteBuffer(queue, memory, CL_FALSE, 0, range->length, range->pointer,
				     0, NULL, NULL);
	return error ? cl_error(error, "clEnqueueWriteBuffer") : 0;
}

/* Enqueues the commands before the kernel, and sets its argument. */
static int set_range(struct opencl_queue *queue, cl_kernel kernel, struct hm_accel_work *work,
		     uint32_t i)
{
	struct hm_accel_range *range = &work->range[i];
	cl_mem memory = range->memory;
	cl_int error;
	int r;

	if (range->way == HM_WAY_COPY) {
		r = opencl_staging(queue, i, range->length, &memory);
		if (r)
			return r;
		/*
		 * All of it, also for a range that is only written: the rest must come back
		 * unchanged.
		 */
		r = bring(queue->queue, memory, range);
		if (r)
			return r;
		work->bytes_in += range->length;
		if (range->access & HM_WRITE)
			work->bytes_out += range->length;
	} else if (!memory) {
		error = clSetKernelArgSVMPointer(kernel, i, range->pointer);
		return error ? cl_error(error, "argument %u: clSetKernelArgSVMPointer", i) : 0;
	} else if (opencl_view_flushes(range->view)) {
		r = opencl_flush_in(queue->queue, memory, 0, range->length);
		if (r)
			return r;
	}
	error = clSetKernelArg(kernel, i, sizeof(memory), &memory);
	return error ? cl_error(error, "argument %u: clSetKernelArg", i) : 0;
}

static int set_argument(struct opencl_queue *queue, cl_kernel kernel,
			struct hm_accel_work *work, uint32_t i)
{
	const struct hm_arg *arg = &work->arg[i];
	cl_int error;

	if (arg->kind == HM_ARG_POINTER)
		return set_range(queue, kernel, work, i);
	error = clSetKernelArg(kernel, i, arg->size,
			       arg->kind == HM_ARG_LOCAL ? NULL : arg->value);
	return error ? cl_error(error, "argument %u: clSetKernelArg of %u bytes", i,
				arg->size) :
		       0;
}

static bool comes_back(const struct hm_accel_work *work, uint32_t i)
{
	const struct hm_accel_range *range = &work->range[i];

	return is_pointer(work, i) && (range->access & HM_WRITE) &&
	       (range->way == HM_WAY_COPY ||
		(range->memory && opencl_view_flushes(range->view)));
}

static int bring_back(struct opencl_queue *queue, struct hm_accel_work *work, uint32_t i,
		      cl_event *ret_event)
{
	struct hm_accel_range *range = &work->range[i];
	cl_int error;

	/* No event: this copy is over, and so is all work before it in the queue. */
	if (unlikely(opencl_view_by_hand(range->view)))
		return opencl_take_by_hand(queue->queue, queue->staging[i].memory, 0,
					   range->pointer, range->length);
	if (range->way != HM_WAY_COPY)
		return opencl_flush_out(queue->queue, range->memory, 0, range->length,
					ret_event);
	error = clEnqueueReadBuffer(queue->queue, queue->staging[i].memory, CL_FALSE, 0,
				    range->length, range->pointer, 0, NULL, ret_event);
	return error ? cl_error(error, "clEnqueueReadBuffer") : 0;
}

static int enqueue(struct opencl_queue *queue, struct opencl_kernel *kernel,
		   struct hm_accel_work *work)
{
	const size_t grid[3] = { work->grid[0], work->grid[1], work->grid[2] };
	cl_uint n_dimension = grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1;
	bool grouped = kernel->group[0];
	cl_event event, last = NULL;
	uint32_t i, n_left = 0;
	cl_int error;
	int r;

	/* A group may be deeper than the grid: the driver must refuse it. */
	if (grouped && kernel->group[2] > 1)
		n_dimension = 3;
	else if (grouped && kernel->group[1] > 1 && n_dimension < 2)
		n_dimension = 2;
	for (i = 0; i < work->n_arg; i++) {
		r = set_argument(queue, kernel->kernel, work, i);
		if (r)
			return r;
		n_left += comes_back(work, i);
	}
	error = clEnqueueNDRangeKernel(queue->queue, kernel->kernel, n_dimension, NULL, grid,
				       grouped ? kernel->group : NULL, 0, NULL, &event);
	if (error)
		return cl_error(error, "clEnqueueNDRangeKernel");
	for (i = 0; n_left && i < work->n_arg; i++) {
		if (!comes_back(work, i))
			continue;
		r = bring_back(queue, work, i, --n_left ? NULL : &last);
		if (r)
			goto err_event;
	}
	work->data[0] = last ? last : event;
	work->data[1] = last ? event : NULL;
	return 0;

err_event:
	clReleaseEvent(event);
	return r;
}

static int launch(struct opencl_queue *queue, struct hm_accel_work *work)
{
	struct opencl_kernel *kernel = work->kernel;
	/* Two launches must not put their bytes into one device buffer in turn. */
	bool stages = work->way == HM_WAY_COPY;
	int r;

	if (unlikely(stages))
		pthread_mutex_lock(&queue->lock);
	pthread_mutex_lock(&kernel->lock);
	r = enqueue(queue, kernel, work);
	pthread_mutex_unlock(&kernel->lock);
	if (unlikely(r)) {
		/* Commands before the failure may still touch the ranges. */
		clFinish(queue->queue);
		work->bytes_in = 0;
		work->bytes_out = 0;
	}
	if (unlikely(stages))
		pthread_mutex_unlock(&queue->lock);
	return unlikely(r) ? err_prefix(r, "kernel %s", kernel->name) : 0;
}

int opencl_submit(void *data, struct hm_accel_work *work)
{
	struct opencl_queue *queue = data;
	int r;

	r = work->kind == HM_WORK_LAUNCH ? launch(queue, work) : opencl_transfer(queue, work);
	if (likely(!r))
		clFlush(queue->queue);
	return r;
}

/* ---- the end of work ---- */

static const char *work_name(const struct hm_accel_work *work)
{
	if (work->kind == HM_WORK_LAUNCH)
		return ((const struct opencl_kernel *)work->kernel)->name;
	return work->kind == HM_WORK_COPY ? "copy" : "fill";
}

/* The status of an event's failure; 0 where it succeeded. */
static cl_int event_failure(void *event)
{
	cl_int status = CL_COMPLETE;

	if (!event)
		return 0;
	if (clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
			   NULL))
		return CL_INVALID_EVENT;
	return status < 0 ? status : 0;
}

static void tell_failure(struct hm_accel_work *work, cl_int error)
{
	pthread_mutex_lock(&failure_mutex);
	if (!work->status) {
		snprintf(work->text, sizeof(work->text), "%.64s ended with %s", work_name(work),
			 cl_error_name(error));
		work->status = -EIO;
	}
	pthread_mutex_unlock(&failure_mutex);
}

static int finished(struct hm_accel_work *work, cl_int error)
{
	if (!error)
		error = event_failure(work->data[1]);
	if (unlikely(error))
		tell_failure(work, error);
	return 0;
}

static int poll_once(struct hm_accel_work *work)
{
	cl_int status, error;

	error = clGetEventInfo(work->data[0], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
			       &status, NULL);
	if (error)
		return cl_error(error, "clGetEventInfo");
	if (status > CL_COMPLETE)
		return -ETIME;
	return finished(work, status);
}

static int wait_timed(struct hm_accel_work *work, uint64_t timeout_ns)
{
	uint64_t start = time_now_ns(), spent = 0, nap = NAP_MIN_NS;
	struct timespec time = { 0, 0 };
	int r;

	for (;;) {
		r = poll_once(work);
		if (r != -ETIME || spent >= timeout_ns)
			return r;
		spent = time_now_ns() - start;
		if (spent < LOOK_NS) {
			cpu_relax();
			continue;
		}
		if (spent < timeout_ns) {
			time.tv_nsec = (long)min_u64(nap, timeout_ns - spent);
			nanosleep(&time, NULL);
			nap = min_u64(nap * 2, NAP_MAX_NS);
		}
		spent = time_now_ns() - start;
	}
}

int opencl_wait(void *data, struct hm_accel_work *work, uint64_t timeout_ns)
{
	cl_event event = work->data[0];
	cl_int error;

	(void)data;
	if (!timeout_ns)
		return poll_once(work);
	if (timeout_ns != UINT64_MAX)
		return wait_timed(work, timeout_ns);
	error = clWaitForEvents(1, &event);
	if (error == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
		return finished(work, event_failure(event));
	if (error)
		return cl_error(error, "clWaitForEvents");
	return finished(work, 0);
}

struct callback {
	void (*call)(void *user);
	void *user;
};

static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *data)
{
	struct callback callback = *(struct callback *)data;

	(void)event;
	(void)status;
	free(data);
	callback.call(callback.user);
}

int opencl_notify(void *data, struct hm_accel_work *work, void (*call)(void *user), void *user)
{
	struct callback *callback;
	cl_int error;

	(void)data;
	callback = sys_calloc(1, sizeof(*callback));
	if (!callback)
		return err_set(-ENOMEM, "no memory for a callback");
	callback->call = call;
	callback->user = user;
	error = clSetEventCallback(work->data[0], CL_COMPLETE, on_complete, callback);
	if (error) {
		free(callback);
		return cl_error(error, "clSetEventCallback");
	}
	return 0;
}

void opencl_work_release(struct hm_accel_work *work)
{
	if (work->data[0])
		clReleaseEvent(work->data[0]);
	if (work->data[1])
		clReleaseEvent(work->data[1]);
}
