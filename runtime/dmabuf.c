// SPDX-License-Identifier: MIT
/* dma-bufs: what their descriptors can do, and how they become buffers. */
#include "dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compat.h"
#include "core.h"
#include "map.h"
#include "reserve.h"
#include "rlimits.h"
#include "sys.h"

bool dmabuf_is(int fd)
{
	struct statfs fs;

	return !sys_fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC;
}

int dmabuf_size(int fd, uint64_t *ret_size)
{
	int64_t end;

	if (!dmabuf_is(fd))
		return err_set(-EINVAL, "the descriptor is no dma-buf");
	end = sys_lseek(fd, 0, SEEK_END);
	if (end < 0)
		return err_set((int)end, "the size of a dma-buf: %s", err_name((int)end));
	*ret_size = (uint64_t)end;
	return 0;
}

/* ---- access of the CPU's ---- */

static int explain_sync(int r, int fd, uint64_t phase)
{
	if (r == -EBADF || r == -ENOTTY)
		return err_set(-EBADF,
			       "%s: descriptor %d is no dma-buf any more: somebody else has "
			       "closed it, and it was the library's: release the buffer",
			       err_name(-EBADF), fd);
	return err_set(r, "%s an access of the CPU's (DMA_BUF_IOCTL_SYNC): %s",
		       phase == DMA_BUF_SYNC_START ? "beginning" : "ending", err_name(r));
}

static inline int sync_cpu(int fd, uint32_t access, uint64_t phase)
{
	struct dma_buf_sync sync = {
		.flags = phase | (access & HM_READ ? DMA_BUF_SYNC_READ : 0) |
			 (access & HM_WRITE ? DMA_BUF_SYNC_WRITE : 0),
	};
	int r = sys_ioctl_again(fd, DMA_BUF_IOCTL_SYNC, &sync);

	return r ? explain_sync(r, fd, phase) : 0;
}

int dmabuf_begin_cpu(int fd, uint32_t access)
{
	return sync_cpu(fd, access, DMA_BUF_SYNC_START);
}

