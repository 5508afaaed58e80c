// SPDX-License-Identifier: MIT
/*
 * Backend "host": this machine's memory. A buffer is a memfd, sparse, of max_size from the start
 * and sealed against shrinking and growing, so that no process can pull pages from under a map.
 * Private buffers are anonymous memory.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>

#include "base/compat.h"
#include "backend/host.h"
#include "core/core.h"
#include "dmabuf/dmabuf.h"
#include "map/map.h"
#include "base/memfd.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "dmabuf/udmabuf.h"

/* The size of huge pages, and a GPU's usual unit. */
#define HOST_GRANULE MIB(2)

#define HOST_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define HOST_CAPS                                                                        \
	(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_RESIZE | HM_CAP_APPEND | \
	 HM_CAP_REPLACE | HM_CAP_PRIVATE | HM_CAP_HUGETLB | HM_CAP_NUMA | HM_CAP_LOCK |  \
	 HM_CAP_PROTECT | HM_CAP_POPULATE | HM_CAP_FORK | HM_CAP_MULTI_MAP |             \
	 HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_READ_ONLY)

/* An imported dma-buf needs brackets; a memfd may become one. */
#define HOST_OPS_CAPS (HOST_CAPS | HM_CAP_DMABUF | DMABUF_BRACKET_CAPS)

static int device_open(const char *rest, void **ret_device)
{
	if (*rest)
		return err_set(-ENODEV, "there is no device \"host:%s\": the name is \"host\"",
			       rest);
	*ret_device = NULL;
	return 0;
}

static void device_close(void *device)
{
	(void)device;
}

static int device_query(void *device, struct hm_device_info *info)
{
	struct sysinfo memory;

	(void)device;
	if (!sysinfo(&memory)) {
		info->memory_total = (uint64_t)memory.totalram * memory.mem_unit;
		info->memory_free = (uint64_t)memory.freeram * memory.mem_unit;
	}
	info->granule = HOST_GRANULE;
	/*
	 * Memory made here needs no brackets; a buffer of an imported dma-buf sets the bit
	 * itself.
	 */
	info->caps &= ~HM_CAP_BRACKET;
	if (!udmabuf_is_there())
		info->caps &= ~HM_CAP_DMABUF;
	return 0;
}

/* Makes a memfd. Base pages: 0. The default huge page size: MFD_HUGETLB. */
static int open_memfd(const char *name, unsigned int flags)
{
	return memfd_open(name ? name : "buffer", flags);
}

/* Sizes and seals a fresh memfd. The caller must close it on failure. */
static int size_and_seal(int fd, uint64_t size)
{
	char text[16];
	int r;

	r = rlimits_check_file_size(size);
	if (r)
		return r;
	r = sys_ftruncate(fd, size);
	if (r)
		return err_set(r, "a memfd of %s: %s", format_bytes(size, text, sizeof(text)),
			       err_name(r));
	r = sys_fcntl(fd, F_ADD_SEALS, HOST_SEALS);
	if (r)
		return err_set(r, "sealing a memfd against truncation: %s", err_name(r));
	return 0;
}

static void describe(struct hm_recipe *recipe, int fd, uint64_t max_size, uint64_t page)
{
	*recipe = (struct hm_recipe){
		.segment = {
			.length = round_up(max_size, page),
			.fd = fd,
			.flags = HM_SEGMENT_SHARED,
		},
		.page_size = page,
		/* Huge pages need address and offset to agree. */
		.alignment = max_size >= HOST_GRANULE ? HOST_GRANULE : page,
		.caps = HOST_CAPS & ~(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_PRIVATE |
				      HM_CAP_HUGETLB),
		.access = HM_READ | HM_WRITE,
		.memory = HM_MEMORY_SEALED | HM_MEMORY_SPARSE,
	};
	if (udmabuf_is_there())
		recipe->caps |= HM_CAP_DMABUF;
}

/*
 * Allocates pages of the huge pool here: fallocate() fails where the pool is too small, while a
 * fault would raise SIGBUS. A map reserves nothing more (MAP_NORESERVE): facts of hugetlbfs that
 * proc(5) and mmap(2) leave open.
 */
