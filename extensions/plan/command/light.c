// SPDX-License-Identifier: MIT
/* The light work of a node: the same sums on an accelerator and on the CPU. */
#include "light.h"

/* From so many times the length on, a tensor is read by checksums. */
#define MUCH_LONGER 4

uint32_t light_mix(uint32_t a, uint32_t b)
{
	uint32_t h = a * 2654435761u ^ (b + 1) * 2246822519u;

	h ^= h >> 15;
	h *= 3266489917u;
	return h ^ h >> 13;
}

uint32_t light_factor(uint32_t node, uint32_t k)
{
	return light_mix(node, k + 100) | 1;
}

bool light_reads(const struct operation *node, uint32_t tensor)
{
	uint32_t i;

	for (i = 0; i < node->n_read; i++)
		if (node->reads[i] == tensor)
			return true;
	return false;
}

int light_pieces(uint64_t to, uint64_t from, light_add *add, void *user)
{
	uint64_t at, piece;
	int r = 0;

	for (at = 0; !r && at < from; at += piece) {
		piece = light_smaller(light_smaller(to - at % to, from - at),
				      LIGHT_LAUNCH_BYTES);
		r = add(user, false, at % to, at, piece);
	}
	for (; !r && at < to; at += piece) {
		piece = light_smaller(light_smaller(at, to - at), LIGHT_LAUNCH_BYTES);
		r = add(user, true, at, 0, piece);
	}
	return r;
}

bool light_by_checksum(uint64_t to, uint64_t from)
{
	return from / MUCH_LONGER > to;
}

uint64_t light_digest_bytes(uint64_t length)
{
	return checksum_parts(length) * CHECKSUM_STRIDE * sizeof(uint32_t);
}
