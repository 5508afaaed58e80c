// SPDX-License-Identifier: MIT
/*
 * Arrays: parts that get another owner.
 *
 * Inside a node only the table changes. Between nodes the new owner gets the bytes, and then the
 * tables change on all ranks. Reads go on meanwhile: they find the old owner, whose bytes stay, or
 * the new one, which has the same.
 */
#include <errno.h>

#include "cluster.h"

/* The rows that this rank must fetch: those that were on another node. */
static int fetch(struct hm_array *array, uint64_t row, uint64_t rows)
{
	const struct layout *layout = &array->layout;
	const struct node *node = &array->node;
	uint64_t end = row + rows;
	int r = 0;

	pthread_mutex_lock(&array->lock);
	while (!r && row < end) {
		const struct hm_array_part *part = &layout->parts[layout_find(layout, row)];
		uint64_t last = part->row + part->rows < end ? part->row + part->rows : end;
		uint64_t offset = row * layout->row_bytes;
		uint64_t bytes = (last - row) * layout->row_bytes;

		if (node->node_of[part->rank] != node->number) {
			array->touched[part->rank] = 1;
			r = array->transport->get(array, part->rank,
						  offset - array->first[part->rank],
						  node->base + offset - node->first, bytes);
			atomic_fetch_add(&array->received, bytes);
			atomic_fetch_add(&array->messages, 1);
		}
		row = last;
	}
	if (!r)
		r = array->transport->flush(array);
	if (!r)
		array->completed = array->issued;
	pthread_mutex_unlock(&array->lock);
	return r;
}

/* Makes bytes and addresses for the rows on this node. */
static int prepare(struct hm_array *array, const struct layout *to, uint64_t row, uint64_t rows,
		   bool is_owner)
{
	int r = array->transport && is_owner ? fetch(array, row, rows) : 0;

	return r || !array->transport ? r : view_follow(array, to, row, rows);
}

static int check_move(const struct hm_array *array, uint64_t row, uint64_t rows, uint32_t rank)
{
	uint64_t all = array->layout.shape[0];

	if (!rows || row >= all || rows > all - row)
		return hm_error_set(-ERANGE, "%llu rows from %llu on of %llu",
				    (unsigned long long)rows, (unsigned long long)row,
				    (unsigned long long)all);
	if (rank >= array->ranks)
		return hm_error_set(-EINVAL, "rank %u of %u", rank, array->ranks);
	if (array->is_device)
		return hm_error_set(
			-EOPNOTSUPP,
			"parts in memory of a device stay with their rank: it has no "
			"room for others");
	return 0;
}

int hm_array_move(struct hm_array *array, uint64_t row, uint64_t rows, uint32_t rank)
{
	uint64_t call = call_with(CALL_MOVE, row, rows) ^ rank;
	struct layout layout = { 0 }, old;
	bool prepared;
	int r = array_check(array, array);

	if (r)
		return r;
	r = check_move(array, row, rows, rank);
	if (!r)
		r = layout_move(&array->layout, row, rows, rank, array->rank, &layout);
	if (!r && array->view.pager)
		r = view_check(array, &layout);
	r = array_settle(array, call, r);
	/* The bytes are as they were put. */
	r = node_meet(&array->node, call, r);
	if (!r)
		r = races_find(array);
	prepared = !r;
	if (!r)
		r = node_meet(&array->node, call,
			      prepare(array, &layout, row, rows, array->rank == rank));
	if (r) {
		layout_free(&layout);
		/* As before, as far as this rank came. */
		if (prepared)
			view_follow(array, &array->layout, row, rows);
		return r;
	}
	/* No run is under way from a rank that gives its rows away. */
	if (array->view.pager)
		pager_hold(array);
	pthread_rwlock_wrlock(&array->moving);
	old = array->layout;
	array->layout = layout;
	pthread_rwlock_unlock(&array->moving);
	if (array->view.pager)
		pager_let_go(array);
	layout_free(&old);
	/* No rank writes by its new table before all have theirs. */
	r = node_meet(&array->node, call, 0);
	if (!r)
		array->epochs++;
	return r;
}
