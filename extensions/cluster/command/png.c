// SPDX-License-Identifier: MIT
/* hetmap run particles: a PNG without compression: no library is needed for it. */
#include <stdlib.h>
#include <string.h>

#include "particles.h"

#define STORED_MOST 65535u /* bytes of a block of deflate that is stored */

struct writer {
	unsigned char *bytes;
	uint64_t n;
	uint32_t crc;   /* of the chunk so far, inverted */
	uint32_t a, b;  /* Adler-32 of the rows */
	uint64_t left;  /* bytes of rows to come */
	uint32_t block; /* bytes of the block to come */
};

static void put(struct writer *writer, unsigned char byte)
{
	int i;

	writer->bytes[writer->n++] = byte;
	writer->crc ^= byte;
	for (i = 0; i < 8; i++)
		writer->crc = writer->crc >> 1 ^ (writer->crc & 1 ? 0xedb88320u : 0);
}

static void put_32(struct writer *writer, uint32_t word)
{
	int i;

	for (i = 24; i >= 0; i -= 8)
		put(writer, (unsigned char)(word >> i));
}

static void begin_chunk(struct writer *writer, const char *name, uint64_t bytes)
{
	put_32(writer, (uint32_t)bytes);
	writer->crc = ~0u;
	for (; *name; name++)
		put(writer, (unsigned char)*name);
}

static void end_chunk(struct writer *writer)
{
	put_32(writer, ~writer->crc);
}

/* A byte of a row, in stored blocks. */
static void put_row_byte(struct writer *writer, unsigned char byte)
{
	if (!writer->block) {
		writer->block = writer->left < STORED_MOST ? (uint32_t)writer->left :
							     STORED_MOST;
		put(writer, writer->block == writer->left);
		put(writer, (unsigned char)writer->block);
		put(writer, (unsigned char)(writer->block >> 8));
		put(writer, (unsigned char)~writer->block);
		put(writer, (unsigned char)(~writer->block >> 8));
	}
	put(writer, byte);
	writer->a = (writer->a + byte) % 65521;
	writer->b = (writer->b + writer->a) % 65521;
	writer->block--;
	writer->left--;
}

unsigned char *png_make(const unsigned char *rgb, uint32_t width, uint32_t height,
			uint64_t *ret_bytes)
{
	static const unsigned char magic[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
	uint64_t row = 3ull * width, rows = height * (row + 1), x;
	uint64_t stored = 2 + rows + 5 * (rows / STORED_MOST + !!(rows % STORED_MOST)) + 4;
	struct writer writer = { .a = 1, .left = rows };
	uint32_t y;

	writer.bytes = malloc(stored + 100);
	if (!writer.bytes)
		return NULL;
	memcpy(writer.bytes, magic, sizeof(magic));
	writer.n = sizeof(magic);
	begin_chunk(&writer, "IHDR", 13);
	put_32(&writer, width);
	put_32(&writer, height);
	put(&writer, 8); /* bits */
	put(&writer, 2); /* RGB */
	put(&writer, 0);
	put(&writer, 0);
	put(&writer, 0);
	end_chunk(&writer);
	begin_chunk(&writer, "IDAT", stored);
	put(&writer, 0x78);
	put(&writer, 0x01);
	for (y = 0; y < height; y++) {
		put_row_byte(&writer, 0); /* no filter */
		for (x = 0; x < row; x++)
			put_row_byte(&writer, rgb[y * row + x]);
	}
	put_32(&writer, writer.b << 16 | writer.a);
	end_chunk(&writer);
	begin_chunk(&writer, "IEND", 0);
	end_chunk(&writer);
	*ret_bytes = writer.n;
	return writer.bytes;
}
