// SPDX-License-Identifier: MIT
/*
 * Rings of records: the kernel writes at the head, this program frees at the tail
 * [perf_event_open(2), MMAP layout]. What is in one goes to the file as it is.
 */
#include "record_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record.h"

int ring_map(struct ring *ring, int fd, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *mapped;

	mapped = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	ring->page = mapped;
	ring->fd = fd;
	return 0;
}

int ring_share(const struct ring *ring, int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) ? -errno : 0;
}

void ring_unmap(struct ring *ring, uint64_t bytes)
{
	if (ring->fd < 0)
		return;
	munmap(ring->page, (uint64_t)sysconf(_SC_PAGESIZE) + bytes);
	ring->fd = -1;
}

/* ---- the file ---- */

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

/* Far behind any record: room that nobody else takes, where the file system gives it. */
#define SPARE_AT (INT64_C(1) << 40)
#define SPARE_BYTES (INT64_C(1) << 20)

int record_begin_file(struct recorder *recorder)
{
	const struct perf_data_head none = { .size = 0 };
	int r = write_at(recorder->data_fd, &none, sizeof(none), 0);

	if (!r)
		fallocate(recorder->data_fd, FALLOC_FL_KEEP_SIZE, SPARE_AT, SPARE_BYTES);
	return r;
}

void record_end_file(struct recorder *recorder)
{
	fallocate(recorder->data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, SPARE_AT,
		  SPARE_BYTES);
}

/* Where the last record ends that is there as a whole. */
static uint64_t last_whole(const struct recorder *recorder)
{
	uint64_t at = recorder->whole, end;
	struct perf_event_header head;
	struct stat st;

	if (fstat(recorder->data_fd, &st))
		return at;
	end = (uint64_t)st.st_size - RECORDS_AT;
	while (at + sizeof(head) <= end &&
	       pread(recorder->data_fd, &head, sizeof(head), (off_t)(RECORDS_AT + at)) ==
		       sizeof(head) &&
	       head.size >= sizeof(head) && head.size <= end - at)
		at += head.size;
	return at;
}

int record_cut(struct recorder *recorder)
{
	record_disable(recorder);
	recorder->cut = true;
	recorder->written = last_whole(recorder);
	record_end_file(recorder);
	return ftruncate(recorder->data_fd, (off_t)(RECORDS_AT + recorder->written)) ? -errno :
										       0;
}

int record_write(struct recorder *recorder, const void *records, uint64_t length)
{
	int r = write_at(recorder->data_fd, records, length, RECORDS_AT + recorder->written);

	if (!r)
		recorder->written += length;
	return r;
}

/* ---- draining ---- */

static int drain(struct recorder *recorder, struct ring *ring)
{
	uint64_t size = recorder->ring_bytes, tail, head, first;
	const char *data;
	int r;

	if (ring->fd < 0)
		return 0;
	data = (const char *)ring->page + sysconf(_SC_PAGESIZE);
	tail = ring->page->data_tail;
	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	if (head == tail)
		return 0;
	first = size - tail % size;
	if (first > head - tail)
		first = head - tail;
	r = record_write(recorder, data + tail % size, first);
	if (!r && head - tail > first)
		r = record_write(recorder, data, head - tail - first);
	if (!r)
		__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	return r;
}

static int drain_all(struct recorder *recorder)
{
	static const struct perf_event_header round = { .type = PERF_RECORD_FINISHED_ROUND,
							.size = sizeof(round) };
	uint64_t before = recorder->written;
	uint32_t i;
	int r = 0;

	for (i = 0; i < recorder->n_ring && !r; i++) {
		r = drain(recorder, &recorder->rings[i]);
		if (!r)
			recorder->whole = recorder->written;
	}
	if (!r && recorder->written != before && !recorder->attaching)
		r = record_write(recorder, &round, sizeof(round));
	if (!r)
		recorder->whole = recorder->written;
	return r;
}

int record_drain(struct recorder *recorder, int other_fd, int timeout_ms, bool *ret_other)
{
	struct pollfd *polled;
	nfds_t n = 0;
	uint32_t i;
	int r;

	polled = calloc(recorder->n_ring + 1, sizeof(*polled));
	if (!polled)
		return -ENOMEM;
	polled[n++] = (struct pollfd){ .fd = other_fd, .events = POLLIN };
	/* Without its process's last thread an event hangs up for ever: it is left out. */
	for (i = 0; i < recorder->n_ring && !recorder->cut; i++)
		if (recorder->rings[i].fd >= 0)
			polled[n++] = (struct pollfd){ .fd = recorder->rings[i].hung_up ?
								     -1 :
								     recorder->rings[i].fd,
						       .events = POLLIN };
	if (timeout_ms)
		poll(polled, n, timeout_ms);
	*ret_other = other_fd >= 0 && polled[0].revents;
	for (i = 0, n = 1; i < recorder->n_ring && !recorder->cut; i++)
		if (recorder->rings[i].fd >= 0 && polled[n++].revents & POLLHUP)
			recorder->rings[i].hung_up = true;
	r = recorder->cut ? 0 : drain_all(recorder);
	free(polled);
	return r;
}
