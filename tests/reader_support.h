/* SPDX-License-Identifier: MIT */
/* Files of known bytes, and readers of them. */
#ifndef HETMAP_TESTS_READER_SUPPORT_H
#define HETMAP_TESTS_READER_SUPPORT_H

#include <hetmap/reader.h>

#include "command.h"
#include "support.h"

#define PAGE 4096ull
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define UNTOUCHED ((void *)0x10)

/* Are these the bytes that files here have from @offset on? */
bool reader_is_data(const void *data, uint64_t offset, uint64_t bytes);
void reader_write(int fd, uint64_t offset, uint64_t bytes);
/* The same bytes, at the file's begin. */
void reader_write_part(int fd, uint64_t offset, uint64_t bytes);
/* FOLDER/NAME of @size bytes of data; free() it. */
char *reader_file(const char *folder, const char *name, uint64_t size);

struct hm_reader_desc reader_desc(uint32_t pattern, uint32_t policy, uint64_t window,
				  uint64_t budget);
/* Opened, or the test is abandoned. */
struct hm_reader *reader_open(const char *path, uint32_t pattern, uint32_t policy);
struct hm_reader_info reader_info(struct hm_reader *reader);
/* Not what this kernel, container or file system has not: -EOPNOTSUPP. */
bool reader_can(const char *path, uint32_t policy);

/* Windows of all of [begin, end), in order, with their bytes, up to the end. */
void reader_check_range(struct hm_reader *reader, uint64_t begin, uint64_t end);
/* Gathers random pieces of a file of @size bytes, several times, announced and not. */
void reader_gather(struct hm_reader *reader, uint64_t size, uint64_t *state);
void reader_check_pieces(const struct hm_piece *pieces, uint64_t n, const char *out);

#endif
