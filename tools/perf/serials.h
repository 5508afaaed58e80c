/* SPDX-License-Identifier: MIT */
/*
 * Numbers that a published table has given its maps, one after the other: which of them
 * was never seen tells how many maps had ended, and were forgotten, between two looks.
 */
#ifndef HETMAP_SERIALS_H
#define HETMAP_SERIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct serials {
	uint64_t *seen; /* some more than once */
	size_t n, room;
	uint64_t before; /* those up to it were given before anybody looked */
};

/* 0 or -ENOMEM. */
int serials_add(struct serials *serials, uint64_t serial);
/*
 * The first look is over. @running: the program ran before it, and may have had any number
 * of maps that nobody asks for; else it began with the first that was seen.
 */
void serials_begin(struct serials *serials, bool running);
/* Given since then, and never seen. */
uint64_t serials_missing(struct serials *serials);
/* As one made by { 0 }. */
void serials_free(struct serials *serials);

#endif
