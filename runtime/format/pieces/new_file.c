// SPDX-License-Identifier: MIT
/* Writes a file that replaces another as a whole: see new_file.h. */
#include "format/pieces/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sys.h"
#include "fault/fault.h"
#include "format/text/shown.h"
#include "hook/hook.h"

/* Bytes of a call; Linux writes less than 2 GiB [write(2)]. */
#define WRITE_MAX GIB(1)
/* Temporary names tried for the new file. */
#define TRIES 100

static int write_all(int fd, const void *from, uint64_t length)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_write(fd, (const char *)from + done, min_u64(length - done, WRITE_MAX));
		if (n < 0)
			return err_set((int)n, "writing %" PRIu64 " bytes: %s", length - done,
				       err_name((int)n));
		done += (uint64_t)n;
	}
	return 0;
}

static int check_source(const void *from, uint64_t length, int r)
{
	int lost = fault_notice(from, length);

	return lost ? lost : r;
}

static int write_file(int fd, const struct new_file_part *part, uint64_t n)
{
	char shown[SHOWN_MAX];
	uint64_t i;
	int r = 0;

	for (i = 0; !r && i < n; i++) {
		r = write_all(fd, part[i].bytes, part[i].length);
		/* A map's bytes may be replacements of lost ones. */
		if (part[i].name && (!r || r == -EFAULT))
			r = check_source(part[i].bytes, part[i].length, r);
		if (r && part[i].name)
			err_prefix(r, "tensor %s", name_shown(part[i].name, shown));
	}
	if (r)
		return r;
	r = sys_fsync(fd);
	return r ? err_set(r, "fsync: %s", err_name(r)) : 0;
}

/* Creates "FOLDER/.hetmap-PID-N" under an unused name: @temporary has room for it. */
static int create_beside(const char *path, char *temporary, size_t size, int *ret_fd)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash + 1 - path) : 0;
	int fd = -EEXIST, i;

	for (i = 0; fd == -EEXIST && i < TRIES; i++) {
		snprintf(temporary, size, "%.*s.hetmap-%d-%d", folder, path, (int)getpid(), i);
		fd = sys_open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
	}
	if (fd < 0)
		return err_set(fd, "creating %s: %s", temporary, err_name(fd));
	*ret_fd = fd;
	return 0;
}

/* Makes the new name outlive a power failure. Cuts @path at its folder. */
static int sync_folder(char *path)
{
	char *slash = strrchr(path, '/');
	int fd, r;

	if (slash)
		slash[slash == path] = '\0';
	fd = sys_open(slash ? path : ".", O_RDONLY | O_DIRECTORY, 0);
	r = fd < 0 ? fd : sys_fsync(fd);
	if (fd >= 0)
		sys_close(fd);
	if (r)
		return err_set(
			r,
			"the new file is there, but writing out its folder failed (%s): it "
			"may not outlive a power failure",
			err_name(r));
	return 0;
}

int new_file_write(const char *path, const struct new_file_part *part, uint64_t n)
{
	size_t size = strlen(path) + 40;
	uint64_t bytes = 0, i;
	char *temporary;
	int fd = -1, r;

	for (i = 0; i < n; i++)
		bytes += part[i].length;
	r = hook_new_file(path, bytes, HM_WRITE);
	if (r)
		return r;
	temporary = sys_calloc(1, size);
	if (!temporary)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
	r = create_beside(path, temporary, size, &fd);
	if (r)
		goto out_free;
	r = write_file(fd, part, n);
	sys_close(fd);
	if (r)
		goto err_unlink;
	r = sys_rename(temporary, path);
	if (r) {
		err_set(r, "renaming %s: %s", temporary, err_name(r));
		goto err_unlink;
	}
	r = sync_folder(temporary);
	goto out_free;

err_unlink:
	sys_remove(temporary);
out_free:
	free(temporary);
	return r;
}
