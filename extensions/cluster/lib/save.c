// SPDX-License-Identifier: MIT
/* Arrays: save and load. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster.h"

#define STAGE (1ull << 20) /* bytes on the way between a file and a device */
#define PIECE (1ull << 30) /* bytes of one call */

/* The file that is being written; free() it. */
static char *new_name(const char *path)
{
	char *name = NULL;

	return asprintf(&name, "%s.new", path) < 0 ? NULL : name;
}

static int fail(int error, const char *what, const char *path)
{
	return hm_error_set(-error, "%s %s: %s", what, path, strerror(error));
}

static int make_file(const char *path, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int r = 0;

	if (fd < 0)
		return fail(errno, "making", path);
	if (ftruncate(fd, (off_t)bytes))
		r = fail(errno, "making", path);
	close(fd);
	return r;
}

/* A piece of rows to or from the file. @stage: NULL, or bytes that they go through. */
static int64_t move_piece(int fd, bool out, unsigned char *here, uint64_t bytes,
			  uint64_t offset, unsigned char *stage)
{
	int64_t n;

	if (stage && bytes > STAGE)
		bytes = STAGE;
	if (bytes > PIECE)
		bytes = PIECE;
	if (out && stage)
		memcpy(stage, here, bytes);
	do
		n = out ? pwrite(fd, stage ? stage : here, bytes, (off_t)offset) :
			  pread(fd, stage ? stage : here, bytes, (off_t)offset);
	while (n < 0 && errno == EINTR);
	if (!out && stage && n > 0)
		memcpy(here, stage, (size_t)n);
	return n;
}

/* The parts of this rank, to the file or from it. */
static int move_parts(struct hm_array *array, int fd, bool out, const char *path)
{
	const struct layout *layout = &array->layout;
	unsigned char *stage = array->is_device ? malloc(STAGE) : NULL;
	uint32_t i;
	int r = 0;

	if (array->is_device && !stage)
		return hm_error_set(-ENOMEM, "no memory for %llu bytes of a device", STAGE);
	for (i = 0; !r && i < layout->n_own; i++) {
		const struct hm_array_part *part = &layout->parts[layout->own[i]];
		uint64_t offset = part->row * layout->row_bytes;
		uint64_t end = offset + part->rows * layout->row_bytes;

		while (offset < end) {
			int64_t n = move_piece(fd, out,
					       array->node.base + offset - array->node.first,
					       end - offset, offset, stage);

			if (n <= 0) {
				r = fail(n ? errno : EIO, out ? "writing" : "reading", path);
				break;
			}
			offset += (uint64_t)n;
		}
	}
	free(stage);
	return r;
}

static int write_parts(struct hm_array *array, const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return fail(errno, "opening", path);
	r = move_parts(array, fd, true, path);
	if (!r && fsync(fd))
		r = fail(errno, "writing", path);
	if (close(fd) && !r)
		r = fail(errno, "writing", path);
	return r;
}

/* The folder's entry is on storage, too. */
static int take_name(const char *from, const char *path)
{
	char *folder = strdup(path), *slash;
	int fd, r = 0;

	if (!folder)
		return hm_error_set(-ENOMEM, "no memory for the name of a folder");
	if (rename(from, path)) {
		r = fail(errno, "renaming to", path);
		goto out;
	}
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		r = fail(errno, "writing the folder of", path);
	if (fd >= 0)
		close(fd);
out:
	free(folder);
	return r;
}

int hm_array_save(struct hm_array *array, const char *path)
{
	char *name = NULL;
	int r = array_check(array, array);

	if (r)
		return r;
	if (!path)
		r = hm_error_set(-EINVAL, "a save needs the name of a file");
	else if (!(name = new_name(path)))
		r = hm_error_set(-ENOMEM, "no memory for the name of a file");
	r = array_settle(array, call_with(CALL_SAVE, 0, 0), r);
	if (!r && !array->rank)
		r = make_file(name, array->layout.bytes);
	r = node_meet(&array->node, call_with(CALL_SAVE, 0, 0), r);
	if (!r)
		r = races_find(array);
	if (!r)
		r = node_meet(&array->node, call_with(CALL_SAVE, 0, 0),
			      write_parts(array, name));
	if (!r)
		r = node_meet(&array->node, call_with(CALL_SAVE, 0, 0),
			      array->rank ? 0 : take_name(name, path));
	if (r && name && !array->rank)
		unlink(name);
	if (!r)
		array->epochs++;
	free(name);
	return r;
}

static int open_to_load(const struct hm_array *array, const char *path, int *ret_fd)
{
	struct stat stat;
	int fd, r = 0;

	if (!path)
		return hm_error_set(-EINVAL, "a load needs the name of a file");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(errno, "opening", path);
	if (fstat(fd, &stat))
		r = fail(errno, "opening", path);
	else if ((uint64_t)stat.st_size != array->layout.bytes)
		r = hm_error_set(-EINVAL, "%s has %llu bytes, and the array %llu", path,
				 (unsigned long long)stat.st_size,
				 (unsigned long long)array->layout.bytes);
	if (r)
		close(fd);
	else
		*ret_fd = fd;
	return r;
}

int hm_array_load(struct hm_array *array, const char *path)
{
	int fd = -1, r = array_check(array, array);

	if (r)
		return r;
	r = open_to_load(array, path, &fd);
	r = array_settle(array, call_with(CALL_LOAD, 0, 0), r);
	/* Nothing is read where a rank can't. */
	r = node_meet(&array->node, call_with(CALL_LOAD, 0, 0), r);
	if (!r)
		r = races_find(array);
	if (!r)
		r = node_meet(&array->node, call_with(CALL_LOAD, 0, 0),
			      move_parts(array, fd, false, path));
	if (fd >= 0)
		close(fd);
	if (!r)
		array->epochs++;
	return r;
}
