// SPDX-License-Identifier: MIT
/*
 * Pieces of memory that are of one kind: of one size, and touched by the same code. One that is
 * in the place of another was taken after that one was given back; of memory without a name
 * such are one row, however often that went. A gain that is too small for advice on each may be
 * large for all of them.
 */
#include "pieces.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/text.h"
#include "spaces_merged.h"
#include "spaces_objects.h"
#include "spaces_range.h"

struct piece {
	struct counted *counted;
	const struct site *site; /* that has most of its faults */
};

static int compare_numbers(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int compare_places(const struct place *x, const struct place *y)
{
	int r = compare_numbers((uintptr_t)x->file, (uintptr_t)y->file);

	return r ? r : compare_numbers(x->offset, y->offset);
}

/* 0: they are of one kind. */
static int compare_kinds(const struct piece *x, const struct piece *y)
{
	const struct object *a = x->counted->object, *b = y->counted->object;
	int r = compare_numbers(a->pid, b->pid);

	r = r ? r : compare_numbers(a->kind, b->kind);
	r = r ? r : compare_numbers(a->length, b->length);
	r = r ? r : compare_places(&x->site->place, &y->site->place);
	r = r ? r : compare_places(&x->site->top, &y->site->top);
	return r ? r : compare_places(&x->site->caller, &y->site->caller);
}

/* Those of one kind in the order in which they were taken. */
static int compare(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	int r = compare_kinds(x, y);

	return r ? r : compare_numbers(x->counted->object->index, y->counted->object->index);
}

/* The site with most faults of each object, by its index. NULL: no memory. */
static const struct site **main_sites(const struct analysis *analysis)
{
	const struct site **sites, *site, *most;
	uint32_t n, i;

	spaces_objects(analysis->spaces, &n);
	sites = calloc(n + 1, sizeof(*sites));
	for (i = 0; sites && i < analysis->n_site; i++) {
		site = analysis->sites[i];
		most = sites[site->of->object->index];
		if (!most || site->faults > most->faults)
			sites[site->of->object->index] = site;
	}
	return sites;
}

/* Memory that is taken whole, and known by where it is; *ret_n: how much there is. */
static struct piece *list(const struct analysis *analysis, uint32_t *ret_n)
{
	const struct site **sites = main_sites(analysis);
	struct piece *pieces = calloc(analysis->n_counted + 1, sizeof(*pieces));
	uint32_t i, n = 0;

	for (i = 0; pieces && sites && i < analysis->n_counted; i++) {
		struct counted *counted = analysis->counted[i];
		const struct object *object = counted->object;

		/* A text need not tell any code. */
		if (sites[object->index] && sites[object->index]->ip &&
		    (object->kind == OBJECT_HETMAP ||
		     (object->kind == OBJECT_ANON && object->length >= ANON_LEAST)))
			pieces[n++] = (struct piece){ counted, sites[object->index] };
	}
	free(sites);
	*ret_n = n;
	return pieces;
}

/* ---- one row of several ---- */

static int add_nodes(const struct analysis *analysis, struct counted *to, struct counted *from)
{
	uint32_t i, n = analysis->nodes.n * analysis->nodes.n;

	if (!from->by_nodes)
		return 0;
	if (!to->by_nodes)
		to->by_nodes = calloc(n, sizeof(*to->by_nodes));
	if (!to->by_nodes)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		to->by_nodes[i] += from->by_nodes[i];
	return 0;
}

static void add_times(struct counted *to, const struct counted *from)
{
	if (from->first_ns < to->first_ns)
		to->first_ns = from->first_ns;
	if (from->last_ns > to->last_ns)
		to->last_ns = from->last_ns;
	if (from->lowest < to->lowest)
		to->lowest = from->lowest;
	if (from->highest > to->highest)
		to->highest = from->highest;
}

void pieces_sum(struct counted *to, const struct counted *from)
{
	to->minor += from->minor;
	to->major += from->major;
	to->unfinished += from->unfinished;
	to->in_kernel += from->in_kernel;
	to->reads += from->reads;
	to->writes += from->writes;
	to->minor_ns += from->minor_ns;
	to->major_ns += from->major_ns;
	to->taken += from->taken;
	to->again += from->again;
	add_times(to, from);
}

/* @from is of the object of @to from now on, and has no faults. */
static int fold(const struct analysis *analysis, struct counted *to, struct counted *from)
{
	uint32_t call;
	int r = add_nodes(analysis, to, from);

	if (r)
		return r;
	pieces_sum(to, from);
	for (call = 0; call < N_OBJECT_CALL; call++)
		to->object->calls[call] += from->object->calls[call];
	pattern_join(&to->streams, &from->streams);
	from->object->user = to;
	from->object = to->object;
	from->taken = 0;
	return 0;
}

/*
 * Puts @counted where the place was that it overlaps, or in a place of its own: *ret_row is the
 * first that was in it. Other places lose the part that is its own now. 0 or -ENOMEM.
 */
static int take_place(struct range_tree **places, struct counted *counted,
		      struct counted **ret_row)
{
	struct object *object = counted->object;
	struct range own = { .start = object->address,
			     .end = object->address + object->length,
			     .object = object };
	const struct range *found;
	bool code = false;
	int r = 0;

	*ret_row = counted;
	if (own.end <= own.start)
		return 0;
	found = range_find(*places, own.start, own.end);
	if (found) {
		own.object = found->object;
		*ret_row = own.object->user;
		r = range_cut(places, found->start, found->end, &code);
	}
	r = r ? r : range_cut(places, own.start, own.end, &code);
	return r ? r : range_insert(places, &own);
}

static int find_again(struct analysis *analysis, struct piece *pieces, uint32_t n)
{
	struct range_tree *places = NULL;
	struct counted *row;
	uint32_t i;
	int r = 0;

	for (i = 0; i < n && !r; i++) {
		struct counted *counted = pieces[i].counted;

		r = take_place(&places, counted, &row);
		if (r || row == counted)
			continue;
		counted->again = 1;
		if (counted->object->kind == OBJECT_ANON)
			r = fold(analysis, row, counted);
	}
	range_drop(&places);
	return r;
}

static int find_kinds(struct analysis *analysis, struct piece *pieces, uint32_t n)
{
	uint32_t i, first;
	int r = 0;

	for (first = 0; first < n && !r; first = i) {
		analysis->n_kind++;
		for (i = first; i < n && !compare_kinds(&pieces[first], &pieces[i]); i++)
			pieces[i].counted->piece_kind = analysis->n_kind;
		r = find_again(analysis, pieces + first, i - first);
	}
	return r;
}

/* ---- further figures of an object ---- */

/* Rows that are another one's now stand behind those that are shown: chains know them. */
static void part_rows(struct analysis *analysis)
{
	uint32_t i, n = 0;

	for (i = 0; i < analysis->n_counted; i++) {
		struct counted *counted = analysis->counted[i];

		if (!counted->taken)
			continue;
		analysis->counted[i] = analysis->counted[n];
		analysis->counted[n++] = counted;
	}
	analysis->n_folded = analysis->n_counted - n;
	analysis->n_counted = n;
}

static int rename_rows(const struct analysis *analysis)
{
	uint32_t i;
	char *name;
	int r = 0;

	for (i = 0; i < analysis->n_counted && !r; i++) {
		const struct counted *counted = analysis->counted[i];

		if (counted->taken < 2)
			continue;
		name = text_format("%s x%" PRIu64, counted->object->name, counted->taken);
		r = object_rename(counted->object, name);
		free(name);
	}
	return r;
}

/* Sites know their row, and drawn events the number of their object. 0 or -ENOMEM. */
static int move_rest(struct analysis *analysis)
{
	struct object *object;
	uint32_t i, n, *now;

	object = spaces_objects(analysis->spaces, &n);
	now = malloc((n + 1) * sizeof(*now));
	if (!now)
		return -ENOMEM;
	for (; object; object = object->next) {
		const struct counted *counted = object->user;

		now[object->index] = counted ? counted->object->index : object->index;
	}
	for (i = 0; i < analysis->n_row; i++)
		analysis->rows[i].object = now[analysis->rows[i].object];
	for (i = 0; i < analysis->n_site; i++)
		analysis->sites[i]->of = analysis->sites[i]->of->object->user;
	free(now);
	return 0;
}

int pieces_find(struct analysis *analysis)
{
	uint32_t n;
	struct piece *pieces = list(analysis, &n);
	int r;

	if (!pieces)
		return -ENOMEM;
	qsort(pieces, n, sizeof(*pieces), compare);
	r = find_kinds(analysis, pieces, n);
	free(pieces);
	if (r)
		return r;
	part_rows(analysis);
	if (!analysis->n_folded)
		return 0;
	r = move_rest(analysis);
	return r ? r : rename_rows(analysis);
}
