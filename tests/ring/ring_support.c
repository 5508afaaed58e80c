// SPDX-License-Identifier: MIT
/* Rings that tests make, and records whose bytes tell their number. */
#include "ring/ring_support.h"

#include "lib/command.h"
#include "lib/rig.h"

char *ring_make(const char *folder, uint64_t capacity)
{
	char *path = folder_path(folder, "ring");

	CHECK_OK_FATAL(hm_ring_create(path, -1, DESC(hm_ring_desc, .capacity = capacity)));
	return path;
}

struct hm_ring *ring_end(const char *path, uint32_t end)
{
	struct hm_ring *ring;

	CHECK_OK_FATAL(hm_ring_open(path, -1, end, &ring));
	return ring;
}

struct hm_ring_info ring_info(struct hm_ring *ring)
{
	struct hm_ring_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_ring_query(ring, &info));
	return info;
}

static unsigned char byte_of(uint64_t i, uint32_t salt)
{
	return (unsigned char)(i * 7 + i / 251 + salt * 2654435761u / 65536);
}

void ring_fill(void *bytes, uint64_t length, uint32_t salt)
{
	unsigned char *to = bytes;
	uint64_t i;

	for (i = 0; i < length; i++)
		to[i] = byte_of(i, salt);
}

bool ring_holds(const void *bytes, uint64_t length, uint32_t salt)
{
	const unsigned char *from = bytes;
	uint64_t i;

	for (i = 0; i < length; i++)
		if (from[i] != byte_of(i, salt))
			return false;
	return true;
}
