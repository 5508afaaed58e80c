// SPDX-License-Identifier: MIT
/* Mappings with their touched bytes and their nodes, and a plan of moves. */
#include "explain_tiers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "7f0000000000-7f0000021000 rw-p 00000000 00:00 0   [heap]": the name may be empty. */
static bool read_head(char *line, struct tier_row *row)
{
	int at = 0;

	*row = (struct tier_row){ 0 };
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &row->start, &row->end,
		   &at) < 2 ||
	    row->start >= row->end)
		return false;
	row->name = at ? line + at : "";
	return true;
}

int tier_rows_read(char *smaps, struct tier_rows *ret_rows)
{
	struct tier_rows rows = { NULL, 0 };
	struct tier_row row, *more;
	char *line, *rest = NULL;
	uint64_t kib;

	for (line = strtok_r(smaps, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (rows.n && sscanf(line, "Rss: %" SCNu64, &kib) == 1) {
			rows.rows[rows.n - 1].resident = kib << 10;
		} else if (rows.n && sscanf(line, "Referenced: %" SCNu64, &kib) == 1) {
			rows.rows[rows.n - 1].touched = kib << 10;
		} else if (read_head(line, &row)) {
			more = reallocarray(rows.rows, rows.n + 1, sizeof(*more));
			if (!more) {
				free(rows.rows);
				return -ENOMEM;
			}
			rows.rows = more;
			rows.rows[rows.n++] = row;
		}
	}
	*ret_rows = rows;
	return 0;
}

/* "7f0000000000 default anon=12 dirty=12 N0=8 N1=4 kernelpagesize_kB=4" */
static void place(char *line, struct tier_row *row)
{
	const char *size = strstr(line, "kernelpagesize_kB=");
	uint64_t page = (size ? strtoull(size + 18, NULL, 10) : 4) << 10, pages;
	char *word, *rest = NULL;
	unsigned int node;

	for (word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		if (sscanf(word, "N%u=%" SCNu64, &node, &pages) == 2 &&
		    node < EXPLAIN_TIERS_NODES)
			row->on[node] += pages * page;
}

void tier_rows_place(char *numa_maps, struct tier_rows *rows)
{
	char *line, *rest = NULL;
	uint64_t start;
	size_t i = 0;

	for (line = strtok_r(numa_maps, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		start = strtoull(line, NULL, 16);
		while (i < rows->n && rows->rows[i].end <= start)
			i++;
		if (i < rows->n && rows->rows[i].start <= start)
			place(line, &rows->rows[i]);
	}
}

static double density(const struct tier_row *row)
{
	return row->resident ? (double)row->touched / (double)row->resident : 0;
}

static int compare(const void *a, const void *b)
{
	const struct tier_row *x = a, *y = b;

	if (density(x) != density(y))
		return density(x) > density(y) ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Touched bytes of the row on a node: as many as its share of the row's pages. */
static double touched_on(const struct tier_row *row, uint32_t node)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < EXPLAIN_TIERS_NODES; i++)
		all += (double)row->on[i];
	return all > 0 ? (double)row->touched * (double)row->on[node] / all : 0;
}

void tier_rows_plan(struct tier_rows *rows, uint32_t fast, uint64_t room,
		    const uint64_t latency[EXPLAIN_TIERS_NODES], struct tier_plan *ret_plan)
{
	double now = 0, then = 0, touched = 0, slow, share;
	struct tier_plan plan = { 0 };
	bool known = true;
	uint32_t node;
	size_t i;

	if (rows->n)
		qsort(rows->rows, rows->n, sizeof(*rows->rows), compare);
	for (i = 0; i < rows->n; i++) {
		struct tier_row *row = &rows->rows[i];
		double left;

		slow = 0;
		for (node = 0; node < EXPLAIN_TIERS_NODES; node++) {
			share = touched_on(row, node);
			touched += share;
			slow += node == fast ? 0 : share;
		}
		row->promoted = (uint64_t)slow < room ? (uint64_t)slow : room;
		room -= row->promoted;
		left = slow > 0 ? 1 - (double)row->promoted / slow : 1;
		for (node = 0; node < EXPLAIN_TIERS_NODES; node++) {
			share = touched_on(row, node);
			known &= share <= 0 || latency[node];
			now += share * (double)latency[node];
			then += node == fast ? share * (double)latency[node] :
					       share * (left * (double)latency[node] +
							(1 - left) * (double)latency[fast]);
		}
		plan.touched_slow += (uint64_t)slow;
		plan.promoted += row->promoted;
	}
	plan.touched = (uint64_t)touched;
	if (known && latency[fast] && touched > 0) {
		plan.latency_now = now / touched;
		plan.latency_then = then / touched;
	}
	*ret_plan = plan;
}
