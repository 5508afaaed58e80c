/* SPDX-License-Identifier: MIT */
/* A map that loses a part of its bytes, which a handler replaces. */
#ifndef HETMAP_TESTS_VICTIM_H
#define HETMAP_TESTS_VICTIM_H

#include <hetmap/hetmap.h>

#include "fault/repair.h"
#include "lib/support.h"

#define VICTIM_SIZE (2 * REPAIR_BLOCK + 16 * 4096ull)

/* A map whose bytes can be taken away, and its callbacks. */
struct victim {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	volatile unsigned char *base;
	int fd; /* of the file */
	uint32_t salt;
	int answer;
	bool shared; /* other threads touch it, too, so a check may be out of date */
	char calls[32];
};

/* The handler is installed, and a map of a file made, or of memory of the library's. */
struct victim victim_open_file(void);
struct victim victim_open_host(void);
void victim_close(struct victim *victim);
AUTO_END(victim, victim_close)

/* Its loss policy; with a salt it has a refill callback. */
void victim_choose(struct victim *victim, uint32_t policy, uint32_t flags);
/* Gives the file, or the file behind the memory, this size. */
void victim_cut(const struct victim *victim, uint64_t size);
/* The error of a bracket on one page, from its begin or its end. */
int victim_bracket(const struct victim *victim, uint64_t offset, uint32_t access);
/* Bytes [from, to) of the map are a pattern's. */
bool victim_holds(const struct victim *victim, uint64_t from, uint64_t to, uint32_t salt);
/* The callbacks since the last call: p(art), t(aken), r(ecovered), l(eft), (re)f(ill). */
bool victim_was_told(struct victim *victim, const char *calls);
/* hm_device_recover() is 0, and says. */
struct hm_recover_info victim_recover(struct victim *victim, uint32_t flags);

#endif
