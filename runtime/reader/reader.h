/* SPDX-License-Identifier: MIT */
/*
 * A reader, and its phase: a range, and how its bytes come. A phase is made as a whole
 * before the one before it goes, so that what fails changes nothing.
 */
#ifndef HETMAP_READER_INTERNAL_H
#define HETMAP_READER_INTERNAL_H

#include "reader/account.h"
#include "reader/choose.h"
#include "core/core.h"
#include "reader/facts.h"
#include "reader/files.h"
#include "reader/uring.h"

/* Windows that are read into memory of the reader's own, one slot each. */
#define STREAM_SLOTS 4

struct stream_slot {
	uint64_t offset; /* in the file */
	uint64_t bytes;
	struct uring_group group;
};

struct stream {
	struct hm_map *memory;
	uint32_t n;
	uint64_t slot_size;
	struct stream_slot slot[STREAM_SLOTS];
	uint32_t first;   /* slot of the window that comes next */
	uint32_t n_begun; /* windows that are being read, or have been */
	uint64_t begun;   /* in the file: where the next one to begin is */
};

/* So many announcements are remembered, that a gather need not repeat them. */
#define ANNOUNCED 16

struct phase {
	struct reader_wish wish;
	struct reader_facts facts;
	char fs_name[FS_NAME_MAX];
	struct reader_choice choice;
	uint64_t begin, end, position;
	struct hm_buffer *buffer; /* of the whole file; NULL: empty, or it can't be mapped */
	struct hm_map *whole;     /* what is gathered from; NULL: not so */
	bool held;                /* its user keeps it from being given back */
	struct account account;
	struct hm_map *window; /* that next() gave */
	uint64_t window_offset, window_bytes;
	uint64_t announced; /* in the file: up to there reading has begun */
	struct stream stream;
	struct uring *ring; /* of URING and DIRECT; NULL: closed after an error, or the end */
	struct hm_map *bounce; /* of O_DIRECT's reads of pieces */
	int direct_fd;         /* -1: not that policy */
	uint64_t recent[ANNOUNCED];
	uint32_t n_recent, n_gather;
};

struct hm_reader {
	struct hm_object object;
	pthread_mutex_t lock; /* one call at a time; protects the below */
	int fd;
	uint32_t flags;           /* HM_READER_DROP; constant */
	char *path;               /* for texts; constant */
	struct hm_device *device; /* "file"; constant */
	struct files *files;      /* several, of which fd is the first; or NULL; constant */
	struct phase phase;
	uint64_t peak;
	uint64_t bytes;
};

/* ---- phase.c ---- */

int phase_begin(struct hm_reader *reader, uint64_t begin, uint64_t end,
		const struct reader_wish *wish, struct phase *ret_phase);
void phase_end(struct phase *phase);
/* It is the reader's from here on: what of it concerns the descriptor itself. */
void phase_take_up(struct hm_reader *reader);
/* Memory that it has now at most. */
uint64_t phase_memory(const struct phase *phase);
/* The ring, opened if it is not, or not any more. */
int phase_ring(struct phase *phase);
/* After an error of the ring's: nothing is in flight; the next use opens another. */
void phase_drop_ring(struct phase *phase);
/* A descriptor for reads of this policy. */
static inline int phase_fd(const struct hm_reader *reader)
{
	return reader->phase.direct_fd >= 0 ? reader->phase.direct_fd : reader->fd;
}

/* -ENODATA, with a text, where the file ends before @end now. */
int reader_check_size(struct hm_reader *reader, uint64_t end);
/* The text of a failed read of @bytes at @offset. */
int reader_explain_read(int r, uint64_t offset, uint64_t bytes);
/* All @length bytes at @offset, or an error with a text. */
int reader_pread(struct hm_reader *reader, void *to, uint64_t length, uint64_t offset);
/* The same where they are in memory, and that can be told; false: some of @to may be written. */
bool reader_pread_now(struct hm_reader *reader, void *to, uint64_t length, uint64_t offset);
int reader_read_now(int fd, void *to, uint64_t length, uint64_t offset);
int reader_read_fd(int fd, void *to, uint64_t length, uint64_t offset);
/* Their reading begins. */
void reader_announce(struct hm_reader *reader, uint64_t offset, uint64_t length);
/* They leave the page cache, if that was asked for. */
void reader_drop(struct hm_reader *reader, uint64_t offset, uint64_t length);
/* Anonymous memory for reads of the phase, as a map of "host". */
int reader_memory(const struct phase *phase, uint64_t bytes, struct hm_map **ret_map);
/* Where in it reads may begin to go: O_DIRECT's unit may be more than a page. */
static inline char *reader_place(const struct phase *phase, const struct hm_map *memory)
{
	return (char *)round_up((uintptr_t)memory->address, phase->choice.unit);
}

/* ---- files.c ---- */

/* A regular file, and what it is. */
int reader_open_file(const char *path, int *ret_fd, struct stat *ret_st);

/* ---- window.c, stream.c ---- */

/* The next window at phase.position, which has bytes; they move nothing but their own. */
int window_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes);
void window_end(struct hm_reader *reader, struct phase *phase);
int stream_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes);
void stream_end(struct phase *phase);

/* ---- gather.c ---- */

int gather_announce(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n);
int gather(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n, void *to);

/* ---- copy.c ---- */

/* Pieces from @at on, and what is done of the first of these. */
struct cursor {
	uint64_t at;
	uint64_t done;
};

/*
 * Copies out of the map from @from up to before @to, in a guarded scope. -EOPNOTSUPP,
 * -EBUSY of hm_guard_begin(): nothing was copied.
 */
int copy_pieces(struct hm_reader *reader, const struct hm_piece *pieces, struct cursor from,
		struct cursor to, char *out);

#endif
