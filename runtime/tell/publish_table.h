/* SPDX-License-Identifier: MIT */
/*
 * What publish_range.c needs of the published table, which publish.c has. Between lock and unlock
 * the table's mutex is held, a leaf of the lock order; the other functions need it.
 */
#ifndef HETMAP_PUBLISH_TABLE_H
#define HETMAP_PUBLISH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/published.h>

/* 32 GiB in ranges of 2 MiB. */
#define PUBLISH_RANGES 16384u

/* Makes the table if there was none yet. False: this process has none. */
bool publish_table_lock(void);
void publish_table_unlock(void);

struct hm_published_head *publish_table_head(void);
/* Must be called after a change of the head. */
void publish_table_store_head(void);
/* Gives the first @n ranges storage. False: there is none. */
bool publish_table_back_ranges(uint64_t n);
/* Writes range @at, and counts its sequence on by two. */
void publish_table_put_range(uint32_t at, struct hm_published_range *range);

/* publish_range.c: the table is gone. */
void publish_ranges_forget(void);

#endif
