// SPDX-License-Identifier: MIT
/*
 * An OpenCL device's view of a map: one cl_mem for each window, and arguments as sub-buffers of
 * it.
 *
 * The way in is decided when the view is made, except for an interior pointer where no
 * sub-buffer can begin.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compat.h"
#include "core/core.h"
#include "accel/opencl/opencl.h"
#include "base/sys.h"

/* Sub-buffers kept: about the arguments of a few kernels on one map. */
#define SUB_MAX 16

struct window {
	cl_mem memory;
	bool writable;
};

struct sub {
	cl_mem memory;           /* NULL: free */
	uint64_t offset, length; /* in the map */
};

struct opencl_view {
	struct opencl *cl;
	char *address;
	uint64_t length;
	uint32_t access;
	enum hm_way_in way; /* of aligned ranges */
	enum cl_memory_kind kind;
	bool flush;
	bool by_hand;     /* no thread of the driver may touch the bytes */
	char reason[280]; /* the reason for HM_WAY_COPY */

	pthread_mutex_t lock; /* protects the fields below */
	struct sub sub[SUB_MAX];
	uint32_t next_sub; /* to be replaced next */
	uint64_t n_window;
	struct window window[];
};

/* ---- the way in ---- */

/* Takes @kind if it is in place; otherwise *reason tells why not. */
static bool try_kind(struct opencl_view *view, enum cl_memory_kind kind,
		     const struct hm_accel_map *map)
{
	static const char *const names[] = { "CL_MEM_USE_HOST_PTR", "clImportMemoryARM" };
	enum cl_coherence coherence;
	int r;

	r = opencl_coherence(view->cl, kind, map, &coherence);
	if (r) {
		snprintf(view->reason, sizeof(view->reason), "%s", hm_errmsg());
		return false;
	}
	if (coherence == CL_COPIES) {
		snprintf(view->reason, sizeof(view->reason),
			 "%.80s copies what %s gives it, as a self-test on memory of this "
			 "kind has shown",
			 view->cl->device->name, names[kind]);
		return false;
	}
	view->kind = kind;
	view->flush = coherence == CL_NEEDS_MAP;
	return true;
}

/*
 * May the map's bytes be cut off, so that a touch raises SIGBUS? True for devices that can go,
 * files, and memory, perhaps received, that is not sealed against shrinking.
 */
static bool may_be_cut(const struct hm_accel_map *map)
{
	const struct hm_segment *segment;
	struct stat st;
	uint32_t i;
	int seals;

	if (backend_has(map->device->ops, HM_BACKEND_LOSS))
		return true;
	for (i = 0; i < map->n_segment; i++) {
		segment = &map->segments[i];
		/* A dma-buf keeps its size. */
		if (segment->flags & (HM_SEGMENT_ANON | HM_SEGMENT_DMABUF))
			continue;
		seals = sys_fcntl(segment->fd, F_GET_SEALS, 0);
		if (seals >= 0 && seals & F_SEAL_SHRINK)
			continue;
		/* Character devices have no length to be cut. */
		if (sys_fstat(segment->fd, &st) || S_ISREG(st.st_mode))
			return true;
	}
	return false;
}

static void choose_in_place(struct opencl_view *view, const struct hm_accel_map *map)
{
	struct opencl *cl = view->cl;

	if (cl->flags & HM_ACCEL_FORCE_COPY)
		snprintf(view->reason, sizeof(view->reason),
			 "the accelerator was opened with HM_ACCEL_FORCE_COPY");
	else if (cl->device->svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM)
		view->way = HM_WAY_SVM;
	else if (cl->import && try_kind(view, CL_MEMORY_IMPORT, map))
		view->way = HM_WAY_IMPORT;
	else if (try_kind(view, CL_MEMORY_HOST_PTR, map))
		view->way = HM_WAY_HOST_PTR;
}

