// SPDX-License-Identifier: MIT
/*
 * The published table of maps: one writer at a time, and readers in other processes, who
 * copy an entry and look whether its sequence is still what it was.
 */
#include "publish.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <urcu/arch.h>

#include "core.h"
#include "memfd.h"
#include "owner.h"
#include "proc.h"
#include "rlimits.h"
#include "smaps.h"
#include "sys.h"

/* See control.c: what is mapped writable already stays so, and nothing else can be. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Room is made by that: a store to a page that storage has no room for is a SIGBUS. */
#define STEP KIB(64)

#define NONE UINT32_MAX

/* More maps than the kernel allows by default, fewer than would be a waste of addresses. */
#define MAPS_LEAST 65536
#define MAPS_MOST (UINT64_C(1) << 20)

/* A leaf of the lock order. Protects what follows, and every store to the table. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct hm_published_head *head; /* NULL: there is no table */
static struct hm_published_entry *entries;
/*
 * What the table is worked by stays out of it: a folder's file is one that others of the
 * same user may write to.
 */
static uint32_t *next_ended; /* of each entry, the one that ended after it */
static uint64_t n_entry, n_used;
static uint64_t bytes;   /* of the table */
static uint64_t backed;  /* of these, those with storage */
static uint64_t history; /* ended maps that are kept at least */
static uint64_t serial;
static uint32_t oldest, newest; /* of those that ended */
static uint64_t n_ended;
static int table_fd = -1;
/*
 * A folder's file is not mapped but written to: to cut it off, or to fill its disk, is no
 * signal then to the process whose table it is.
 */
static bool in_file;
static bool tried;        /* to make one: once in a process */
static uint64_t left_out; /* where there is no table */

/* The table's own counters: C11's atomics are no types of an interface for C++, too. */
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

	if (number_read("/proc/sys/vm/max_map_count", &most) || most < MAPS_LEAST)
		return MAPS_LEAST;
	return most < MAPS_MOST ? most : MAPS_MOST;
}

/* A file for who traces: another program may have run as this process before. */
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

static bool back(uint64_t until)
{
	uint64_t end = round_up(until, STEP);

	if (in_file || until <= backed)
		return true;
	if (end > bytes)
		end = bytes;
	if (sys_fallocate(table_fd, 0, backed, end - backed))
		return false;
	backed = end;
	return true;
}

/* Into the file: what can't be written is in no table, and counted. */
static void store(const void *from, uint64_t length)
{
	uint64_t offset = (uint64_t)((const char *)from - (const char *)head);

	/* Beyond the limit the kernel would send SIGXFSZ. */
	if (in_file && (offset + length > rlimits_file_size() ||
			sys_pwrite(table_fd, from, length, offset) != (ssize_t)length))
		left_out++;
}

static int map_table(int fd, void **ret_mapped)
{
	int r;

	if (in_file)
		return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, ret_mapped);
	r = bytes > rlimits_file_size() ? -EFBIG : sys_ftruncate(fd, bytes);
	return r ? r :
		   sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			    0, ret_mapped);
}

/* @fd is this function's. */
static int set_up(int fd, unsigned int seals)
{
	void *mapped;
	int r;

	r = map_table(fd, &mapped);
	if (r)
		goto err_close;
	n_entry = (bytes - HM_PUBLISHED_FIRST) / sizeof(*entries);
	next_ended = sys_calloc(n_entry, sizeof(*next_ended));
	if (!next_ended) {
		r = -ENOMEM;
		goto err_unmap;
	}
	table_fd = fd;
	backed = 0;
	if (!back(HM_PUBLISHED_FIRST)) {
		r = -ENOSPC;
		goto err_unmap;
	}
	/* A child would write into its parent's. */
	r = sys_madvise(mapped, bytes, MADV_DONTFORK);
	if (!r && seals)
		r = sys_fcntl(fd, F_ADD_SEALS, (int)seals);
	if (r)
		goto err_unmap;
	head = mapped;
	entries = (struct hm_published_entry *)((char *)mapped + HM_PUBLISHED_FIRST);
	oldest = newest = NONE;
	n_used = n_ended = 0;
	head->version = HM_PUBLISHED_VERSION;
	head->entry_size = sizeof(*entries);
	head->n_entry = n_entry;
	head->pid = (uint64_t)getpid();
	head->start = owner_own_start();
	cmm_smp_wmb();
	head->magic = HM_PUBLISHED_MAGIC;
	store(head, sizeof(*head));
	return 0;

err_unmap:
	free(next_ended);
	next_ended = NULL;
	table_fd = -1;
	sys_munmap(mapped, bytes);
err_close:
	sys_close(fd);
	return r;
}

