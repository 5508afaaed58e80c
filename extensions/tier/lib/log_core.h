/* SPDX-License-Identifier: MIT */
/*
 * The log as bytes, and the order in which they are stored. The functions know no map: a test runs
 * them on memory that forgets what was not written back.
 *
 *	0      header, written once: magic, version, capacity, checksum
 *	256    state 0  \ sequence, epoch, root, checksum. A change writes the older one; the newer
 *	512    state 1  / one with the right checksum counts
 *	1024   records, each at a multiple of 64: epoch, number, length, checksum, bytes
 *
 * A record counts if its epoch is the state's, its number the next one, and its checksum right. One
 * write-back and one fence therefore make it last: a part of it is no record. A record begins on a
 * line of its own, so that no append touches a line of an earlier record.
 */
#ifndef HETMAP_TIER_LOG_CORE_H
#define HETMAP_TIER_LOG_CORE_H

#include <stddef.h>
#include <stdint.h>

#include <hetmap/log.h>

#define LOG_VERSION 1u
#define LOG_LEAST 4096u
#define LOG_LINE 64u
#define LOG_RECORDS 1024u /* offset of the first */

/* The ways to make bytes last. Each returns 0, or a negative errno where the system refuses. */
struct log_engine {
	/* Stores, and begins to write back; only the fence makes that certain. */
	void (*store)(void *user, void *to, const void *from, size_t length);
	int (*flush)(void *user, const void *address, size_t length);
	int (*fence)(void *user);
};

struct log_core {
	char *base;
	uint64_t size;
	const struct log_engine *engine;
	void *user;        /* the engine's */
	uint64_t sequence; /* of the newest state */
	uint64_t epoch;
	uint64_t n_record;
	uint64_t end; /* offset behind the last record */
	uint32_t root_length;
	char root[HM_LOG_ROOT_MAX];
	int failed; /* the first error of the engine; 0: none */
};

/*
 * The caller has set base, size, engine and user. @epoch is another number for each log that ever
 * was in this memory: records of an old one do not count. 0, or the engine's error.
 */
int log_core_format(struct log_core *core, uint64_t epoch);

/*
 * Reads what is there.
 * Errors, without a text:
 *   -ENODATA     zeros
 *   -EMEDIUMTYPE no log, or a damaged one
 *   -EPROTO      a log of another version, which goes to *ret_version
 */
int log_core_open(struct log_core *core, uint32_t *ret_version);

/* -ENOSPC: no room; or the engine's error. */
int log_core_append(struct log_core *core, const void *bytes, uint64_t length);

int log_core_root_set(struct log_core *core, const void *bytes, uint32_t length);

int log_core_clear(struct log_core *core);

/*
 * The record at offset @at, with this number; 0: with any. The next one is at *ret_next. -ENOENT:
 * there is none.
 */
int log_core_record(const struct log_core *core, uint64_t at, uint64_t number,
		    const void **ret_bytes, uint64_t *ret_length, uint64_t *ret_next);

#endif
