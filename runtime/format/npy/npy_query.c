// SPDX-License-Identifier: MIT
/* Reads a .npy file's header by pread(2), so that a truncation is an error and no signal. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "hook/hook.h"
#include "core/core.h"
#include "format/npy/npy.h"
#include "format/text/foreign.h"
#include "base/path.h"
#include "base/sys.h"

#define NPY_INFO_LEAST offsetof(struct hm_npy_info, itemsize)

/* Reads up to the file's end. */
static ssize_t read_some(int fd, void *to, size_t length, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_pread(fd, (char *)to + done, length - done, offset + done);
		if (n < 0)
			return err_set((int)n, "reading its header: %s", err_name((int)n));
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int npy_read_header(int fd, uint64_t base, uint64_t size, struct npy_header *ret_header)
{
	struct npy_header header = { 0 };
	char text[NPY_HEADER_MAX];
	uint32_t length;
	ssize_t n;
	int r;

	n = read_some(fd, text, min_u64(FOREIGN_BYTES, size), base);
	if (n < 0)
		return (int)n;
	r = npy_begin(text, min_u64((uint64_t)n, NPY_BEGIN_MAX), &header, &length);
	if (r == -EBADMSG && !npy_begins(text, (size_t)n) && foreign_check(text, (size_t)n))
		return -EOPNOTSUPP;
	if (r)
		return r;
	n = read_some(fd, text, min_u64(length, size - min_u64(size, header.data - length)),
		      base + header.data - length);
	if (n < 0)
		return (int)n;
	if ((uint32_t)n < length)
		return err_set(-EBADMSG,
			       "it ends inside of its header: %zd of %u characters are there",
			       n, length);
	r = npy_parse(text, length, &header);
	if (r)
		return r;
	/* Behind the array there may be more, such as another array. */
	if (header.data > size || header.bytes > size - header.data)
		return err_set(-EBADMSG,
			       "its array has %" PRIu64 " bytes from %" PRIu64
			       " on, and the file has %" PRIu64
			       ": it was cut off, or not written whole",
			       header.bytes, header.data, size);
	*ret_header = header;
	return 0;
}

static int read_file(const char *path, struct npy_header *ret_header, uint64_t *ret_size)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0), r;
	struct stat st;

	if (fd < 0)
		return path_explain_open(fd, path);
	r = sys_fstat(fd, &st);
	if (r)
		err_set(r, "fstat: %s", err_name(r));
	else if (!S_ISREG(st.st_mode))
		r = err_set(S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, "it is no regular file");
	else
		r = hook_file(fd, (uint64_t)st.st_size, HM_READ);
	if (!r) {
		*ret_size = (uint64_t)st.st_size;
		r = npy_read_header(fd, 0, *ret_size, ret_header);
	}
	sys_close(fd);
	return r;
}

int npy_query(const char *path, struct hm_npy_info *ret_info)
{
	struct hm_npy_info info = { 0 };
	struct npy_header header;
	uint64_t size = 0;
	int r;

	if (!path || !ret_info)
		return err_set(-EINVAL, "hm_npy_query: %s is NULL", path ? "ret_info" : "path");
	r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), NPY_INFO_LEAST,
			     "hm_npy_info");
	if (r)
		return r;
	r = read_file(path, &header, &size);
	if (r)
		return err_prefix(r, "%s", path);
	info = (struct hm_npy_info){
		.version = header.version,
		.dtype = header.dtype,
		.flags = (header.fortran ? HM_NPY_FORTRAN : 0) |
			 (header.swapped ? HM_NPY_SWAPPED : 0) |
			 (header.bytes_only ? HM_NPY_BYTES : 0),
		.rank = header.rank,
		.elements = header.elements,
		.bytes = header.bytes,
		.offset = header.data,
		.alignment = min_u64(header.data & -header.data, page_size()),
		.size = size,
		.itemsize = header.itemsize,
	};
	memcpy(info.descr, header.descr, sizeof(info.descr));
	memcpy(info.shape, header.shape, header.rank * sizeof(*info.shape));
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_npy_query(const char *path, struct hm_npy_info *ret_info)
{
	err_begin();
	return npy_query(path, ret_info);
}
