// SPDX-License-Identifier: MIT
/*
 * Rings of records: the kernel writes at the head, this program frees at the tail
 * [perf_event_open(2), MMAP layout]. The bytes go to the file as they are.
 */
#include "record_ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

/* ---- draining ---- */

/* Of the ring's bytes, which end where they begin again. */
static int write_part(struct recorder *recorder, const char *data, uint64_t at, uint64_t length)
{
	uint64_t size = recorder->ring_bytes, first = size - at % size;
	int r;

	if (first > length)
		first = length;
	r = record_write(recorder, data + at % size, first);
	return r || first == length ? r : record_write(recorder, data, length - first);
}

static int drain(struct recorder *recorder, struct ring *ring)
{
	const char *data;
	uint64_t tail, head;
	int r;

	if (ring->fd < 0)
		return 0;
	data = (const char *)ring->page + sysconf(_SC_PAGESIZE);
	tail = ring->page->data_tail;
	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	if (head == tail)
		return 0;
	r = write_part(recorder, data, tail, head - tail);
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

	recorder->whole = before;
	for (i = 0; i < recorder->n_ring && !r; i++) {
		r = drain(recorder, &recorder->rings[i]);
		recorder->rings[i].refused = r;
		if (!r)
			recorder->whole = recorder->written;
	}
	if (!r && recorder->written != before && !recorder->attaching)
		r = record_write(recorder, &round, sizeof(round));
	if (!r)
		recorder->whole = recorder->written;
	return r;
}

int ring_rescue(struct recorder *recorder, const struct ring *ring, uint64_t skipped,
		uint64_t room)
{
	const struct perf_event_header *record;
	uint64_t at, head, before = recorder->written;
	const char *data;
	int r = 0;

	if (ring->fd < 0)
		return 0;
	data = (const char *)ring->page + sysconf(_SC_PAGESIZE);
	at = ring->page->data_tail + skipped;
	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	/* A head is never cut in two: all records are multiples of 8 bytes. */
	for (; !r && at < head; at += record->size) {
		record = (const void *)(data + at % recorder->ring_bytes);
		if (record->size < sizeof(*record) || record->size > head - at ||
		    recorder->written - before + record->size > room)
			break;
		if (record->type != PERF_RECORD_SAMPLE)
			r = write_part(recorder, data, at, record->size);
	}
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
