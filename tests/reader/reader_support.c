// SPDX-License-Identifier: MIT
/* Files of known bytes, and readers of them. */
#include "reader/reader_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* After so many bytes they begin again: each multiple of 251 adds one, and 256 of them nothing. */
#define DATA_PERIOD (251 * 256)

/* A read is compared with it by memcmp(): by bytes, builds for tests took minutes. */
static unsigned char known[DATA_PERIOD];

__attribute__((constructor)) static void data_make(void)
{
	size_t i;

	for (i = 0; i < DATA_PERIOD; i++)
		known[i] = (unsigned char)(i * 7 + i / 251);
}

/* The known bytes of @bytes at @offset, up to the end of a period. */
static size_t data_piece(uint64_t offset, uint64_t bytes, const unsigned char **ret_data)
{
	uint64_t at = offset % DATA_PERIOD;

	*ret_data = known + at;
	return (size_t)(bytes < DATA_PERIOD - at ? bytes : DATA_PERIOD - at);
}

bool reader_is_data(const void *data, uint64_t offset, uint64_t bytes)
{
	const unsigned char *byte = data, *expected;
	size_t n;

	for (; bytes; bytes -= n, offset += n, byte += n) {
		n = data_piece(offset, bytes, &expected);
		if (memcmp(byte, expected, n) != 0)
			return false;
	}
	return true;
}

void reader_fill(void *data, uint64_t offset, uint64_t bytes)
{
	unsigned char *byte = data;
	const unsigned char *expected;
	size_t n;

	for (; bytes; bytes -= n, offset += n, byte += n) {
		n = data_piece(offset, bytes, &expected);
		memcpy(byte, expected, n);
	}
}

static void write_bytes(int fd, uint64_t at, uint64_t offset, uint64_t bytes)
{
	unsigned char block[65536];
	uint64_t n;

	for (; bytes; bytes -= n, offset += n, at += n) {
		n = bytes < sizeof(block) ? bytes : sizeof(block);
		reader_fill(block, offset, n);
		CHECK_FATAL(pwrite(fd, block, n, (off_t)at) == (ssize_t)n);
	}
}

void reader_write(int fd, uint64_t offset, uint64_t bytes)
{
	write_bytes(fd, offset, offset, bytes);
}

void reader_write_part(int fd, uint64_t offset, uint64_t bytes)
{
	write_bytes(fd, 0, offset, bytes);
}

/* FOLDER/NAME of @size bytes of data; free() it. */
char *reader_file(const char *folder, const char *name, uint64_t size)
{
	char *path = folder_path(folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK_FATAL(fd >= 0);
	reader_write(fd, 0, size);
	close(fd);
	return path;
}

struct hm_reader_desc reader_desc(uint32_t pattern, uint32_t policy, uint64_t window,
				  uint64_t budget)
{
	return (struct hm_reader_desc){
		.struct_size = sizeof(struct hm_reader_desc),
		.pattern = pattern,
		.policy = policy,
		.window = window,
		.budget = budget,
	};
}

struct hm_reader *reader_open(const char *path, uint32_t pattern, uint32_t policy)
{
	struct hm_reader_desc desc = reader_desc(pattern, policy, 0, 0);
	struct hm_reader *reader;

	CHECK_OK_FATAL(hm_reader_open(path, &desc, &reader));
	return reader;
}

struct hm_reader_info reader_info(struct hm_reader *reader)
{
	struct hm_reader_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_reader_query(reader, &info));
	return info;
}

/* Skips a policy that this kernel, container or file system has not; once for a test. */
bool reader_can(const char *path, uint32_t policy)
{
	struct hm_reader_desc desc = reader_desc(HM_PATTERN_SEQUENTIAL, policy, 0, 0);
	struct hm_reader *reader;
	int r = hm_reader_open(path, &desc, &reader);

	if (!r)
		hm_reader_unref(reader);
	else
		CHECK_EQUAL(r, -EOPNOTSUPP);
	return !r;
}

/* All of [begin, end), window by window; its bytes, in its order. */
void reader_check_range(struct hm_reader *reader, uint64_t begin, uint64_t end)
{
	uint64_t offset, bytes, at = begin;
	const void *data;

	for (;;) {
		CHECK_OK_FATAL(hm_reader_next(reader, &data, &offset, &bytes));
		CHECK_EQUAL(offset, at);
		if (!bytes)
			break;
		CHECK(reader_is_data(data, offset, bytes));
		at += bytes;
	}
	CHECK_EQUAL(at, end);
	CHECK(data == NULL);
	/* The end stays the end. */
	CHECK_OK(hm_reader_next(reader, &data, NULL, &bytes));
	CHECK_EQUAL(bytes, 0);
}

