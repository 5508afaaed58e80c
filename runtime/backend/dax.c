// SPDX-License-Identifier: MIT
/*
 * Backend "dax": DAX devices, /dev/daxX.Y, memory that a map reaches without a file system. Its
 * unit is the device's alignment, 2 MiB as a rule, in which the kernel maps and cuts.
 *
 * hm_buffer_create() gives a part of the device, zeroed, that no other buffer has, and overwrites
 * the bytes there. hm_buffer_from_file() with the device's path gives bytes as they are, from an
 * offset that the caller chooses: these last where the memory is persistent.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "backend/dax_range.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/reserve.h"
#include "base/sys.h"
#include "core/core.h"
#include "map/map.h"
#include "tier/dax.h"
#include "tier/persist.h"

/* mlock() answers 0 and does nothing: the memory never moves. */
#define DAX_CAPS                                                                           \
	(HM_CAP_CREATE | HM_CAP_FROM_FILE | HM_CAP_RESIZE | HM_CAP_PROTECT | HM_CAP_FORK | \
	 HM_CAP_MULTI_MAP | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_POPULATE |           \
	 HM_CAP_PERSIST)

struct dax_device {
	struct dax_facts facts;
	char path[64];
};

/* A device whose node is gone may be memory of the kernel now, or be switched off. */
static int explain_absent(const char *path, int r)
{
	const char *name = strrchr(path, '/');
	char file[128], target[128], node[16] = "?";
	ssize_t n;

	name = name ? name + 1 : path;
	snprintf(file, sizeof(file), "/sys/bus/dax/devices/%.32s/driver", name);
	n = sys_readlink(file, target, sizeof(target) - 1);
	if (n > 0) {
		target[n] = '\0';
		snprintf(file, sizeof(file), "/sys/bus/dax/devices/%.32s/target_node", name);
		if (proc_read(file, node, sizeof(node)))
			node[strcspn(node, "\n")] = '\0';
		if (strstr(target, "/kmem"))
			return err_set(-ENODEV,
				       "%s is in system-ram mode: the kernel uses it as NUMA "
				       "node %s, open node:%s; to get the device back: daxctl "
				       "reconfigure-device --mode=devdax %s",
				       path, node, node, name);
	}
	return r == -ENOENT ? err_set(-ENODEV,
				      "there is no device \"dax:%s\": hetmap devices "
				      "lists those of this machine",
				      path) :
			      path_explain_open(r, path);
}

