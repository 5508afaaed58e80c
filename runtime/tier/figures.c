// SPDX-License-Identifier: MIT
/*
 * Measured figures: in this process without a lock, and in a file of the cache folder, so that
 * each machine is measured once. The file is text:
 *
 *     hetmap tiers 1
 *     node 1 latency 231 bandwidth 9100000000
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
#define FILE_BYTES 8192

static struct {
	_Atomic uint64_t latency, bandwidth;
} known[TIER_NODES_MAX];
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

static void know(uint32_t node, const struct node_figures *figures)
{
	atomic_store(&known[node].bandwidth, figures->bandwidth);
	atomic_store(&known[node].latency, figures->latency);
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
	uint32_t node;

	if (!find_path(path, sizeof(path)) || !read_file(path, text, sizeof(text)))
		return;
	for (line = strtok_r(text + strlen(HEAD), "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "node %u latency %" SCNu64 " bandwidth %" SCNu64, &node,
			   &figures.latency, &figures.bandwidth) == 3 &&
		    node < TIER_NODES_MAX && figures.latency)
			know(node, &figures);
}

bool figures_find(uint32_t node, struct node_figures *ret_figures)
{
	if (node >= TIER_NODES_MAX)
		return false;
	/* Threads that come here at once read the same file. */
	if (!atomic_load(&was_read)) {
		read_known();
		atomic_store(&was_read, true);
	}
	ret_figures->latency = atomic_load(&known[node].latency);
	ret_figures->bandwidth = atomic_load(&known[node].bandwidth);
	return ret_figures->latency != 0;
}

/* Writes all that is known beside the file, and renames it. A failure costs a measurement. */
static void write_known(void)
{
	char path[PATH_BYTES], beside[PATH_BYTES + 32], text[FILE_BYTES];
	size_t length = strlen(HEAD);
	struct node_figures figures;
	uint32_t i;
	int fd, r;

	if (!find_path(path, sizeof(path)))
		return;
	memcpy(text, HEAD, length + 1);
	for (i = 0; i < TIER_NODES_MAX && length < sizeof(text) - 128; i++)
		if (figures_find(i, &figures))
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "node %u latency %" PRIu64
						   " bandwidth %" PRIu64 "\n",
						   i, figures.latency, figures.bandwidth);
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
		(void)sys_unlink(beside);
}

void figures_keep(uint32_t node, const struct node_figures *figures)
{
	if (node >= TIER_NODES_MAX)
		return;
	know(node, figures);
	atomic_store(&was_read, true);
	write_known();
}
