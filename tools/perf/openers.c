// SPDX-License-Identifier: MIT
/* What the simulated devices say of a process's open files, by their fdinfo. */
#include "openers.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stat.h"
#include "top.h"

/* TOP_UNKNOWN: there is none. */
static uint64_t value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : TOP_UNKNOWN;
}

static bool is_known(const struct openers *openers, const struct opener *opener)
{
	size_t i;

	for (i = 0; i < openers->n; i++)
		if (openers->of[i].device == opener->device && openers->of[i].id == opener->id)
			return true;
	return false;
}

static int note(struct openers *openers, const struct opener *opener)
{
	struct opener *more;

	if (openers->n == openers->room) {
		more = reallocarray(openers->of, 2 * openers->room + 8, sizeof(*more));
		if (!more)
			return -ENOMEM;
		openers->of = more;
		openers->room = 2 * openers->room + 8;
	}
	openers->of[openers->n++] = *opener;
	return 0;
}

static void add_known(uint64_t *sum, uint64_t value)
{
	if (value != TOP_UNKNOWN)
		*sum = *sum == TOP_UNKNOWN ? value : *sum + value;
}

void openers_begin(struct openers *openers)
{
	*openers = (struct openers){ .evictions = TOP_UNKNOWN };
}

int openers_add(struct openers *openers, const char *text)
{
	/* Each device counts its openers from 1. */
	const struct opener opener = {
		.device = value_of(text, "hetsim-device:\thetsim"),
		.id = value_of(text, "hetsim-client-id:\t"),
		.evictions = value_of(text, "hetsim-evictions:\t"),
		.vram = value_of(text, "hetsim-memory-vram:\t"),
		.system = value_of(text, "hetsim-memory-system:\t"),
	};
	int r;

	if (opener.id == TOP_UNKNOWN || opener.evictions == TOP_UNKNOWN ||
	    is_known(openers, &opener))
		return 0;
	r = note(openers, &opener);
	if (!r)
		add_known(&openers->evictions, opener.evictions);
	return r;
}

/* Of one open file. 0; -ENOMEM. */
static int add_file(pid_t pid, const char *fd, struct openers *openers)
{
	char path[64], *text;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", (int)pid, fd);
	if (stat_read(NULL, path, &text))
		return 0; /* it is closed by now */
	r = openers_add(openers, text);
	free(text);
	return r;
}

int openers_look(const struct live *live, struct openers *openers)
{
	static const char device[] = "/dev/hetsim";
	char path[64], name[sizeof(device)];
	struct dirent *entry;
	DIR *folder = NULL;
	size_t i;
	int r = 0;

	openers_begin(openers);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)live->pid);
	for (i = 0; i < live->n && !folder; i++)
		if (!strncmp(live->maps[i].entry.device, "sim:", 4)) {
			folder = opendir(path);
			break;
		}
	while (folder && !r && (entry = readdir(folder)))
		if (readlinkat(dirfd(folder), entry->d_name, name, sizeof(name)) ==
			    (ssize_t)sizeof(name) &&
		    !memcmp(name, device, sizeof(device) - 1))
			r = add_file(live->pid, entry->d_name, openers);
	if (folder)
		closedir(folder);
	return r;
}

struct opener openers_of(const struct openers *openers, uint64_t device)
{
	struct opener all = { .device = device,
			      .evictions = TOP_UNKNOWN,
			      .vram = TOP_UNKNOWN,
			      .system = TOP_UNKNOWN };
	size_t i;

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

void openers_end(struct openers *openers)
{
	free(openers->of);
	openers->of = NULL;
	openers->n = openers->room = 0;
}
