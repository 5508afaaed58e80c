// SPDX-License-Identifier: MIT
/* Asks the access hook about files, existing ones and new ones. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hook/hook.h"
#include "core/buffer.h"
#include "base/sys.h"

/*
 * Reads the path of the open descriptor, so that no link and no rename can change the file
 * between this call and its use.
 */
int hook_read_path(int fd, char path[PATH_MAX])
{
	char link[32];
	ssize_t n;
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = sys_readlink(link, path, PATH_MAX);
	if (n >= 0 && n < PATH_MAX) {
		path[n] = '\0';
		return 0;
	}
	r = n < 0 ? (int)n : -ENAMETOOLONG;
	return err_set(r,
		       "the access hook must be told which file this is, and %s can't be "
		       "read: %s",
		       link, err_name(r));
}

int hook_ask_fd(uint32_t operation, const struct hm_device *device, int fd,
		const struct hm_buffer_desc *desc)
{
	struct hm_access_request request = {
		.operation = operation,
		.device = device->name,
		.buffer = desc->name ? desc->name : "buffer",
		.size = desc->size,
		.offset = desc->offset,
		.access = access_of_flags(desc->flags),
		.flags = desc->flags,
	};
	char path[PATH_MAX];
	struct stat st;
	int r;

	r = hook_read_path(fd, path);
	if (r)
		return r;
	request.path = path;
	if (!request.size) {
		r = sys_fstat(fd, &st);
		if (r)
			return err_set(r, "%s: fstat: %s", path, err_name(r));
		if ((uint64_t)st.st_size > desc->offset)
			request.size = (uint64_t)st.st_size - desc->offset;
	}
	request.max_size = max_u64(desc->max_size, request.size);
	return hook_ask(&request);
}

int hook_ask_file(int fd, uint64_t size, uint32_t access)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_FROM_FILE,
		.device = "file",
		.size = size,
		.max_size = size,
		.access = access,
	};
	char path[PATH_MAX];
	int r;

	r = hook_read_path(fd, path);
	if (r)
		return r;
	request.path = path;
	return hook_ask(&request);
}

/*
 * A new file has no path yet, so its folder is asked for one. The last part can't be a link:
 * neither O_EXCL nor rename(2) follows one.
 */
int hook_ask_new_file(const char *path, uint64_t size, uint32_t access)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct hm_access_request request = {
		.operation = HM_ACCESS_FROM_FILE,
		.device = "file",
		.size = size,
		.max_size = size,
		.access = access,
	};
	char whole[PATH_MAX];
	size_t length;
	int fd, r;

	if (!slash)
		snprintf(whole, sizeof(whole), ".");
	else if ((size_t)(slash - path) < sizeof(whole))
		snprintf(whole, sizeof(whole), "%.*s/", (int)(slash - path), path);
	else
		return err_set(-ENAMETOOLONG, "its folder: %s", err_name(-ENAMETOOLONG));
	fd = sys_open(whole, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_set(fd, "opening its folder: %s", err_name(fd));
	r = hook_read_path(fd, whole);
	sys_close(fd);
	if (r)
		return r;
	length = strlen(whole);
	if (length + 1 + strlen(name) >= sizeof(whole))
		return err_set(-ENAMETOOLONG, "%s in %s: %s", name, whole,
			       err_name(-ENAMETOOLONG));
	snprintf(whole + length, sizeof(whole) - length, "%s%s",
		 length && whole[length - 1] == '/' ? "" : "/", name);
	request.path = whole;
	return hook_ask(&request);
}
