/* SPDX-License-Identifier: MIT */
/* Objects of traced processes, which are one where their keys are. */
#ifndef HETMAP_SPACES_OBJECTS_H
#define HETMAP_SPACES_OBJECTS_H

#include "spaces.h"
#include "table.h"

/* Zeros are none. */
struct objects {
	struct table by_key;
	struct object *first, *last;
	uint32_t n;
};

/* The object that @key stands for; made on first sight. NULL: no memory. */
struct object *objects_of(struct objects *objects, const char *key, enum object_kind kind,
			  const char *name, uint32_t pid);
/* A range from @offset to @end in it is at @address. */
void object_reaches(struct object *object, uint64_t address, uint64_t offset, uint64_t end);
/* 0 or -ENOMEM. */
int object_rename(struct object *object, const char *name);
void objects_free(struct objects *objects);

#endif
