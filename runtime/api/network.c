// SPDX-License-Identifier: MIT
/*
 * Network file systems: recognises them by statfs(2), refuses maps that would show old bytes,
 * and has the two halves of the protocol by which maps show new ones.
 */
#include "api/network.h"
#include "api/door.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "base/file_system.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "core/segments.h"
#include "share/share.h"
#include "base/sys.h"

#define INFO_LEAST sizeof(struct hm_file_system_info)

static const struct file_system other = { 0, NULL, HM_COHERENCE_LOCAL, 0 };

static const struct file_system *find(uint32_t type)
{
	const struct file_system *found = file_system_find(type);

	return found ? found : &other;
}

/* A file system that can't be determined counts as local: it is no reason to refuse. */
static const struct file_system *file_system_of(int fd)
{
	struct statfs fs;

	return sys_fstatfs(fd, &fs) ? &other : find((uint32_t)fs.f_type);
}

/* ---- refusals ---- */

int network_check_buffer(int fd, uint32_t flags)
{
	const struct file_system *fs;

	if (flags & (HM_BUFFER_PRIVATE | HM_BUFFER_PUBLISH))
		return 0;
	fs = file_system_of(fd);
	if (fs->coherence != HM_COHERENCE_NONE)
		return 0;
	if (flags & HM_BUFFER_READ_ONLY) {
		err_warn("it is on %s: later stores of other machines may not be seen%s",
			 fs->name,
			 fs->flags & FS_LOCK_DROPS ? ", unless hm_file_refresh() is called" :
						     "");
		return 0;
	}
	return err_set(-EOPNOTSUPP,
		       "it is on %s, where a map need not show the stores of other machines: "
		       "pass HM_BUFFER_PUBLISH and keep to its protocol (hm_file_publish(3)), "
		       "or HM_BUFFER_READ_ONLY, or HM_BUFFER_PRIVATE",
		       fs->name);
}

bool network_has(int fd)
{
	return file_system_of(fd)->flags & FS_NETWORK;
}

int network_refuse(int fd, const char *why)
{
	const struct file_system *fs = file_system_of(fd);

	if (!(fs->flags & (FS_NETWORK | FS_SERVED)))
		return 0;
	return err_set(-EOPNOTSUPP, "it is on %s, which other machines may use, too, and %s",
		       fs->name, why);
}

/* ---- queries ---- */

int hm_file_system_query(const char *path, int fd, struct hm_file_system_info *ret_info)
{
	struct hm_file_system_info info = { .coherence = 0 };
	const struct file_system *found;
	int own = fd, r;
	struct statfs fs;

	err_begin();
	if (!ret_info)
		return err_set(-EINVAL, "hm_file_system_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info), INFO_LEAST,
			     "hm_file_system_info");
	if (r)
		return r;
	if (path) {
		/*
		 * O_PATH opens only the name: a FIFO does not wait, and a file need not be
		 * readable.
		 */
		own = sys_open(path, O_PATH, 0);
		if (own < 0)
			return err_set(own, "%s: %s", path, err_name(own));
	}
	r = sys_fstatfs(own, &fs);
	if (path)
		sys_close(own);
	if (r)
		return err_set(r, "%s: statfs: %s", path ? path : "fd", err_name(r));
	found = find((uint32_t)fs.f_type);
	info.struct_size = ret_info->struct_size;
	info.coherence = found->coherence;
	info.type = (uint32_t)fs.f_type;
	if (found->name)
		name_copy(info.name, sizeof(info.name), found->name);
	else
		snprintf(info.name, sizeof(info.name), "0x%" PRIx64, info.type);
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

/* ---- the protocol ---- */

/* Stores into a private copy stay in it: a 0 would make other machines wait for nothing. */
static int check_publish(const struct hm_buffer *buffer)
{
	if (!buffer_is(buffer, MEMORY_PRIVATE) || !buffer_is(buffer, HM_MEMORY_STORAGE))
		return 0;
	return err_set(
		-EOPNOTSUPP,
		"%s is a private copy of its file, and no other process sees its bytes: open "
		"the file without HM_BUFFER_PRIVATE, and store there what is to be published",
		buffer->name);
}

int hm_file_publish(struct hm_map *map, uint64_t offset, uint64_t bytes)
{
	int r;

	err_begin();
	r = map_check(map);
	if (!r)
		r = check_publish(map->buffer);
	if (!r)
		r = map_sync(map, offset, bytes, 0);
	return r ? err_prefix(r, "hm_file_publish") : 0;
}

static int lock_and_unlock(int fd, uint64_t offset, uint64_t bytes)
{
	struct flock lock = {
		.l_type = F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)offset,
		.l_len = (off_t)bytes,
	};
	int r;

	/* Locks of this descriptor: the process's own locks of the file stay. */
	r = sys_fcntl(fd, F_OFD_SETLKW, (long)&lock);
	if (r < 0)
		return r;
	lock.l_type = F_UNLCK;
	r = sys_fcntl(fd, F_OFD_SETLK, (long)&lock);
	return r < 0 ? r : 0;
}

