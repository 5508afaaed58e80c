// SPDX-License-Identifier: MIT
/*
 * Reading published tables. By pread(2) alone: a table that is cut off or of another kind
 * than it says is an error then, and no signal.
 */
#include "published.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_NAME "/memfd:hetmap:maps (deleted)"
/* A table has as many entries as a process may have mappings, and some more. */
#define ENTRIES_MOST (UINT64_C(1) << 24)
#define ENTRY_MOST 4096
/* Tables without their last members. */
#define ENTRY_LEAST offsetof(struct hm_published_entry, brackets)
#define BLOCK (UINT64_C(64) << 10)
/* Of tables without ranges. */
#define HEAD_LEAST offsetof(struct hm_published_head, range_first)
#define RANGE_LEAST sizeof(struct hm_published_range)
#define RANGES_MOST (UINT64_C(1) << 20)

/* Bytes of an entry that this program knows and the table has. */
static size_t known(const struct published *table)
{
	return table->head.entry_size < sizeof(struct hm_published_entry) ?
		       table->head.entry_size :
		       sizeof(struct hm_published_entry);
}

static int read_head(struct published *table)
{
	struct hm_published_head head = { 0 };
	ssize_t n = pread(table->fd, &head, sizeof(head), 0);

	if (n < 0)
		return -errno;
	if (n < (ssize_t)HEAD_LEAST || head.magic != HM_PUBLISHED_MAGIC ||
	    head.version != HM_PUBLISHED_VERSION || head.entry_size < ENTRY_LEAST ||
	    head.entry_size > ENTRY_MOST || head.n_entry > ENTRIES_MOST ||
	    head.used > head.n_entry)
		return -EPROTO;
	table->head = head;
	return 0;
}

/* @fd was opened without waiting: who publishes may have called anything so, a pipe, too. */
static int open_fd(int fd, struct published *ret_table)
{
	struct published table = { .fd = fd };
	struct stat st;
	int r = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? read_head(&table) : -EPROTO;

	if (r)
		close(fd);
	else
		*ret_table = table;
	return r;
}

int published_open(const char *path, struct published *ret_table)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? -errno : open_fd(fd, ret_table);
}

/* As the process itself knows it: in its own pid namespace, the innermost. */
static uint64_t own_number(pid_t pid)
{
	uint64_t number = (uint64_t)pid;
	char path[64], line[256], *last;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		last = strrchr(line, '\t');
		number = strtoull(last ? last : line + 6, NULL, 10);
		break;
	}
	if (file)
		fclose(file);
	return number;
}

