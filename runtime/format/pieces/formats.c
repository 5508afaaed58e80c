// SPDX-License-Identifier: MIT
/*
 * The table of formats, and the one place that finds the format of a file: by the first bytes, and
 * only then by the name, which is all that a damaged file has.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/sys.h"
#include "format/pieces/pieces.h"
#include "format/text/foreign.h"
#include "hook/hook.h"

/* One row a format. Messages list them in this order. */
#define FORMATS(ROW)            \
	ROW(npy_format)         \
	ROW(npz_format)         \
	ROW(safetensors_format) \
	ROW(gguf_format)        \
	ROW(tokens_format)

#define DECLARE(row) extern const struct format row;
#define ADDRESS(row) &row,

FORMATS(DECLARE)

static const struct format *const formats[] = { FORMATS(ADDRESS) };

const struct format *format_at(uint32_t row)
{
	return row < ARRAY_SIZE(formats) ? formats[row] : NULL;
}

/* ---- a file ---- */

static int read_bytes(int fd, struct format_head *head)
{
	ssize_t n;

	while (head->n < sizeof(head->bytes)) {
		n = sys_pread(fd, head->bytes + head->n, sizeof(head->bytes) - head->n,
			      head->n);
		if (n < 0)
			return err_set((int)n, "reading its first bytes: %s", err_name((int)n));
		if (!n)
			break;
		head->n += (uint32_t)n;
	}
	return 0;
}

static int read_head(const char *path, struct format_head *head)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0), r;
	struct stat st;

	if (fd < 0)
		return path_explain_open(fd, path);
	head->path = path;
	r = sys_fstat(fd, &st);
	if (r) {
		err_set(r, "fstat: %s", err_name(r));
	} else if (S_ISDIR(st.st_mode)) {
		head->folder = true;
	} else if (!S_ISREG(st.st_mode)) {
		r = err_set(-EINVAL, "it is no regular file");
	} else {
		head->size = (uint64_t)st.st_size;
		r = hook_file(fd, head->size, HM_READ);
		if (!r)
			r = read_bytes(fd, head);
	}
	sys_close(fd);
	return r;
}

/* ---- its format ---- */

static const struct format *find_flag(uint32_t flag)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i]->flags & flag)
			return formats[i];
	return NULL;
}

static const struct format *find_bytes(const struct format_head *head)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i]->begins && formats[i]->begins(head))
			return formats[i];
	return NULL;
}

static bool has_name(const struct format *format, const char *path)
{
	size_t length = strlen(path), end, i;

	for (i = 0; i < ARRAY_SIZE(format->suffix) && format->suffix[i]; i++) {
		end = strlen(format->suffix[i]);
		if (length > end && !strcmp(path + length - end, format->suffix[i]))
			return true;
	}
	return false;
}

static const struct format *find_name(const struct format_head *head, bool raw)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (has_name(formats[i], head->path) &&
		    (!raw || formats[i]->flags & FORMAT_NAMED))
			return formats[i];
	return NULL;
}

static int refuse(const struct format_head *head)
{
	char known[1024];
	size_t length = 0, i;

	if (!head->size)
		return err_set(-ENODATA, "it is empty");
	for (i = 0; i < ARRAY_SIZE(formats) && length < sizeof(known); i++) {
		/* Any file is numbers, if only their type is given. */
		if (formats[i]->flags & FORMAT_NUMBERS)
			continue;
		length += (size_t)snprintf(known + length, sizeof(known) - length, "%s%s (%s)",
					   length ? ", " : "", formats[i]->name,
					   formats[i]->text);
	}
	return err_set(-EINVAL, "it is of no kind that hetmap reads; known are %s", known);
}

static int find(const struct format_head *head, bool raw, const struct format **ret_format)
{
	const struct format *format;
	int r;

	format = head->folder ? find_flag(FORMAT_FOLDER) : find_bytes(head);
	if (!format && !raw) {
		/* A reader of numbers is told whether any file will do. */
		r = foreign_check(head->bytes, head->n);
		if (r)
			return r;
	}
	if (!format)
		format = find_name(head, raw);
	if (!format && raw)
		format = find_flag(FORMAT_NUMBERS);
	if (!format)
		return refuse(head);
	*ret_format = format;
	return 0;
}

int format_find(const char *path, uint32_t n_path, bool raw, const struct format **ret_format)
{
	struct format_head head = { 0 };
	int r;

	if (n_path > 1) {
		*ret_format = find_flag(FORMAT_NUMBERS);
		return 0;
	}
	r = read_head(path, &head);
	if (!r)
		r = find(&head, raw, ret_format);
	return r ? err_prefix(r, "%s", path) : 0;
}