static void open_table(void)
{
	const char *wish = secure_getenv("HETMAP_PUBLISH");
	uint64_t maps = room();
	int fd;

	tried = true;
	if (wish && !strcmp(wish, "0"))
		return;
	if (wish && *wish) {
		history = PUBLISH_HISTORY_FILE;
		bytes = HM_PUBLISHED_FIRST + (maps + history) * sizeof(*entries);
		fd = open_in(wish);
		in_file = true;
		if (fd >= 0 && !set_up(fd, 0))
			return;
		in_file = false;
	}
	history = PUBLISH_HISTORY;
	bytes = HM_PUBLISHED_FIRST + (maps + history) * sizeof(*entries);
	fd = memfd_open("maps", 0);
	if (fd >= 0)
		set_up(fd, SEALS);
}

static void close_table(void)
{
	/* In a child the mapping is not there. */
	if (table_fd >= 0)
		sys_close(table_fd);
	table_fd = -1;
	in_file = false;
	head = NULL;
	free(next_ended);
	next_ended = NULL;
	tried = false;
}

/* ---- entries ---- */

static uint32_t take(void)
{
	uint32_t at;

	if (n_ended <= history && n_used < n_entry &&
	    back(HM_PUBLISHED_FIRST + (n_used + 1) * sizeof(*entries))) {
		__atomic_store_n(&head->used, ++n_used, __ATOMIC_RELEASE);
		store(head, sizeof(*head));
		return (uint32_t)n_used - 1;
	}
	at = oldest;
	if (at != NONE) {
		oldest = next_ended[at];
		if (oldest == NONE)
			newest = NONE;
		n_ended--;
		count(&head->forgotten);
		store(head, sizeof(*head));
	}
	return at;
}

static void write_begin(struct hm_published_entry *entry)
{
	/* Odd before anything else of it is another: a locked instruction is in between. */
	__atomic_fetch_add(&entry->sequence, 1, __ATOMIC_SEQ_CST);
}

static void write_end(struct hm_published_entry *entry)
{
	__atomic_fetch_add(&entry->sequence, 1, __ATOMIC_SEQ_CST);
	count(&head->changes);
	store(entry, sizeof(*entry));
}

static uint32_t flags_of(const struct hm_map *map)
{
	return (map->buffer->caps & HM_CAP_FORK ? HM_PUBLISHED_INHERITED : 0) |
	       (map->whole ? HM_PUBLISHED_GROWS : 0) | (map->lost ? HM_PUBLISHED_LOST : 0);
}

static void fill(struct hm_published_entry *entry, const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	entry->flags = flags_of(map);
	entry->serial = ++serial;
	entry->begin_ns = now();
	entry->end_ns = 0;
	entry->address = (uintptr_t)map->address;
	entry->span = map->span;
	entry->length = map->length;
	entry->offset = map->offset;
	entry->buffer = buffer->serial;
	entry->page_size = buffer->page_size;
	entry->generation = map->generation;
	entry->cache = buffer->cache;
	memcpy(entry->name, buffer->name, sizeof(entry->name));
	memcpy(entry->device, buffer->device->name, sizeof(entry->device) - 1);
	entry->device[sizeof(entry->device) - 1] = '\0';
	/* Neither moves as long as the map is there. */
	entry->brackets = (uintptr_t)&map->brackets->n;
	entry->in_flight = (uintptr_t)&map->n_use;
}

static void begin_locked(struct hm_map *map)
{
	struct hm_published_entry *entry;
	uint32_t at;

	map->published = 0;
	if (!head && !tried)
		open_table();
	at = head ? take() : NONE;
	if (at == NONE) {
		if (head)
			count(&head->left_out);
		else
			left_out++;
		return;
	}
	entry = &entries[at];
	write_begin(entry);
	fill(entry, map);
	write_end(entry);
	map->published = at + 1;
}

static void end_locked(struct hm_map *map)
{
	uint32_t at = map->published - 1;
	struct hm_published_entry *entry;

	if (!map->published)
		return;
	entry = &entries[at];
	write_begin(entry);
	entry->end_ns = now();
	next_ended[at] = NONE;
	write_end(entry);
	if (newest == NONE)
		oldest = at;
	else
		next_ended[newest] = at;
	newest = at;
	n_ended++;
	map->published = 0;
}

void publish_begin(struct hm_map *map)
{
	pthread_mutex_lock(&mutex);
	begin_locked(map);
	pthread_mutex_unlock(&mutex);
}

void publish_change(struct hm_map *map)
{
	struct hm_published_entry *entry;

	if (!map->published)
		return;
	pthread_mutex_lock(&mutex);
	entry = &entries[map->published - 1];
	if (entry->address != (uintptr_t)map->address || entry->span != map->span) {
		end_locked(map);
		begin_locked(map);
	} else if (entry->length != map->length || entry->generation != map->generation ||
		   entry->flags != flags_of(map)) {
		write_begin(entry);
		entry->length = map->length;
		entry->generation = map->generation;
		entry->flags = flags_of(map);
		write_end(entry);
	}
	pthread_mutex_unlock(&mutex);
}

void publish_end(struct hm_map *map)
{
	pthread_mutex_lock(&mutex);
	end_locked(map);
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
	pthread_mutex_unlock(&mutex);
}
