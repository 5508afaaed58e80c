// SPDX-License-Identifier: MIT
/*
 * Arrays: the whole array at one range of addresses, for HM_ARRAY_SAME_ADDRESS and HM_ARRAY_PAGED.
 *
 * The range has the pages of this node, mapped a second time, where its rows are. Rows of other
 * nodes are inaccessible, or are brought by the pager.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cluster.h"

/*
 * Where ranks look for a range that all of them have free: far from programs, libraries, heaps and
 * the shadow of ASan on x86-64.
 */
#define LOOK_FIRST (1ull << 45)
#define LOOK_STEP (1ull << 40)
#define LOOK_END (5ull << 44)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static uint64_t page_up(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(PAGE - 1);
}

/* All views with a pager: MPI must not touch their pages of other nodes. */
static pthread_mutex_t views_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hm_array *views;
static atomic_uint n_views; /* who has an address in a view sees that it is there */

static void enlist(struct hm_array *array)
{
	pthread_mutex_lock(&views_lock);
	array->view.next = views;
	views = array;
	atomic_fetch_add(&n_views, 1);
	pthread_mutex_unlock(&views_lock);
}

static void delist(struct hm_array *array)
{
	struct hm_array **at;

	pthread_mutex_lock(&views_lock);
	for (at = &views; *at; at = &(*at)->view.next)
		if (*at == array) {
			*at = array->view.next;
			atomic_fetch_sub(&n_views, 1);
			break;
		}
	pthread_mutex_unlock(&views_lock);
}

/* The node of the row that has the byte at @offset; *@ret_end: where its rows end. */
static uint32_t node_at(const struct hm_array *array, const struct layout *layout,
			uint64_t offset, uint64_t *ret_end)
{
	uint32_t i = layout_find(layout, offset / layout->row_bytes);
	uint32_t number = array->node.node_of[layout->parts[i].rank];

	while (i + 1 < layout->n_parts &&
	       array->node.node_of[layout->parts[i + 1].rank] == number)
		i++;
	*ret_end = (layout->parts[i].row + layout->parts[i].rows) * layout->row_bytes;
	return number;
}

/* The caller has moving. */
static bool is_elsewhere(const struct hm_array *array, uint64_t begin, uint64_t end)
{
	uint64_t next;

	if (end > array->layout.bytes)
		end = array->layout.bytes;
	for (; begin < end; begin = next)
		if (node_at(array, &array->layout, begin, &next) != array->node.number)
			return true;
	return false;
}