static int create_hugetlb(const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	uint64_t page, committed;
	struct stat st;
	int fd, r;

	fd = open_memfd(desc->name, MFD_HUGETLB);
	if (fd < 0)
		return fd;
	r = sys_fstat(fd, &st);
	if (r)
		goto err_close;
	page = (uint64_t)st.st_blksize;
	committed = round_up(desc->size, page);
	r = size_and_seal(fd, round_up(desc->max_size, page));
	if (r)
		goto err_close;
	r = sys_fallocate(fd, 0, 0, committed);
	if (r)
		goto err_close;
	describe(ret_recipe, fd, desc->max_size, page);
	ret_recipe->segment.flags |= HM_SEGMENT_NORESERVE;
	ret_recipe->alignment = page;
	/* mlock() answers 0 and does nothing: these pages are never swapped. */
	ret_recipe->caps &= ~(HM_CAP_LOCK | HM_CAP_APPEND | HM_CAP_REPLACE | HM_CAP_DMABUF);
	ret_recipe->flags = HM_BUFFER_HUGETLB;
	return 0;

err_close:
	sys_close(fd);
	return r;
}

static int create_memfd(const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	int fd, r;

	fd = open_memfd(desc->name, 0);
	if (fd < 0)
		return fd;
	r = size_and_seal(fd, round_up(desc->max_size, page_size()));
	if (r)
		goto err_close;
	describe(ret_recipe, fd, desc->max_size, page_size());
	return 0;

err_close:
	sys_close(fd);
	return r;
}

static int create_private(const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	describe(ret_recipe, -1, desc->max_size, page_size());
	ret_recipe->segment.flags = HM_SEGMENT_PRIVATE | HM_SEGMENT_ANON | HM_SEGMENT_NORESERVE;
	ret_recipe->memory = 0;
	ret_recipe->flags = HM_BUFFER_PRIVATE;
	ret_recipe->caps &= ~(HM_CAP_EXPORT | HM_CAP_READ_ONLY | HM_CAP_DMABUF |
			      HM_CAP_MULTI_MAP | HM_CAP_APPEND | HM_CAP_REPLACE);
	return 0;
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	char text[16];
	int r;

	(void)device;
	if ((desc->flags & HM_BUFFER_PRIVATE) && (desc->flags & HM_BUFFER_HUGETLB))
		return err_set(-EOPNOTSUPP, "HM_BUFFER_HUGETLB makes shared memory: drop "
					    "HM_BUFFER_PRIVATE");
	if ((desc->flags & HM_BUFFER_HUGETLB) && desc->numa_mode != HM_NUMA_DEFAULT)
		return err_set(-EOPNOTSUPP,
			       "HM_BUFFER_HUGETLB takes its pages when the buffer "
			       "is made, before a NUMA policy could place them: drop one");
	if (desc->flags & HM_BUFFER_PRIVATE)
		return create_private(desc, ret_recipe);
	if (!(desc->flags & HM_BUFFER_HUGETLB))
		return create_memfd(desc, ret_recipe);

	r = create_hugetlb(desc, ret_recipe);
	if (!r)
		return 0;
	/* Callers see it by hm_buffer_query: the flag and page_size. */
	r = create_memfd(desc, ret_recipe);
	if (!r)
		err_warn("the huge page pool has not %s free: base pages were taken (raise "
			 "vm.nr_hugepages)",
			 format_bytes(desc->size, text, sizeof(text)));
	return r;
}

