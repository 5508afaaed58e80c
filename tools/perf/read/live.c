// SPDX-License-Identifier: MIT
/*
 * The maps that a process has now. The table is read again when it has changed; the
 * counters, which are in the process's memory, each time.
 */
#include "live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Counters are asked for by so many system calls less; of IOV_MAX, three for each map. */
#define BATCH 256

/* Entries: as many as a library's table has room for, twice. */
#define TOLD_MOST (UINT64_C(1) << 21)

int live_open(pid_t pid, struct live *ret_live)
{
	struct live live = { .pid = pid };
	int r = published_open_process(pid, &live.table);

	if (!r)
		*ret_live = live;
	return r;
}

void live_open_without_table(pid_t pid, struct live *ret_live)
{
	*ret_live = (struct live){ .pid = pid, .table = { .fd = -1 } };
}

bool live_has_table(const struct live *live)
{
	return live->table.fd >= 0;
}

void live_close(struct live *live)
{
	published_close(&live->table);
	free(live->maps);
	live->maps = NULL;
	live->n = live->room = 0;
}

/* ---- the table ---- */

/* Addresses of user space end below the middle, wherever this is. */
static bool is_possible(const struct hm_published_entry *entry)
{
	return entry->address && entry->length && entry->length <= entry->span &&
	       entry->span <= INT64_MAX && entry->address <= INT64_MAX &&
	       entry->address + entry->span <= INT64_MAX;
}

static int keep(void *user, const struct hm_published_entry *entry)
{
	struct live *live = user;
	struct live_map *more;

	/* More than a table may have: whoever made it wants to keep its reader busy. */
	if (++live->told > TOLD_MOST)
		return -EPROTO;
	if (entry->end_ns)
		return 0;
	if (!is_possible(entry)) {
		live->nonsense++;
		return 0;
	}
	if (live->n == LIVE_MOST) {
		live->left_out++;
		return 0;
	}
	if (live->n == live->room) {
		more = reallocarray(live->maps, 2 * live->room + 64, sizeof(*more));
		if (!more)
			return -ENOMEM;
		live->maps = more;
		live->room = 2 * live->room + 64;
	}
	live->maps[live->n++] = (struct live_map){ .entry = *entry, .at = live->table.at };
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct live_map *x = a, *y = b;

	if (x->entry.address != y->entry.address)
		return x->entry.address < y->entry.address ? -1 : 1;
	/* Of a table that lies, the same again is the same again. */
	return (x->entry.serial > y->entry.serial) - (x->entry.serial < y->entry.serial);
}

/* No two maps are at one address: an entry that overlaps an earlier one is no map. */
static void drop_overlapping(struct live *live)
{
	size_t i, n = 0;

	for (i = 0; i < live->n; i++) {
		const struct hm_published_entry *entry = &live->maps[i].entry;

		if (n && entry->address <
				 live->maps[n - 1].entry.address + live->maps[n - 1].entry.span)
			live->nonsense++;
		else
			live->maps[n++] = live->maps[i];
	}
	live->n = n;
}

static int read_table(struct live *live)
{
	int r;

	if (live->whole && !published_changed(&live->table))
		return 0;
	published_forget(&live->table);
	live->whole = false;
	live->n = 0;
	live->left_out = live->nonsense = live->told = 0;
	r = published_each(&live->table, keep, live);
	if (r)
		return r;
	live->left_out += live->table.head.left_out;
	if (live->n > 1)
		qsort(live->maps, live->n, sizeof(live->maps[0]), compare);
	drop_overlapping(live);
	live->whole = true;
	return 0;
}

/* ---- the counters ---- */

struct counters {
	uint64_t brackets;
	uint32_t in_flight;
	uint64_t evictions;
};

/* The brackets and work of one map, in the order of addresses in the entry, by bytes. */
static size_t ask(const struct hm_published_entry *entry, struct counters *counters,
		  struct iovec *local, struct iovec *remote, size_t *ret_n)
{
	const struct {
		uint64_t address;
		void *to;
		size_t size;
	} wanted[] = {
		{ entry->brackets, &counters->brackets, 8 },
		{ entry->in_flight, &counters->in_flight, 4 },
		{ entry->evictions, &counters->evictions, 8 },
	};
	/* Few devices count the last one, and tables of older libraries don't have it. */
	size_t i, n = *ret_n, all = 0, n_wanted = entry->evictions ? 3 : 2;

	for (i = 0; i < n_wanted; i++) {
		void *from = (void *)(uintptr_t)wanted[i].address;

		local[n] = (struct iovec){ wanted[i].to, wanted[i].size };
		remote[n++] = (struct iovec){ from, wanted[i].size };
		all += wanted[i].size;
	}
	*ret_n = n;
	return all;
}

/* Of @n maps from @maps on; those at addresses that can't be read stay not counted. */
static int count_some(pid_t pid, struct live_map *maps, size_t n)
{
	struct counters counters[BATCH];
	struct iovec local[3 * BATCH], remote[3 * BATCH];
	size_t first[BATCH], bytes[BATCH]; /* of each map: its iovecs begin there */
	size_t i, n_iov = 0;
	ssize_t got;

	memset(counters, 0, sizeof(counters));
	for (i = 0; i < n; i++) {
		first[i] = n_iov;
		bytes[i] = ask(&maps[i].entry, &counters[i], local, remote, &n_iov);
	}
	/* It goes as far as it gets: from behind the map that stopped it, again. */
	for (i = 0; i < n; i++) {
		got = process_vm_readv(pid, &local[first[i]], n_iov - first[i],
				       &remote[first[i]], n_iov - first[i], 0);
		if (got < 0 && errno != EFAULT)
			return -errno;
		for (; i < n && got >= (ssize_t)bytes[i]; got -= (ssize_t)bytes[i], i++) {
			maps[i].counted = true;
			maps[i].brackets = (uint32_t)counters[i].brackets;
			maps[i].in_flight = counters[i].in_flight;
			maps[i].evictions = counters[i].evictions;
		}
	}
	return 0;
}

/* Was the entry still the map's when its counters were read? Else they were another's. */
static void check_counted(struct live *live)
{
	size_t i;

	if (!published_changed(&live->table))
		return;
	for (i = 0; i < live->n; i++)
		if (!published_is(&live->table, live->maps[i].at, live->maps[i].entry.sequence))
			live->maps[i].counted = false;
}

static void count(struct live *live)
{
	size_t i, n;
	int r = 0;

	for (i = 0; i < live->n; i++)
		live->maps[i].counted = false;
	/* Tables of older libraries have no addresses. */
	for (i = 0; i < live->n && !r; i += n) {
		n = live->n - i < BATCH ? live->n - i : BATCH;
		r = count_some(live->pid, &live->maps[i], n);
	}
	live->refused = r == -ESRCH ? 0 : -r; /* the next look finds that it is gone */
	check_counted(live);
}

int live_look(struct live *live)
{
	int r = 0;

	if (!live_has_table(live))
		r = published_open_process(live->pid, &live->table);
	if (r == -ENOENT)
		return 0; /* It has made no map yet. That it is gone its other files tell. */
	if (!r)
		r = read_table(live);
	if (!r)
		count(live);
	return r;
}

uint64_t live_end(const struct live_map *map)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (map->entry.address + map->entry.length + page - 1) / page * page;
}

const struct live_map *live_at(const struct live *live, uint64_t address)
{
	size_t low = 0, high = live->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (live->maps[middle].entry.address + live->maps[middle].entry.span > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low < live->n && live->maps[low].entry.address <= address ? &live->maps[low] :
									   NULL;
}
