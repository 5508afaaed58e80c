// SPDX-License-Identifier: MIT
/*
 * Phases: a file in its present state, the choice for it, and the objects that the choice needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "api/api.h"
#include "hook/hook.h"
#include "map/announce.h"
#include "map/map.h"
#include "reader/reader.h"
#include "base/rlimits.h"
#include "base/sys.h"

/* io_uring: a longer queue gains nothing. */
#define DEPTH 64

/* Bytes of a call; Linux reads less than 2 GiB [read(2)]. */
#define READ_MAX GIB(1)

/* ---- functions for all policies ---- */

int reader_explain_read(int r, uint64_t offset, uint64_t bytes)
{
	if (r == -ENODATA)
		return err_set(r,
			       "the file ended before byte %" PRIu64
			       ": it was cut off while it was read",
			       offset + bytes);
	return err_set(r, "reading %" PRIu64 " bytes at %" PRIu64 ": %s", bytes, offset,
		       err_name(r));
}

int reader_check_size(struct hm_reader *reader, uint64_t end)
{
	struct stat st;
	int r;

	r = sys_fstat(reader->fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (likely((uint64_t)st.st_size >= end))
		return 0;
	return err_set(-ENODATA,
		       "the file ends at byte %" PRIu64 ", before %" PRIu64
		       ": it was cut off while it was read",
		       (uint64_t)st.st_size, end);
}

int reader_read_fd(int fd, void *to, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_pread(fd, (char *)to + done, min_u64(length - done, READ_MAX),
			      offset + done);
		if (n <= 0)
			return reader_explain_read(n ? (int)n : -ENODATA, offset, length);
		done += (uint64_t)n;
	}
	return 0;
}

int reader_read_now(int fd, void *to, uint64_t length, uint64_t offset)
{
	if (length <= READ_MAX && sys_pread_now(fd, to, length, offset) == (ssize_t)length)
		return 0;
	return err_set(-EAGAIN, "%" PRIu64 " bytes at %" PRIu64 " are not in memory", length,
		       offset);
}

bool reader_pread_now(struct hm_reader *reader, void *to, uint64_t length, uint64_t offset)
{
	int r = reader->files ? files_read_now(reader->files, to, length, offset) :
				reader_read_now(reader->fd, to, length, offset);

	/* A certain read will report the error. */
	if (r)
		err_clear();
	return !r;
}

int reader_pread(struct hm_reader *reader, void *to, uint64_t length, uint64_t offset)
{
	return reader->files ? files_read(reader->files, to, length, offset) :
			       reader_read_fd(reader->fd, to, length, offset);
}

void reader_drop(struct hm_reader *reader, uint64_t offset, uint64_t length)
{
	if (!(reader->flags & HM_READER_DROP))
		return;
	if (reader->files)
		files_advise(reader->files, offset, length, length, POSIX_FADV_DONTNEED);
	else
		sys_fadvise(reader->fd, offset, length, POSIX_FADV_DONTNEED);
}

void reader_announce(struct hm_reader *reader, uint64_t offset, uint64_t length)
{
	uint64_t step = reader->phase.facts.announce;

	if (reader->files)
		files_advise(reader->files, offset, length, step, POSIX_FADV_WILLNEED);
	else
		announce_file(reader->fd, step, offset, length);
}

int reader_memory(const struct phase *phase, uint64_t bytes, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_PRIVATE,
		.size = reader_read_memory(&phase->choice, bytes, page_size()),
		.name = "reader",
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	int r;

	r = device_open("host", &device);
	if (r)
		return r;
	r = buffer_create(device, &desc, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	r = map_create(buffer, NULL, ret_map);
	/* The map holds it from here on. */
	hm_buffer_unref(buffer);
	return r;
}

int phase_ring(struct phase *phase)
{
	bool pieces = phase->wish.pattern == HM_PATTERN_RANDOM;

	/* For pieces, each read may need a place of the reader's own. */
	return phase->ring ? 0 : uring_open(pieces ? phase->choice.ahead : DEPTH, &phase->ring);
}

void phase_drop_ring(struct phase *phase)
{
	uring_close(phase->ring);
	phase->ring = NULL;
}

uint64_t phase_memory(const struct phase *phase)
{
	uint64_t page = page_size(), memory = 0;

	if (phase->window)
		memory += reader_mapped_cost(hm_map_length(phase->window), page);
	if (phase->stream.memory)
		memory += reader_mapped_cost(hm_map_length(phase->stream.memory), page);
	if (phase->bounce)
		memory += reader_mapped_cost(hm_map_length(phase->bounce), page);
	return memory + phase->account.cost;
}

/* ---- making a phase ---- */

static int set_range(struct phase *phase, uint64_t size, uint64_t begin, uint64_t end)
{
	if (!end)
		end = size;
	if (begin > end || end > size)
		return err_set(-ERANGE,
			       "bytes %" PRIu64 " to %" PRIu64
			       " are not in the file, which has %" PRIu64,
			       begin, end, size);
	phase->begin = begin;
	phase->end = end;
	phase->position = begin;
	return 0;
}

/*
 * Maps the whole file where the file system allows it; a reader can do without. Where the
 * address space has no room for all of it there may be room for windows: the buffer stays.
 */
static int map_whole(struct hm_reader *reader, uint64_t size, struct phase *phase)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_READ_ONLY,
		.size = size,
		.name = reader->path,
	};
	const struct hm_map_desc all = { .struct_size = sizeof(all), .access = HM_READ };
	uint64_t refusals = hook_refusals();
	int r;

	r = buffer_from_file(reader->device, NULL, reader->fd, &desc, &phase->buffer);
	/* Cut off since it was looked at: reading it will report that. */
	if (r && hook_refusals() == refusals)
		return r == -EINVAL || r == -ENODATA ? 0 : r;
	if (r)
		return r;
	r = map_create(phase->buffer, &all, &phase->whole);
	if (!r || ((r == -ENOMEM || r == -EAGAIN) && hook_refusals() == refusals))
		return 0;
	hm_buffer_unref(phase->buffer);
	phase->buffer = NULL;
	if (hook_refusals() != refusals)
		return r;
	return r == -EOPNOTSUPP || r == -EACCES || r == -EPERM ? 0 : r;
}

