// SPDX-License-Identifier: MIT
/*
 * Fuzzes the reader of zip directories. The input is a file. If the file is taken, the data of
 * each member are in it, in front of the directory, and no two members share bytes; the array
 * of a member is in its data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/npy/npy.h"
#include "format/npz/zip.h"

/* Members that are compared with each other. */
#define COMPARED 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of a member, with its header. */
struct range {
	uint64_t begin, end;
};

static void differ(const char *what, uint32_t member)
{
	fprintf(stderr, "member %u: %s\n", member, what);
	abort();
}

static int file_of(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("zip", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

/* Both ends of the name must be there to be read. */
static void check_name(const struct zip_member *member)
{
	const volatile char *name = member->name;

	if (!member->length)
		return;
	(void)name[0];
	(void)name[member->length - 1];
}

static void check_shared(const struct range *ranges, uint32_t n)
{
	uint32_t i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < i; k++)
			if (ranges[i].begin < ranges[k].end && ranges[k].begin < ranges[i].end)
				differ("its bytes are another one's, too", i);
}

static void check_members(const struct zip *zip, int fd, uint64_t size)
{
	struct range ranges[COMPARED];
	struct npy_header header;
	uint32_t i, n = 0;
	uint64_t offset;

	for (i = 0; i < zip->n; i++) {
		const struct zip_member *member = &zip->member[i];

		check_name(member);
		if (zip_find_data(fd, member, &offset))
			continue;
		if (offset <= member->header || offset > size || member->bytes > size - offset)
			differ("its data are beyond the file", i);
		if (n < COMPARED)
			ranges[n++] = (struct range){ member->header, offset + member->bytes };
		if (!npy_read_header(fd, offset, member->bytes, &header) &&
		    (header.data > member->bytes || header.bytes > member->bytes - header.data))
			differ("its array is beyond its data", i);
	}
	check_shared(ranges, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = file_of(data, size);
	struct zip zip;

	if (!zip_begin(&zip, fd, size))
		check_members(&zip, fd, size);
	zip_end(&zip);
	return 0;
}
