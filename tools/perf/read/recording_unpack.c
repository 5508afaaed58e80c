// SPDX-License-Identifier: MIT
/*
 * Records of perf record -z: one stream of zstd's in many records, in which the others stand
 * as in a file. One that begins in a record may end in the next.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recording_private.h"

#ifdef HAVE_LIBZSTD
#include <zstd.h>

struct unpacker {
	ZSTD_DStream *stream;
	ZSTD_inBuffer in;
};

const char *unpack_missing(void)
{
	return NULL;
}

struct unpacker *unpack_create(void)
{
	struct unpacker *unpacker = calloc(1, sizeof(*unpacker));

	if (!unpacker)
		return NULL;
	unpacker->stream = ZSTD_createDStream();
	if (!unpacker->stream) {
		free(unpacker);
		return NULL;
	}
	ZSTD_initDStream(unpacker->stream);
	return unpacker;
}

void unpack_free(struct unpacker *unpacker)
{
	if (!unpacker)
		return;
	ZSTD_freeDStream(unpacker->stream);
	free(unpacker);
}

void unpack_record(struct unpacker *unpacker, const char *record, uint64_t size)
{
	struct perf_event_header header;
	uint64_t skip = sizeof(header), length;

	memcpy(&header, record, sizeof(header));
	/* The newer one has its number of bytes without padding. */
	if (header.type == PERF_RECORD_COMPRESSED2) {
		skip = size < skip + sizeof(length) ? size : skip + sizeof(length);
		length = 0;
		if (size >= sizeof(header) + sizeof(length))
			memcpy(&length, record + sizeof(header), sizeof(length));
		if (length < size - skip)
			size = skip + length;
	}
	unpacker->in = (ZSTD_inBuffer){ record + skip, size - skip, 0 };
}

int unpack_next(struct unpacker *unpacker, char *to, uint64_t room, uint64_t *ret_n)
{
	ZSTD_outBuffer out = { to, room, 0 };
	size_t left, at;

	do {
		at = unpacker->in.pos;
		left = ZSTD_decompressStream(unpacker->stream, &out, &unpacker->in);
		if (ZSTD_isError(left))
			return -EPROTO;
	} while (!out.pos && unpacker->in.pos != at);
	*ret_n = out.pos;
	return 0;
}

#else

const char *unpack_missing(void)
{
	return "it is compressed (perf record -z), and this build of hetmap has no libzstd: "
	       "record it without -z, or build hetmap where libzstd-dev is installed";
}

struct unpacker *unpack_create(void)
{
	return NULL;
}

void unpack_free(struct unpacker *unpacker)
{
	(void)unpacker;
}

void unpack_record(struct unpacker *unpacker, const char *record, uint64_t size)
{
	(void)unpacker, (void)record, (void)size;
}

int unpack_next(struct unpacker *unpacker, char *to, uint64_t room, uint64_t *ret_n)
{
	(void)unpacker, (void)to, (void)room, (void)ret_n;
	return -EPROTO;
}

#endif
