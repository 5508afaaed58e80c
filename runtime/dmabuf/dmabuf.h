/* SPDX-License-Identifier: MIT */
/*
 * What can be done with any dma-buf, whoever exported it
 * [Documentation/driver-api/dma-buf.rst].
 *
 * The descriptor is the buffer's one open file: it can't be opened again (ENXIO), so
 * nobody can make a read-only descriptor of one that may be written, or the other way
 * round. Its size never changes.
 *
 * A segment that is a dma-buf says so (HM_SEGMENT_DMABUF). Three backends map one by that
 * descriptor alone: "heap", "udmabuf" and, for imports, "host". The exporter decides how
 * (dmabuf_map_flags()): faults of some drivers count from the beginning of a map.
 *
 * Brackets are the backend's begin_cpu and end_cpu, chosen when a map is made: memory that needs
 * none pays nothing. hm_fence_wait() begins the CPU's turn, and the next launch that names the
 * map, or the map's end, ends it: one access at a time (hm_map.turn). A bracket holds no lock,
 * and takes the buffer's segments as they are (segments.h): a begin may wait for a device for
 * seconds, and a launch that ends the CPU's turn must not wait for the buffer's lock, whose
 * holder may wait for that launch. A bracket that is open over a change needs nothing: no device
 * knows yet of an object that came meanwhile.
 *
 * A memfd that became a dma-buf shares its pages with it only while none is given back: such a
 * buffer does not shrink (hm_buffer.pinned).
 */
#ifndef HETMAP_DMABUF_H
#define HETMAP_DMABUF_H

#include <linux/dma-buf.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/backend.h>

#include "base/sys.h"
#include "base/util.h"

/* By its file system, which only dma-bufs have. */
bool dmabuf_is(int fd);

/* -EINVAL: @fd is none, -EBADF; with a text. */
int dmabuf_size(int fd, uint64_t *ret_size);

/*
 * Begins or ends an access of the CPU's, @access: HM_READ | HM_WRITE. The exporter
 * does what its caches need and waits for the fences of other devices' work that
 * conflicts. It has no range, and excludes nobody.
 */
static inline int dmabuf_begin_cpu(int fd, uint32_t access);
static inline int dmabuf_end_cpu(int fd, uint32_t access);
/* Their cold half: sets the text. */
int dmabuf_explain_sync(int r, int fd, uint64_t phase);

/* Seen in /proc/PID/maps and in debugfs; cut to what the kernel takes. */
int dmabuf_set_name(int fd, const char *name);

/*
 * Other devices' work on it as a sync_file, O_CLOEXEC: what writes, for @access HM_READ, all
 * of it for HM_WRITE. -EOPNOTSUPP: kernels before 6.0, or a filter's answer. */
int dmabuf_export_fence(int fd, uint32_t access, int *ret_fence);
/* Work of @access on it is not done before the sync_file @fence. -EOPNOTSUPP likewise. */
int dmabuf_import_fence(int fd, uint32_t access, int fence);

/* ---- for backends ---- */

/* Capabilities of a buffer that is a dma-buf mapped by its descriptor. */
#define DMABUF_CAPS                                                          \
	(HM_CAP_EXPORT | HM_CAP_DMABUF | HM_CAP_PROTECT | HM_CAP_MULTI_MAP | \
	 HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_BRACKET)

/* What dmabuf_map_flags() may answer. */
#define DMABUF_MAP_FLAGS (HM_SEGMENT_FROM_START | HM_SEGMENT_PRESENT)

/* In hm_segment.flags, from dmabuf_import() to dmabuf_look() or to who knows better. */
#define DMABUF_UNSEEN (1u << 31)

/*
 * HM_SEGMENT_*: what maps of it need besides, by who exported it. A handler of faults that
 * counts pages from where the mapping begins shows other pages, or zeros, in a map that
 * begins elsewhere or is cut. 0 of what is no dma-buf.
 */
uint32_t dmabuf_map_flags(int fd);
/* Of @size bytes, which the caller knows it to have, and to be cached. */
void dmabuf_describe(int fd, uint64_t size, struct hm_recipe *ret_recipe);

/* hm_backend_ops.import_fd of those who map any dma-buf. */
int dmabuf_import(int fd, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe);
/*
 * The rest of it: how maps of it are made, and whether CPUs may map it at all. Not asked
 * of what another process sent and told, see share.c.
 */
int dmabuf_look(struct hm_recipe *recipe);
/*
 * Of what mapping one came to: is it the exporter's no, not want of memory or descriptors,
 * nor a page that can't be had now? Then -EOPNOTSUPP with a text.
 */
bool dmabuf_is_refusal(int r);
int dmabuf_explain_map(int r);

/* hm_backend_ops.export_fd of segments that are dma-bufs: a duplicate. */
int dmabuf_export(const struct hm_segment *segment, uint32_t flags, int *ret_fd);

/* hm_backend_ops.begin_cpu and end_cpu; segments that are no dma-bufs need nothing. */
int dmabuf_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
			  uint64_t offset, uint64_t length, uint32_t access);
int dmabuf_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
			uint64_t offset, uint64_t length, uint32_t access);

/* ---- inline: a bracket is little more than its two calls ---- */

static inline int dmabuf_sync_cpu(int fd, uint32_t access, uint64_t phase)
{
	struct dma_buf_sync sync = {
		.flags = phase | (access & HM_READ ? DMA_BUF_SYNC_READ : 0) |
			 (access & HM_WRITE ? DMA_BUF_SYNC_WRITE : 0),
	};
	int r = sys_ioctl_again(fd, DMA_BUF_IOCTL_SYNC, &sync);

	return likely(!r) ? 0 : dmabuf_explain_sync(r, fd, phase);
}

static inline int dmabuf_begin_cpu(int fd, uint32_t access)
{
	return dmabuf_sync_cpu(fd, access, DMA_BUF_SYNC_START);
}

static inline int dmabuf_end_cpu(int fd, uint32_t access)
{
	return dmabuf_sync_cpu(fd, access, DMA_BUF_SYNC_END);
}

#endif
