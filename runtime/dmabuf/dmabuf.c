// SPDX-License-Identifier: MIT
/* dma-bufs: operations on their descriptors, and buffers made of them. */
#include "dmabuf/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "map/bracket_walk.h"
#include "base/compat.h"
#include "core/core.h"
#include "map/map.h"
#include "base/proc.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "base/sys.h"

bool dmabuf_is(int fd)
{
	struct statfs fs;

	return !sys_fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC;
}

/*
 * The device number of all dma-bufs, which no other file has [dma_buf_fs_type]. Known from the
 * first dma-buf on; 0: none was seen.
 */
static _Atomic dev_t dmabuf_dev;

int dmabuf_size(int fd, uint64_t *ret_size)
{
	struct stat st;
	int64_t end;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "descriptor %d: fstat: %s", fd, err_name(r));
	/* The inode's size is the object's [dma_buf_getfile()]. */
	if (st.st_dev == dmabuf_dev && st.st_size > 0) {
		*ret_size = (uint64_t)st.st_size;
		return 0;
	}
	if (!dmabuf_is(fd))
		return err_set(
			-EINVAL,
			"%s: descriptor %d is no dma-buf: pass one that hm_buffer_export() "
			"with HM_EXPORT_DMABUF or a driver made",
			err_name(-EINVAL), fd);
	end = sys_lseek(fd, 0, SEEK_END);
	if (end < 0)
		return err_set((int)end, "the size of the dma-buf of descriptor %d: lseek: %s",
			       fd, err_name((int)end));
	dmabuf_dev = st.st_dev;
	*ret_size = (uint64_t)end;
	return 0;
}

/* ---- access by CPUs ---- */

int dmabuf_explain_sync(int r, int fd, uint64_t phase)
{
	if (r == -EBADF || r == -ENOTTY)
		return err_set(-EBADF,
			       "%s: descriptor %d is no dma-buf any more: code outside the "
			       "library closed it: release the buffer",
			       err_name(-EBADF), fd);
	return err_set(r, "%s an access of the CPU's (DMA_BUF_IOCTL_SYNC): %s",
		       phase == DMA_BUF_SYNC_START ? "beginning" : "ending", err_name(r));
}

int dmabuf_set_name(int fd, const char *name)
{
	char text[DMA_BUF_NAME_LEN];
	int r;

	snprintf(text, sizeof(text), "%s", name);
	r = sys_ioctl_again(fd, DMA_BUF_SET_NAME_B, text);
	return r ? err_set(r, "naming a dma-buf \"%s\": %s", text, err_name(r)) : 0;
}

/* ---- work of other devices ---- */

static uint32_t fence_flags(uint32_t access)
{
	return access & HM_WRITE ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ;
}

/* Set when a kernel does not know the call, which is not made again then. */
static _Atomic bool no_fences;

/* ENOTTY is the answer of kernels before 6.0; no kernel gives the others, but filters do. */
static bool is_unknown(int r)
{
	return r == -ENOTTY || r == -ENOSYS || r == -EPERM;
}

static int call_fence(int fd, unsigned long cmd, void *argument, const char *what)
{
	int r = no_fences ? -ENOTTY : sys_ioctl_again(fd, cmd, argument);

	if (is_unknown(r) && dmabuf_is(fd)) {
		no_fences = true;
		return err_set(-EOPNOTSUPP,
			       "%s: this kernel's dma-bufs give and take no fences: Linux 6.0 "
			       "and later do, where no filter refuses the calls",
			       what);
	}
	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, what);
	return r ? err_set(r, "%s: %s", what, err_name(r)) : 0;
}

int dmabuf_export_fence(int fd, uint32_t access, int *ret_fence)
{
	struct dma_buf_export_sync_file ask = { .flags = fence_flags(access), .fd = -1 };
	int r = call_fence(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &ask, "the fence of a dma-buf");

	if (!r)
		*ret_fence = ask.fd;
	return r;
}

int dmabuf_import_fence(int fd, uint32_t access, int fence)
{
	struct dma_buf_import_sync_file ask = { .flags = fence_flags(access), .fd = fence };

	return call_fence(fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &ask, "a fence for a dma-buf");
}

/* ---- as a buffer ---- */

/*
 * Exporters that map all pages at once, or find each page by its offset in the object
 * [system_heap_mmap(), udmabuf_vm_fault(), drivers/sim]. Some of the other exporters are known
 * not to [drm_gem_shmem_fault()], and all of those have the one name "drm" here.
 */
static bool maps_by_offset(const char *exporter)
{
	static const char *const names[] = { "system", "udmabuf", "hetsim" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(exporter, names[i]))
			return true;
	return false;
}

uint32_t dmabuf_map_flags(int fd)
{
	char exporter[32] = "";

	if (!dmabuf_is(fd))
		return 0;
	/* Name of the exporter [dma_buf_show_fdinfo()]; "": not known. */
	proc_fdinfo(fd, "exp_name:\t", exporter, sizeof(exporter));
	return maps_by_offset(exporter) ? 0 : DMABUF_MAP_FLAGS;
}

