// SPDX-License-Identifier: MIT
/* Copies the bytes of an object that is replaced to the new one. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "base/compat.h"
#include "core/device_link.h"
#include "loss/device_loss.h"
#include "change/replace.h"
#include "core/segments.h"
#include "base/sys.h"

/* Bytes that are brought to where CPUs reach them, and copied, at a time. */
#define COPY_STEP MIB(1)
#define COPY_READ MIB(64) /* bytes of one call */

/*
 * Copies a part of one side to or from memory of the library: bringing the other side's part to
 * where CPUs reach it may take this one away again.
 */
static int copy_side(const struct replace_copy *copy, bool from, uint64_t at, uint64_t length,
		     char *between)
{
	struct hm_buffer *buffer = copy->buffer;
	const struct hm_device *device = buffer->device;
	const struct device_link *link = segments_link(buffer);
	const struct hm_segment *segments = from ? buffer->segment : copy->fresh;
	uint32_t n = from ? buffer->n_segment : 1;
	uint32_t access = from ? HM_READ : HM_READ | HM_WRITE;
	uint32_t said = err_count();
	int r;

	r = device->ops->begin_cpu(link->backend, segments, n, at, length, access);
	if (r)
		return backend_explain(device->ops, said, r, "begin_cpu");
	r = device_loss_touch_begin(device, link);
	if (!r) {
		if (from)
			memcpy(between, copy->old + at, length);
		else
			memcpy(copy->address + at, between, length);
		device_loss_touch_end();
	}
	/* The bytes are there, so an error of the device at the end does not count. */
	device->ops->end_cpu(link->backend, segments, n, at, length, access);
	return r;
}

static int copy_in_steps(const struct replace_copy *copy, uint64_t kept)
{
	uint64_t at, length;
	char *between;
	int r = 0;

	between = sys_calloc(1, min_u64(kept, COPY_STEP));
	if (!between)
		return err_set(-ENOMEM, "no memory to copy a buffer through");
	for (at = 0; at < kept && !r; at += length) {
		length = min_u64(COPY_STEP, kept - at);
		r = copy_side(copy, true, at, length, between);
		if (!r)
			r = copy_side(copy, false, at, length, between);
	}
	free(between);
	return r;
}

/*
 * Gets the pages for the copy, so that a lack of them (strict overcommit, a full tmpfs) is an
 * error instead of a SIGBUS at a store. Kernels before 5.14 can't do this.
 */
static int bring_in(const struct replace_copy *copy, uint64_t kept)
{
	int r;

	if (!buffer_is(copy->buffer, HM_MEMORY_SPARSE))
		return 0;
	/* Pages of the old object, too: a read where nothing was stored takes a page. */
	r = sys_madvise(copy->old, buffer_pages(copy->buffer, kept), MADV_POPULATE_READ);
	if (!r)
		r = sys_madvise(copy->address, buffer_pages(copy->buffer, kept),
				MADV_POPULATE_WRITE);
	if (!r || r == -EINVAL)
		return 0;
	return err_set(r == -EFAULT ? -ENOMEM : r,
		       "%s: no memory for the copy of %" PRIu64 " bytes (%s): see "
		       "vm.overcommit_memory, and memory.max of the control group",
		       copy->buffer->name, kept, err_name(r));
}

/*
 * Copies bytes that may raise SIGBUS, which any user of the object may have asked for
 * (lost_signal): no handler knows the mapping that is read here.
 */
static int copy_by_kernel(const struct replace_copy *copy, uint64_t kept)
{
	struct hm_buffer *buffer = copy->buffer;
	const struct hm_segment *segment;
	uint64_t at, inside, length;
	ssize_t n = 0;
	int r;

	for (at = 0; at < kept; at += (uint64_t)n) {
		segment = &buffer->segment[buffer_segment_at(buffer, at)];
		inside = at - segment->offset;
		length = min_u64(kept - at, segment->length - inside);
		n = sys_pread(segment->fd, copy->address + at, min_u64(length, COPY_READ),
			      segment->fd_offset + inside);
		if (n <= 0)
			break;
	}
	if (at == kept)
		return 0;
	/* The errno does not matter if the device is gone, and the bytes with it. */
	r = device_loss_ask(buffer->device, segments_link(buffer));
	if (r)
		return r;
	r = n ? (int)n : -EIO;
	return err_set(r, "%s: reading %" PRIu64 " bytes from %" PRIu64 " on: %s", buffer->name,
		       kept - at, at, err_name(r));
}

static int copy_by_cpu(const struct replace_copy *copy, uint64_t kept)
{
	struct hm_buffer *buffer = copy->buffer;
	int r = device_loss_touch_begin(buffer->device, segments_link(buffer));

	if (r)
		return r;
	memcpy(copy->address, copy->old, kept);
	device_loss_touch_end();
	return 0;
}

int replace_copy(const struct replace_copy *copy, uint64_t kept)
{
	int r = bring_in(copy, kept);

	if (r)
		return r;
	if (unlikely(copy->buffer->caps & HM_CAP_BRACKET))
		return copy_in_steps(copy, kept);
	if (backend_has(copy->buffer->device->ops, HM_BACKEND_LOSS_SIGNAL))
		return copy_by_kernel(copy, kept);
	return copy_by_cpu(copy, kept);
}
