// SPDX-License-Identifier: MIT
/* The table of a combine's lines. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "combine/combine.h"

/* An odd number with bits all over: 2^64 over the golden ratio. */
#define SPREAD 0x9e3779b97f4a7c15u

static uint32_t n_slot(const struct hm_combine *combine)
{
	return 1u << (64 - combine->shift);
}

int table_init(struct hm_combine *combine, uint32_t lines)
{
	/* At most half of the slots are taken. */
	unsigned int bits = 1;

	while (1u << bits < 2 * lines)
		bits++;
	combine->lines = lines;
	combine->shift = 64 - bits;
	combine->line = sys_calloc(lines, sizeof(combine->line[0]));
	combine->mask = sys_calloc(lines, sizeof(combine->mask[0]));
	combine->order = sys_calloc(lines, sizeof(combine->order[0]));
	combine->slot = sys_calloc(n_slot(combine), sizeof(combine->slot[0]));
	combine->memory = sys_calloc((uint64_t)lines + 1, sizeof(combine->bytes[0]));
	if (!combine->line || !combine->mask || !combine->order || !combine->slot ||
	    !combine->memory) {
		table_end(combine);
		return err_set(-ENOMEM, "a combine of %" PRIu32 " lines: no memory", lines);
	}
	combine->bytes = (void *)round_up((uintptr_t)combine->memory, COPY_LINE);
	return 0;
}

void table_end(struct hm_combine *combine)
{
	free(combine->line);
	free(combine->mask);
	free(combine->order);
	free(combine->slot);
	free(combine->memory);
}

/* The slot of @line, or the free one where it belongs. */
static uint32_t *find(struct hm_combine *combine, uint64_t line)
{
	uint32_t last = n_slot(combine) - 1;
	uint32_t at = (uint32_t)(line * SPREAD >> combine->shift);

	while (combine->slot[at] && combine->line[combine->slot[at] - 1] != line)
		at = (at + 1) & last;
	return &combine->slot[at];
}

uint32_t table_entry(struct hm_combine *combine, uint64_t line)
{
	uint32_t *slot;

	/* Writes side by side are frequent. */
	if (combine->n && combine->line[combine->n - 1] == line)
		return combine->n - 1;
	slot = find(combine, line);
	if (*slot)
		return *slot - 1;
	if (combine->n == combine->lines)
		return UINT32_MAX;
	combine->line[combine->n] = line;
	combine->mask[combine->n] = 0;
	*slot = ++combine->n;
	return combine->n - 1;
}

void table_empty(struct hm_combine *combine)
{
	memset(combine->slot, 0, n_slot(combine) * sizeof(combine->slot[0]));
	combine->n = 0;
}

void table_compact(struct hm_combine *combine)
{
	uint32_t i, n = 0;

	memset(combine->slot, 0, n_slot(combine) * sizeof(combine->slot[0]));
	for (i = 0; i < combine->n; i++) {
		if (!combine->mask[i])
			continue;
		combine->line[n] = combine->line[i];
		combine->mask[n] = combine->mask[i];
		combine->bytes[n] = combine->bytes[i];
		*find(combine, combine->line[n]) = n + 1;
		n++;
	}
	combine->n = n;
}
