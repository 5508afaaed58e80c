// SPDX-License-Identifier: MIT
/*
 * Measured figures: in this process without a lock, and in a file of the cache folder, so that
 * each machine is measured once. The file is text:
 *
 *     hetmap tiers 1
 *     node:1 latency 231 bandwidth 9100000000
 *
 * Its name has a hash of the machine: the model of its processor, and the size of each node. A
 * home that several machines share therefore has a file for each.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/proc.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "tier/tier.h"

#define HEAD "hetmap tiers 1\n"
#define PATH_BYTES 4096
#define FILE_BYTES 16384

/* Entries are claimed, filled, and never change once they are ready. */
static struct known {
	char device[64];
	struct node_figures figures;
	_Atomic bool ready;
} known[TIER_RUNGS_MAX];
static _Atomic uint32_t n_claimed;
static _Atomic bool was_read;

/* FNV-1a of 64 bits. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

static uint64_t hash_machine(void)
{
	uint64_t nodes = node_usable(), total, available, hash = 0xcbf29ce484222325;
	char text[4096], *model;
	uint32_t i;

	if (proc_read("/proc/cpuinfo", text, sizeof(text)) &&
	    (model = strstr(text, "model name"))) {
		model[strcspn(model, "\n")] = '\0';
		hash = hash_text(hash, model);
	}
	for (i = 0; i < TIER_NODES_MAX; i++) {
		if (!(nodes >> i & 1) || !node_memory(i, &total, &available))
			continue;
		snprintf(text, sizeof(text), " %u:%" PRIu64, i, total);
		hash = hash_text(hash, text);
	}
	return hash;
}

static bool find_path(char *path, size_t size)
{
	char folder[PATH_BYTES - 64];
	int n;

	if (cache_folder(folder, sizeof(folder)))
		return false;
	n = snprintf(path, size, "%s/tiers-%016" PRIx64, folder, hash_machine());
	return n > 0 && (size_t)n < size;
}

/* A device that two threads measure at once has two entries: the first one counts. */
static void know(const char *device, const struct node_figures *figures)
{
	uint32_t i = atomic_fetch_add(&n_claimed, 1);

	if (i >= TIER_RUNGS_MAX) {
		atomic_store(&n_claimed, TIER_RUNGS_MAX);
		return;
	}
	name_copy(known[i].device, sizeof(known[i].device), device);
	known[i].figures = *figures;
	atomic_store(&known[i].ready, true);
}

static const struct known *find_known(const char *device)
{
	uint32_t i;

	for (i = 0; i < TIER_RUNGS_MAX; i++)
		if (atomic_load(&known[i].ready) && !strcmp(known[i].device, device))
			return &known[i];
	return NULL;
}

/* Takes no figure from a file that another user could have written. */
static bool read_file(const char *path, char *text, size_t size)
{
	int fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (!sys_fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		n = sys_read(fd, text, size - 1);
	sys_close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return !strncmp(text, HEAD, strlen(HEAD));
}

static void read_known(void)
{
	char path[PATH_BYTES], text[FILE_BYTES], *line, *rest;
	struct node_figures figures;
	char device[64];

	if (!find_path(path, sizeof(path)) || !read_file(path, text, sizeof(text)))
		return;
	for (line = strtok_r(text + strlen(HEAD), "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "%63s latency %" SCNu64 " bandwidth %" SCNu64, device,
			   &figures.latency, &figures.bandwidth) == 3 &&
		    figures.latency && !find_known(device))
			know(device, &figures);
}

bool figures_find(const char *device, struct node_figures *ret_figures)
{
	const struct known *found;

	/* Threads that come here at once read the same file. */
	if (!atomic_load(&was_read)) {
		read_known();
		atomic_store(&was_read, true);
	}
	found = find_known(device);
	if (found)
		*ret_figures = found->figures;
	return found;
}

/* Writes all that is known beside the file, and renames it. A failure costs a measurement. */
static void write_known(void)
{
	char path[PATH_BYTES], beside[PATH_BYTES + 32], text[FILE_BYTES];
	size_t length = strlen(HEAD);
	uint32_t i;
	int fd, r;

	if (!find_path(path, sizeof(path)))
		return;
	memcpy(text, HEAD, length + 1);
	for (i = 0; i < TIER_RUNGS_MAX && length < sizeof(text) - 192; i++)
		if (atomic_load(&known[i].ready))
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s latency %" PRIu64 " bandwidth %" PRIu64
						   "\n",
						   known[i].device, known[i].figures.latency,
						   known[i].figures.bandwidth);
	/* A write past the limit raises SIGXFSZ, which ends the process. */
	if (length > rlimits_file_size())
		return;
	snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
	cache_make_folders(beside);
	fd = sys_open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	r = sys_write(fd, text, length) == (ssize_t)length ? 0 : -EIO;
	sys_close(fd);
	if (r || sys_rename(beside, path))
		(void)sys_remove(beside);
}

void figures_keep(const char *device, const struct node_figures *figures)
{
	know(device, figures);
	write_known();
}
