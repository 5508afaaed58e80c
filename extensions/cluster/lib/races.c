// SPDX-License-Identifier: MIT
/*
 * Arrays: races, which HM_ARRAY_CHECK looks for. Each rank keeps what its puts, gets and
 * accumulates touch. At the end of an epoch all ranks have all of it, and look for bytes that one
 * rank changes while another reads or changes them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

#define NOTES_FIRST 64

static const char *const kinds[] = {
	[TOUCH_GET] = "got",
	[TOUCH_PUT] = "put",
	[TOUCH_CHANGE] = "accumulated",
};

int races_note(struct hm_array *array, const struct stretch *stretch, enum touch kind)
{
	struct note *notes = array->notes, *last;
	uint64_t room = array->notes_room;
	int r = 0;

	if (!array->checks)
		return 0;
	pthread_mutex_lock(&array->notes_lock);
	last = array->n_notes ? &notes[array->n_notes - 1] : NULL;
	if (last && last->kind == (uint32_t)kind && last->end == stretch->offset) {
		last->end += stretch->bytes;
		goto out;
	}
	if (array->n_notes == room) {
		room = room ? 2 * room : NOTES_FIRST;
		notes = realloc(notes, room * sizeof(*notes));
		if (!notes) {
			r = hm_error_set(-ENOMEM, "no memory for %llu accesses to check",
					 (unsigned long long)room);
			goto out;
		}
		array->notes = notes;
		array->notes_room = room;
	}
	notes[array->n_notes++] = (struct note){ .begin = stretch->offset,
						 .end = stretch->offset + stretch->bytes,
						 .rank = array->rank,
						 .kind = kind };
out:
	pthread_mutex_unlock(&array->notes_lock);
	return r;
}

static int by_begin(const void *a, const void *b)
{
	const struct note *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Two ranks, and one of them changes what the other must not see changed. */
static bool is_race(const struct note *a, const struct note *b)
{
	if (a->rank == b->rank || (a->kind == TOUCH_GET && b->kind == TOUCH_GET))
		return false;
	return a->kind != TOUCH_CHANGE || b->kind != TOUCH_CHANGE;
}

static int tell(const struct hm_array *array, const struct note *a, const struct note *b)
{
	uint64_t row = array->layout.row_bytes;
	uint64_t begin = a->begin > b->begin ? a->begin : b->begin;
	uint64_t end = a->end < b->end ? a->end : b->end;

	return hm_error_set(-EILSEQ,
			    "race in epoch %llu: rank %u %s and rank %u %s rows %llu to %llu "
			    "(bytes %llu to %llu of the array); end the epoch between the two",
			    (unsigned long long)array->epochs, a->rank, kinds[a->kind], b->rank,
			    kinds[b->kind], (unsigned long long)(begin / row),
			    (unsigned long long)((end - 1) / row), (unsigned long long)begin,
			    (unsigned long long)end);
}

/* The first race of sorted notes, or 0. */
static int look(const struct hm_array *array, const struct note *notes, uint64_t n)
{
	uint64_t i, k;

	for (i = 0; i < n; i++)
		for (k = i + 1; k < n && notes[k].begin < notes[i].end; k++)
			if (is_race(&notes[i], &notes[k]))
				return tell(array, &notes[i], &notes[k]);
	return 0;
}

int races_find(struct hm_array *array)
{
	int *counts, *places, i, mine, total = 0, code = 0, r = 0;
	struct note *all = NULL;

	if (!array->checks)
		return 0;
	counts = calloc(2 * (size_t)array->ranks, sizeof(*counts));
	if (!counts)
		r = hm_error_set(-ENOMEM, "no memory for %u ranks", array->ranks);
	else if (array->n_notes > INT32_MAX / sizeof(*all) / array->ranks)
		r = hm_error_set(-EOVERFLOW, "%llu accesses in an epoch are too many to check",
				 (unsigned long long)array->n_notes);
	r = agree(array->comm, r);
	if (r)
		goto out;
	places = counts + array->ranks;
	mine = (int)(array->n_notes * sizeof(*all));
	code = MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, array->comm);
	for (i = 0; i < (int)array->ranks; i++) {
		places[i] = total;
		total += counts[i];
	}
	all = malloc((size_t)total + 1);
	r = agree(array->comm,
		  all && !code ? 0 : hm_error_set(-ENOMEM, "no memory for %d bytes", total));
	if (r)
		goto out;
	r = mpi_error(MPI_Allgatherv(array->notes, mine, MPI_BYTE, all, counts, places,
				     MPI_BYTE, array->comm),
		      "MPI_Allgatherv");
	if (r)
		goto out;
	qsort(all, (size_t)total / sizeof(*all), sizeof(*all), by_begin);
	r = look(array, all, (uint64_t)total / sizeof(*all));
	/* All ranks say the same: equal begins may be in another order elsewhere. */
	r = agree(array->comm, r);
out:
	array->n_notes = 0;
	free(all);
	free(counts);
	return r;
}
