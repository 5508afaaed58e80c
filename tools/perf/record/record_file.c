// SPDX-License-Identifier: MIT
/*
 * The file that records go to. The facts that a reader needs stand before the first record, as
 * soon as they are known: a recording without an end can be read up to there.
 */
#include "record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"
#include "record_ring.h"

/* Far behind any record: room that nobody else takes, where the file system gives it. */
#define SPARE_AT (INT64_C(1) << 40)
#define SPARE_BYTES (INT64_C(1) << 20)
/* Less of it where there is little; so much takes the end of a trace. */
#define SPARE_LEAST (INT64_C(1) << 16)

/* Of a process that runs: it may begin so many while it is being attached to, and more. */
#define MORE_THREADS 64

int write_at(int fd, const void *from, uint64_t length, uint64_t offset)
{
	const char *at = from;
	ssize_t n;

	while (length) {
		n = pwrite(fd, at, length, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

/* ---- the head, and all before the records ---- */

static uint64_t ids_bytes(const struct recorder *recorder)
{
	uint64_t n = recorder->n_opened;
	uint32_t i;

	for (i = 0; i < recorder->points.n; i++)
		n += recorder->points.point[i].n_fd;
	return n * sizeof(uint64_t);
}

/* The numbers of each event's records, one event's behind the other's. NULL: no memory. */
static uint64_t *all_ids(const struct recorder *recorder)
{
	uint32_t n = recorder->n_opened / recorder->n_event, event, i;
	uint64_t *ids = malloc(ids_bytes(recorder) + 1), *at = ids;

	if (!ids)
		return NULL;
	for (event = 0; event < recorder->n_event; event++)
		for (i = 0; i < n; i++)
			*at++ = recorder->events[i * recorder->n_event + event].id;
	for (i = 0; i < recorder->points.n; i++) {
		const struct record_point *point = &recorder->points.point[i];

		if (point->n_fd)
			memcpy(at, point->ids, point->n_fd * sizeof(*at));
		at += point->n_fd;
	}
	return ids;
}

/* The attribute of each event, whose numbers begin at @at. Returns how many. */
static uint32_t all_attrs(const struct recorder *recorder, uint64_t at,
			  struct perf_data_attr attrs[N_TRACE_EVENT + N_POINT])
{
	uint32_t n = recorder->n_opened / recorder->n_event, n_attr = 0, i;

	for (; n_attr < recorder->n_event; n_attr++) {
		record_attr(recorder, n_attr, &attrs[n_attr].attr);
		attrs[n_attr].ids = (struct perf_data_section){ at, n * sizeof(at) };
		at += attrs[n_attr].ids.size;
	}
	for (i = 0; i < recorder->points.n; i++, n_attr++) {
		const struct record_point *point = &recorder->points.point[i];

		points_attr(recorder, point, &attrs[n_attr].attr);
		attrs[n_attr].ids = (struct perf_data_section){ at, point->n_fd * sizeof(at) };
		at += attrs[n_attr].ids.size;
	}
	return n_attr;
}

/* @whole: it has all records. @ids_at: there is room for its numbers. */
static int write_head(const struct recorder *recorder, uint64_t ids_at, bool whole)
{
	struct perf_data_attr attrs[N_TRACE_EVENT + N_POINT];
	struct perf_data_head head = {
		.size = sizeof(head),
		.attr_size = sizeof(attrs[0]),
		.attrs = { sizeof(head),
			   sizeof(attrs[0]) * all_attrs(recorder, ids_at, attrs) },
		.data = { recorder->records_at, whole ? recorder->written : 0 },
		.formats = recorder->formats,
	};
	uint64_t *ids = all_ids(recorder);
	int r;

	if (!ids)
		return -ENOMEM;
	memcpy(head.magic, PERF_DATA_MAGIC, sizeof(head.magic));
	/* The table of features is behind the last record: until then it has none. */
	if (whole && recorder->points.n)
		head.features[0] = UINT64_C(1) << PERF_DATA_FORMATS;
	r = write_at(recorder->data_fd, ids, ids_bytes(recorder), ids_at);
	free(ids);
	if (!r)
		r = write_at(recorder->data_fd, attrs, head.attrs.size, head.attrs.offset);
	return r ? r : write_at(recorder->data_fd, &head, sizeof(head), 0);
}

static int write_formats(struct recorder *recorder, uint64_t at)
{
	char *data;
	int r;

	recorder->formats = (struct perf_data_section){ at, 0 };
	if (!recorder->points.n)
		return 0;
	r = points_tracing_data(&recorder->points, &data, &recorder->formats.size);
	if (r)
		return r;
	r = write_at(recorder->data_fd, data, recorder->formats.size, at);
	free(data);
	return r;
}

/* One that was started has all numbers by now; one that runs, those of its first thread. */
static uint64_t room_for_ids(const struct recorder *recorder, pid_t pid)
{
	uint64_t room = ids_bytes(recorder);
	uint32_t n;
	pid_t *tids;

	if (!recorder->attaching || record_threads(pid, &tids, &n))
		return room;
	free(tids);
	return room * (2 * (uint64_t)n + MORE_THREADS);
}

/* Behind the records: ext4 keeps blocks behind a file's end if a hole is punched there. */
static int give_back(const struct recorder *recorder)
{
	return ftruncate(recorder->data_fd, (off_t)(recorder->records_at + recorder->written)) ?
		       -errno :
		       0;
}

/* Behind all records; where a file may not be so long, the last that it may be. */
static void keep_spare(struct recorder *recorder)
{
	uint64_t spare = SPARE_BYTES, most = SPARE_AT + SPARE_BYTES;
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < most)
		most = limit.rlim_cur;
	while (spare > SPARE_LEAST && spare > most / 2)
		spare /= 2;
	recorder->spare_at = most > spare ? most - spare : 0;
	while (fallocate(recorder->data_fd, FALLOC_FL_KEEP_SIZE, (off_t)recorder->spare_at,
			 (off_t)spare) &&
	       (errno == ENOSPC || errno == EDQUOT) && spare > SPARE_LEAST)
		spare /= 2;
	recorder->spare = spare;
}

int record_begin_file(struct recorder *recorder, pid_t pid)
{
	uint64_t at = sizeof(struct perf_data_head) +
		      sizeof(struct perf_data_attr) * (recorder->n_event + recorder->points.n);
	int r = write_formats(recorder, at);

	if (r)
		return r;
	recorder->ids_at = (at + recorder->formats.size + 7) / 8 * 8;
	recorder->ids_room = room_for_ids(recorder, pid);
	recorder->records_at = recorder->ids_at + recorder->ids_room;
	r = write_head(recorder, recorder->ids_at, false);
	if (r)
		return r;
	keep_spare(recorder);
	return 0;
}

int record_more_ids(struct recorder *recorder)
{
	if (ids_bytes(recorder) > recorder->ids_room)
		return 0;
	return write_head(recorder, recorder->ids_at, false);
}

int record_end_file(struct recorder *recorder)
{
	/* perf looks for its table of features right behind the records. */
	uint64_t end = recorder->records_at + recorder->written;
	int r = give_back(recorder);

	if (!r && recorder->points.n)
		r = write_at(recorder->data_fd, &recorder->formats, sizeof(recorder->formats),
			     end);
	if (r)
		return r;
	end += sizeof(recorder->formats);
	return write_head(recorder,
			  ids_bytes(recorder) > recorder->ids_room ? end : recorder->ids_at,
			  true);
}

/* ---- records ---- */

int record_write(struct recorder *recorder, const void *records, uint64_t length)
{
	uint64_t at = recorder->records_at + recorder->written;
	uint64_t room = recorder->spare_at > at ? recorder->spare_at - at : 0;
	int r;

	if (!recorder->cut && length > room) {
		r = write_at(recorder->data_fd, records, room, at);
		return r ? r : -EFBIG;
	}
	r = write_at(recorder->data_fd, records, length, at);
	if (!r)
		recorder->written += length;
	return r;
}

/* Where the last record ends that is there as a whole. */
static uint64_t last_whole(const struct recorder *recorder)
{
	uint64_t at = recorder->whole, end;
	struct perf_event_header head;
	struct stat st;

	if (fstat(recorder->data_fd, &st) || (uint64_t)st.st_size < recorder->records_at)
		return at;
	end = (uint64_t)st.st_size - recorder->records_at;
	while (at + sizeof(head) <= end &&
	       pread(recorder->data_fd, &head, sizeof(head),
		     (off_t)(recorder->records_at + at)) == sizeof(head) &&
	       head.size >= sizeof(head) && head.size <= end - at)
		at += head.size;
	return at;
}

/*
 * Rings are written one after another, and threads move between processors: records of mappings
 * may be in a ring that found no room. They are small beside the faults. The room that was kept
 * is for them; those beyond it are lost.
 */
static void rescue(struct recorder *recorder, uint64_t kept)
{
	uint64_t begin = recorder->written, whole = begin;
	const struct ring *ring;
	uint32_t i;
	int r = 0;

	for (i = 0; i < recorder->n_ring && !r; i++) {
		ring = &recorder->rings[i];
		r = ring_rescue(recorder, ring, ring->refused ? kept : 0,
				recorder->spare / 2 - (recorder->written - begin));
		if (!r)
			whole = recorder->written;
	}
	recorder->written = whole;
}

int record_cut(struct recorder *recorder)
{
	uint64_t before = recorder->whole;
	int r;

	record_disable(recorder);
	recorder->cut = true;
	recorder->written = last_whole(recorder);
	r = give_back(recorder);
	if (r)
		return r;
	rescue(recorder, recorder->written - before);
	return give_back(recorder);
}

/* ---- contents ---- */

/* Of the records that are read at a time; the longest has 64 KiB. */
#define BLOCK_BYTES (UINT64_C(1) << 20)

struct numbered {
	uint64_t id;
	uint32_t event;
};

static int by_id(const void *a, const void *b)
{
	const struct numbered *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

/* The numbers of each event's samples, without events that are counted elsewhere. */
static struct numbered *all_numbered(const struct recorder *recorder, uint32_t *ret_n)
{
	struct numbered *numbered = malloc((recorder->n_opened + 1) * sizeof(*numbered));
	uint32_t i, n = 0;

	if (!numbered)
		return NULL;
	for (i = 0; i < recorder->n_opened; i++)
		if (!recorder->events[i].again)
			numbered[n++] = (struct numbered){ recorder->events[i].id,
							   i % recorder->n_event };
	qsort(numbered, n, sizeof(*numbered), by_id);
	*ret_n = n;
	return numbered;
}

/* Returns how many bytes of @block are whole records. */
static uint64_t count_block(const char *block, uint64_t length, const struct numbered *numbered,
			    uint32_t n, uint64_t *value)
{
	struct perf_event_header head;
	const struct numbered *found;
	struct numbered wanted;
	uint64_t at = 0;

	while (at + sizeof(head) <= length) {
		memcpy(&head, block + at, sizeof(head));
		if (head.size < sizeof(head) || head.size > length - at)
			break;
		if (head.type == PERF_RECORD_SAMPLE &&
		    head.size >= sizeof(head) + sizeof(wanted.id)) {
			memcpy(&wanted.id, block + at + sizeof(head), sizeof(wanted.id));
			found = bsearch(&wanted, numbered, n, sizeof(*numbered), by_id);
			if (found)
				value[found->event]++;
		}
		at += head.size;
	}
	return at;
}

int record_count_written(const struct recorder *recorder, uint64_t ret_value[N_TRACE_EVENT])
{
	uint64_t value[N_TRACE_EVENT] = { 0 }, at = 0, counted, length;
	struct numbered *numbered;
	char *block = malloc(BLOCK_BYTES);
	uint32_t n = 0;
	int r = -ENOMEM;
	ssize_t got;

	numbered = all_numbered(recorder, &n);
	if (!numbered || !block)
		goto out;
	for (r = 0; at < recorder->written; at += counted) {
		length = recorder->written - at;
		got = pread(recorder->data_fd, block,
			    length < BLOCK_BYTES ? length : BLOCK_BYTES,
			    (off_t)(recorder->records_at + at));
		counted = got > 0 ? count_block(block, (uint64_t)got, numbered, n, value) : 0;
		if (!counted) {
			r = got < 0 ? -errno : -EIO;
			goto out;
		}
	}
	memcpy(ret_value, value, sizeof(value));
out:
	free(numbered);
	free(block);
	return r;
}
