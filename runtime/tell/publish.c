// SPDX-License-Identifier: MIT
/*
 * The published table of maps. One thread writes at a time; readers in other processes copy an
 * entry and check that its sequence has not changed meanwhile.
 */
#include "tell/publish.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <urcu/arch.h>

#include "core/core.h"
#include "core/device_link.h"
#include "base/env.h"
#include "base/memfd.h"
#include "share/owner.h"
#include "base/proc.h"
#include "base/rlimits.h"
#include "core/segments.h"
#include "base/sys.h"
#include "tell/publish_table.h"

/* As in control.c: writable mappings that exist stay writable, and no new ones can be made. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Storage is added in steps of this size: a store to a page without storage is a SIGBUS. */
#define STEP KIB(64)

#define NONE UINT32_MAX

/* More maps than the kernel allows by default, and fewer than would waste addresses. */
#define MAPS_LEAST 65536
#define MAPS_MOST (UINT64_C(1) << 20)

/* A leaf of the lock order. Protects the variables below, and every store to the table. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct hm_published_head *head;     /* NULL: there is no table */
static struct hm_published_entry *entries; /* NULL: the table is in a file */
/*
 * The table's working lists stay out of it: a file in a folder may be written to by other
 * processes of the same user.
 */
static uint32_t *next_ended; /* for each entry, the one that ended after it */
static uint64_t n_entry, n_used;
static uint64_t bytes;         /* of the table */
static uint64_t backed;        /* of these bytes, those with storage */
static uint64_t ranges_first;  /* byte where the ranges begin */
static uint64_t ranges_backed; /* of the ranges' bytes, those with storage */
static uint64_t history;       /* least number of ended maps that are kept */
static uint64_t serial;
static uint32_t oldest, newest; /* of the entries that ended */
static uint64_t n_ended;
/*
 * -1: no table, or the program has closed the descriptor. Programs close all descriptors that
 * they don't know, and get the number again for a file of their own; table_is tells which file
 * is the table's.
 */
static int table_fd = -1;
static struct stat table_is;
/*
 * A file in a folder is written to, not mapped, so that cutting it off or filling its disk
 * sends no signal to this process. It takes no memory either: a traced program must get by with
 * as much memory as an untraced one.
 */
static bool in_file;
static struct hm_published_head file_head;
static uint32_t *sequences; /* of the entries in a file */
static bool unwritten;      /* some of the current change could not be written */
static bool tried;          /* to make a table, once in a process */
static uint64_t left_out;   /* maps without a table */
static uint64_t tiering;    /* address of the figures of moves; 0: none */

/*
 * C11's atomic types do not fit into an interface that C++ reads, too, so the table has plain
 * ones.
 */
static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- the table ---- */

static uint64_t room(void)
{
	uint64_t most;

	if (!proc_number("/proc/sys/vm/max_map_count", &most) || most < MAPS_LEAST)
		return MAPS_LEAST;
	return most < MAPS_MOST ? most : MAPS_MOST;
}

/*
 * Makes a new file for a tracer: another program may have run under this process number before.
 */
