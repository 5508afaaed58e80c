// SPDX-License-Identifier: MIT
/*
 * Parses one mapping of a smaps file, and computes its share of a range. Uses no other room or
 * file.
 */
#include "base/smaps_mapping.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool smaps_value(const char *line, const char *key, uint64_t *ret_bytes)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) != 0 || line[length] != ':')
		return false;
	*ret_bytes = strtoull(line + length + 1, NULL, 10) * 1024;
	return true;
}

bool smaps_mapping_begin(struct smaps_mapping *mapping, const char *line)
{
	uint64_t start, end;
	char *at;

	/* A first line begins with a hexadecimal digit in lower case, a key with a capital. */
	if (!((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f')))
		return false;
	start = strtoull(line, &at, 16);
	if (*at != '-')
		return false;
	end = strtoull(at + 1, NULL, 16);
	if (end <= start)
		return false;
	*mapping = (struct smaps_mapping){ .start = start, .end = end };
	return true;
}

void smaps_mapping_line(struct smaps_mapping *mapping, const char *line)
{
	uint64_t bytes;

	/*
	 * Sorts by the first letter first: a mapping has some 25 lines, and a process thousands.
	 */
	switch (line[0]) {
	case 'R':
		smaps_value(line, "Rss", &mapping->rss);
		break;
	case 'K':
		smaps_value(line, "KernelPageSize", &mapping->page_size);
		break;
	case 'A':
		if (smaps_value(line, "AnonHugePages", &bytes))
			mapping->huge += bytes;
		break;
	case 'F':
		if (smaps_value(line, "FilePmdMapped", &bytes))
			mapping->huge += bytes;
		break;
	case 'S':
		if (smaps_value(line, "ShmemPmdMapped", &bytes))
			mapping->huge += bytes;
		else if (smaps_value(line, "Shared_Hugetlb", &bytes))
			mapping->pool += bytes;
		break;
	case 'P':
		if (smaps_value(line, "Private_Hugetlb", &bytes))
			mapping->pool += bytes;
		break;
	case 'V':
		/* Two letters a flag, with a blank behind each. */
		if (!strncmp(line, "VmFlags:", 8))
			mapping->marked = strstr(line, " lo ") != NULL;
		break;
	}
}

/* @bytes of a mapping of @size, of which @part lies in the range asked for. */
static uint64_t share(uint64_t bytes, uint64_t part, uint64_t size)
{
	return part == size ? bytes : (uint64_t)((double)bytes * (double)part / (double)size);
}

bool smaps_sum_add(struct smaps_sum *sum, const struct smaps_mapping *mapping, uint64_t start,
		   uint64_t end)
{
	uint64_t from = mapping->start > start ? mapping->start : start;
	uint64_t to = mapping->end < end ? mapping->end : end;
	uint64_t size = mapping->end - mapping->start, resident, pool;

	if (from >= to)
		return false;
	resident = share(mapping->rss, to - from, size);
	pool = share(mapping->pool, to - from, size);
	sum->mapped += to - from;
	sum->resident += resident + pool;
	sum->huge += share(mapping->huge, to - from, size) + pool;
	/*
	 * Resident pages of a locked mapping are locked. The kernel's "Locked:" does not tell
	 * their number: pages that other processes map, too, count by their share there, as in
	 * Pss.
	 */
	if (mapping->marked) {
		sum->marked = true;
		sum->locked += resident;
	}
	if (mapping->page_size > sum->page_size)
		sum->page_size = mapping->page_size;
	return true;
}
