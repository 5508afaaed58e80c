// SPDX-License-Identifier: MIT
/*
 * Backend "pmem": files that outlive a power failure, in the unit that the file system allows. On
 * DAX file systems a map reaches the memory itself, and with MAP_SYNC the file needs no sync of
 * its own: the CPU's write-back is enough. Elsewhere the kernel writes pages (msync). A new buffer
 * is a file without a name, which ends with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/file.h"
#include "base/compat.h"
#include "base/path.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "core/core.h"
#include "tier/persist.h"

#define PMEM_CAPS                                                                            \
	(HM_CAP_CREATE | HM_CAP_FROM_FILE | HM_CAP_EXPORT | HM_CAP_RESIZE | HM_CAP_PRIVATE | \
	 HM_CAP_LOCK | HM_CAP_PROTECT | HM_CAP_POPULATE | HM_CAP_SYNC | HM_CAP_FORK |        \
	 HM_CAP_MULTI_MAP | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_READ_ONLY |            \
	 HM_CAP_PERSIST)

struct pmem_device {
	char folder[64];
};

/* The folder that @path is in, or is. */
static int find_folder(const char *path, char *folder, size_t size)
{
	struct stat st;
	char *slash;
	int fd, r;

	fd = sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd == -ENOENT ? err_set(-ENODEV,
					       "pmem:%s: there is no such file or "
					       "folder: make it, or correct the path",
					       path) :
				       path_explain_open(fd, path);
	r = sys_fstat(fd, &st);
	sys_close(fd);
	if (r)
		return err_set(r, "%s: fstat: %s", path, err_name(r));
	snprintf(folder, size, "%s", path);
	if (S_ISDIR(st.st_mode))
		return 0;
	if (!S_ISREG(st.st_mode))
		return err_set(-ENODEV,
			       "pmem:%s is neither a file nor a folder: a DAX device "
			       "opens as dax:%s",
			       path, path);
	slash = strrchr(folder, '/');
	if (!slash)
		strcpy(folder, ".");
	else
		slash[slash == folder] = '\0';
	return 0;
}

static int device_open(const char *rest, void **ret_device)
{
	struct pmem_device *device;
	int r;

	if (!*rest)
		return err_set(-ENODEV, "the device \"pmem\" needs a path: pmem:FOLDER, on the "
					"file system that the bytes live in");
	device = sys_calloc(1, sizeof(*device));
	if (!device)
		return err_set(-ENOMEM, "no memory for a device");
	r = find_folder(rest, device->folder, sizeof(device->folder));
	if (r) {
		free(device);
		return r;
	}
	*ret_device = device;
	return 0;
}

static void device_close(void *device)
{
	free(device);
}

static int device_query(void *device, struct hm_device_info *info)
{
	const struct pmem_device *pmem = device;
	struct statfs fs;
	int fd, r;

	fd = sys_open(pmem->folder, O_RDONLY, 0);
	if (fd < 0)
		return path_explain_open(fd, pmem->folder);
	r = sys_fstatfs(fd, &fs);
	sys_close(fd);
	if (r)
		return err_set(r, "%s: fstatfs: %s", pmem->folder, err_name(r));
	info->memory_total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	info->memory_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	info->granule = MIB(2);
	return 0;
}

/* Does the file system keep its files in memory that the power failure clears? */
static bool is_volatile(int fd)
{
	static const uint64_t kinds[] = { TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC };
	struct statfs fs;
	size_t i;

	if (sys_fstatfs(fd, &fs))
		return true;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((uint64_t)fs.f_type == kinds[i])
			return true;
	return false;
}

/* Asked of the kernel by trying it. */
static bool takes_map_sync(int fd, uint64_t offset)
{
	void *mapped;

	if (sys_mmap(NULL, page_size(), PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, offset,
		     &mapped))
		return false;
	sys_munmap(mapped, page_size());
	return true;
}

static int set_persist(int fd, struct hm_recipe *recipe)
{
	struct stat st;
	int r;

	if (is_volatile(fd))
		return 0;
	recipe->persist = HM_PERSIST_PAGE;
	if (!takes_map_sync(fd, recipe->segment.fd_offset))
		return 0;
	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	/* mlock() answers 0 and does nothing: the memory of a DAX device never moves. */
	recipe->caps &= ~HM_CAP_LOCK;
	recipe->segment.flags |= HM_SEGMENT_SYNC;
	recipe->persist = persist_of_device((struct device_number){ true, st.st_dev });
	if (!recipe->persist)
		err_warn(
			"MAP_SYNC works, and no persistent memory is below the file system: its "
			"bytes do not outlive a power failure");
	return 0;
}

static int from_file(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	int r = file_backend.from_file(NULL, fd, desc, ret_recipe);

	(void)device;
	if (r || desc->flags & HM_BUFFER_PRIVATE)
		return r;
	return set_persist(fd, ret_recipe);
}

static int make_file(const struct pmem_device *pmem, uint64_t size, int *ret_fd)
{
	char text[16];
	int fd, r;

	r = rlimits_check_file_size(size);
	if (r)
		return r;
	fd = sys_open(pmem->folder, O_TMPFILE | O_RDWR, 0600);
	if (fd == -EOPNOTSUPP || fd == -EISDIR)
		return err_set(-EOPNOTSUPP,
			       "the file system of %s makes no files without a name "
			       "(O_TMPFILE): make a file, and pass it to "
			       "hm_buffer_from_file()",
			       pmem->folder);
	if (fd < 0)
		return err_set(fd, "making a file without a name in %s: %s", pmem->folder,
			       err_name(fd));
	r = sys_ftruncate(fd, size);
	/* A store to a hole raises SIGBUS where the file system is full by then. */
	if (!r)
		r = sys_fallocate(fd, 0, 0, size);
	if (!r || r == -EOPNOTSUPP) {
		*ret_fd = fd;
		return 0;
	}
	sys_close(fd);
	return err_set(r, "%s in %s: %s", format_bytes(size, text, sizeof(text)), pmem->folder,
		       err_name(r));
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	struct hm_buffer_desc whole = *desc;
	int fd = -1, r;

	r = make_file(device, desc->size, &fd);
	if (r)
		return r;
	whole.offset = 0;
	r = from_file(device, fd, &whole, ret_recipe);
	if (r)
		sys_close(fd);
	return r;
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	(void)device;
	return file_backend.export_fd(NULL, segment, flags, ret_fd);
}

static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	int r, undo;

	(void)device;
	r = file_backend.resize(NULL, segment, old_size, new_size);
	if (r || new_size <= old_size)
		return r;
	r = sys_fallocate(segment->fd, 0, segment->fd_offset + old_size, new_size - old_size);
	if (!r || r == -EOPNOTSUPP)
		return 0;
	undo = file_backend.resize(NULL, segment, new_size, old_size);
	return err_set(r, "growing the file by %" PRIu64 " bytes: %s%s", new_size - old_size,
		       err_name(r), undo ? "; it has kept the new length" : "");
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	sys_close(segment->fd);
}

/* Folders are many: each is opened by its name. The ladder shows those on persistent memory. */
static int each_device(int (*each)(void *user, const char *name), void *user)
{
	(void)each, (void)user;
	return 0;
}

const struct hm_backend_ops pmem_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "pmem",
	.description = "files that outlive a power failure",
	.caps = PMEM_CAPS | HM_BACKEND_LIST,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
	.from_file = from_file,
	.export_fd = export_fd,
	.resize = resize,
	.each_device = each_device,
};
