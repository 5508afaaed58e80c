// SPDX-License-Identifier: MIT
/* Several files as one range of bytes. */
#include "reader/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hook/hook.h"
#include "base/err.h"
#include "reader/reader.h"
#include "base/path.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/util.h"

/* The file behind a path when it was looked at. */
struct identity {
	dev_t device;
	ino_t inode;
};

struct files {
	uint64_t n;
	char **path;
	struct identity *identity;
	uint64_t *start; /* n + 1: in the range */
	uint64_t current;
	int fd; /* of current; -1: none is open */
};

/* ---- opening ---- */

int reader_open_file(const char *path, int *ret_fd, struct stat *ret_st)
{
	/* O_NONBLOCK: opening a FIFO must not hang before fstat() can tell its type. */
	int fd = sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), r;

	if (fd == -EMFILE || fd == -ENFILE)
		return rlimits_explain_fd(fd, "the file's descriptor");
	if (fd < 0)
		return path_explain_open(fd, path);
	r = sys_fstat(fd, ret_st);
	if (r)
		err_set(r, "fstat: %s", err_name(r));
	else if (S_ISDIR(ret_st->st_mode))
		r = err_set(-EISDIR, "it is a directory");
	else if (!S_ISREG(ret_st->st_mode))
		r = err_set(-EINVAL,
			    "it is no regular file (%s): only those can be read anywhere",
			    S_ISFIFO(ret_st->st_mode) ? "a FIFO" :
			    S_ISCHR(ret_st->st_mode)  ? "a character device" :
			    S_ISBLK(ret_st->st_mode)  ? "a block device" :
							"a socket");
	if (!r)
		r = hook_file(fd, (uint64_t)ret_st->st_size, HM_READ);
	if (r) {
		sys_close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

static int add(struct files *files, uint64_t i, const char *path)
{
	struct stat st;
	int fd, r;

	if (!path)
		return err_set(-EINVAL, "path %" PRIu64 " is NULL", i);
	files->path[i] = sys_calloc(1, strlen(path) + 1);
	if (!files->path[i])
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", strlen(path));
	strcpy(files->path[i], path);
	r = reader_open_file(path, &fd, &st);
	if (r)
		return err_prefix(r, "%s", path);
	sys_close(fd);
	if ((uint64_t)st.st_size > INT64_MAX - files->start[i])
		return err_set(-EOVERFLOW, "%s: all files up to it have more than 2^63 bytes",
			       path);
	files->start[i + 1] = files->start[i] + (uint64_t)st.st_size;
	files->identity[i] = (struct identity){ .device = st.st_dev, .inode = st.st_ino };
	return 0;
}

int files_open(const char *const *paths, uint64_t n, struct files **ret_files)
{
	struct files *files = sys_calloc(1, sizeof(*files));
	uint64_t i;
	int r = 0;

	if (!files)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " files", n);
	files->fd = -1;
	files->path = sys_calloc(n, sizeof(*files->path));
	files->start = sys_calloc(n + 1, sizeof(*files->start));
	files->identity = sys_calloc(n, sizeof(*files->identity));
	if (!files->path || !files->start || !files->identity)
		r = err_set(-ENOMEM, "no memory for %" PRIu64 " files", n);
	for (i = 0; !r && i < n; i++) {
		files->n = i + 1;
		r = add(files, i, paths[i]);
	}
	if (r) {
		files_close(files);
		return r;
	}
	*ret_files = files;
	return 0;
}

void files_close(struct files *files)
{
	uint64_t i;

	if (!files)
		return;
	for (i = 0; i < files->n; i++)
		free(files->path[i]);
	if (files->fd >= 0)
		sys_close(files->fd);
	free(files->path);
	free(files->start);
	free(files->identity);
	free(files);
}

uint64_t files_count(const struct files *files)
{
	return files->n;
}

uint64_t files_start(const struct files *files, uint64_t i)
{
	return files->start[i];
}

/* ---- reading ---- */

/* The file with byte @offset, which is before the end: the last file that begins there. */
static uint64_t find(const struct files *files, uint64_t offset)
{
	uint64_t low = 0, high = files->n, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (files->start[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Opens the same file again, and refuses another one. */
static int open_again(const struct files *files, uint64_t i, int *ret_fd)
{
	struct stat st;
	int fd, r;

	r = reader_open_file(files->path[i], &fd, &st);
	if (r)
		return r;
	if (st.st_dev != files->identity[i].device || st.st_ino != files->identity[i].inode) {
		sys_close(fd);
		return err_set(-ESTALE,
			       "another file has this name now: it was replaced, or the "
			       "working directory is another one");
	}
	*ret_fd = fd;
	return 0;
}

static int make_current(struct files *files, uint64_t i)
{
	int fd, r;

	if (files->fd >= 0 && files->current == i)
		return 0;
	r = open_again(files, i, &fd);
	if (r)
		return r;
	if (files->fd >= 0)
		sys_close(files->fd);
	files->fd = fd;
	files->current = i;
	return 0;
}

/* Reads each file's part by @read; its errors have a text. */
static int read_parts(struct files *files, void *to, uint64_t length, uint64_t offset,
		      int (*read)(int fd, void *to, uint64_t length, uint64_t offset))
{
	uint64_t i = length ? find(files, offset) : 0, part, inside;
	char *at = to;
	int r;

	for (; length; i++, at += part, offset += part, length -= part) {
		part = min_u64(length, files->start[i + 1] - offset);
		if (!part)
			continue;
		inside = offset - files->start[i];
		r = make_current(files, i);
		if (!r)
			r = read(files->fd, at, part, inside);
		if (r)
			return err_prefix(r, "%s", files->path[i]);
	}
	return 0;
}

int files_read(struct files *files, void *to, uint64_t length, uint64_t offset)
{
	return read_parts(files, to, length, offset, reader_read_fd);
}

int files_read_now(struct files *files, void *to, uint64_t length, uint64_t offset)
{
	return read_parts(files, to, length, offset, reader_read_now);
}

void files_advise(const struct files *files, uint64_t offset, uint64_t length, uint64_t step,
		  int advice)
{
	uint64_t i = length ? find(files, offset) : 0, part, done;
	int fd;

	for (; length; i++, offset += part, length -= part) {
		part = min_u64(length, files->start[i + 1] - offset);
		if (!part)
			continue;
		fd = files->current == i ? files->fd : -1;
		/* Only advice: a file that can't be opened is an error when it is read. */
		if (fd < 0 && open_again(files, i, &fd)) {
			err_clear();
			continue;
		}
		for (done = 0; done < part; done += step)
			sys_fadvise(fd, offset - files->start[i] + done,
				    min_u64(step, part - done), advice);
		if (fd != files->fd)
			sys_close(fd);
	}
}
