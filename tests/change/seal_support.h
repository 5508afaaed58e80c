/* SPDX-License-Identifier: MIT */
/* A buffer that is to be sealed, with maps of all and of a part of it. */
#ifndef HETMAP_TESTS_SEAL_SUPPORT_H
#define HETMAP_TESTS_SEAL_SUPPORT_H

#include "lib/support.h"

#define SIZE (8 * PAGE + 100)
#define RW (HM_READ | HM_WRITE)

struct seal_world {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map, *part;
	int fd; /* exported before, for reading and writing */
};

struct seal_world seal_begin(void);
void seal_end(struct seal_world *w);
AUTO_END(seal_world, seal_end)

/* Each map can be read everywhere, written nowhere, and shows the bytes. */
void seal_check_sealed(const struct seal_world *w);
/* All is as it was before. */
void seal_check_whole(const struct seal_world *w);

#endif
