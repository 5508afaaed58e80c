/* SPDX-License-Identifier: MIT */
/*
 * Operations on any dma-buf, independent of its exporter
 * [Documentation/driver-api/dma-buf.rst].
 *
 * The descriptor is the buffer's one open file. It can't be opened again (ENXIO), so no process
 * can make a read-only descriptor of a writable one, or the other way round. The size never
 * changes.
 *
 * A segment that is a dma-buf has the flag HM_SEGMENT_DMABUF. Three backends map one by that
 * descriptor alone: "heap", "udmabuf" and, for imports, "host". The exporter decides how
 * (dmabuf_map_flags()): faults of some drivers count from the beginning of a map.
 *
 * Brackets are the backend's begin_cpu and end_cpu, chosen when a map is made: memory that
 * needs no brackets pays nothing. hm_fence_wait() begins the CPU's turn, and the next launch
 * that names the map, or the map's end, ends it: one access at a time (hm_map.turn). A bracket
 * holds no lock, and takes the buffer's segments as they are (segments.h): a begin may wait for
 * a device for seconds, and a launch that ends the CPU's turn must not wait for the buffer's
 * lock, whose holder may wait for that launch. A bracket that stays open over a change needs no
 * care: no device knows the new object yet.
 *
 * A memfd that became a dma-buf shares its pages with it only as long as no page is given back:
 * such a buffer does not shrink (hm_buffer.pinned).
 */
#ifndef HETMAP_DMABUF_H
#define HETMAP_DMABUF_H

#include <linux/dma-buf.h>
#include <linux/ioctl.h> /* which older versions of dma-buf.h use, and do not include */
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/backend.h>

#include "base/sys.h"
#include "base/util.h"

/* Looks at the file system, which only dma-bufs have. */
bool dmabuf_is(int fd);

/*
 * -EINVAL: @fd is not a dma-buf.
 * -EBADF. Both set a text.
 */
int dmabuf_size(int fd, uint64_t *ret_size);

/*
 * Begins or ends an access by the CPU, @access: HM_READ | HM_WRITE. The exporter does the
 * necessary work on its caches, and waits for the fences of conflicting work of other devices.
 * An access has no range, and keeps no other access out.
 */
static inline int dmabuf_begin_cpu(int fd, uint32_t access);
static inline int dmabuf_end_cpu(int fd, uint32_t access);
/* The cold half of both: sets the text. */
int dmabuf_explain_sync(int r, int fd, uint64_t phase);

/* Sets the name shown in /proc/PID/maps and in debugfs, cut to the kernel's limit. */
int dmabuf_set_name(int fd, const char *name);

/*
 * Returns other devices' work on the dma-buf as a sync_file, O_CLOEXEC: writes only, for
 * @access HM_READ, all work for HM_WRITE.
 * -EOPNOTSUPP: kernels before 6.0, or a filter's answer.
 */
int dmabuf_export_fence(int fd, uint32_t access, int *ret_fence);
/* Adds work of @access, which ends with the sync_file @fence. -EOPNOTSUPP as above. */
int dmabuf_import_fence(int fd, uint32_t access, int fence);

/* ---- for backends ---- */

/* Capabilities of a buffer that is a dma-buf mapped by its descriptor. */
#define DMABUF_CAPS                                                          \
	(HM_CAP_EXPORT | HM_CAP_DMABUF | HM_CAP_PROTECT | HM_CAP_MULTI_MAP | \
	 HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_BRACKET)

/* The possible answers of dmabuf_map_flags(). */
#define DMABUF_MAP_FLAGS (HM_SEGMENT_FROM_START | HM_SEGMENT_PRESENT)

/* Set in hm_segment.flags by dmabuf_import(); core/buffer.c clears it, see dmabuf_look(). */
#define DMABUF_UNSEEN (1u << 31)

/*
 * HM_SEGMENT_* flags that maps of the dma-buf need in addition, depending on the exporter. A
 * fault handler that counts pages from the beginning of the mapping shows other pages, or
 * zeros, in a map that begins elsewhere or is cut. Returns 0 if @fd is not a dma-buf.
 */
uint32_t dmabuf_map_flags(int fd);
/* Describes a cached dma-buf of @size bytes; the caller knows both. */
void dmabuf_describe(int fd, uint64_t size, struct hm_recipe *ret_recipe);

/* hm_backend_ops.import_fd for backends that map any dma-buf. */
int dmabuf_import(int fd, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe);
/*
 * The second half of an import: how maps are made, and whether CPUs may map the dma-buf at all.
 * Skipped where the sender of a buffer has told both, see share.c.
 */
int dmabuf_look(struct hm_recipe *recipe);
/*
 * For the result @r of mapping a dma-buf: did the exporter refuse? Lack of memory or
 * descriptors, or of a page at this moment, is no refusal. dmabuf_explain_map() returns
 * -EOPNOTSUPP with a text.
 */
bool dmabuf_is_refusal(int r);
int dmabuf_explain_map(int r);

/* hm_backend_ops.export_fd for segments that are dma-bufs: a duplicate. */
int dmabuf_export(const struct hm_segment *segment, uint32_t flags, int *ret_fd);

/* Capabilities of a table with the two functions below as its begin_cpu and end_cpu. */
#define DMABUF_BRACKET_CAPS \
	(HM_CAP_BRACKET | HM_BACKEND_BRACKET_END | HM_BACKEND_BRACKET_DMABUF)

/* hm_backend_ops.begin_cpu and end_cpu; skip segments that are not dma-bufs. */
int dmabuf_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
			  uint64_t offset, uint64_t length, uint32_t access);
int dmabuf_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
			uint64_t offset, uint64_t length, uint32_t access);

/* ---- inline, as a bracket is little more than its two calls ---- */

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
