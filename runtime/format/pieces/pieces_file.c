// SPDX-License-Identifier: MIT
/*
 * A file of pieces: mapped as a whole as a buffer of "file", and read by read(2) wherever a
 * truncation must be an error and no signal.
 */
#include <inttypes.h>

#include "api/api.h"
#include "base/sys.h"
#include "map/map.h"
#include "core/segments.h"
#include "format/pieces/pieces.h"

/* Bytes of a call; Linux reads less than 2 GiB [read(2)]. */
#define READ_MAX GIB(1)

int pieces_pread(struct hm_buffer *buffer, void *to, uint64_t length, uint64_t offset)
{
	struct segment_list *list = segments_get(buffer);
	int fd = list->segment[0].fd, r = 0;
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_pread(fd, (char *)to + done, min_u64(length - done, READ_MAX),
			      offset + done);
		if (n < 0) {
			r = err_set((int)n, "reading %" PRIu64 " bytes at %" PRIu64 ": %s",
				    length - done, offset + done, err_name((int)n));
			break;
		}
		if (!n) {
			r = err_set(-ENODATA,
				    "the file ends at byte %" PRIu64 ", before %" PRIu64
				    ": it was cut off while it was in use",
				    offset + done, offset + length);
			break;
		}
		done += (uint64_t)n;
	}
	segments_put(buffer, list);
	return r;
}

int pieces_map_file(struct hm_device *device, const char *path, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_READ_ONLY,
	};
	const struct hm_map_desc whole = {
		.struct_size = sizeof(whole),
		.access = HM_READ,
	};
	struct hm_buffer *buffer;
	int r;

	r = buffer_from_file(device, path, -1, &desc, &buffer);
	if (r)
		return r;
	r = map_create(buffer, &whole, ret_map);
	/* The map holds it from here on. */
	hm_buffer_unref(buffer);
	return r ? err_prefix(r, "%s", path) : 0;
}
