/* SPDX-License-Identifier: MIT */
/*
 * The directory of a zip archive [PKWARE, APPNOTE.TXT 6.3.10], for members that are stored as they
 * are. Archives over several disks are refused; zip64 is known.
 */
#ifndef HETMAP_FORMAT_NPZ_ZIP_H
#define HETMAP_FORMAT_NPZ_ZIP_H

#include <stdint.h>

/* zip_member.method */
#define ZIP_STORED 0u

struct zip_member {
	const char *name; /* in the directory's bytes; length of them, without a '\0' */
	uint32_t length;
	uint32_t method;   /* ZIP_STORED, or compressed */
	uint64_t header;   /* offset of its local header */
	uint64_t end;      /* offset of the next member, or of the directory */
	uint64_t bytes;    /* of its data, in the archive */
	uint64_t unpacked; /* of its data, once it is unpacked */
	uint32_t flags;    /* ZIP_ENCRYPTED, ZIP_UTF8 */
};

#define ZIP_ENCRYPTED (1u << 0)
#define ZIP_UTF8 (1u << 11)

struct zip {
	unsigned char *directory;
	struct zip_member *member;
	uint32_t n;
};

/*
 * Reads the directory of the file of @size bytes by pread(2). The caller must call zip_end(), after
 * an error, too. Texts have no path.
 * Errors:
 *   -EBADMSG no whole archive
 *   -EOPNOTSUPP several disks, or a directory beyond 256 MiB
 */
int zip_begin(struct zip *zip, int fd, uint64_t size);
void zip_end(struct zip *zip);

/*
 * Finds the offset of a member's data, all of which is in front of the next member and of the
 * directory. -EBADMSG.
 */
int zip_find_data(int fd, const struct zip_member *member, uint64_t *ret_offset);

#endif
