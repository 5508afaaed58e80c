// SPDX-License-Identifier: MIT
/*
 * hm_buffer_export: makes a descriptor of a buffer's memory, and chooses the dma-buf for
 * brackets.
 */
#include <inttypes.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "core/identity.h"
#include "dmabuf/dmabuf.h"
#include "change/replace.h"
#include "base/rlimits.h"
#include "core/segments.h"
#include "base/sys.h"
#include "dmabuf/udmabuf.h"
#include "map/view.h"

static void settle_locked(struct hm_buffer *buffer, int fd, uint64_t length)
{
	struct hm_map *map;

	atomic_store_explicit(&buffer->settled_length, length, memory_order_relaxed);
	atomic_store_explicit(&buffer->settled_fd, fd, memory_order_release);
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		view_choose_brackets(map);
}

void buffer_settle_locked(struct hm_buffer *buffer)
{
	const struct hm_segment *first = &buffer->segment[0];

	if (!(first->flags & HM_SEGMENT_DMABUF) ||
	    !backend_has(buffer->device->ops, HM_BACKEND_BRACKET_DMABUF) ||
	    buffer->settled_fd >= 0)
		return;
	settle_locked(buffer, first->fd, first->length);
}

/*
 * An end without a begin is -EINVAL [end_cpu_udmabuf()], and brackets may be open that began
 * before this dma-buf was there, or the one that it replaces.
 */
static int begin_once(int fd)
{
	int r = dmabuf_begin_cpu(fd, HM_READ | HM_WRITE);

	return r ? r : dmabuf_end_cpu(fd, HM_READ | HM_WRITE);
}

/*
 * Keeps a descriptor of the dma-buf that was made of the memfd's pages: brackets tell it, and
 * the next export gives the same dma-buf. A longer one takes the place of one that has become
 * too short: a process that still has the old one is told of no accesses any more.
 */
static int keep_dmabuf_locked(struct hm_buffer *buffer, int fd, uint64_t length)
{
	int own, r;

	r = begin_once(fd);
	if (r)
		return r;
	own = sys_dup(fd);
	if (own < 0)
		return rlimits_explain_fd(own, "a further descriptor of a dma-buf");
	/* A name only helps people. */
	dmabuf_set_name(fd, buffer->name);
	if (!buffer->settled_own) {
		buffer->settled_own = true;
		atomic_fetch_or(&buffer->caps, HM_CAP_BRACKET);
		settle_locked(buffer, own, length);
		return 0;
	}
	/* Replaced in place, as a bracket may be about to use the descriptor. */
	r = sys_dup_to(own, buffer->settled_fd);
	sys_close(own);
	if (r)
		return rlimits_explain_fd(r, "a further descriptor of a dma-buf");
	atomic_store_explicit(&buffer->settled_length, length, memory_order_relaxed);
	return 0;
}

/* The core tells a memfd's brackets, if the device has none of its own. */
static bool may_keep(const struct hm_buffer *buffer, const struct hm_segment *segment)
{
	return buffer_is(buffer, HM_MEMORY_SEALED) && !(segment->flags & HM_SEGMENT_DMABUF) &&
	       backend_has(buffer->device->ops, HM_BACKEND_BRACKET_DMABUF);
}

/* Exports the earlier dma-buf, if the memfd may still be written. It has all pages. */
static int export_kept_locked(struct hm_buffer *buffer, const struct hm_segment *segment,
			      int *ret_fd)
{
	int fd, r;

	r = udmabuf_check_seals(segment->fd);
	if (r)
		return r;
	fd = sys_dup(buffer->settled_fd);
	if (fd < 0)
		return rlimits_explain_fd(fd, "a further descriptor of a dma-buf");
	*ret_fd = fd;
	return 0;
}

/* @known: the descriptor is of a file whose identity the buffer has. */
static int export_segment_locked(struct hm_buffer *buffer, const struct hm_segment *segment,
				 uint32_t flags, bool known, int *ret_fd)
{
	const struct hm_backend_ops *ops = buffer->device->ops;
	uint32_t said = err_count();
	int fd, r;

	if (flags & HM_EXPORT_DMABUF && buffer->settled_own &&
	    buffer->settled_length == segment->length)
		return export_kept_locked(buffer, segment, ret_fd);
	r = ops->export_fd(segments_link(buffer)->backend, segment, flags, &fd);
	if (r)
		return backend_explain(ops, said, r, "export_fd");
	/* Before the buffer changes. */
	r = known ? 0 : identity_add_locked(buffer, fd);
	if (r)
		goto err_close;
	if (segment->flags & HM_SEGMENT_DMABUF || !dmabuf_is(fd)) {
		*ret_fd = fd;
		return 0;
	}
	if (may_keep(buffer, segment)) {
		r = keep_dmabuf_locked(buffer, fd, segment->length);
		if (r)
			goto err_close;
	} else if (buffer->created) {
		dmabuf_set_name(fd, buffer->name);
	}
	if (buffer_is(buffer, HM_MEMORY_SEALED))
		buffer->pinned = true;
	*ret_fd = fd;
	return 0;

err_close:
	sys_close(fd);
	return r;
}

