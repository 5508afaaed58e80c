// SPDX-License-Identifier: MIT
/* Reads the directory of a zip archive: see zip.h. */
#include "format/npz/zip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

/* Records, by their signatures and least sizes. */
#define END "PK\5\6"
#define END_SIZE 22u
#define END64 "PK\6\6"
#define END64_SIZE 56u
#define LOCATOR64 "PK\6\7"
#define LOCATOR64_SIZE 20u
#define ENTRY "PK\1\2"
#define ENTRY_SIZE 46u
#define LOCAL "PK\3\4"
#define LOCAL_SIZE 30u

/* The end has a comment of up to 64 KiB behind it. */
#define TAIL_MOST (END_SIZE + UINT16_MAX)
#define DIRECTORY_MOST (1u << 28)
#define EXTRA_ZIP64 1u

static uint16_t u16_at(const unsigned char *bytes)
{
	return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t u32_at(const unsigned char *bytes)
{
	return u16_at(bytes) | (uint32_t)u16_at(bytes + 2) << 16;
}

static uint64_t u64_at(const unsigned char *bytes)
{
	return u32_at(bytes) | (uint64_t)u32_at(bytes + 4) << 32;
}

static bool is(const unsigned char *bytes, const char *signature)
{
	return !memcmp(bytes, signature, 4);
}

static int read_at(int fd, void *to, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_pread(fd, (char *)to + done, length - done, offset + done);
		if (n < 0)
			return err_set((int)n, "reading its directory: %s", err_name((int)n));
		if (!n)
			return err_set(-EBADMSG, "it ends at byte %" PRIu64 ", before %" PRIu64,
				       offset + done, offset + length);
		done += (uint64_t)n;
	}
	return 0;
}

/* ---- the end, which says where the directory is ---- */

struct place {
	uint64_t offset, size, members;
	uint64_t behind; /* offset of the record that lies behind the directory */
};

static int refuse_disks(void)
{
	return err_set(-EOPNOTSUPP, "it is a part of an archive of several files");
}

/* The record of zip64 in front of the end at @end, if there is one. */
static int take_end64(int fd, uint64_t end, struct place *place, bool *ret_found)
{
	unsigned char locator[LOCATOR64_SIZE], record[END64_SIZE];
	uint64_t at;
	int r;

	*ret_found = false;
	if (end < LOCATOR64_SIZE + END64_SIZE)
		return 0;
	r = read_at(fd, locator, sizeof(locator), end - LOCATOR64_SIZE);
	if (r)
		return r;
	if (!is(locator, LOCATOR64))
		return 0;
	*ret_found = true;
	at = u64_at(locator + 8);
	if (at > end - LOCATOR64_SIZE - END64_SIZE)
		return err_set(-EBADMSG,
			       "its record of zip64 would be at byte %" PRIu64
			       ", and its end is at %" PRIu64,
			       at, end);
	if (u32_at(locator + 4) || u32_at(locator + 16) > 1)
		return refuse_disks();
	r = read_at(fd, record, sizeof(record), at);
	if (r)
		return r;
	if (!is(record, END64))
		return err_set(-EBADMSG, "its record of zip64 is not at byte %" PRIu64, at);
	if (u32_at(record + 16) || u32_at(record + 20))
		return refuse_disks();
	place->members = u64_at(record + 32);
	place->size = u64_at(record + 40);
	place->offset = u64_at(record + 48);
	place->behind = at;
	return 0;
}

static int take_end(int fd, const unsigned char *record, uint64_t at, struct place *place)
{
	bool found = false;
	int r = 0;

	place->members = u16_at(record + 10);
	place->size = u32_at(record + 12);
	place->offset = u32_at(record + 16);
	place->behind = at;
	/* Without a record of zip64 the largest number is one: Python writes 65,535 members so. */
	if (place->members == UINT16_MAX || place->size == UINT32_MAX ||
	    place->offset == UINT32_MAX)
		r = take_end64(fd, at, place, &found);
	if (r || found)
		return r;
	return u16_at(record + 4) || u16_at(record + 6) ? refuse_disks() : 0;
}

/* The last place with the signature, and with a comment that ends with the file. */
static int find_end(int fd, uint64_t size, struct place *place)
{
	uint64_t n = min_u64(size, TAIL_MOST), at;
	unsigned char *tail;
	int r;

	if (n < END_SIZE)
		return err_set(-EBADMSG, "its %" PRIu64 " bytes are no archive of zip", size);
	tail = sys_calloc(1, n);
	if (!tail)
		return err_set(-ENOMEM, "no memory for the end of an archive");
	r = read_at(fd, tail, n, size - n);
	for (at = n - END_SIZE; !r; at--) {
		if (is(tail + at, END) && u16_at(tail + at + 20) == n - at - END_SIZE) {
			r = take_end(fd, tail + at, size - n + at, place);
			break;
		}
		if (!at)
			r = err_set(-EBADMSG, "it has no directory of an archive of zip at its "
					      "end: it was cut off, or not written whole");
	}
	free(tail);
	return r;
}

/* ---- the directory ---- */