static int import_fd(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	uint64_t size, page = page_size();
	int seals, mode, r;
	struct statfs fs;
	struct stat st;

	(void)device;
	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals < 0 && dmabuf_is(fd))
		return dmabuf_import(fd, desc, ret_recipe);
	if (seals < 0 && seals != -EINVAL)
		return err_set(seals,
			       "F_GET_SEALS: %s: pass an open descriptor, and none of O_PATH",
			       err_name(seals));
	if (seals < 0)
		return err_set(-EINVAL,
			       "fd is neither a memfd (%s) nor a dma-buf: open a file by "
			       "hm_buffer_from_file()",
			       err_name(seals));
	if (!(seals & F_SEAL_SHRINK))
		return err_set(-EPERM, "the memfd can be truncated, and a touch of the map "
				       "would then end the process: its maker must add "
				       "F_SEAL_SHRINK");
	mode = sys_fcntl(fd, F_GETFL, 0);
	if (mode < 0)
		return err_set(mode, "asking how a descriptor was opened (F_GETFL): %s",
			       err_name(mode));
	r = map_check_mode(mode);
	if (r)
		return r;
	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	r = sys_fstatfs(fd, &fs);
	if (r)
		return err_set(r, "fstatfs: %s", err_name(r));
	size = (uint64_t)st.st_size;
	/* Not st_blksize: that is 2 MiB for a tmpfs with huge pages, too. */
	if (fs.f_type == HUGETLBFS_MAGIC)
		page = (uint64_t)fs.f_bsize;
	if (!size || desc->size > size || desc->max_size > size)
		return err_set(-EINVAL,
			       "the memfd has %" PRIu64
			       " bytes, and the description asks for %" PRIu64,
			       size, max_u64(desc->size, desc->max_size));

	describe(ret_recipe, fd, size, page);
	ret_recipe->size = desc->size ? desc->size : size;
	/* Only the maker changes the size of an import. */
	ret_recipe->caps &= ~(HM_CAP_APPEND | HM_CAP_REPLACE | HM_CAP_RESIZE);
	if (page > page_size()) {
		ret_recipe->flags = HM_BUFFER_HUGETLB;
		ret_recipe->segment.flags |= HM_SEGMENT_NORESERVE;
		ret_recipe->alignment = page;
		ret_recipe->caps &= ~(HM_CAP_LOCK | HM_CAP_DMABUF);
	}
	if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) || (mode & O_ACCMODE) == O_RDONLY ||
	    (desc->flags & HM_BUFFER_READ_ONLY)) {
		ret_recipe->access = HM_READ;
		ret_recipe->caps &= ~(HM_CAP_WRITE | HM_CAP_DMABUF);
		ret_recipe->flags |= HM_BUFFER_READ_ONLY;
	}
	return 0;
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	int fd, seals, r;

	(void)device;
	if (segment->flags & HM_SEGMENT_DMABUF)
		return dmabuf_export(segment, flags, ret_fd);
	if (flags & HM_EXPORT_DMABUF)
		return udmabuf_create(segment->fd, segment->length, ret_fd);
	fd = sys_dup(segment->fd);
	if (fd < 0)
		return rlimits_explain_fd(fd, "duplicating a memfd");
	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	/*
	 * The seal is there already, or a stronger one: a read-only descriptor could not add it.
	 */
	if ((flags & HM_EXPORT_READ_ONLY) &&
	    (seals < 0 || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))) {
		r = sys_fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
		if (r) {
			sys_close(fd);
			return err_set(r, "sealing a memfd against writing: %s", err_name(r));
		}
	}
	*ret_fd = fd;
	return 0;
}

/*
 * Clears the last page behind @size: CPUs reach all of that page, and stores there must not show
 * in the bytes that the buffer grows by. A file sealed against writing, shared read-only, stays
 * as it is.
 */
static int clear_tail(int fd, uint64_t size, uint64_t page)
{
	uint64_t length = round_up(size, page) - size;
	int r;

	if (likely(!length))
		return 0;
	r = sys_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, size, length);
	return r && r != -EPERM ? err_set(r,
					  "clearing the rest of a page, %" PRIu64
					  " bytes (PUNCH_HOLE): %s",
					  length, err_name(r)) :
				  0;
}

static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	bool huge = segment->flags & HM_SEGMENT_NORESERVE;
	uint64_t end = round_up(old_size, page_size());
	char text[16];
	struct stat st;
	int r;

	(void)device;
	if (segment->fd < 0)
		return 0; /* anonymous: only the core's protection exists */
	if (huge) {
		r = sys_fstat(segment->fd, &st);
		if (r)
			return err_set(r, "fstat: %s", err_name(r));
		end = round_up(old_size, (uint64_t)st.st_blksize);
	}
	if (new_size > old_size) {
		r = clear_tail(segment->fd, old_size,
			       huge ? (uint64_t)st.st_blksize : page_size());
		if (r)
			return r;
		if (!huge || new_size <= end)
			return 0; /* sparse: pages come at the first touch */
		r = sys_fallocate(segment->fd, 0, end, new_size - end);
		if (r) {
			/* Gives back the pages that it did get. */
			sys_fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				      end, round_up(new_size, (uint64_t)st.st_blksize) - end);
			return err_set(-ENOMEM,
				       "the huge page pool does not have %s free (%s): raise "
				       "vm.nr_hugepages",
				       format_bytes(new_size - end, text, sizeof(text)),
				       err_name(r));
		}
		return 0;
	}
	/* Also zeroes the rest of a partial page [fallocate(2)]. */
	r = sys_fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, new_size,
			  end - new_size);
	if (r == -EPERM)
		return err_set(r, "the buffer was shared read-only: its seal forbids to give "
				  "pages back");
	if (r)
		return err_set(r, "giving back %s (PUNCH_HOLE): %s",
			       format_bytes(end - new_size, text, sizeof(text)), err_name(r));
	return 0;
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	if (segment->fd >= 0)
		sys_close(segment->fd);
}

const struct hm_backend_ops host_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "host",
	.description = "memory of this machine",
	.caps = HOST_OPS_CAPS,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
	.import_fd = import_fd,
	.export_fd = export_fd,
	.resize = resize,
	.begin_cpu = dmabuf_segments_begin,
	.end_cpu = dmabuf_segments_end,
};