#define PIECES 100

static uint64_t random_pieces(uint64_t *state, uint64_t size, struct hm_piece *pieces)
{
	uint64_t total = 0, i;

	for (i = 0; i < PIECES; i++) {
		pieces[i].offset = test_random(state) % (size + 1);
		pieces[i].bytes = test_random(state) % (i % 10 ? 3000 : 70000);
		if (pieces[i].bytes > size - pieces[i].offset)
			pieces[i].bytes = size - pieces[i].offset;
		/* Some follow one another. */
		if (i % 7 == 1) {
			pieces[i].offset = pieces[i - 1].offset + pieces[i - 1].bytes;
			pieces[i].bytes = pieces[i].offset < size ? 1 : 0;
		}
		total += pieces[i].bytes;
	}
	return total;
}

void reader_check_pieces(const struct hm_piece *pieces, uint64_t n, const char *out)
{
	uint64_t i;

	for (i = 0; i < n; i++) {
		CHECK(reader_is_data(out, pieces[i].offset, pieces[i].bytes));
		out += pieces[i].bytes;
	}
}

void reader_gather(struct hm_reader *reader, uint64_t size, uint64_t *state)
{
	struct hm_piece pieces[PIECES];
	uint64_t total, round;
	char *out;

	for (round = 0; round < 6; round++) {
		total = random_pieces(state, size, pieces);
		out = malloc(total + 1);
		CHECK_FATAL(out != NULL);
		memset(out, 0x55, total + 1);
		if (round % 3)
			CHECK_OK(hm_reader_announce(reader, pieces, PIECES));
		CHECK_OK(hm_reader_gather(reader, pieces, PIECES, out));
		reader_check_pieces(pieces, PIECES, out);
		CHECK_EQUAL(out[total], 0x55);
		free(out);
	}
	CHECK_OK(hm_reader_gather(reader, NULL, 0, NULL));
	CHECK_OK(hm_reader_announce(reader, NULL, 0));
}

uint64_t reader_held(void)
{
	return test_status_bytes("RssFile") + test_status_bytes("RssShmem") +
	       test_status_bytes("VmPTE");
}

uint64_t reader_bytes_of_a_hole(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	volatile char *page = mmap(NULL, 2 * PLACE, PROT_READ, MAP_SHARED, fd, 0);
	struct stat before, after;

	CHECK_FATAL(page != MAP_FAILED);
	CHECK_EQUAL(fstat(fd, &before), 0);
	(void)page[PLACE];
	CHECK_EQUAL(fstat(fd, &after), 0);
	munmap((void *)page, 2 * PLACE);
	close(fd);
	return (uint64_t)(after.st_blocks - before.st_blocks) * 512;
}

/* ---- places ---- */

/* Few enough for a small file system to hold their blocks. */
#define MARK_EVERY 4096

static uint64_t place_offset(uint64_t i)
{
	return i * PLACE + i % PLACE;
}

static unsigned char place_byte(uint64_t i)
{
	return i % MARK_EVERY ? 0 : (unsigned char)(i / MARK_EVERY % 255 + 1);
}

char *reader_places(const char *folder, const char *name, uint64_t n)
{
	char *path = folder_path(folder, name);
	unsigned char byte;
	uint64_t i;
	int fd;

	file_sparse(folder, name, n * PLACE);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	for (i = 0; i < n; i += MARK_EVERY) {
		byte = place_byte(i);
		CHECK_FATAL(pwrite(fd, &byte, 1, (off_t)place_offset(i)) == 1);
	}
	close(fd);
	return path;
}

uint64_t reader_check_places(struct hm_reader *reader, uint64_t first, uint64_t n)
{
	struct hm_piece pieces[PLACES_MOST] = { { 0 } };
	unsigned char out[PLACES_MOST];
	uint64_t i, wrong = 0, sum = 0;

	CHECK_FATAL(n && n <= PLACES_MOST);
	memset(out, 0xff, n);
	for (i = 0; i < n; i++)
		pieces[i] = (struct hm_piece){ place_offset(first + i), 1 };
	CHECK_OK(hm_reader_gather(reader, pieces, n, out));
	for (i = 0; i < n; i++) {
		wrong += out[i] != place_byte(first + i);
		sum += out[i];
	}
	CHECK_EQUAL(wrong, 0);
	return sum;
}

uint64_t reader_sum_of_places(uint64_t n)
{
	uint64_t sum = 0, i;

	for (i = 0; i < n; i += MARK_EVERY)
		sum += place_byte(i);
	return sum;
}
