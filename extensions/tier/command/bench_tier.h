/* SPDX-License-Identifier: MIT */
/* hetmap bench: cases of memory that lasts, and their peers. */
#ifndef HETMAP_BENCH_TIER_H
#define HETMAP_BENCH_TIER_H

#include <stddef.h>

int bench_persist(void);
int bench_log_append(void);

/* ---- peer_persist.c ---- */

extern const char peer_persist_source[];

struct peer_persist;

/* Describes bytes that are mapped to libpmem2, which flushes cache lines. A negative errno. */
int peer_persist_create(void *address, size_t length, struct peer_persist **ret_peer);
void peer_persist_destroy(struct peer_persist *peer);
/* Makes stores last. */
void peer_persist_call(const struct peer_persist *peer, const void *address, size_t length);

/* A new file in the folder, with @bytes of room. Its descriptor, or a negative errno. */
int peer_log_open(const char *folder, size_t bytes);
/* Writes a record at @offset, and waits until it lasts. 0, or a negative errno. */
int peer_log_append(int fd, size_t offset, const void *record, size_t length);

#endif
