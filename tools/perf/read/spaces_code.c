// SPDX-License-Identifier: MIT
/* Files that code was mapped from: at one path there may be several, one after the other. */
#include "spaces_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

static char *key_of(const struct recorded_event *event)
{
	char build_id[2 * RECORDED_BUILD_ID + 1] = "";
	uint32_t i;

	for (i = 0; i < event->n_build_id; i++)
		snprintf(build_id + 2 * i, 3, "%02x", event->build_id[i]);
	return text_format("%" PRIu64 ":%" PRIu64 ":%s:%s", event->inode, event->generation,
			   build_id, event->name);
}

const char *code_file_name(struct table *files, const struct recorded_event *event)
{
	char *key = key_of(event);
	void **place = key ? table_place(files, key) : NULL;
	struct code_file *file = place ? *place : NULL;

	free(key);
	if (!place || file)
		return file ? file->name : NULL;
	file = calloc(1, sizeof(*file) + strlen(event->name) + 1);
	if (!file)
		return NULL;
	file->pid = event->pid;
	file->inode = event->inode;
	file->generation = event->generation;
	file->n_build_id = event->n_build_id;
	memcpy(file->build_id, event->build_id, sizeof(file->build_id));
	strcpy(file->name, event->name);
	*place = file;
	return file->name;
}