static int device_open(const char *rest, void **ret_device)
{
	struct dax_device *device;
	struct stat st;
	int fd, r;

	/* Nothing is read: a device for reading only opens, too. */
	fd = sys_open(rest, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return explain_absent(rest, fd);
	r = sys_fstat(fd, &st);
	sys_close(fd);
	if (r)
		return err_set(r, "%s: fstat: %s", rest, err_name(r));
	device = sys_calloc(1, sizeof(*device));
	if (!device)
		return err_set(-ENOMEM, "no memory for a device");
	name_copy(device->path, sizeof(device->path), rest);
	if (!S_ISCHR(st.st_mode) || !dax_facts_of(st.st_rdev, &device->facts)) {
		free(device);
		return err_set(-ENODEV,
			       "%s is no DAX device: /dev/daxX.Y are; a file or folder opens "
			       "as pmem:%s",
			       rest, rest);
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
	const struct dax_device *dax = device;
	int fd = sys_open(dax->path, O_RDONLY | O_NOCTTY, 0);

	if (fd < 0)
		return explain_absent(dax->path, fd);
	info->memory_total = dax->facts.size;
	info->memory_free = dax_range_free(fd, dax->facts.size);
	sys_close(fd);
	info->page_size = dax->facts.align;
	info->granule = max_u64(dax->facts.align, MIB(2));
	info->numa_node = dax->facts.node;
	if (!dax->facts.persist)
		info->caps &= ~HM_CAP_PERSIST;
	snprintf(info->description, sizeof(info->description), "%s", dax->facts.made_of);
	return 0;
}

static void describe(const struct dax_device *dax, int fd, uint64_t offset, uint64_t length,
		     struct hm_recipe *recipe)
{
	*recipe = (struct hm_recipe){
		.segment = {
			.length = length,
			.fd = fd,
			.fd_offset = offset,
			.flags = HM_SEGMENT_SHARED,
		},
		.page_size = dax->facts.align,
		.alignment = max_u64(dax->facts.align, MIB(2)),
		.caps = DAX_CAPS & ~(HM_CAP_CREATE | HM_CAP_FROM_FILE),
		.access = HM_READ | HM_WRITE,
		.cache = HM_CACHE_WRITE_BACK,
		.persist = dax->facts.persist,
	};
}

/* Clears bytes [from, to) of the segment, whole units, through a scratch map. */
static int clear(const struct hm_segment *segment, uint64_t unit, uint64_t from, uint64_t to)
{
	uint64_t first = round_down(from, unit);
	struct reservation range;
	char *address;
	int r;

	if (from >= to)
		return 0;
	r = map_scratch(segment, 1, segment->offset + first, round_up(to, unit) - first, unit,
			PROT_READ | PROT_WRITE, &range, &address);
	if (r)
		return r;
	memset(address + (from - first), 0, to - from);
	reserve_release(&range);
	return 0;
}

static int open_writable(const struct dax_device *dax)
{
	int fd = sys_open(dax->path, O_RDWR | O_NOCTTY, 0);

	return fd == -EACCES || fd == -EPERM || fd == -EROFS ?
		       err_set(fd,
			       "%s may only be read (%s): pass it to hm_buffer_from_file() with "
			       "HM_BUFFER_READ_ONLY",
			       dax->path, err_name(fd)) :
	       fd < 0 ? explain_absent(dax->path, fd) :
			fd;
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	const struct dax_device *dax = device;
	const uint64_t unit = dax->facts.align;
	uint64_t offset = 0, length;
	int fd, r;

	if (desc->max_size > dax->facts.size)
		return err_set(-ENOSPC,
			       "%s has %" PRIu64
			       " bytes, and the description asks for %" PRIu64,
			       dax->path, dax->facts.size, desc->max_size);
	length = round_up(desc->max_size, unit);
	fd = open_writable(dax);
	if (fd < 0)
		return fd;
	r = dax_range_take(fd, dax->facts.size, unit, length, &offset);
	if (r)
		goto err_close;
	describe(dax, fd, offset, length, ret_recipe);
	r = clear(&ret_recipe->segment, unit, 0, desc->size);
	if (r)
		goto err_close;
	return 0;

err_close:
	sys_close(fd);
	return r;
}

static int check_part(const struct dax_device *dax, int fd, const struct hm_buffer_desc *desc,
		      uint64_t *ret_size)
{
	uint64_t rest;
	struct stat st;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (!S_ISCHR(st.st_mode) || st.st_rdev != dax->facts.number)
		return err_set(-EINVAL,
			       "the descriptor is not of %s: pass this path, or its descriptor",
			       dax->path);
	if (!is_aligned(desc->offset, dax->facts.align))
		return err_set(-EINVAL,
			       "offset %" PRIu64 " is no multiple of the alignment of %s, "
			       "%" PRIu64,
			       desc->offset, dax->path, dax->facts.align);
	rest = dax->facts.size - min_u64(desc->offset, dax->facts.size);
	*ret_size = desc->size ? desc->size : rest;
	if (!rest || *ret_size > rest || desc->max_size > rest)
		return err_set(-EINVAL,
			       "%s has %" PRIu64 " bytes from offset %" PRIu64
			       " on, and the description asks for %" PRIu64,
			       dax->path, rest, desc->offset,
			       max_u64(*ret_size, desc->max_size));
	return 0;
}

/* A duplicate of the caller's descriptor has its locks: the range needs a file of its own. */
static int open_again(const struct dax_device *dax, int fd)
{
	int mode = sys_fcntl(fd, F_GETFL, 0), own, r;

	if (mode < 0)
		return err_set(mode, "F_GETFL: %s", err_name(mode));
	r = map_check_mode(mode);
	if (r)
		return r;
	own = sys_open(dax->path, (mode & O_ACCMODE) | O_NOCTTY, 0);
	return own < 0 ? explain_absent(dax->path, own) : own;
}

static int from_file(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	const struct dax_device *dax = device;
	uint64_t size = 0, length;
	int own, r;

	r = check_part(dax, fd, desc, &size);
	if (r)
		return r;
	own = open_again(dax, fd);
	if (own < 0)
		return own;
	length = round_up(size, dax->facts.align);
	r = dax_range_share(own, desc->offset, length);
	if (r) {
		sys_close(own);
		return r;
	}
	describe(dax, own, desc->offset, length, ret_recipe);
	ret_recipe->size = size;
	/* Its bytes are the device's: there is nothing to grow into. */
	ret_recipe->caps &= ~HM_CAP_RESIZE;
	if ((sys_fcntl(own, F_GETFL, 0) & O_ACCMODE) == O_RDONLY ||
	    desc->flags & HM_BUFFER_READ_ONLY) {
		ret_recipe->access = HM_READ;
		ret_recipe->caps &= ~HM_CAP_WRITE;
		ret_recipe->flags |= HM_BUFFER_READ_ONLY;
	}
	sys_close(fd);
	return 0;
}

static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	const struct dax_device *dax = device;

	return clear(segment, dax->facts.align, old_size, new_size);
}

/* The lock of the range ends with the descriptor. */
static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	sys_close(segment->fd);
}

/* These have bytes that somebody may want to keep: a list must not make them a default. */
static int each_device(int (*each)(void *user, const char *name), void *user)
{
	(void)each, (void)user;
	return 0;
}

const struct hm_backend_ops dax_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "dax",
	.description = "DAX devices, /dev/daxX.Y",
	.caps = DAX_CAPS | HM_BACKEND_LIST,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
	.from_file = from_file,
	.resize = resize,
	.each_device = each_device,
};
