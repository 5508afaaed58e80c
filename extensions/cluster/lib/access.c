// SPDX-License-Identifier: MIT
/* Arrays: put, get, wait, epoch, and what is asked of an array. */
#include <errno.h>
#include <string.h>

#include "cluster.h"

/* Which process this is, counted by fork(3): getpid(2) takes longer than a short copy. */
static atomic_uint generation = 1;

static void count_fork(void)
{
	atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

unsigned int array_generation(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

int array_check(struct hm_array *array, const void *other)
{
	hm_error_begin();
	if (!array || !other)
		return hm_error_set(-EINVAL,
				    "an array, and a place for the result, are needed");
	if (array->generation != atomic_load_explicit(&generation, memory_order_relaxed))
		return hm_error_set(-EOWNERDEAD, "the array was made before fork()");
	return node_check(&array->node);
}

static void describe(struct hm_array *array, uint32_t index, struct hm_array_part *ret_part)
{
	const struct node *node = &array->node;
	uint64_t offset = array->layout.parts[index].row * array->layout.row_bytes;
	bool here = node->node_of[array->layout.parts[index].rank] == node->number;

	*ret_part = array->layout.parts[index];
	ret_part->address = NULL;
	if (array->view.base && (here || array->view.pager))
		ret_part->address = array->view.base + offset;
	else if (here)
		ret_part->address = node->base + offset - node->first;
}

int hm_array_local(struct hm_array *array, uint32_t index, struct hm_array_part *ret_part)
{
	int r = array_check(array, ret_part);

	if (r)
		return r;
	if (index >= array->layout.n_own)
		return hm_error_set(-ENOENT, "part %u of rank %u: it has %u", index,
				    array->rank, array->layout.n_own);
	describe(array, array->layout.own[index], ret_part);
	return 0;
}

int hm_array_at(struct hm_array *array, uint64_t row, struct hm_array_part *ret_part)
{
	int r = array_check(array, ret_part);

	if (r)
		return r;
	if (row >= array->layout.shape[0])
		return hm_error_set(-ERANGE, "row %llu of %llu", (unsigned long long)row,
				    (unsigned long long)array->layout.shape[0]);
	pthread_rwlock_rdlock(&array->moving);
	describe(array, layout_find(&array->layout, row), ret_part);
	pthread_rwlock_unlock(&array->moving);
	return 0;
}

/* A stretch that another node has. @from or @to is NULL. The lock is held. */
static int start(struct hm_array *array, const struct stretch *stretch,
		 const unsigned char *from, unsigned char *to)
{
	uint64_t offset = stretch->offset - array->first[stretch->rank];
	int r;

	array->touched[stretch->rank] = 1;
	if (from)
		r = array->transport->put(array, stretch->rank, offset, from + stretch->packed,
					  stretch->bytes);
	else
		r = array->transport->get(array, stretch->rank, offset, to + stretch->packed,
					  stretch->bytes);
	if (r)
		return r;
	atomic_fetch_add_explicit(from ? &array->sent : &array->received, stretch->bytes,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&array->messages, 1, memory_order_relaxed);
	return 0;
}

uint64_t array_bytes_of(const struct hm_array *array, const struct hm_array_range *range)
{
	uint64_t bytes = array->layout.element;
	uint32_t i;

	for (i = 0; i < array->layout.dimensions; i++)
		if (__builtin_mul_overflow(bytes, range->count[i], &bytes))
			return 0;
	return bytes;
}

static int copy(struct hm_array *array, const struct hm_array_range *range,
		const unsigned char *from, unsigned char *to, uint64_t *ret_ticket)
{
	const struct node *node = &array->node;
	bool locked = false;
	struct stretch stretch;
	struct walk walk;
	uint64_t ticket = 0;
	int r = view_refuse(from ? from : to, array_bytes_of(array, range));

	if (r)
		return r;
	pthread_rwlock_rdlock(&array->moving);
	r = walk_begin(&walk, &array->layout, range);
	while (!r && walk_next(&walk, &stretch)) {
		unsigned char *here = node->base + stretch.offset - node->first;

		r = races_note(array, &stretch, from ? TOUCH_PUT : TOUCH_GET);
		if (r)
			break;
		if (node->node_of[stretch.rank] != node->number) {
			if (!locked)
				pthread_mutex_lock(&array->lock);
			if (!locked)
				ticket = ++array->issued;
			locked = true;
			r = start(array, &stretch, from, to);
			continue;
		}
		if (from)
			memcpy(here, from + stretch.packed, stretch.bytes);
		else
			memcpy(to + stretch.packed, here, stretch.bytes);
		atomic_fetch_add_explicit(&array->shared, stretch.bytes, memory_order_relaxed);
	}
	if (locked)
		pthread_mutex_unlock(&array->lock);
	pthread_rwlock_unlock(&array->moving);
	if (!r && ret_ticket)
		*ret_ticket = ticket;
	return r;
}

int hm_array_put(struct hm_array *array, const struct hm_array_range *range, const void *from,
		 uint64_t *ret_ticket)
{
	int r = array_check(array, range);

	if (!r && !from)
		r = hm_error_set(-EINVAL, "a put needs bytes");
	return r ? r : copy(array, range, from, NULL, ret_ticket);
}

int hm_array_get(struct hm_array *array, const struct hm_array_range *range, void *to,
		 uint64_t *ret_ticket)
{
	int r = array_check(array, range);

	if (!r && !to)
		r = hm_error_set(-EINVAL, "a get needs a place for bytes");
	return r ? r : copy(array, range, NULL, to, ret_ticket);
}

int array_complete(struct hm_array *array, uint64_t ticket)
{
	int r = 0;

	if (!array->transport)
		return 0;
	pthread_mutex_lock(&array->lock);
	if (ticket > array->completed && array->completed < array->issued) {
		r = array->transport->flush(array);
		if (!r)
			array->completed = array->issued;
	}
	pthread_mutex_unlock(&array->lock);
	return r;
}

int hm_array_wait(struct hm_array *array, uint64_t ticket)
{
	uint64_t issued;
	int r = array_check(array, array);

	if (r)
		return r;
	/* Without other nodes no ticket but 0 is given. */
	if (ticket == HM_ARRAY_ALL && !array->transport)
		return 0;
	pthread_mutex_lock(&array->lock);
	issued = array->issued;
	pthread_mutex_unlock(&array->lock);
	if (ticket != HM_ARRAY_ALL && ticket > issued)
		return hm_error_set(-EINVAL, "ticket %llu: %llu were given",
				    (unsigned long long)ticket, (unsigned long long)issued);
	return array_complete(array, ticket);
}

/* Whole pages around each part: a page that parts share is written more than once. */
static int publish(struct hm_array *array)
{
	const struct layout *layout = &array->layout;
	uint64_t length = hm_map_length(array->node.map);
	uint32_t i;
	int r;

	for (i = 0; i < layout->n_own; i++) {
		const struct hm_array_part *part = &layout->parts[layout->own[i]];
		uint64_t begin = part->row * layout->row_bytes & ~(PAGE - 1);
		uint64_t end = (part->row + part->rows) * layout->row_bytes;

		end = (end + PAGE - 1) & ~(PAGE - 1);
		if (end > length)
			end = length;
		r = hm_file_publish(array->node.map, begin, end - begin);
		if (r)
			return r;
	}
	return 0;
}

/* This machine may have older pages of other machines' parts, from reading ahead. */
static int refresh(struct hm_array *array)
{
	if (array->node.nodes < 2)
		return 0;
	return hm_file_refresh(array->node.map, 0, hm_map_length(array->node.map));
}

int hm_array_epoch(struct hm_array *array, uint32_t flags)
{
	int r = array_check(array, array);

	if (r == -ECONNRESET || r == -EOWNERDEAD || !array)
		return r;
	if (flags & ~HM_ARRAY_PUBLISH)
		r = hm_error_set(-EINVAL, "unknown flags %#x of an epoch", flags);
	else if (flags & HM_ARRAY_PUBLISH && !array->is_file)
		r = hm_error_set(
			-EOPNOTSUPP,
			"HM_ARRAY_PUBLISH is for arrays of files: give hm_array_desc.path");
	r = array_settle(array, call_with(CALL_EPOCH, 0, 0), r);
	if (!r && flags & HM_ARRAY_PUBLISH)
		r = publish(array);
	/* A rank with an error comes to the barrier, too. */
	r = node_meet(&array->node, call_with(CALL_EPOCH, 0, 0), r);
	if (!r)
		r = races_find(array);
	/* With a race it has ended as well. */
	if (r && r != -EILSEQ)
		return r;
	array->epochs++;
	return !r && flags & HM_ARRAY_PUBLISH ? refresh(array) : r;
}

int hm_array_query(struct hm_array *array, struct hm_array_info *ret_info)
{
	struct hm_array_info info = { 0 };
	int r = array_check(array, ret_info);

	if (r)
		return r;
	if (ret_info->struct_size > sizeof(info))
		return hm_error_set(-E2BIG, "struct_size is %u, and this library knows %zu",
				    ret_info->struct_size, sizeof(info));
	info.struct_size = ret_info->struct_size;
	pthread_rwlock_rdlock(&array->moving);
	info.flags = (array->has_thread ? HM_ARRAY_PROGRESS : 0) |
		     (array->verbs ? HM_ARRAY_VERBS : 0) |
		     (array->staged ? HM_ARRAY_STAGED : 0);
	info.rank = array->rank;
	info.ranks = array->ranks;
	info.node = array->node.number;
	info.nodes = array->node.nodes;
	info.parts = array->layout.n_own;
	info.total_parts = array->layout.n_parts;
	info.rows = array->layout.shape[0];
	info.row_bytes = array->layout.row_bytes;
	info.bytes = array->layout.bytes;
	info.own_bytes = array->layout.own_bytes;
	pthread_rwlock_unlock(&array->moving);
	info.base = array->view.base;
	if (array->view.pager)
		pager_tell(array->view.pager, &info);
	info.epochs = array->epochs;
	info.shared = atomic_load(&array->shared);
	info.sent = atomic_load(&array->sent);
	info.received = atomic_load(&array->received);
	info.messages = atomic_load(&array->messages);
	memcpy(ret_info, &info, info.struct_size);
	return 0;
}
