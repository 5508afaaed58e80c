/* SPDX-License-Identifier: MIT */
/* Shared by several test programs: byte patterns, queries, files, limits. */
#ifndef HETMAP_TESTS_SUPPORT_H
#define HETMAP_TESTS_SUPPORT_H

#include <hetmap/hetmap.h>

#include "lib/harness.h"
#include "lib/rig.h"

/*
 * Writes a pattern that depends on @salt into bytes [from, to) of @base, and checks it. Both look
 * at every 61st byte and at the last one of every KiB, so that a range that holds the pattern holds
 * it in each part.
 */
void pattern_write(void *base, uint64_t from, uint64_t to, uint32_t salt);
bool pattern_holds(const void *base, uint64_t from, uint64_t to, uint32_t salt);
bool is_zero(const void *base, uint64_t from, uint64_t to); /* every byte */

struct hm_buffer_info buffer_info(struct hm_buffer *buffer);
struct hm_map_info map_info(struct hm_map *map, uint32_t fields);
struct hm_device_info device_info(struct hm_device *device);
struct hm_handler_info handler_info(void);
struct hm_stats stats_now(void);

/*
 * The first map of a process makes its published table, whose descriptor stays: a test that counts
 * descriptors has it there from now on.
 */
void make_table(void);

/* A file of @size zeroes without a name: its descriptor, or the test is abandoned. */
int scratch_file(uint64_t size);

/* A descriptor through a connected socket; a failure ends the test. */
void send_fd(int socket, int fd);
int receive_fd(int socket);

/*
 * Gives up CAP_IPC_LOCK and sets RLIMIT_MEMLOCK to @more bytes above the memory locked now, or to
 * the highest possible limit. For children: there is no way back.
 */
void limit_memlock(uint64_t more);

#endif
