// SPDX-License-Identifier: MIT
/* Reads /proc/PID/smaps in one piece, and goes over its lines once. */
#include "mappings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"

/* "START-END RIGHTS OFFSET MAJOR:MINOR INODE      PATH" */
static void parse_first(struct mapping *row, char *line)
{
	int path = 0;

	row->anonymous = row->swap = row->dirty = row->thp_eligible = MAPPING_UNKNOWN;
	row->path = row->flags = "";
	if (sscanf(line, "%*x-%*x %4s %" SCNx64 " %x:%x %" SCNu64 " %n", row->rights,
		   &row->offset, &row->major, &row->minor, &row->inode, &path) >= 5 &&
	    path)
		row->path = line + path;
}

static void parse_further(struct mapping *row, char *line)
{
	uint64_t bytes;

	smaps_mapping_line(&row->smaps, line);
	switch (line[0]) {
	case 'A':
		smaps_value(line, "Anonymous", &row->anonymous);
		break;
	case 'S':
		smaps_value(line, "Swap", &row->swap);
		if (smaps_value(line, "Shared_Dirty", &bytes))
			row->dirty = bytes;
		break;
	case 'P':
		/* It comes behind the other. */
		if (smaps_value(line, "Private_Dirty", &bytes))
			row->dirty = row->dirty == MAPPING_UNKNOWN ? bytes : row->dirty + bytes;
		break;
	case 'T':
		if (!strncmp(line, "THPeligible:", 12))
			row->thp_eligible = strtoull(line + 12, NULL, 10);
		break;
	case 'V':
		if (!strncmp(line, "VmFlags:", 8))
			row->flags = line + 8;
		break;
	}
}

static int parse(struct mappings *mappings)
{
	char *line, *at = mappings->text;
	struct smaps_mapping begun;
	size_t room = 0;

	while ((line = strsep(&at, "\n"))) {
		struct mapping *row;

		if (!smaps_mapping_begin(&begun, line)) {
			if (mappings->n)
				parse_further(&mappings->rows[mappings->n - 1], line);
			continue;
		}
		if (mappings->n == room) {
			room = 2 * room + 64;
			row = reallocarray(mappings->rows, room, sizeof(*row));
			if (!row)
				return -ENOMEM;
			mappings->rows = row;
		}
		row = &mappings->rows[mappings->n++];
		*row = (struct mapping){ .smaps = begun };
		parse_first(row, line);
	}
	return 0;
}

int mappings_read(pid_t pid, struct mappings *ret_mappings)
{
	struct mappings mappings = { 0 };
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	r = machine_read_all("", path, &mappings.text);
	if (r)
		return r;
	r = parse(&mappings);
	if (r)
		mappings_free(&mappings);
	else
		*ret_mappings = mappings;
	return r;
}

void mappings_free(struct mappings *mappings)
{
	free(mappings->rows);
	free(mappings->text);
	*mappings = (struct mappings){ 0 };
}

const struct mapping *mappings_at(const struct mappings *mappings, uint64_t address)
{
	size_t low = 0, high = mappings->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (mappings->rows[middle].smaps.end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low < mappings->n ? &mappings->rows[low] : NULL;
}

void mappings_sum(const struct mappings *mappings, uint64_t start, uint64_t end,
		  struct smaps_sum *ret_sum)
{
	const struct mapping *row = mappings_at(mappings, start);
	struct smaps_sum sum = { 0 };

	for (; row && row < mappings->rows + mappings->n; row++)
		if (!smaps_sum_add(&sum, &row->smaps, start, end))
			break;
	*ret_sum = sum;
}
