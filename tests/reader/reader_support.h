/* SPDX-License-Identifier: MIT */
/* Files of known bytes, and readers of them. */
#ifndef HETMAP_TESTS_READER_SUPPORT_H
#define HETMAP_TESTS_READER_SUPPORT_H

#include <hetmap/reader.h>

#include "lib/command.h"
#include "lib/support.h"

#define TIB (1ull << 40)
#define UNTOUCHED ((void *)0x10)

/* Are these the bytes that files here have from @offset on? */
bool reader_is_data(const void *data, uint64_t offset, uint64_t bytes);
void reader_fill(void *data, uint64_t offset, uint64_t bytes);
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
/* False for a policy that this kernel, container or file system has not: -EOPNOTSUPP. */
bool reader_can(const char *path, uint32_t policy);

/* Windows of all of [begin, end), in order, with their bytes, up to the end. */
void reader_check_range(struct hm_reader *reader, uint64_t begin, uint64_t end);
/* Gathers random pieces of a file of @size bytes, several times, announced and not. */
void reader_gather(struct hm_reader *reader, uint64_t size, uint64_t *state);
void reader_check_pieces(const struct hm_piece *pieces, uint64_t n, const char *out);

/* Bytes of files and of page tables that the kernel counts for the process. */
uint64_t reader_held(void);
/* Bytes of memory that a byte of a hole takes: none on a disk, a page on tmpfs. */
uint64_t reader_bytes_of_a_hole(const char *path);

/*
 * A file with a place in each 2 MiB, at another offset each time: a page table for each of
 * them. Some are not zero; the rest is a hole. FOLDER/NAME of @n places; free() it.
 */
#define PLACE MIB(2)
char *reader_places(const char *folder, const char *name, uint64_t n);
/* Gathers the bytes of up to PLACES_MOST of them; returns their sum. */
#define PLACES_MOST 512
uint64_t reader_check_places(struct hm_reader *reader, uint64_t first, uint64_t n);
/* The sum of the bytes of places [0, n). */
uint64_t reader_sum_of_places(uint64_t n);

#endif