/* The driver's own copies, such as FORCE_COPY's, are touches of its threads, too. */
static void keep_from_driver(struct opencl_view *view)
{
	const char *platform = view->cl->device->platform_name;

	view->way = HM_WAY_COPY;
	view->by_hand = true;
	if (view->cl->device->blocks_sigbus)
		snprintf(view->reason, sizeof(view->reason),
			 "the memory may be cut off (a file, or a device that goes), and "
			 "threads of %.64s block SIGBUS: that would end the process",
			 platform);
	else
		snprintf(view->reason, sizeof(view->reason),
			 "the memory may be cut off, and threads of %.32s may block SIGBUS "
			 "(unknown: %.160s)",
			 platform, hm_errmsg());
}

static void choose_way(struct opencl_view *view, const struct hm_accel_map *map)
{
	struct opencl_device *device = view->cl->device;
	bool cut = may_be_cut(map);
	int r = 0;

	view->way = HM_WAY_COPY;
	if (!cut || !device->blocks_sigbus)
		choose_in_place(view, map);
	/* A self-test of another way was a launch already. */
	if (!device->launched && (cut ? !device->blocks_sigbus : view->way == HM_WAY_SVM))
		r = opencl_first_launch(view->cl);
	if (cut && (r || device->blocks_sigbus))
		keep_from_driver(view);
}

int opencl_view_create(void *accel, const struct hm_accel_map *map, void **ret_view)
{
	struct opencl *cl = accel;
	struct opencl_view *view;
	uint64_t n_window;

	n_window = (map->length + cl->window - 1) / cl->window;
	view = sys_calloc(1, sizeof(*view) + n_window * sizeof(view->window[0]));
	if (!view)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " windows", n_window);
	view->cl = cl;
	view->address = map->address;
	view->length = map->length;
	view->access = map->access;
	view->n_window = n_window;
	pthread_mutex_init(&view->lock, NULL);
	choose_way(view, map);
	*ret_view = view;
	return 0;
}

void opencl_view_destroy(void *data)
{
	struct opencl_view *view = data;
	uint64_t i;

	for (i = 0; i < SUB_MAX; i++)
		if (view->sub[i].memory)
			clReleaseMemObject(view->sub[i].memory);
	for (i = 0; i < view->n_window; i++)
		if (view->window[i].memory)
			clReleaseMemObject(view->window[i].memory);
	pthread_mutex_destroy(&view->lock);
	free(view);
}

enum hm_way_in opencl_view_way(const void *view)
{
	return ((const struct opencl_view *)view)->way;
}

bool opencl_view_by_hand(const void *view)
{
	return ((const struct opencl_view *)view)->by_hand;
}

bool opencl_view_flushes(const void *view)
{
	return ((const struct opencl_view *)view)->flush;
}

/* ---- cl_mems; view->lock is held ---- */

static uint64_t window_length(const struct opencl_view *view, uint64_t index)
{
	return min_u64(view->cl->window, view->length - index * view->cl->window);
}

static void drop_subs(struct opencl_view *view, uint64_t offset, uint64_t length)
{
	struct sub *sub;

	for (sub = view->sub; sub < view->sub + SUB_MAX; sub++)
		if (sub->memory && ranges_overlap(sub->offset, sub->length, offset, length)) {
			clReleaseMemObject(sub->memory);
			sub->memory = NULL;
		}
}

/*
 * Read-only where some byte is, until an argument is written: a driver that pins pages must not
 * be asked for more rights than there are.
 */
static int get_window(struct opencl_view *view, uint64_t index, uint32_t access,
		      cl_mem *ret_memory)
{
	struct window *window = &view->window[index];
	bool write = (view->access | access) & HM_WRITE;
	uint64_t offset = index * view->cl->window;
	cl_mem memory;
	int r;

	if (window->memory && (window->writable || !(access & HM_WRITE))) {
		*ret_memory = window->memory;
		return 0;
	}
	/* Whole pages: some drivers copy memory that does not end on a cache line. */
	r = opencl_wrap(view->cl, view->kind, write ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY,
			view->address + offset,
			round_up(window_length(view, index), page_size()), &memory);
	if (r)
		return r;
	if (window->memory) {
		drop_subs(view, offset, view->cl->window);
		clReleaseMemObject(window->memory);
	}
	window->memory = memory;
	window->writable = write;
	*ret_memory = memory;
	return 0;
}

