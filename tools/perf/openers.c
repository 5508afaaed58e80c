// SPDX-License-Identifier: MIT
/* What the simulated devices say of a process's open files, by their fdinfo. */
#include "openers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

/* TOP_UNKNOWN: there is none. */
static uint64_t value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : TOP_UNKNOWN;
}

static bool is_known(const struct openers *openers, const struct opener *opener)
{
	size_t i;

	for (i = 0; i < openers->n; i++)
		if (openers->of[i].device == opener->device && openers->of[i].id == opener->id)
			return true;
	return false;
}

static int note(struct openers *openers, const struct opener *opener)
{
	struct opener *more;

	if (openers->n == openers->room) {
		more = reallocarray(openers->of, 2 * openers->room + 8, sizeof(*more));
		if (!more)
			return -ENOMEM;
		openers->of = more;
		openers->room = 2 * openers->room + 8;
	}
	openers->of[openers->n++] = *opener;
	return 0;
}

void openers_begin(struct openers *openers)
{
	*openers = (struct openers){ .evictions = TOP_UNKNOWN };
}

int openers_add(struct openers *openers, const char *text)
{
	/* Each device counts its openers from 1. */
	const struct opener opener = {
		.device = value_of(text, "hetsim-device:\thetsim"),
		.id = value_of(text, "hetsim-client-id:\t"),
	};
	uint64_t evictions = value_of(text, "hetsim-evictions:\t");
	int r;

	if (opener.id == TOP_UNKNOWN || evictions == TOP_UNKNOWN || is_known(openers, &opener))
		return 0;
	r = note(openers, &opener);
	if (r)
		return r;
	openers->evictions = openers->evictions == TOP_UNKNOWN ? evictions :
								 openers->evictions + evictions;
	return 0;
}

void openers_end(struct openers *openers)
{
	free(openers->of);
	openers->of = NULL;
	openers->n = openers->room = 0;
}
