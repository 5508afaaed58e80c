/* SPDX-License-Identifier: MIT */
/*
 * Numbers that a published table has given its maps, one after the other: which of them
 * was never seen tells how many maps had ended, and were forgotten, between two looks.
 */
#ifndef HETMAP_SERIALS_H
#define HETMAP_SERIALS_H

#include <stddef.h>
#include <stdint.h>

struct serials {
	uint64_t *seen; /* some more than once */
	size_t n, room;
	uint64_t before; /* those up to it were given before anybody looked */
};

/* 0 or -ENOMEM. */
int serials_add(struct serials *serials, uint64_t serial);
/* The first look is over: serials that were given before it are not asked for. */
void serials_begin(struct serials *serials);
/* Given since then, and never seen. */
uint64_t serials_missing(struct serials *serials);
/* As one made by { 0 }. */
void serials_free(struct serials *serials);

#endif