static int get_sub(struct opencl_view *view, cl_mem parent, uint64_t offset, uint64_t length,
		   cl_mem *ret_memory)
{
	cl_buffer_region region = { offset % view->cl->window, length };
	struct sub *sub;
	cl_int error;
	cl_mem memory;

	for (sub = view->sub; sub < view->sub + SUB_MAX; sub++)
		if (sub->memory && sub->offset == offset && sub->length == length) {
			*ret_memory = sub->memory;
			return 0;
		}
	memory = clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
	if (error)
		return cl_error(error, "clCreateSubBuffer of %zu bytes at %zu", region.size,
				region.origin);
	sub = &view->sub[view->next_sub];
	view->next_sub = (view->next_sub + 1) % SUB_MAX;
	if (sub->memory)
		clReleaseMemObject(sub->memory);
	sub->memory = memory;
	sub->offset = offset;
	sub->length = length;
	*ret_memory = memory;
	return 0;
}

/* ---- ranges ---- */

static int hold(cl_mem memory, void **ret_memory)
{
	cl_int error = clRetainMemObject(memory);

	if (error)
		return cl_error(error, "clRetainMemObject");
	*ret_memory = memory;
	return 0;
}

/* The driver's refusal is a reason to copy; a lack of memory is a failure. */
static int copy_instead(struct hm_accel_range *range, int r)
{
	if (r == -ENOMEM)
		return r;
	range->way = HM_WAY_COPY;
	range->memory = NULL;
	return 0;
}

static int acquire_unaligned(struct opencl_view *view, struct hm_accel_range *range)
{
	const struct opencl_device *device = view->cl->device;

	range->memory = NULL;
	if (view->cl->quirks && device->quirk && !view->flush) {
		range->way = view->way;
		return 0;
	}
	range->way = HM_WAY_COPY;
	err_warn("the pointer is %" PRIu64 " bytes into its map, and %s takes interior "
		 "pointers at multiples of %" PRIu64 " only",
		 range->offset, device->name, device->alignment);
	return 0;
}

int opencl_view_acquire(void *data, struct hm_accel_range *range)
{
	struct opencl_view *view = data;
	struct opencl *cl = view->cl;
	uint64_t index = range->offset / cl->window;
	cl_mem parent, memory;
	int r;

	range->memory = NULL;
	range->way = view->way;
	if (view->way == HM_WAY_SVM)
		return 0;
	if (view->way == HM_WAY_COPY) {
		err_warn("%s", view->reason);
		return 0;
	}
	if (!is_aligned(range->offset, cl->device->alignment))
		return acquire_unaligned(view, range);

	pthread_mutex_lock(&view->lock);
	r = get_window(view, index, range->access, &parent);
	memory = parent;
	if (!r && (range->offset != index * cl->window ||
		   range->length != window_length(view, index)))
		r = get_sub(view, parent, range->offset, range->length, &memory);
	/* Held until the launch, even if the cache drops it. */
	if (!r)
		r = hold(memory, &range->memory);
	pthread_mutex_unlock(&view->lock);
	return r ? copy_instead(range, r) : 0;
}

void opencl_view_release(void *view, struct hm_accel_range *range)
{
	(void)view;
	if (range->memory)
		clReleaseMemObject(range->memory);
	range->memory = NULL;
}

int opencl_view_window(void *data, uint64_t offset, uint32_t access, cl_mem *ret_memory)
{
	struct opencl_view *view = data;
	cl_mem memory;
	int r;

	*ret_memory = NULL;
	if (view->way != HM_WAY_HOST_PTR && view->way != HM_WAY_IMPORT)
		return 0;
	pthread_mutex_lock(&view->lock);
	r = get_window(view, offset / view->cl->window, access, &memory);
	if (!r)
		r = hold(memory, (void **)ret_memory);
	pthread_mutex_unlock(&view->lock);
	return r == -ENOMEM ? r : 0;
}
