/* SPDX-License-Identifier: MIT */
/* Reading published tables of maps, which are data of strangers: hetmap-published(5). */
#ifndef HETMAP_TOOLS_PUBLISHED_H
#define HETMAP_TOOLS_PUBLISHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hetmap/published.h>

struct published {
	int fd;
	int number;                    /* of the descriptor in the process that it is of */
	struct hm_published_head head; /* as it was read last */
	uint32_t *seen;                /* sequence of each entry that was told already */
	uint64_t n_seen;
	uint64_t at; /* which entry is told */
};

/*
 * The table in @path, a file; or of the process @pid, that is its own: it may have those of
 * others open. -ENOENT: there is none; -EPROTO: it is none, or a newer one.
 */
int published_open(const char *path, struct published *ret_table);
int published_open_process(pid_t pid, struct published *ret_table);

/* Is it still the one that @pid has open where it was found? */
bool published_is_open(const struct published *table, pid_t pid);

/*
 * Calls @each for every entry that is another since the last time; its strings end. 0; -EPROTO:
 * the table makes no sense; the result of @each, if that is not 0.
 */
int published_each(struct published *table,
		   int (*each)(void *user, const struct hm_published_entry *entry), void *user);

/*
 * The work of accelerators on ranges so far, by places in the table: free() them. One that is
 * being written all the time, or makes no sense, is all zeros. *@ret_left_out: events that are
 * in none. 0; -EPROTO: the table makes no sense; -ENOMEM.
 */
int published_ranges(const struct published *table, struct hm_published_range **ret_ranges,
		     uint64_t *ret_n, uint64_t *ret_left_out);

/* The next published_each() tells all entries again. */
void published_forget(struct published *table);
/* Has any entry changed since then? Also true of a table that makes no sense any more. */
bool published_changed(const struct published *table);
/* Is the entry @at the same as with @sequence? */
bool published_is(const struct published *table, uint64_t at, uint32_t sequence);

void published_close(struct published *table);

#endif