/* Numbers that have no room in 32 bits are in an extra field, in this order. */
static int take_extra(const unsigned char *extra, uint32_t length, struct zip_member *member)
{
	uint64_t *const numbers[] = { &member->unpacked, &member->bytes, &member->header };
	const unsigned char *end = extra + length, *at;
	size_t i;

	for (; end - extra >= 4; extra = at) {
		at = extra + 4 + u16_at(extra + 2);
		if (at > end)
			break;
		if (u16_at(extra) != EXTRA_ZIP64)
			continue;
		for (extra += 4, i = 0; i < ARRAY_SIZE(numbers); i++) {
			if (*numbers[i] != UINT32_MAX)
				continue;
			if (at - extra < 8)
				return err_set(-EBADMSG,
					       "a member's record of zip64 is cut off");
			*numbers[i] = u64_at(extra);
			extra += 8;
		}
		break;
	}
	return 0;
}

/* The entry at *@at of the directory, which ends at @end; moves *@at behind it. */
static int take_entry(const unsigned char **at, const unsigned char *end,
		      struct zip_member *member)
{
	const unsigned char *entry = *at;
	uint32_t name, extra, comment;

	if (end - entry < ENTRY_SIZE || !is(entry, ENTRY))
		return err_set(-EBADMSG, "its directory has no entry where one must begin");
	name = u16_at(entry + 28);
	extra = u16_at(entry + 30);
	comment = u16_at(entry + 32);
	if ((uint64_t)(end - entry) < (uint64_t)ENTRY_SIZE + name + extra + comment)
		return err_set(-EBADMSG, "its directory ends inside of an entry");
	*member = (struct zip_member){
		.name = (const char *)entry + ENTRY_SIZE,
		.length = name,
		.flags = u16_at(entry + 8),
		.method = u16_at(entry + 10),
		.bytes = u32_at(entry + 20),
		.unpacked = u32_at(entry + 24),
		.header = u32_at(entry + 42),
	};
	*at = entry + ENTRY_SIZE + name + extra + comment;
	return take_extra(entry + ENTRY_SIZE + name, extra, member);
}

static int take_entries(struct zip *zip, const struct place *place)
{
	const unsigned char *at = zip->directory, *end = at + place->size;
	int r = 0;

	zip->member = sys_calloc(place->members + 1, sizeof(*zip->member));
	if (!zip->member)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " members", place->members);
	for (; !r && zip->n < place->members; zip->n++)
		r = take_entry(&at, end, &zip->member[zip->n]);
	if (!r && at != end)
		r = err_set(-EBADMSG, "its directory has more than its %" PRIu64 " members",
			    place->members);
	return r;
}

static int by_header(const void *a, const void *b)
{
	const struct zip_member *const *x = a, *const *y = b;

	return (*x)->header < (*y)->header ? -1 : (*x)->header > (*y)->header;
}

/*
 * Finds where each member ends at the latest. Members that share bytes would make a small file have
 * any number of large ones.
 */
static int find_ends(struct zip *zip, uint64_t directory)
{
	struct zip_member **order = sys_calloc((size_t)zip->n + 1, sizeof(*order));
	uint32_t i;

	if (!order)
		return err_set(-ENOMEM, "no memory for %u members", zip->n);
	for (i = 0; i < zip->n; i++)
		order[i] = &zip->member[i];
	qsort(order, zip->n, sizeof(*order), by_header);
	for (i = 0; i < zip->n; i++)
		order[i]->end = i + 1 < zip->n ? min_u64(order[i + 1]->header, directory) :
						 directory;
	free(order);
	return 0;
}

int zip_begin(struct zip *zip, int fd, uint64_t size)
{
	struct place place = { 0 };
	int r;

	*zip = (struct zip){ 0 };
	r = find_end(fd, size, &place);
	if (r)
		return r;
	if (place.offset > place.behind || place.size > place.behind - place.offset ||
	    place.members > place.size / ENTRY_SIZE)
		return err_set(-EBADMSG,
			       "its directory of %" PRIu64 " members would be at bytes %" PRIu64
			       " to %" PRIu64 ", and its end is at %" PRIu64,
			       place.members, place.offset, place.offset + place.size,
			       place.behind);
	if (place.size > DIRECTORY_MOST)
		return err_set(-EOPNOTSUPP,
			       "its directory has %" PRIu64 " bytes, and %u are the most",
			       place.size, DIRECTORY_MOST);
	zip->directory = sys_calloc(1, place.size + 1);
	if (!zip->directory)
		return err_set(-ENOMEM, "no memory for a directory of %" PRIu64 " bytes",
			       place.size);
	r = read_at(fd, zip->directory, place.size, place.offset);
	if (!r)
		r = take_entries(zip, &place);
	return r ? r : find_ends(zip, place.offset);
}

void zip_end(struct zip *zip)
{
	free(zip->directory);
	free(zip->member);
	*zip = (struct zip){ 0 };
}

int zip_find_data(int fd, const struct zip_member *member, uint64_t *ret_offset)
{
	unsigned char local[LOCAL_SIZE];
	uint64_t at;
	int r;

	if (member->header > member->end || member->end - member->header < LOCAL_SIZE)
		return err_set(-EBADMSG,
			       "its header would be at byte %" PRIu64
			       ", and the next member or the directory begins at %" PRIu64,
			       member->header, member->end);
	r = read_at(fd, local, sizeof(local), member->header);
	if (r)
		return r;
	if (!is(local, LOCAL))
		return err_set(-EBADMSG, "its header is not at byte %" PRIu64, member->header);
	at = member->header + LOCAL_SIZE + u16_at(local + 26) + u16_at(local + 28);
	if (at > member->end || member->bytes > member->end - at)
		return err_set(-EBADMSG,
			       "its %" PRIu64 " bytes from %" PRIu64
			       " on reach into the next member or the directory at %" PRIu64,
			       member->bytes, at, member->end);
	*ret_offset = at;
	return 0;
}
