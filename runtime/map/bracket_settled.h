/* SPDX-License-Identifier: MIT */
/* Brackets of a map whose bytes one dma-buf holds, as most are: inline, for api/bracket.c. */
#ifndef HETMAP_BRACKET_SETTLED_H
#define HETMAP_BRACKET_SETTLED_H

#include "dmabuf/dmabuf.h"
#include "map/bracket.h"

/* Brackets of other maps. */
int bracket_begin_unsettled(struct hm_map *map, uint64_t offset, uint64_t length,
			    uint32_t access);
int bracket_end_unsettled(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/*
 * The dma-buf that holds the range, and that stays as long as the buffer; or -1. A dma-buf made
 * of a memfd has no other object behind it, so a part of the range is enough.
 */
static inline int bracket_settled_fd(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	const struct hm_buffer *buffer = map->buffer;
	int fd = atomic_load_explicit(&buffer->settled_fd, memory_order_acquire);
	uint64_t settled = atomic_load_explicit(&buffer->settled_length, memory_order_relaxed);
	uint64_t end = map->offset + offset + (buffer->settled_own ? 1 : length);

	return fd >= 0 && end <= settled ? fd : -1;
}

static inline __attribute__((always_inline)) int
bracket_begin_inline(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	int fd = bracket_settled_fd(map, offset, length);

	return likely(fd >= 0) ? dmabuf_begin_cpu(fd, access) :
				 bracket_begin_unsettled(map, offset, length, access);
}

static inline __attribute__((always_inline)) int
bracket_end_inline(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	int fd = bracket_settled_fd(map, offset, length);

	return likely(fd >= 0) ? dmabuf_end_cpu(fd, access) :
				 bracket_end_unsettled(map, offset, length, access);
}

#endif
