// SPDX-License-Identifier: MIT
/* A process's open files of simulated devices, by their fdinfo. */
#include "openers.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"

/* FIGURE_UNKNOWN: there is none. */
static uint64_t value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : FIGURE_UNKNOWN;
}

static bool is_known(const struct openers *openers, const struct opener *opener)
{
	size_t i;

	for (i = 0; i < openers->n; i++)
		if (openers->of[i].device == opener->device && openers->of[i].id == opener->id)
			return true;
	return false;
}

/* @array of @n elements of @size bytes, with room for one more; NULL: it is as it was. */
static void *array_with_room(void *array, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return array;
	array = reallocarray(array, 2 * *room + 8, size);
	if (array)
		*room = 2 * *room + 8;
	return array;
}

static int compare_evicted(const void *a, const void *b)
{
	const struct evicted *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

/* An opener has a line for each of its buffers that was evicted. 0; -ENOMEM. */
static int note_evicted(struct openers *openers, uint64_t device, const char *text)
{
	static const char key[] = "hetsim-evicted:\t";
	struct evicted evicted = { .device = device }, *more;
	const char *at;

	for (at = strstr(text, key); at; at = strstr(at + 1, key)) {
		if (sscanf(at + strlen(key), "%" SCNx64 "-%" SCNx64 " %" SCNu64, &evicted.start,
			   &evicted.end, &evicted.n) != 3)
			continue;
		more = array_with_room(openers->evicted, openers->n_evicted,
				       &openers->room_evicted, sizeof(evicted));
		if (!more)
			return -ENOMEM;
		openers->evicted = more;
		more[openers->n_evicted++] = evicted;
	}
	if (openers->n_evicted > 1)
		qsort(openers->evicted, openers->n_evicted, sizeof(evicted), compare_evicted);
	return 0;
}

static void add_known(uint64_t *sum, uint64_t value)
{
	if (value != FIGURE_UNKNOWN)
		*sum = *sum == FIGURE_UNKNOWN ? value : *sum + value;
}

/* By enum mirrored. */
static const char *const mirrored_keys[N_MIRRORED] = {
	"hetsim-device-faults:\t",
	"hetsim-invalidations:\t",
	"hetsim-migrated:\t",
	"hetsim-returned:\t",
};

static void forget_mirrored(uint64_t *mirrored)
{
	int i;

	for (i = 0; i < N_MIRRORED; i++)
		mirrored[i] = FIGURE_UNKNOWN;
}

void openers_begin(struct openers *openers)
{
	*openers = (struct openers){ .evictions = FIGURE_UNKNOWN };
	forget_mirrored(openers->mirrored);
}

int openers_add(struct openers *openers, const char *text)
{
	/* Each device counts its openers from 1. */
	struct opener opener = {
		.device = value_of(text, "hetsim-device:\thetsim"),
		.id = value_of(text, "hetsim-client-id:\t"),
		.evictions = value_of(text, "hetsim-evictions:\t"),
		.vram = value_of(text, "hetsim-memory-vram:\t"),
		.system = value_of(text, "hetsim-memory-system:\t"),
	};
	struct opener *more;
	int i, r;

	for (i = 0; i < N_MIRRORED; i++)
		opener.mirrored[i] = value_of(text, mirrored_keys[i]);
	if (opener.id == FIGURE_UNKNOWN || opener.evictions == FIGURE_UNKNOWN ||
	    is_known(openers, &opener))
		return 0;
	r = note_evicted(openers, opener.device, text);
	if (r)
		return r;
	more = array_with_room(openers->of, openers->n, &openers->room, sizeof(opener));
	if (!more)
		return -ENOMEM;
	openers->of = more;
	more[openers->n++] = opener;
	add_known(&openers->evictions, opener.evictions);
	for (i = 0; i < N_MIRRORED; i++)
		add_known(&openers->mirrored[i], opener.mirrored[i]);
	return 0;
}

/* Of one open file. 0; -ENOMEM. */
static int add_file(pid_t pid, const char *fd, struct openers *openers)
{
	char path[64], *text;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", (int)pid, fd);
	if (machine_read_all("", path, &text))
		return 0; /* it is closed by now */
	r = openers_add(openers, text);
	free(text);
	return r;
}

bool openers_device(const char *name, uint64_t *ret_device)
{
	if (strncmp(name, "sim:", 4) != 0)
		return false;
	*ret_device = strtoull(name + 4, NULL, 10);
	return true;
}

int openers_look(pid_t pid, struct openers *openers)
{
	static const char device[] = "/dev/hetsim";
	char path[64], name[sizeof(device)];
	struct dirent *entry;
	DIR *folder;
	int r = 0;

	openers_begin(openers);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	/* Engines work on any pointer: the process need not have a map of a device. */
	folder = opendir(path);
	while (folder && !r && (entry = readdir(folder)))
		if (readlinkat(dirfd(folder), entry->d_name, name, sizeof(name)) ==
			    (ssize_t)sizeof(name) &&
		    !memcmp(name, device, sizeof(device) - 1))
			r = add_file(pid, entry->d_name, openers);
	if (folder)
		closedir(folder);
	return r;
}

bool openers_mirror(const struct openers *openers)
{
	return openers->mirrored[MIRRORED_FAULTS] != FIGURE_UNKNOWN;
}

struct opener openers_of(const struct openers *openers, uint64_t device)
{
	struct opener all = { .device = device,
			      .evictions = FIGURE_UNKNOWN,
			      .vram = FIGURE_UNKNOWN,
			      .system = FIGURE_UNKNOWN };
	size_t i;

	forget_mirrored(all.mirrored);
	for (i = 0; i < openers->n; i++) {
		if (openers->of[i].device != device)
			continue;
		all.id++;
		add_known(&all.evictions, openers->of[i].evictions);
		add_known(&all.vram, openers->of[i].vram);
		add_known(&all.system, openers->of[i].system);
	}
	return all;
}

uint64_t openers_evicted(const struct openers *openers, uint64_t device, uint64_t offset)
{
	size_t from = 0, to = openers->n_evicted, middle;
	const struct evicted *at;

	if (!openers_of(openers, device).id)
		return FIGURE_UNKNOWN;
	/* The last one that begins at @offset or before. */
	while (from < to) {
		middle = from + (to - from) / 2;
		at = &openers->evicted[middle];
		if (at->device < device || (at->device == device && at->start <= offset))
			from = middle + 1;
		else
			to = middle;
	}
	at = from ? &openers->evicted[from - 1] : NULL;
	return at && at->device == device && offset < at->end ? at->n : 0;
}

void openers_end(struct openers *openers)
{
	free(openers->of);
	free(openers->evicted);
	*openers = (struct openers){ .evictions = FIGURE_UNKNOWN };
}
