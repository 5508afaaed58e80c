// SPDX-License-Identifier: MIT
/*
 * One file of tensors: maps it, and reads its header by read(2), so that a truncation at the same
 * time is an error and no signal.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/safetensors/safetensors.h"
#include "core/buffer.h"
#include "format/text/foreign.h"
#include "base/sys.h"
#include "map/map.h"

/*
 * Is the header intact, but longer than any reader of the format takes? Its text begins as a
 * header.
 */
static bool is_large(const struct shard *shard, uint64_t length, char first)
{
	return length > HEADER_MAX && length <= shard->size - sizeof(length) && first == '{';
}

/* Reads the length from the file's first 8 bytes. */
static int header_length(const struct shard *shard, uint64_t *ret_length)
{
	struct {
		uint64_t word;
		char first; /* of the header */
	} begin = { 0 };
	const uint64_t prefix = sizeof(begin.word);
	uint64_t length;
	int r;

	if (shard->size < prefix)
		return err_set(-EBADMSG,
			       "it has %" PRIu64 " bytes, and the length of the header alone "
			       "takes 8: it is no safetensors file",
			       shard->size);
	r = pieces_pread(shard->map->buffer, &begin, min_u64(prefix + 1, shard->size), 0);
	if (r)
		return r;
	length = le64toh(begin.word);
	if (is_large(shard, length, begin.first))
		return err_set(-EOPNOTSUPP,
			       "its header has %" PRIu64 " bytes, and the format allows %llu: "
			       "store the model in several files",
			       length, HEADER_MAX);
	if (length > HEADER_MAX)
		return err_set(-EBADMSG,
			       "its first 8 bytes make a header of %" PRIu64
			       " bytes, and the format allows %llu: it is no safetensors file",
			       length, HEADER_MAX);
	if (length > shard->size - prefix)
		return err_set(-EBADMSG,
			       "its header of %" PRIu64
			       " bytes ends behind the file, which has "
			       "%" PRIu64,
			       length, shard->size);
	if (!length)
		return err_set(-EBADMSG, "its header is empty: a JSON object is the least");
	*ret_length = length;
	return 0;
}

/* -EOPNOTSUPP: a file of another kind, with a text. 0: no known kind. */
static int check_kind(const struct shard *shard)
{
	unsigned char bytes[FOREIGN_BYTES];
	uint64_t n = min_u64(sizeof(bytes), shard->size);
	int r;

	r = pieces_pread(shard->map->buffer, bytes, n, 0);
	return r ? r : foreign_check(bytes, n);
}

int safetensors_open_shard(struct hm_safetensors *safetensors, struct hm_device *device,
			   uint32_t number)
{
	struct shard *shard = &safetensors->shard[number];
	uint64_t length = 0;
	int r, other;

	r = pieces_map_file(device, shard->path, &shard->map);
	if (r)
		return r;
	shard->size = hm_map_length(shard->map);
	r = header_length(shard, &length);
	if (r)
		goto out;
	shard->data = sizeof(uint64_t) + length;
	shard->header = sys_calloc(1, length);
	if (!shard->header) {
		r = err_set(-ENOMEM, "no memory for its header of %" PRIu64 " bytes", length);
		goto out;
	}
	r = pieces_pread(shard->map->buffer, shard->header, length, sizeof(uint64_t));
	if (r)
		goto out;
	/* An entry has at least 50 bytes beside its name. */
	r = names_expect(&safetensors->names,
			 safetensors->names.n + (uint32_t)(length / 100) + 1);
	if (!r)
		r = safetensors_parse(safetensors, number, shard->header, length);
out:
	if (r == -EBADMSG) {
		other = check_kind(shard);
		r = other ? other : r;
	}
	return r ? err_prefix(r, "%s", shard->path) : 0;
}