static int refuse_refresh(const char *why, const char *name)
{
	return err_set(-EOPNOTSUPP,
		       "hm_file_refresh: it is on %s, %s: drop map and buffer, and open the "
		       "file again",
		       name, why);
}

/* Does a lock of the buffer's file make its maps show the server's bytes? */
static int check_refresh(const struct hm_buffer *buffer, const struct file_system *fs)
{
	if (buffer_is(buffer, MEMORY_PRIVATE))
		return refuse_refresh("which maps to read only as private copies", fs->name);
	if (fs->coherence == HM_COHERENCE_NONE && !(fs->flags & FS_LOCK_DROPS))
		return refuse_refresh("where a lock leaves a map as it is", fs->name);
	return 0;
}

/* Private copies that were asked for belong to the caller alone. */
static bool has_others(const struct hm_buffer *buffer)
{
	return buffer_is(buffer, HM_MEMORY_STORAGE) && !(buffer->flags & HM_BUFFER_PRIVATE);
}

/* Holds no lock of the library, since another machine may keep its lock as long as it likes. */
static int refresh_file(const struct hm_buffer *buffer, int fd, uint64_t offset, uint64_t bytes)
{
	const struct file_system *fs;
	struct statfs told;
	int r;

	/*
	 * file_system_of() would call an unknown one local, and the result would be 0 and old
	 * bytes.
	 */
	r = sys_fstatfs(fd, &told);
	if (r)
		return err_set(r, "hm_file_refresh: asking what file system %s is on: %s",
			       buffer->name, err_name(r));
	fs = find((uint32_t)told.f_type);
	if (fs->coherence == HM_COHERENCE_LOCAL)
		return 0;
	r = check_refresh(buffer, fs);
	if (r)
		return r;
	r = lock_and_unlock(fd, offset, bytes);
	if (r == -ENOLCK || r == -EOPNOTSUPP || r == -EINVAL)
		return err_set(
			-ENOLCK,
			"hm_file_refresh: the file system, or its server, gives no lock (%s): "
			"drop map and buffer, and open the file again",
			err_name(r));
	if (r)
		return err_set(r,
			       "hm_file_refresh: locking %" PRIu64 " bytes of %s from %" PRIu64
			       " on: %s",
			       bytes, buffer->name, offset, err_name(r));
	return 0;
}

static int refresh(struct hm_map *map, uint64_t offset, uint64_t bytes)
{
	struct segment_list *list;
	int r;

	r = map_check(map);
	if (!r)
		r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, bytes, "hm_file_refresh");
	remap_unlock(map);
	if (r || !has_others(map->buffer))
		return r;
	list = segments_get(map->buffer);
	r = refresh_file(map->buffer, list->segment[0].fd,
			 list->segment[0].fd_offset + map->offset + offset, bytes);
	segments_put(map->buffer, list);
	return r;
}

int hm_file_refresh(struct hm_map *map, uint64_t offset, uint64_t bytes)
{
	int r;

	err_begin();
	r = refresh(map, offset, bytes);
	/* Replacements of lost bytes never show the file. */
	return r ? r : repair_check(map, offset, bytes, NULL);
}