int dmabuf_end_cpu(int fd, uint32_t access)
{
	return sync_cpu(fd, access, DMA_BUF_SYNC_END);
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

int dmabuf_wait(int fd, uint32_t access, int timeout_ms)
{
	struct pollfd file = {
		.fd = fd,
		.events = access & HM_WRITE ? POLLOUT : POLLIN,
	};
	int n = sys_poll(&file, 1, timeout_ms);

	if (n < 0)
		return err_set(n, "waiting for other devices' work on a dma-buf: %s",
			       err_name(n));
	if (!n)
		return err_set(-ETIME, "other devices' work on the dma-buf is not done yet");
	if (!(file.revents & file.events))
		return err_set(-EINVAL, "descriptor %d can't be waited for: it is no dma-buf",
			       fd);
	return 0;
}

static uint32_t fence_flags(uint32_t access)
{
	return access & HM_WRITE ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ;
}

/* Once a kernel has said that it does not know the call, it is not asked again. */
static _Atomic bool no_fences;

static int call_fence(int fd, unsigned long cmd, void *argument, const char *what)
{
	int r = no_fences ? -ENOTTY : sys_ioctl_again(fd, cmd, argument);

	if (r == -ENOTTY && dmabuf_is(fd)) {
		no_fences = true;
		return err_set(-EOPNOTSUPP,
			       "%s: this kernel's dma-bufs give and take no fences: Linux 6.0 "
			       "and later do",
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
 * Those that map all pages at once, or find each by its offset in the object
 * [system_heap_mmap(), udmabuf_vm_fault(), drivers/sim]. Of the others it is known of some
 * that they do not [drm_gem_shmem_fault()], and they all are "drm" to us.
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

/* The exporter's name [dma_buf_show_fdinfo()]; "": not told. */
static void read_exporter(int fd, char *name, size_t size)
{
	static const char key[] = "exp_name:\t";
	char path[40], text[512];
	ssize_t length = 0;
	const char *at;
	int info;

	*name = '\0';
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = sys_open(path, O_RDONLY, 0);
	if (info >= 0) {
		length = sys_read(info, text, sizeof(text) - 1);
		sys_close(info);
	}
	if (length <= 0)
		return;
	text[length] = '\0';
	at = strstr(text, key);
	if (!at)
		return;
	at += strlen(key);
	snprintf(name, size, "%.*s", (int)strcspn(at, "\n"), at);
}

uint32_t dmabuf_map_flags(int fd)
{
	char exporter[32];

	if (!dmabuf_is(fd))
		return 0;
	read_exporter(fd, exporter, sizeof(exporter));
	return maps_by_offset(exporter) ? 0 : HM_SEGMENT_FROM_START | HM_SEGMENT_PRESENT;
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
		.backing = HM_BACKING_DEVICE,
	};
}

/* An exporter may have no mmap(), or refuse it: known here, not at the first map. */
static int try_map(const struct hm_recipe *recipe)
{
	struct reservation range;
	char *address;
	int r;

	r = map_scratch(&recipe->segment, 1, 0, recipe->page_size, recipe->page_size, PROT_READ,
			&range, &address);
	if (r == -ENOMEM || r == -EAGAIN)
		return r;
	if (r)
		return err_set(-EOPNOTSUPP,
			       "whoever exported the dma-buf lets CPUs not map it (%s): only "
			       "a device can take it in",
			       err_name(r));
	reserve_release(&range);
	return 0;
}

int dmabuf_import(int fd, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	struct hm_recipe recipe;
	uint64_t size;
	int mode, r;

	r = dmabuf_size(fd, &size);
	if (r)
		return r;
	mode = sys_fcntl(fd, F_GETFL, 0);
	if (mode < 0)
		return err_set(mode, "F_GETFL: %s", err_name(mode));
	if (size < page_size() || desc->size > size || desc->max_size > size)
		return err_set(-EINVAL,
			       "the dma-buf has %" PRIu64 " bytes, %" PRIu64 " were asked for",
			       size, max_u64(desc->size, desc->max_size));
	dmabuf_describe(fd, size, &recipe);
	recipe.segment.flags |= dmabuf_map_flags(fd);
	r = try_map(&recipe);
	if (r)
		return r;
	recipe.size = desc->size ? desc->size : recipe.segment.length;
	if ((mode & O_ACCMODE) == O_RDONLY || (desc->flags & HM_BUFFER_READ_ONLY)) {
		recipe.access = HM_READ;
		recipe.caps &= ~HM_CAP_WRITE;
		recipe.flags = HM_BUFFER_READ_ONLY;
	}
	*ret_recipe = recipe;
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

static bool takes_part(const struct hm_segment *segment, uint64_t offset, uint64_t length)
{
	return segment->flags & HM_SEGMENT_DMABUF &&
	       ranges_overlap(segment->offset, segment->length, offset, length);
}

int dmabuf_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
			  uint64_t offset, uint64_t length, uint32_t access)
{
	uint32_t i;
	int r;

	(void)device;
	for (i = 0; i < n_segment; i++) {
		if (!takes_part(&segments[i], offset, length))
			continue;
		r = dmabuf_begin_cpu(segments[i].fd, access);
		if (r)
			goto err_end;
	}
	return 0;

err_end:
	while (i--)
		if (takes_part(&segments[i], offset, length))
			sync_cpu(segments[i].fd, access, DMA_BUF_SYNC_END);
	return r;
}

int dmabuf_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
			uint64_t offset, uint64_t length, uint32_t access)
{
	int r, first = 0;
	uint32_t i;

	(void)device;
	for (i = 0; i < n_segment; i++) {
		if (!takes_part(&segments[i], offset, length))
			continue;
		r = dmabuf_end_cpu(segments[i].fd, access);
		if (r && !first)
			first = r;
	}
	return first;
}
