// SPDX-License-Identifier: MIT
/* The published tables that are in a trace's folder, as events by time. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../hetmap/text.h"
#include "analysis.h"
#include "published.h"

struct reading {
	uint32_t pid;
	struct published_event *events;
	uint64_t n, room;
};

static int add(struct reading *reading, const struct hm_published_entry *entry, bool begin)
{
	struct published_event *more;

	if (reading->n == reading->room) {
		more = realloc(reading->events, (2 * reading->room + 256) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		reading->events = more;
		reading->room = 2 * reading->room + 256;
	}
	reading->events[reading->n++] = (struct published_event){
		.time = begin ? entry->begin_ns : entry->end_ns,
		.pid = reading->pid,
		.begin = begin,
		.entry = *entry,
	};
	return 0;
}

/* One that was kept when it began and again when it ended begins twice: no harm. */
static int keep(void *user, const struct hm_published_entry *entry)
{
	struct reading *reading = user;
	int r = add(reading, entry, true);

	return r || !entry->end_ns ? r : add(reading, entry, false);
}

static int compare_events(const void *a, const void *b)
{
	const struct published_event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	/* At one address the old one ends before the new one begins. */
	return (int)x->begin - (int)y->begin;
}

int tables_read(const char *folder, struct published_event **ret_events, uint64_t *ret_n,
		uint64_t *ret_forgotten, uint64_t *ret_left_out, uint32_t *ret_broken)
{
	char *maps = text_format("%s/maps", folder);
	DIR *files = opendir(maps);
	struct reading reading = { 0 };
	struct published table;
	struct dirent *entry;
	uint32_t broken = 0;
	char *path;
	int r = 0;

	*ret_forgotten = *ret_left_out = 0;
	while (files && r != -ENOMEM && (entry = readdir(files))) {
		if (strncmp(entry->d_name, "maps.", 5) != 0)
			continue;
		path = text_format("%s/%s", maps, entry->d_name);
		r = published_open(path, &table);
		free(path);
		if (!r) {
			reading.pid = (uint32_t)table.head.pid;
			r = published_each(&table, keep, &reading);
			*ret_forgotten += table.head.forgotten;
			*ret_left_out += table.head.left_out;
			published_close(&table);
		}
		broken += r && r != -ENOMEM;
	}
	if (files)
		closedir(files);
	free(maps);
	if (r == -ENOMEM) {
		free(reading.events);
		return r;
	}
	if (reading.n)
		qsort(reading.events, reading.n, sizeof(*reading.events), compare_events);
	*ret_events = reading.events;
	*ret_n = reading.n;
	*ret_broken = broken;
	return 0;
}
