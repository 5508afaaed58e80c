// SPDX-License-Identifier: MIT
/* Objects of traced processes: in the order in which they were seen, and by their keys. */
#include "spaces_objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct object *objects_of(struct objects *objects, const char *key, enum object_kind kind,
			  const char *name, uint32_t pid)
{
	void **place = table_place(&objects->by_key, key);
	struct object *object;

	if (!place)
		return NULL;
	if (*place)
		return *place;
	object = calloc(1, sizeof(*object));
	if (!object)
		return NULL;
	object->kind = kind;
	object->pid = pid;
	object->page_size = 4096;
	object->name = strdup(name);
	if (!object->name) {
		free(object);
		return NULL;
	}
	object->index = objects->n++;
	if (objects->last)
		objects->last->next = object;
	else
		objects->first = object;
	objects->last = object;
	return *place = object;
}

void object_reaches(struct object *object, uint64_t address, uint64_t offset, uint64_t end)
{
	if (!object->length)
		object->address = address - offset;
	if (end > object->length)
		object->length = end;
}

int object_rename(struct object *object, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	free(object->name);
	object->name = copy;
	return 0;
}

void objects_free(struct objects *objects)
{
	struct object *object;

	table_clear(&objects->by_key, NULL);
	while ((object = objects->first)) {
		objects->first = object->next;
		free(object->name);
		free(object->device);
		free(object);
	}
}
