// SPDX-License-Identifier: MIT
/* Serials of a published table: seen, and missing. */
#include "serials.h"

#include <errno.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* In order, each once. */
static void settle(struct serials *serials)
{
	size_t i, n = 0;

	if (!serials->n)
		return;
	qsort(serials->seen, serials->n, sizeof(*serials->seen), compare);
	for (i = 1; i < serials->n; i++)
		if (serials->seen[i] != serials->seen[n])
			serials->seen[++n] = serials->seen[i];
	serials->n = n + 1;
}

int serials_add(struct serials *serials, uint64_t serial)
{
	uint64_t *more;

	if (serials->n == serials->room) {
		settle(serials);
		/* Else that alone would be done again and again. */
		if (serials->n >= serials->room / 2) {
			more = realloc(serials->seen, (2 * serials->room + 64) * sizeof(*more));
			if (!more)
				return -ENOMEM;
			serials->seen = more;
			serials->room = 2 * serials->room + 64;
		}
	}
	serials->seen[serials->n++] = serial;
	return 0;
}

void serials_begin(struct serials *serials)
{
	settle(serials);
	serials->before = serials->n ? serials->seen[serials->n - 1] : 0;
}

uint64_t serials_missing(struct serials *serials)
{
	size_t first = 0;

	settle(serials);
	while (first < serials->n && serials->seen[first] <= serials->before)
		first++;
	if (first == serials->n)
		return 0;
	return serials->seen[serials->n - 1] - serials->before - (serials->n - first);
}

void serials_free(struct serials *serials)
{
	free(serials->seen);
	*serials = (struct serials){ 0 };
}