static int open_in(const char *folder)
{
	char path[PATH_MAX];
	unsigned int n;
	int fd = -EEXIST;

	for (n = 0; n < 100 && fd == -EEXIST; n++) {
		if (snprintf(path, sizeof(path), n ? "%s/maps.%d.%u" : "%s/maps.%d", folder,
			     (int)getpid(), n) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	return fd;
}

/*
 * Is table_fd still the table's file? If not, forgets it. A program that closes it right after
 * this check can't be helped.
 */
static bool is_open(void)
{
	struct stat now;
	int r = table_fd < 0 ? -EBADF : sys_fstat(table_fd, &now);

	if (!r && (now.st_dev != table_is.st_dev || now.st_ino != table_is.st_ino))
		r = -EBADF;
	if (r == -EBADF)
		table_fd = -1;
	return !r;
}

static bool back(uint64_t until)
{
	uint64_t end = round_up(until, STEP);

	if (in_file || until <= backed)
		return true;
	if (end > bytes)
		end = bytes;
	/* The mapping stays, so readers that have found the table can still read it. */
	if (!is_open() || sys_fallocate(table_fd, 0, backed, end - backed))
		return false;
	backed = end;
	return true;
}

static void store(const void *from, uint64_t length, uint64_t offset)
{
	/* Beyond the limit the kernel would send SIGXFSZ. */
	if (!is_open() || offset + length > rlimits_file_size() ||
	    sys_pwrite(table_fd, from, length, offset) != (ssize_t)length)
		unwritten = true;
}

static void store_head(void)
{
	if (in_file)
		store(head, sizeof(*head), 0);
}

static void store_tiering(void)
{
	if (in_file)
		store(&tiering, sizeof(tiering), HM_PUBLISHED_TIERING);
	else
		__atomic_store_n((uint64_t *)((char *)head + HM_PUBLISHED_TIERING), tiering,
				 __ATOMIC_RELEASE);
}

static int map_table(int fd, void **ret_mapped)
{
	int r = bytes > rlimits_file_size() ? -EFBIG : sys_ftruncate(fd, bytes);

	if (!r)
		r = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			     fd, 0, ret_mapped);
	if (r)
		return r;
	/* A fork child would write into its parent's table. */
	r = sys_madvise(*ret_mapped, bytes, MADV_DONTFORK);
	if (r)
		sys_munmap(*ret_mapped, bytes);
	return r;
}

static void forget_table(void)
{
	head = NULL;
	entries = NULL;
	publish_ranges_forget();
	fork_free(next_ended);
	fork_free(sequences);
	next_ended = sequences = NULL;
	table_fd = -1;
	in_file = unwritten = false;
}

/* Ends a change. One that could not be written in full counts as left out. */
static void settle(void)
{
	if (!in_file)
		return;
	if (unwritten)
		left_out++;
	unwritten = false;
	if (table_fd >= 0)
		return;
	left_out += head->left_out;
	forget_table();
}

/* Makes the lists that stay out of the table. */
static int make_lists(void)
{
	next_ended = sys_calloc(n_entry, sizeof(*next_ended));
	sequences = in_file ? sys_calloc(n_entry, sizeof(*sequences)) : NULL;
	return next_ended && (sequences || !in_file) ? 0 : -ENOMEM;
}

static void begin_head(void)
{
	oldest = newest = NONE;
	n_used = n_ended = 0;
	head->version = HM_PUBLISHED_VERSION;
	head->entry_size = sizeof(*entries);
	head->n_entry = n_entry;
	head->pid = (uint64_t)getpid();
	head->start = owner_own_start();
	head->range_first = ranges_first;
	head->range_size = sizeof(struct hm_published_range);
	head->n_range = PUBLISH_RANGES;
	cmm_smp_wmb();
	head->magic = HM_PUBLISHED_MAGIC;
	store_head();
	store_tiering();
}

/* Takes over @fd, and closes it when it fails. */
static int set_up(int fd, unsigned int seals)
{
	void *mapped = NULL;
	int r;

	backed = 0;
	ranges_backed = 0;
	table_fd = fd;
	r = sys_fstat(fd, &table_is);
	r = r ? r : make_lists();
	if (r)
		goto err_forget;
	if (!in_file) {
		r = map_table(fd, &mapped);
		if (r)
			goto err_forget;
		if (!back(HM_PUBLISHED_FIRST)) {
			r = -ENOSPC;
			goto err_unmap;
		}
		r = sys_fcntl(fd, F_ADD_SEALS, (int)seals);
		if (r)
			goto err_unmap;
		entries = (struct hm_published_entry *)((char *)mapped + HM_PUBLISHED_FIRST);
	}
	file_head = (struct hm_published_head){ 0 };
	head = in_file ? &file_head : mapped;
	begin_head();
	settle();
	return 0;

err_unmap:
	sys_munmap(mapped, bytes);
err_forget:
	forget_table();
	sys_close(fd);
	return r;
}

void publish_tell(void)
{
	const char *wish = env_get("HETMAP_PUBLISH");
	int r;

	if (likely(!wish || !*wish || !strcmp(wish, "0")))
		return;
	r = sys_access(wish, W_OK | X_OK);
	if (r)
		err_warn("HETMAP_PUBLISH: no table can be in %s, it is in memory instead: %s: "
			 "name a folder that can be written to, or 0 for no table",
			 wish, err_name(r));
}

void publish_tiering(const struct hm_published_tiering *figures)
{
	pthread_mutex_lock(&mutex);
	tiering = (uintptr_t)figures;
	if (head) {
		store_tiering();
		settle();
	}
	pthread_mutex_unlock(&mutex);
}

/* The table has entries for all maps that exist, and for @ended ones, and the ranges behind. */
static void lay_out(uint64_t ended)
{
	history = ended;
	n_entry = room() + ended;
	ranges_first = round_up(HM_PUBLISHED_FIRST + n_entry * sizeof(*entries), STEP);
	bytes = ranges_first + PUBLISH_RANGES * sizeof(struct hm_published_range);
}

static void open_table(void)
{
	const char *wish = env_get("HETMAP_PUBLISH");
	int fd;

	tried = true;
	if (wish && !strcmp(wish, "0"))
		return;
	if (wish && *wish) {
		lay_out(PUBLISH_HISTORY_FILE);
		fd = open_in(wish);
		in_file = fd >= 0;
		if (in_file && !set_up(fd, 0))
			return;
	}
	lay_out(PUBLISH_HISTORY);
	fd = memfd_open("maps", 0);
	if (fd >= 0)
		set_up(fd, SEALS);
}

static void close_table(void)
{
	/* A fork child does not have the mapping. */
	if (is_open())
		sys_close(table_fd);
	forget_table();
	tried = false;
}

/* ---- ranges: what publish_range.c asks of the table ---- */

bool publish_table_lock(void)
{
	pthread_mutex_lock(&mutex);
	if (!head && !tried)
		open_table();
	return head;
}

void publish_table_unlock(void)
{
	settle();
	pthread_mutex_unlock(&mutex);
}

struct hm_published_head *publish_table_head(void)
{
	return head;
}

void publish_table_store_head(void)
{
	store_head();
}

bool publish_table_back_ranges(uint64_t n)
{
	uint64_t end = round_up(n * sizeof(struct hm_published_range), STEP);

	if (in_file || end <= ranges_backed)
		return true;
	end = min_u64(end, bytes - ranges_first);
	if (!is_open() ||
	    sys_fallocate(table_fd, 0, ranges_first + ranges_backed, end - ranges_backed))
		return false;
	ranges_backed = end;
	return true;
}

void publish_table_put_range(uint32_t at, struct hm_published_range *range)
{
	const uint64_t offset = ranges_first + at * sizeof(*range);
	const size_t after = offsetof(struct hm_published_range, flags);
	struct hm_published_range *there;

	range->sequence++;
	if (in_file) {
		store(&range->sequence, sizeof(range->sequence), offset);
		store((char *)range + after, sizeof(*range) - after, offset + after);
		range->sequence++;
		store(&range->sequence, sizeof(range->sequence), offset);
		return;
	}
	there = (struct hm_published_range *)((char *)head + offset);
	/* As in step_sequence(): locked instructions order what is in between. */
	__atomic_exchange_n(&there->sequence, range->sequence, __ATOMIC_SEQ_CST);
	memcpy((char *)there + after, (char *)range + after, sizeof(*range) - after);
	range->sequence++;
	__atomic_exchange_n(&there->sequence, range->sequence, __ATOMIC_SEQ_CST);
}

/* ---- entries ---- */

static uint32_t take(void)
{
	uint32_t at;

	if (n_ended <= history && n_used < n_entry &&
	    back(HM_PUBLISHED_FIRST + (n_used + 1) * sizeof(*entries))) {
		__atomic_store_n(&head->used, ++n_used, __ATOMIC_RELEASE);
		store_head();
		return (uint32_t)n_used - 1;
	}
	at = oldest;
	if (at != NONE) {
		oldest = next_ended[at];
		if (oldest == NONE)
			newest = NONE;
		n_ended--;
		count(&head->forgotten);
		store_head();
	}
	return at;
}

/* Stores @length bytes from @from at @offset in entry @at. */
static void put(uint32_t at, size_t offset, const void *from, size_t length)
{
	if (in_file)
		store(from, length, HM_PUBLISHED_FIRST + at * sizeof(*entries) + offset);
	else
		memcpy((char *)&entries[at] + offset, from, length);
}

#define PUT(at, member, value) \
	put(at, offsetof(struct hm_published_entry, member), &(value), sizeof(value))

static void step_sequence(uint32_t at)
{
	if (in_file) {
		sequences[at]++;
		PUT(at, sequence, sequences[at]);
	} else {
		__atomic_fetch_add(&entries[at].sequence, 1, __ATOMIC_SEQ_CST);
	}
}

static void write_begin(uint32_t at)
{
	/*
	 * The sequence must be odd before any other field changes; a locked instruction orders
	 * them.
	 */
	step_sequence(at);
}

static void write_end(uint32_t at)
{
	step_sequence(at);
	count(&head->changes);
	store_head();
}

static uint32_t flags_of(const struct hm_map *map)
{
	return (map->buffer->caps & HM_CAP_FORK ? HM_PUBLISHED_INHERITED : 0) |
	       (map->whole ? HM_PUBLISHED_GROWS : 0) | (map->lost ? HM_PUBLISHED_LOST : 0);
}

/*
 * The eviction counter of the object that has the map's first byte. Must be called without the
 * mutex, which is a leaf; segments_swap() asks again before that object ends.
 */
static const uint64_t *evictions_of(const struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;
	const uint64_t *evictions = NULL;
	struct segment_list *list;
	uint32_t i = 0;

	if (!backend_has(buffer->device->ops, HM_BACKEND_EVICTIONS))
		return NULL;
	list = segments_get(buffer);
	while (i + 1 < list->n && list->segment[i + 1].offset <= map->offset)
		i++;
	evictions = buffer->device->ops->evictions(list->link->backend, &list->segment[i]);
	segments_put(buffer, list);
	return evictions;
}

/* Fills all fields except the sequence. */
static void fill(struct hm_published_entry *entry, const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	entry->flags = map->published.flags;
	entry->serial = ++serial;
	entry->begin_ns = now();
	entry->end_ns = 0;
	entry->address = (uintptr_t)map->address;
	entry->span = map->span;
	entry->length = map->published.length;
	entry->offset = map->offset;
	entry->buffer = buffer->serial;
	entry->page_size = buffer->page_size;
	entry->generation = map->published.generation;
	entry->cache = buffer->cache;
	memcpy(entry->name, buffer->name, sizeof(entry->name));
	memcpy(entry->device, buffer->device->name, sizeof(entry->device) - 1);
	entry->device[sizeof(entry->device) - 1] = '\0';
	/* Neither moves as long as the map exists. */
	entry->brackets = (uintptr_t)&map->brackets->n;
	entry->in_flight = (uintptr_t)&map->n_use;
	entry->evictions = (uintptr_t)map->published.evictions;
}

static struct map_published published_of(const struct hm_map *map, uint32_t entry,
					 const uint64_t *evictions)
{
	return (struct map_published){
		.entry = entry,
		.flags = flags_of(map),
		.address = map->address,
		.span = map->span,
		.length = map->length,
		.generation = map->generation,
		.evictions = evictions,
	};
}

static void begin_locked(struct hm_map *map, const uint64_t *evictions)
{
	const size_t after = offsetof(struct hm_published_entry, flags);
	struct hm_published_entry entry;
	uint32_t at;

	map->published.entry = 0;
	if (!head && !tried)
		open_table();
	at = head ? take() : NONE;
	if (at == NONE) {
		if (head) {
			count(&head->left_out);
			store_head();
		} else {
			left_out++;
		}
		return;
	}
	map->published = published_of(map, at + 1, evictions);
	write_begin(at);
	if (in_file) {
		fill(&entry, map);
		put(at, after, (char *)&entry + after, sizeof(entry) - after);
	} else {
		fill(&entries[at], map);
	}
	write_end(at);
}

static void end_locked(struct hm_map *map)
{
	uint32_t at = map->published.entry - 1;
	uint64_t end = now();

	if (!map->published.entry || !head)
		return;
	write_begin(at);
	PUT(at, end_ns, end);
	next_ended[at] = NONE;
	write_end(at);
	if (newest == NONE)
		oldest = at;
	else
		next_ended[newest] = at;
	newest = at;
	n_ended++;
	map->published.entry = 0;
}

static void change_locked(struct hm_map *map, const uint64_t *evictions)
{
	const struct map_published was = map->published;
	uint64_t address = (uintptr_t)evictions;
	uint32_t at = was.entry - 1;

	/* A map that has ended may still be in its buffer's list. */
	if (!head || !was.entry)
		return;
	if (was.address != map->address || was.span != map->span) {
		end_locked(map);
		begin_locked(map, evictions);
	} else if (was.length != map->length || was.generation != map->generation ||
		   was.flags != flags_of(map) || was.evictions != evictions) {
		map->published = published_of(map, was.entry, evictions);
		write_begin(at);
		PUT(at, length, map->published.length);
		PUT(at, generation, map->published.generation);
		PUT(at, flags, map->published.flags);
		PUT(at, evictions, address);
		write_end(at);
	}
}

void publish_begin(struct hm_map *map)
{
	const uint64_t *evictions = evictions_of(map);

	pthread_mutex_lock(&mutex);
	begin_locked(map, evictions);
	settle();
	pthread_mutex_unlock(&mutex);
}

void publish_change(struct hm_map *map)
{
	const uint64_t *evictions = evictions_of(map);

	pthread_mutex_lock(&mutex);
	change_locked(map, evictions);
	settle();
	pthread_mutex_unlock(&mutex);
}

void publish_end(struct hm_map *map)
{
	pthread_mutex_lock(&mutex);
	end_locked(map);
	settle();
	pthread_mutex_unlock(&mutex);
}

uint64_t publish_left_out(void)
{
	uint64_t n;

	pthread_mutex_lock(&mutex);
	n = left_out + (head ? head->left_out : 0);
	pthread_mutex_unlock(&mutex);
	return n;
}

void publish_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void publish_fork_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

void publish_fork_child(void)
{
	close_table();
	left_out = 0;
	tiering = 0;
	pthread_mutex_unlock(&mutex);
}
