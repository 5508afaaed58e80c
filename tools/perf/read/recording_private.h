/* SPDX-License-Identifier: MIT */
/* Shared by the parts of recording: the file, and the contents of its records. */
#ifndef HETMAP_RECORDING_PRIVATE_H
#define HETMAP_RECORDING_PRIVATE_H

#include <stdio.h>
#include <sys/types.h>

#include "perf_data.h"
#include "recording.h"

/* perf's attributes have been longer and shorter; all of them have the members used here. */
struct recorded_attr {
	uint64_t sample_type;
	enum recorded kind;
	bool fault;                       /* it is of one of the three */
	const struct point_layout *point; /* or of that tracepoint; else it means nothing here */
	bool trailer;
	bool samples;       /* not each is recorded */
	uint64_t period;    /* where a sample does not tell */
	uint64_t registers; /* bits: those of the user's in a sample */
	uint32_t time_at;   /* in a sample, from the record's beginning; 0: it has none */
};

#define ATTRS_MOST 64

struct recorded_id {
	uint64_t id;
	uint32_t attr;
};

struct recorded_attrs {
	struct recorded_attr attr[ATTRS_MOST];
	uint32_t n;
	struct recorded_id *ids; /* sorted */
	uint64_t n_id;
	struct point_layout point[N_POINT];
	uint32_t n_point;
};

/* Where the time, and the id of its event, stand in a sample of that type; 0: nowhere. */
uint32_t recorded_time_at(uint64_t sample_type);
uint32_t recorded_id_at(uint64_t sample_type);

/*
 * The time of a record, whose size was checked, and the event it is of, or the first one
 * of a record that is no sample; false: it has none.
 */
bool recorded_time(const struct recorded_attrs *attrs, const struct perf_event_header *record,
		   uint64_t *ret_time, const struct recorded_attr **ret_attr);

/* Its contents; false: it is of no kind that is told, or broken. */
bool recorded_decode(const struct recorded_attr *attr, const struct perf_event_header *record,
		     struct recorded_event *ret_event);

/* ---- recording_head.c ---- */

struct recorded_head {
	int fd;
	struct recorded_attrs *attrs; /* to fill in */
	uint64_t first, end;          /* of the records, in the file */
	bool cut_off;                 /* there was to be more */
};

/* 0 or a negative errno; -EPROTO: *ret_reason says why. */
int recorded_head_read(struct recorded_head *head, const char **ret_reason);
/* As many as there are, or a negative errno. */
ssize_t recorded_read_at(int fd, void *to, uint64_t length, uint64_t offset);

/* ---- recording_step.c ---- */

/*
 * From the record at @at, whose first @left bytes are there, to the next one: by its size, and
 * the uncounted bytes behind it. 0: more bytes are needed to know; UINT64_MAX: the beginning of
 * the next one can't be known.
 */
uint64_t recorded_step(const char *at, uint64_t left);
/* Has such a record anything that is told? */
bool recorded_is_told(uint32_t type);
/* Is it of a kind that perf had when this was written? */
bool recorded_is_known(uint32_t type);
bool recorded_is_compressed(uint32_t type);

/* ---- recording_unpack.c ---- */

struct unpacker;

/* Why this build has none; NULL: it has. */
const char *unpack_missing(void);
/* NULL: no memory, or a build without libzstd. */
struct unpacker *unpack_create(void);
void unpack_free(struct unpacker *unpacker);
/* A record of compressed ones, of that many bytes, is next. */
void unpack_record(struct unpacker *unpacker, const char *record, uint64_t size);
/*
 * Up to @room bytes of it into @to: *ret_n 0, it is done. -EPROTO: it is damaged, and nothing
 * behind it can be unpacked.
 */
int unpack_next(struct unpacker *unpacker, char *to, uint64_t room, uint64_t *ret_n);

/* ---- recording_points.c ---- */

/* Of the formats in a file's section those that are known here. */
void recorded_points_take(struct recorded_attrs *attrs, const char *data, uint64_t length);
/* The tracepoint with that number in the recording; NULL: it is not known. */
const struct point_layout *recorded_point(const struct recorded_attrs *attrs, uint64_t id);

/* ---- recording_text.c ---- */

/* Are there faults in it? *ret_latency: their beginnings and ends, both. */
bool recorded_text_look(FILE *text, bool *ret_latency, enum recorded_share *ret_share);
int recorded_text_each(FILE *text, recorded_each *each, void *user,
		       struct recording_totals *totals);

#endif
