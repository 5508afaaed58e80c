// SPDX-License-Identifier: MIT
/* Begins reads of storage before their bytes are waited for. */
#include "map/announce.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/proc.h"
#include "core/segments.h"
#include "base/sys.h"

/* Largest request of a file without a block device [mm/backing-dev.c, VM_READAHEAD_PAGES]. */
#define REQUEST KIB(128)

/* Limits a call, which a signal may have to wait for. */
#define STEP_MOST MIB(8)

/* The value in KiB of the file for @device, @format with its "%u:%u"; 0: none. */
static uint64_t read_kib(const char *format, dev_t device)
{
	char path[64];
	uint64_t kib;

	snprintf(path, sizeof(path), format, major(device), minor(device));
	return !proc_number(path, &kib) || kib > MIB(1) ? 0 : KIB(kib);
}

/* A partition has its disk's queue, and no entry of its own among the kernel's bdis. */
static uint64_t read_queue_kib(const char *of_disk, const char *of_partition, dev_t device)
{
	uint64_t bytes = read_kib(of_disk, device);

	return bytes ? bytes : read_kib(of_partition, device);
}

uint64_t announce_read_ahead(dev_t device)
{
	return read_queue_kib("/sys/class/bdi/%u:%u/read_ahead_kb",
			      "/sys/dev/block/%u:%u/../queue/read_ahead_kb", device);
}

static uint64_t largest_request(dev_t device)
{
	uint64_t most = read_queue_kib("/sys/dev/block/%u:%u/queue/max_sectors_kb",
				       "/sys/dev/block/%u:%u/../queue/max_sectors_kb", device);

	return most ? most : REQUEST;
}

uint64_t announce_step(dev_t device)
{
	uint64_t step = max_u64(announce_read_ahead(device), largest_request(device));

	return max_u64(round_down(min_u64(step, STEP_MOST), page_size()), page_size());
}

void announce_file(int fd, uint64_t step, uint64_t offset, uint64_t length)
{
	uint64_t done;

	for (done = 0; done < length; done += step)
		sys_fadvise(fd, offset + done, min_u64(step, length - done),
			    POSIX_FADV_WILLNEED);
}

/*
 * Determined once, since a file does not change its device. Other objects are announced as a
 * whole.
 */
static uint64_t step_of(struct hm_buffer *buffer)
{
	uint64_t step = atomic_load_explicit(&buffer->announce_step, memory_order_relaxed);
	struct segment_list *list;
	struct stat st;

	if (step)
		return step;
	step = UINT64_MAX;
	if (buffer_is(buffer, HM_MEMORY_STORAGE)) {
		list = segments_get(buffer);
		if (list->n && !sys_fstat(list->segment[0].fd, &st))
			step = announce_step(st.st_dev);
		segments_put(buffer, list);
	}
	atomic_store_explicit(&buffer->announce_step, step, memory_order_relaxed);
	return step;
}

void announce_stored(struct hm_buffer *buffer, uint64_t offset, uint64_t length)
{
	uint64_t step = step_of(buffer);
	struct segment_list *list = segments_get(buffer);

	announce_file(list->segment[0].fd, step, offset, length);
	segments_put(buffer, list);
}

int announce_pages(struct hm_buffer *buffer, void *address, uint64_t length)
{
	uint64_t step = step_of(buffer), now;
	char *at = address;
	int r = 0;

	for (; length && !r; at += now, length -= now) {
		now = min_u64(step, length);
		r = sys_madvise(at, now, MADV_WILLNEED);
	}
	return r;
}