int published_open_process(pid_t pid, struct published *ret_table)
{
	char path[64], name[sizeof(LINK_NAME) + 1];
	uint64_t number = 0;
	struct published table;
	struct dirent *entry;
	int r = -ENOENT, fd;
	ssize_t n;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	if (!folder)
		return -errno;
	while (r == -ENOENT && (entry = readdir(folder))) {
		n = readlinkat(dirfd(folder), entry->d_name, name, sizeof(name));
		if (n != (ssize_t)strlen(LINK_NAME) || memcmp(name, LINK_NAME, (size_t)n) != 0)
			continue;
		fd = openat(dirfd(folder), entry->d_name,
			    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		/* A buffer may be called "maps", too. */
		if (fd < 0 || open_fd(fd, &table))
			continue;
		number = number ? number : own_number(pid);
		if (table.head.pid == number) {
			table.number = atoi(entry->d_name);
			*ret_table = table;
			r = 0;
		} else {
			published_close(&table);
		}
	}
	closedir(folder);
	return r;
}

bool published_is_open(const struct published *table, pid_t pid)
{
	struct stat there, here;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, table->number);
	return !stat(path, &there) && !fstat(table->fd, &here) && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

/* Room to remember the sequences of @n entries. */
static int remember(struct published *table, uint64_t n)
{
	uint32_t *seen;

	if (n <= table->n_seen)
		return 0;
	seen = realloc(table->seen, n * sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	memset(seen + table->n_seen, 0, (n - table->n_seen) * sizeof(*seen));
	table->seen = seen;
	table->n_seen = n;
	return 0;
}

/* Was it written when @block was copied, or while? Then it is looked at again. */
static int read_again(const struct published *table, uint64_t at,
		      struct hm_published_entry *entry)
{
	uint64_t offset = HM_PUBLISHED_FIRST + at * table->head.entry_size;
	uint32_t sequence;
	int tries;

	for (tries = 0; tries < 16; tries++) {
		if (pread(table->fd, entry, known(table), (off_t)offset) !=
			    (ssize_t)known(table) ||
		    pread(table->fd, &sequence, sizeof(sequence), (off_t)offset) !=
			    sizeof(sequence))
			return -EPROTO;
		if (sequence == entry->sequence && !(sequence & 1))
			return 0;
	}
	return -EAGAIN; /* next time */
}

static int look(struct published *table, uint64_t at, const char *copy,
		int (*each)(void *user, const struct hm_published_entry *entry), void *user)
{
	struct hm_published_entry entry = { 0 };
	int r;

	memcpy(&entry, copy, known(table));
	if (entry.sequence == table->seen[at])
		return 0;
	r = read_again(table, at, &entry);
	if (r == -EAGAIN)
		return 0;
	if (r)
		return r;
	if (!entry.sequence || entry.sequence == table->seen[at])
		return 0;
	table->seen[at] = entry.sequence;
	table->at = at;
	entry.name[sizeof(entry.name) - 1] = '\0';
	entry.device[sizeof(entry.device) - 1] = '\0';
	return each(user, &entry);
}

int published_each(struct published *table,
		   int (*each)(void *user, const struct hm_published_entry *entry), void *user)
{
	uint64_t changes = table->head.changes, at = 0, n, i;
	bool short_of;
	char *block;
	ssize_t got;
	int r;

	r = read_head(table);
	if (r)
		return r;
	if (table->seen && table->head.changes == changes)
		return 0;
	r = remember(table, table->head.used + 1);
	block = malloc(BLOCK);
	if (r || !block) {
		free(block);
		return -ENOMEM;
	}
	while (!r && at < table->head.used) {
		n = BLOCK / table->head.entry_size;
		if (n > table->head.used - at)
			n = table->head.used - at;
		got = pread(table->fd, block, n * table->head.entry_size,
			    (off_t)(HM_PUBLISHED_FIRST + at * table->head.entry_size));
		if (got < 0) {
			r = -errno;
			break;
		}
		/* The whole entries of a table that is cut off. */
		short_of = got != (ssize_t)(n * table->head.entry_size);
		if (short_of)
			n = (uint64_t)got / table->head.entry_size;
		for (i = 0; i < n && !r; i++)
			r = look(table, at + i, block + i * table->head.entry_size, each, user);
		at += n;
		if (short_of && !r)
			r = -EPROTO;
	}
	free(block);
	return r;
}

/* ---- ranges ---- */

static bool has_ranges(const struct hm_published_head *head)
{
	return head->range_first >= HM_PUBLISHED_FIRST && head->range_first < INT64_MAX / 2 &&
	       head->range_size >= RANGE_LEAST && head->range_size <= ENTRY_MOST &&
	       head->n_range <= RANGES_MOST && head->ranges_used <= head->n_range;
}

/* -EAGAIN: it was written all the time; -EPROTO. */
static int read_range(const struct published *table, uint64_t at,
		      struct hm_published_range *ret_range)
{
	const off_t offset = (off_t)(table->head.range_first + at * table->head.range_size);
	uint32_t sequence;
	int tries;

	for (tries = 0; tries < 16; tries++) {
		if (pread(table->fd, &sequence, sizeof(sequence), offset) != sizeof(sequence) ||
		    pread(table->fd, ret_range, sizeof(*ret_range), offset) !=
			    sizeof(*ret_range))
			return -EPROTO;
		if (sequence == ret_range->sequence && !(sequence & 1))
			break;
	}
	ret_range->accel[sizeof(ret_range->accel) - 1] = '\0';
	return tries < 16 ? 0 : -EAGAIN;
}

int published_ranges(const struct published *table, struct hm_published_range **ret_ranges,
		     uint64_t *ret_n, uint64_t *ret_left_out)
{
	/* The head in @table says which changes of entries were told. */
	struct published now = { .fd = table->fd };
	struct hm_published_range *ranges;
	uint64_t i;
	int r = read_head(&now);

	if (r)
		return r;
	if (now.head.ranges_used && !has_ranges(&now.head))
		return -EPROTO;
	ranges = calloc(now.head.ranges_used + 1, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	for (i = 0; i < now.head.ranges_used; i++) {
		r = read_range(&now, i, &ranges[i]);
		if (r == -EPROTO) {
			free(ranges);
			return r;
		}
		if (r || !ranges[i].sequence || ranges[i].start >= ranges[i].end)
			ranges[i] = (struct hm_published_range){ 0 };
	}
	*ret_ranges = ranges;
	*ret_n = now.head.ranges_used;
	*ret_left_out = now.head.ranges_left_out;
	return 0;
}

void published_forget(struct published *table)
{
	free(table->seen);
	table->seen = NULL;
	table->n_seen = 0;
}

bool published_changed(const struct published *table)
{
	struct published now = { .fd = table->fd };

	return read_head(&now) || now.head.changes != table->head.changes;
}

bool published_is(const struct published *table, uint64_t at, uint32_t sequence)
{
	uint64_t offset = HM_PUBLISHED_FIRST + at * table->head.entry_size;
	uint32_t now;

	return pread(table->fd, &now, sizeof(now), (off_t)offset) == sizeof(now) &&
	       now == sequence;
}

void published_close(struct published *table)
{
	if (table->fd >= 0)
		close(table->fd);
	free(table->seen);
	*table = (struct published){ .fd = -1 };
}
