/* SPDX-License-Identifier: MIT */
/*
 * A reader, and its phase: a range, and the way in which its bytes come. A new phase is complete
 * before the old one goes, so that a failure changes nothing.
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
	uint32_t first;   /* slot of the next window */
	uint32_t n_begun; /* windows with reads in flight or done */
	uint64_t begun;   /* in the file: beginning of the next one to begin */
};

/* Announcements that are remembered, so that a gather need not repeat them. */
#define ANNOUNCED 16

struct phase {
	struct reader_wish wish;
	struct reader_facts facts;
	char fs_name[FS_NAME_MAX];
	struct reader_choice choice;
	uint64_t begin, end, position;
	struct hm_buffer *buffer; /* of the whole file; NULL: empty, or not mappable */
	struct hm_map *whole;     /* source of gathers; NULL: not mapped */
	bool held;                /* its user keeps it from being given back */
	struct account account;
	struct hm_map *window; /* given by next() */
	uint64_t window_offset, window_bytes;
	uint64_t announced; /* in the file: reading has begun up to there */
	struct stream stream;
	struct uring *ring; /* of URING and DIRECT; NULL: closed after an error, or the end */
	struct hm_map *bounce; /* for O_DIRECT's reads of pieces */
	int direct_fd;         /* -1: not that policy */
	uint64_t recent[ANNOUNCED];
	uint32_t n_recent, n_gather;
};

struct hm_reader {
	struct hm_object object;
	pthread_mutex_t lock; /* one call at a time; protects the fields below */
	int fd;
	uint32_t flags;           /* HM_READER_DROP; constant */
	char *path;               /* for texts; constant */
	struct hm_device *device; /* "file"; constant */
	struct files *files;      /* several; fd is the first one's; or NULL; constant */
	struct phase phase;
	uint64_t peak;
	uint64_t bytes;
};

/* ---- phase.c ---- */

int phase_begin(struct hm_reader *reader, uint64_t begin, uint64_t end,
		const struct reader_wish *wish, struct phase *ret_phase);
void phase_end(struct phase *phase);
/* Applies the reader's new phase to the descriptor. */
void phase_take_up(struct hm_reader *reader);
/* Most memory that the phase has now. */
uint64_t phase_memory(const struct phase *phase);
/* Opens the ring, if it is not open. */
int phase_ring(struct phase *phase);
/* After an error of the ring: nothing is in flight; the next use opens another. */
void phase_drop_ring(struct phase *phase);
/* The descriptor for reads of this policy. */
static inline int phase_fd(const struct hm_reader *reader)
{
	return reader->phase.direct_fd >= 0 ? reader->phase.direct_fd : reader->fd;
}

/* -ENODATA, with a text, where the file now ends before @end. */
int reader_check_size(struct hm_reader *reader, uint64_t end);
/* Sets the text of a failed read of @bytes at @offset. */
int reader_explain_read(int r, uint64_t offset, uint64_t bytes);
/* Reads all @length bytes at @offset, or fails with a text. */
int reader_pread(struct hm_reader *reader, void *to, uint64_t length, uint64_t offset);
/* The same if they are known to be in memory; false: some of @to may have been written. */
bool reader_pread_now(struct hm_reader *reader, void *to, uint64_t length, uint64_t offset);
int reader_read_now(int fd, void *to, uint64_t length, uint64_t offset);
int reader_read_fd(int fd, void *to, uint64_t length, uint64_t offset);
/* Starts reading the bytes. */
void reader_announce(struct hm_reader *reader, uint64_t offset, uint64_t length);
/* Drops the bytes from the page cache, if the caller asked for that. */
void reader_drop(struct hm_reader *reader, uint64_t offset, uint64_t length);
/* Makes anonymous memory for reads of the phase, as a map of "host". */
int reader_memory(const struct phase *phase, uint64_t bytes, struct hm_map **ret_map);
/* First place in it for reads: O_DIRECT's unit may be larger than a page. */
static inline char *reader_place(const struct phase *phase, const struct hm_map *memory)
{
	return (char *)round_up((uintptr_t)memory->address, phase->choice.unit);
}

/* ---- files.c ---- */

/* Opens a regular file, and returns its status. */
int reader_open_file(const char *path, int *ret_fd, struct stat *ret_st);

/* ---- window.c, stream.c ---- */

/* Return the next window at phase.position, which has bytes; they change only their own state. */
int window_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes);
void window_end(struct hm_reader *reader, struct phase *phase);
int stream_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes);
void stream_end(struct phase *phase);

/* ---- gather.c ---- */

int gather_announce(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n);
int gather(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n, void *to);

/* ---- copy.c ---- */

/* A place in a list of pieces: @done bytes of piece @at are done. */
struct cursor {
	uint64_t at;
	uint64_t done;
};

/*
 * Copies out of the map from @from up to before @to, in a guarded scope. -EOPNOTSUPP and -EBUSY
 * of hm_guard_begin(): nothing was copied.
 */
int copy_pieces(struct hm_reader *reader, const struct hm_piece *pieces, struct cursor from,
		struct cursor to, char *out);

#endif
