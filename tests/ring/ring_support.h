/* SPDX-License-Identifier: MIT */
/* Rings that tests make, and records whose bytes tell their number. */
#ifndef HETMAP_TESTS_RING_SUPPORT_H
#define HETMAP_TESTS_RING_SUPPORT_H

#include <hetmap/ring.h>
#include <stdbool.h>

/* FOLDER/ring of @capacity: its path, free() it. */
char *ring_make(const char *folder, uint64_t capacity);
/* An end of it, or the test is abandoned. */
struct hm_ring *ring_end(const char *path, uint32_t end);
struct hm_ring_info ring_info(struct hm_ring *ring);

/* Bytes that depend on @salt, and whether they are those. */
void ring_fill(void *bytes, uint64_t length, uint32_t salt);
bool ring_holds(const void *bytes, uint64_t length, uint32_t salt);

#endif
