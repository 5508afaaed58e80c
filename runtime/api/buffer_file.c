// SPDX-License-Identifier: MIT
/* Buffers of files: opens a file, checks it against the limits of its file system, adopts it. */
#include "api/door.h"
#include "core/buffer.h"

#include <fcntl.h>
#include <string.h>

#include "api/network.h"
#include "base/path.h"
#include "base/rlimits.h"
#include "base/sys.h"

static int open_path(const char *path, const struct hm_buffer_desc *desc)
{
	bool write = !(desc->flags & (HM_BUFFER_READ_ONLY | HM_BUFFER_PRIVATE));
	int fd;

	/* O_NONBLOCK: opening a FIFO must not hang before fstat() can tell its type. */
	fd = sys_open(path, (write ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY, 0);
	if (fd == -EMFILE || fd == -ENFILE)
		return rlimits_explain_fd(fd, "opening it");
	if (fd == -EACCES && write)
		return err_set(fd,
			       "opening it for reading and writing: %s; to read only, pass "
			       "HM_BUFFER_READ_ONLY",
			       err_name(fd));
	return fd < 0 ? path_explain_open(fd, path) : fd;
}

int buffer_from_file(struct hm_device *device, const char *path, int fd,
		     const struct hm_buffer_desc *from, struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc desc;
	bool relieved = false;
	const char *slash;
	int own, r;

	r = buffer_check_args(device, ret_buffer, "hm_buffer_from_file");
	if (!r)
		r = buffer_read_desc(from, &desc);
	if (!r)
		r = buffer_check_caps(device, &desc, HM_CAP_FROM_FILE, "hm_buffer_from_file");
	if (r)
		return r;
	if (!desc.name && path) {
		slash = strrchr(path, '/');
		desc.name = slash && slash[1] ? slash + 1 : path;
	}

	if (!path && fd < 0)
		return err_set(-EBADF,
			       "hm_buffer_from_file: there is neither a path nor a descriptor: "
			       "path is NULL, and fd is %d",
			       fd);
	do
		own = path ? open_path(path, &desc) : sys_dup(fd);
	while (own < 0 && retire_relieve(own, &relieved));
	if (own < 0)
		return path ? err_prefix(own, "%s", path) :
			      rlimits_explain_fd(own, "duplicating the file's descriptor");
	r = hook_fd(HM_ACCESS_FROM_FILE, device, own, &desc);
	if (r) {
		sys_close(own);
		return r;
	}
	r = network_check_buffer(own, desc.flags);
	if (r) {
		sys_close(own);
		return err_prefix(r, "%s", path ? path : "fd");
	}
	r = buffer_adopt_fd(device, own, &desc, true, NULL, ret_buffer);
	return r ? err_prefix(r, "%s", path ? path : "fd") : 0;
}

int hm_buffer_from_file(struct hm_device *device, const char *path, int fd,
			const struct hm_buffer_desc *from, struct hm_buffer **ret_buffer)
{
	err_begin();
	return buffer_from_file(device, path, fd, from, ret_buffer);
}