int view_refuse(const void *address, uint64_t bytes)
{
	uintptr_t begin = (uintptr_t)address, end = begin + bytes;
	struct hm_array *array;
	bool found = false;

	if (!atomic_load_explicit(&n_views, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&views_lock);
	for (array = views; array && !found; array = array->view.next) {
		uintptr_t base = (uintptr_t)array->view.base;

		if (end <= base || begin >= base + array->view.length)
			continue;
		pthread_rwlock_rdlock(&array->moving);
		found = is_elsewhere(array, begin > base ? begin - base : 0, end - base);
		pthread_rwlock_unlock(&array->moving);
	}
	pthread_mutex_unlock(&views_lock);
	return found ? hm_error_set(
			       -EINVAL,
			       "the bytes of a put or get are in rows of another node, which "
			       "MPI can't touch: copy them to memory of this rank first") :
		       0;
}

uint64_t view_run(const struct hm_array *array, uint64_t offset, uint32_t *ret_rank)
{
	const struct layout *layout = &array->layout;
	uint64_t end;

	node_at(array, layout, offset, &end);
	*ret_rank = layout->parts[layout_find(layout, offset / layout->row_bytes)].rank;
	return end;
}

/* ---- the range ---- */

static int reserve(struct view *view, void *address)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *got = mmap(address, view->length, PROT_NONE,
			 flags | (address ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	if (got == MAP_FAILED)
		return hm_error_set(-errno, "%llu bytes of addresses for an array: %s",
				    (unsigned long long)view->length, strerror(errno));
	/* Kernels before 4.17 take the address for a hint. */
	if (address && got != address) {
		munmap(got, view->length);
		return hm_error_set(-EEXIST, "addresses from %p on are used", address);
	}
	madvise(got, view->length, MADV_DONTFORK);
	view->base = got;
	return 0;
}

/* Collective. */
static int reserve_same(struct hm_array *array)
{
	struct view *view = &array->view;
	uint64_t step = (view->length + LOOK_STEP - 1) / LOOK_STEP * LOOK_STEP, at;
	unsigned int tries = 0;
	int r = -EADDRNOTAVAIL;

	for (at = LOOK_FIRST; r && at + view->length <= LOOK_END; at += step, tries++) {
		r = agree(array->comm, reserve(view, (void *)at));
		if (r && view->base)
			munmap(view->base, view->length);
		if (r)
			view->base = NULL;
	}
	return r ? hm_error_set(-EADDRNOTAVAIL,
				"no %llu bytes are free at one address on all ranks, in %u "
				"places from %#llx on: raise RLIMIT_AS, or leave out "
				"HM_ARRAY_SAME_ADDRESS",
				(unsigned long long)view->length, tries, LOOK_FIRST) :
		   0;
}

static int map_here(const struct view *view, uint64_t begin, uint64_t end)
{
	begin &= ~(PAGE - 1);
	end = page_up(end);
	if (mmap(view->base + begin, end - begin, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, view->fd, (off_t)begin) == MAP_FAILED)
		return hm_error_set(
			-errno,
			"bytes %llu to %llu of an array, mapped again: %s; each part "
			"takes a mapping (vm.max_map_count): give "
			"hm_array_desc.chunk more rows",
			(unsigned long long)begin, (unsigned long long)end, strerror(errno));
	madvise(view->base + begin, end - begin, MADV_DONTFORK);
	return 0;
}

int view_follow(struct hm_array *array, const struct layout *layout, uint64_t row,
		uint64_t rows)
{
	struct view *view = &array->view;
	uint64_t begin = row * layout->row_bytes, last = (row + rows) * layout->row_bytes, end;
	int r = 0;

	if (!view->base)
		return 0;
	for (; !r && begin < last; begin = end) {
		uint32_t number = node_at(array, layout, begin, &end);

		if (end > last)
			end = last;
		if (number == array->node.number)
			r = map_here(view, begin, end);
		else if (view->pager)
			r = pager_take(view, begin & ~(PAGE - 1), page_up(end));
	}
	return r;
}

/* ---- beginning and end ---- */

static int check(const struct hm_array *array, bool paged)
{
	int level;

	if (array->is_device)
		return hm_error_set(-EOPNOTSUPP,
				    "memory of a device has no second address: leave out "
				    "HM_ARRAY_SAME_ADDRESS and HM_ARRAY_PAGED");
	if (!paged || array->node.nodes < 2)
		return 0;
	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		return hm_error_set(-EOPNOTSUPP,
				    "HM_ARRAY_PAGED needs MPI_THREAD_MULTIPLE, and MPI was "
				    "initialised with less");
	return view_check(array, &array->layout);
}

int view_check(const struct hm_array *array, const struct layout *layout)
{
	uint32_t n = layout_cuts(layout, array->node.node_of, PAGE);

	if (!n)
		return 0;
	return hm_error_set(-EINVAL,
			    "%u parts begin inside a page of another node's part, and "
			    "HM_ARRAY_PAGED brings whole pages: give hm_array_desc.chunk rows "
			    "of a multiple of %llu bytes",
			    n, PAGE);
}

int view_make(struct hm_array *array, const struct hm_array_desc *desc)
{
	bool paged = desc->flags & HM_ARRAY_PAGED;
	struct view *view = &array->view;
	int r;

	if (!(desc->flags & (HM_ARRAY_PAGED | HM_ARRAY_SAME_ADDRESS)))
		return 0;
	view->length = page_up(array->layout.bytes);
	r = check(array, paged);
	if (!r)
		r = hm_buffer_export(array->node.buffer, 0, &view->fd);
	r = agree(array->comm, r);
	if (!r && desc->flags & HM_ARRAY_SAME_ADDRESS)
		r = reserve_same(array);
	else if (!r)
		r = agree(array->comm, reserve(view, NULL));
	if (r)
		return r;
	if (paged && array->node.nodes > 1)
		r = pager_begin(array, desc->page_room);
	if (!r)
		r = view_follow(array, &array->layout, 0, array->layout.shape[0]);
	r = agree(array->comm, r);
	if (!r && view->pager)
		enlist(array);
	return r;
}

void view_end(struct hm_array *array, bool together)
{
	struct view *view = &array->view;

	delist(array);
	/* A pager that waits for a rank that has ended keeps what it uses. */
	if (view->pager && !pager_end(array, together))
		return;
	if (view->base)
		munmap(view->base, view->length);
	if (view->fd >= 0)
		close(view->fd);
	view->base = NULL;
}

int array_settle(struct hm_array *array, uint64_t call, int r)
{
	int written;

	if (!r)
		r = array_complete(array, HM_ARRAY_ALL);
	if (!array->view.pager)
		return r;
	written = pager_write_back(array);
	r = node_meet(&array->node, call, r ? r : written);
	/* Another thread may have loaded a page before all changes of it were there. */
	written = pager_write_back(array);
	return r ? r : written;
}