void dmabuf_describe(int fd, uint64_t size, struct hm_recipe *ret_recipe)
{
	*ret_recipe = (struct hm_recipe){
		.segment = {
			.length = round_down(size, page_size()),
			.fd = fd,
			.flags = HM_SEGMENT_SHARED | HM_SEGMENT_DMABUF,
		},
		.page_size = page_size(),
		.caps = DMABUF_CAPS,
		.access = HM_READ | HM_WRITE,
	};
}

bool dmabuf_is_refusal(int r)
{
	return r && r != -ENOMEM && r != -EAGAIN && r != -EMFILE && r != -ENFILE && r != -EIO;
}

int dmabuf_explain_map(int r)
{
	return err_set(-EOPNOTSUPP,
		       "the dma-buf's exporter does not let CPUs map it (%s): only a device "
		       "can import it",
		       err_name(r));
}

/*
 * Maps a page for a try: an exporter may have no mmap(), or refuse it, or have no page for
 * CPUs, and the caller learns it here instead of at the first map.
 */
static int try_map(const struct hm_recipe *recipe)
{
	struct reservation range;
	char *address;
	int r;

	r = map_scratch(&recipe->segment, 1, 0, recipe->page_size, recipe->page_size, PROT_READ,
			&range, &address);
	if (r)
		return dmabuf_is_refusal(r) ? dmabuf_explain_map(r) : r;
	reserve_release(&range);
	return 0;
}

int dmabuf_look(struct hm_recipe *recipe)
{
	recipe->segment.flags |= dmabuf_map_flags(recipe->segment.fd);
	return try_map(recipe);
}

/*
 * Was the dma-buf opened for writing? It has no write(), but the kernel checks the mode before
 * that [vfs_write()]. A receiver waits for the answer, and this takes half the time of F_GETFL.
 */
static int get_writable(int fd, bool *ret_writable)
{
	int mode, r = (int)sys_write(fd, NULL, 0);

	if (r < 0 && r != -EBADF && r != -EINVAL)
		return err_set(r, "asking whether a dma-buf may be written: %s", err_name(r));
	*ret_writable = r != -EBADF;
	if (*ret_writable)
		return 0;
	mode = sys_fcntl(fd, F_GETFL, 0);
	return mode < 0 ? err_set(mode, "F_GETFL: %s", err_name(mode)) : map_check_mode(mode);
}

int dmabuf_import(int fd, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	bool writable = false;
	uint64_t size;
	int r;

	r = dmabuf_size(fd, &size);
	if (!r)
		r = get_writable(fd, &writable);
	if (r)
		return r;
	if (size < page_size() || desc->size > size || desc->max_size > size)
		return err_set(-EINVAL,
			       "the dma-buf has %" PRIu64
			       " bytes, and the description asks for %" PRIu64,
			       size, max_u64(desc->size, desc->max_size));
	dmabuf_describe(fd, size, ret_recipe);
	ret_recipe->segment.flags |= DMABUF_UNSEEN;
	/*
	 * The exporter's mmap() chooses the cache mode, and no call tells it [dma_buf_mmap()].
	 */
	ret_recipe->cache = HM_CACHE_UNKNOWN;
	ret_recipe->size = desc->size ? desc->size : ret_recipe->segment.length;
	if (!writable || (desc->flags & HM_BUFFER_READ_ONLY)) {
		ret_recipe->access = HM_READ;
		ret_recipe->caps &= ~HM_CAP_WRITE;
		ret_recipe->flags = HM_BUFFER_READ_ONLY;
	}
	return 0;
}

int dmabuf_export(const struct hm_segment *segment, uint32_t flags, int *ret_fd)
{
	int fd, mode;

	if (flags & HM_EXPORT_READ_ONLY) {
		mode = sys_fcntl(segment->fd, F_GETFL, 0);
		if (mode < 0)
			return err_set(mode, "F_GETFL: %s", err_name(mode));
		if ((mode & O_ACCMODE) != O_RDONLY)
			return err_set(-EOPNOTSUPP,
				       "a dma-buf that may be written can't be opened again "
				       "read-only: export it without HM_EXPORT_READ_ONLY, or "
				       "have the bytes on \"host\"");
	}
	fd = sys_dup(segment->fd);
	if (fd < 0)
		return rlimits_explain_fd(fd, "a further descriptor of a dma-buf");
	*ret_fd = fd;
	return 0;
}

/* ---- brackets ---- */

static bool takes_part(const struct hm_segment *segment)
{
	return segment->flags & HM_SEGMENT_DMABUF;
}

static int begin_segment(const struct hm_segment *segment, uint32_t access)
{
	return dmabuf_begin_cpu(segment->fd, access);
}

static int end_segment(const struct hm_segment *segment, uint32_t access)
{
	return dmabuf_end_cpu(segment->fd, access);
}

static const struct bracket_walk walk = { takes_part, begin_segment, end_segment };

int dmabuf_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
			  uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device;
	return bracket_walk_begin(&walk, segments, n_segment, offset, length, access);
}

int dmabuf_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
			uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device;
	return bracket_walk_end(&walk, segments, n_segment, offset, length, access);
}