static int open_direct(struct hm_reader *reader)
{
	char path[32];
	int fd;

	/* A new open file: flags set on it don't affect users of the other one. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", reader->fd);
	fd = sys_open(path, O_RDONLY | O_DIRECT, 0);
	return fd < 0 ? rlimits_explain_fd(fd, "a descriptor with O_DIRECT") : fd;
}

/* Makes the objects of the chosen policy. */
static int equip(struct hm_reader *reader, struct phase *phase)
{
	if (!phase->choice.copied_from_map) {
		hm_map_unref(phase->whole);
		phase->whole = NULL;
	}
	if (!phase->choice.mapped && !phase->whole) {
		hm_buffer_unref(phase->buffer);
		phase->buffer = NULL;
	}
	if (phase->choice.policy == HM_POLICY_DIRECT) {
		phase->direct_fd = open_direct(reader);
		if (phase->direct_fd < 0)
			return phase->direct_fd;
	}
	if (!phase->whole)
		return 0;
	/*
	 * Without this a fault would read as much around it as the device reads ahead:
	 * megabytes.
	 */
	sys_madvise(phase->whole->address, phase->whole->span, MADV_RANDOM);
	return account_begin(&phase->account, phase->whole->address, phase->facts.size,
			     phase->choice.budget, phase->facts.page, phase->facts.fault);
}

/* Makes the ring, too: its errors show only then, and the choice is made again with them. */
static int choose(struct phase *phase)
{
	int r = reader_choose(&phase->facts, &phase->wish, &phase->choice);

	if (r || phase->choice.policy < HM_POLICY_URING)
		return r;
	phase->facts.uring = phase_ring(phase);
	return phase->facts.uring ? reader_choose(&phase->facts, &phase->wish, &phase->choice) :
				    0;
}

int phase_begin(struct hm_reader *reader, uint64_t begin, uint64_t end,
		const struct reader_wish *wish, struct phase *phase)
{
	struct stat st;
	int r;

	*phase = (struct phase){ .wish = *wish, .direct_fd = -1 };
	r = sys_fstat(reader->fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (reader->files)
		st.st_size = (off_t)files_start(reader->files, files_count(reader->files));
	r = set_range(phase, (uint64_t)st.st_size, begin, end);
	if (!r && st.st_size && !reader->files)
		r = map_whole(reader, (uint64_t)st.st_size, phase);
	if (r)
		goto err_phase;
	facts_find(reader->fd, &st, phase->end - phase->begin, phase->whole, phase->fs_name,
		   &phase->facts);
	if (phase->buffer && !phase->whole) {
		phase->facts.mappable = true;
		phase->facts.guarded = false;
	}
	phase->facts.several = reader->files;
	r = choose(phase);
	if (!r)
		r = equip(reader, phase);
	if (r)
		goto err_phase;
	return 0;

err_phase:
	phase_end(phase);
	return r;
}

void phase_take_up(struct hm_reader *reader)
{
	bool random = reader->phase.wish.pattern == HM_PATTERN_RANDOM;

	/*
	 * Without RANDOM, reads also bring in as much around them as the device reads ahead. Not
	 * POSIX_FADV_SEQUENTIAL, which doubles that: faults get more, and smaller folios.
	 */
	sys_fadvise(reader->fd, 0, 0, random ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
}

void phase_end(struct phase *phase)
{
	stream_end(phase);
	hm_map_unref(phase->bounce);
	hm_map_unref(phase->window);
	hm_map_unref(phase->whole);
	hm_buffer_unref(phase->buffer);
	account_end(&phase->account);
	if (phase->direct_fd >= 0)
		sys_close(phase->direct_fd);
}
