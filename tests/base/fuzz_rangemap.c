// SPDX-License-Identifier: MIT
/*
 * Fuzzes the range map: each 3 bytes of input are one change, made to a range
 * map and to an array with one value a unit; they must agree afterwards.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rangemap.h"

#define UNITS 256

struct model {
	uint32_t value[UNITS];
	uint64_t next; /* where the following run must begin */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int compare(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	struct model *model = user;
	uint64_t i;

	if (offset != model->next || !length)
		abort();
	for (i = 0; i < length; i++)
		if (model->value[offset + i] != value)
			abort();
	model->next = offset + length;
	return 0;
}

static void check(struct model *model, const struct rangemap *ranges)
{
	uint32_t i;

	for (i = 1; i < ranges->n; i++)
		if (ranges->run[i].offset <= ranges->run[i - 1].offset ||
		    ranges->run[i].value == ranges->run[i - 1].value)
			abort();
	for (i = 0; i < UNITS; i++)
		if (rangemap_at(ranges, i)->value != model->value[i])
			abort();
	model->next = 0;
	if (rangemap_each(ranges, 0, UNITS, compare, model) || model->next != UNITS)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rangemap *ranges = rangemap_create(0, 0);
	struct model model;

	memset(&model, 0, sizeof(model));
	for (; ranges && size >= 3; data += 3, size -= 3) {
		uint64_t offset = data[0];
		uint64_t length = 1 + data[1] % (UNITS - offset);
		uint32_t value = data[2] % 4;
		struct rangemap *changed = rangemap_set(ranges, offset, length, value);
		uint64_t i;

		free(ranges);
		ranges = changed;
		for (i = 0; i < length; i++)
			model.value[offset + i] = value;
		if (ranges)
			check(&model, ranges);
	}
	free(ranges);
	return 0;
}