#define EXPORT_FLAGS (HM_EXPORT_READ_ONLY | HM_EXPORT_COALESCE | HM_EXPORT_DMABUF)

int buffer_check_export(const char *what, uint32_t flags)
{
	if (flags & ~EXPORT_FLAGS)
		return err_set(-EINVAL, "%s: unknown flags 0x%x", what, flags & ~EXPORT_FLAGS);
	return 0;
}

static int check_export_caps(const struct hm_buffer *buffer, uint32_t flags)
{
	if (!(buffer->caps & HM_CAP_EXPORT))
		return err_set(-EOPNOTSUPP,
			       "%s has no descriptor to give: it is private memory, or its "
			       "device exports nothing",
			       buffer->name);
	if (flags & HM_EXPORT_READ_ONLY && !(buffer->caps & HM_CAP_READ_ONLY))
		return err_set(-EOPNOTSUPP,
			       "%s: its device, \"%s\", can't make an export read-only: "
			       "export without HM_EXPORT_READ_ONLY, or have the bytes on "
			       "\"host\"",
			       buffer->name, buffer->device->name);
	if (flags & HM_EXPORT_DMABUF && buffer->sealed & HM_SEALED_MEMORY)
		return err_set(-EPERM,
			       "%s was sealed (hm_buffer_seal), and a dma-buf of it could be "
			       "written by devices: export it without HM_EXPORT_DMABUF",
			       buffer->name);
	if (flags & HM_EXPORT_DMABUF && !(buffer->caps & HM_CAP_DMABUF))
		return err_set(-EOPNOTSUPP,
			       "%s: its device, \"%s\", exports no dma-bufs: only buffers of "
			       "\"host\" can become one, by /dev/udmabuf (modprobe udmabuf; "
			       "CONFIG_UDMABUF)",
			       buffer->name, buffer->device->name);
	if (flags & HM_EXPORT_DMABUF && flags & HM_EXPORT_READ_ONLY &&
	    buffer_is(buffer, HM_MEMORY_SEALED))
		return err_set(-EOPNOTSUPP,
			       "%s: a memfd that is sealed against writing becomes no dma-buf: "
			       "pass HM_EXPORT_READ_ONLY or HM_EXPORT_DMABUF",
			       buffer->name);
	return 0;
}

int buffer_export_locked(struct hm_buffer *buffer, uint32_t flags, struct resize_set *set,
			 int *ret_fd)
{
	/* The seal stays after a later failure. The new descriptor is of the same file. */
	bool seals = flags & HM_EXPORT_READ_ONLY && buffer_is(buffer, HM_MEMORY_SEALED);
	struct hm_segment segment;
	int fd = -1, r;

	r = check_export_caps(buffer, flags);
	if (r)
		return r;
	if (buffer->n_segment > 1 && (flags & HM_EXPORT_COALESCE)) {
		r = replace_locked(buffer, buffer->size, set);
		if (r)
			return r;
	}
	if (buffer->n_segment > 1)
		return err_set(-EXDEV,
			       "%s is made of %u objects, and a descriptor is of one: pass "
			       "HM_EXPORT_COALESCE to have %" PRIu64 " bytes copied into one "
			       "object",
			       buffer->name, buffer->n_segment, buffer->size);
	/*
	 * Only the bytes in use: a dma-buf has its size for life, and takes its pages at once.
	 */
	segment = buffer->segment[0];
	segment.length = min_u64(segment.length, buffer_pages(buffer, buffer->size));
	r = seals ? identity_add_locked(buffer, segment.fd) : 0;
	if (!r)
		r = export_segment_locked(buffer, &segment, flags, seals, &fd);
	if (r)
		return r;
	buffer->exported = true;
	buffer_settle_locked(buffer);
	*ret_fd = fd;
	return 0;
}
