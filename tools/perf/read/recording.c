// SPDX-License-Identifier: MIT
/*
 * A recording, read in pieces and told by time.
 *
 * Each CPU's records are in order, and were written in rounds: records behind a round's end are
 * younger than the youngest of the round before. So after a round all up to that one can be
 * told, and no more is held than two rounds are long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recording_private.h"

#define PIECE (UINT64_C(1) << 20)
/* A recording without rounds, or with too long ones, is told out of order rather. */
#define HELD_MOST (UINT64_C(256) << 20)

/* Records as they stood in the file; the first may have begun in the piece before. */
struct piece {
	struct piece *next;
	uint64_t n_held; /* records that are to be told still */
	uint64_t length;
	char bytes[] __attribute__((aligned(8)));
};

struct held {
	uint64_t time;
	const struct perf_event_header *record;
	const struct recorded_attr *attr;
	struct piece *piece;
};

struct recording {
	int fd;
	FILE *text; /* of perf script's, in place of all below; NULL: it is none */
	bool text_latency;
	enum recorded_share text_share;
	struct recorded_attrs attrs;
	uint64_t at, end; /* of the records, in the file */
	uint64_t first;
	struct piece *copies;      /* of records that don't begin at a multiple of 8 */
	struct unpacker *unpacker; /* with the first that is compressed */
	char *packed;              /* the unpacked part of a record that is not whole yet */
	uint64_t n_packed;
	const char *reason;  /* why it can't be read, found on the way */
	bool gave_up;        /* the rest can't be read */
	struct held *held;   /* in the order of the file */
	struct held *sorted; /* as much room, for merging */
	uint64_t n_held, room, held_bytes;
	struct piece *pieces;
	uint64_t youngest; /* of all that were read */
	uint64_t limit;    /* of the round before: those can be told at its end */
	uint64_t told;     /* the time of the last one */
	struct recording_totals totals;
};

int recording_open(const char *path, struct recording **ret_recording, const char **ret_reason)
{
	struct recording *recording = calloc(1, sizeof(*recording));
	struct recorded_head head = { 0 };
	int r;

	*ret_reason = NULL;
	if (!recording)
		return -ENOMEM;
	recording->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (recording->fd < 0) {
		r = -errno;
		free(recording);
		return r;
	}
	head.fd = recording->fd;
	head.attrs = &recording->attrs;
	r = recorded_head_read(&head, ret_reason);
	if (r) {
		recording_close(recording);
		return r;
	}
	recording->first = recording->at = head.first;
	recording->end = head.end;
	recording->totals.cut_off = head.cut_off;
	*ret_recording = recording;
	return 0;
}

/* It is read twice, which a pipe can't be. */
static FILE *open_text(const char *path)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin, *copy;
	char block[4096];
	size_t n;

	if (!in || (in != stdin && !fseek(in, 0, SEEK_SET)))
		return in;
	copy = tmpfile();
	while (copy && (n = fread(block, 1, sizeof(block), in)))
		if (fwrite(block, 1, n, copy) != n) {
			fclose(copy);
			copy = NULL;
		}
	if (in != stdin)
		fclose(in);
	return copy;
}

int recording_open_text(const char *path, struct recording **ret_recording,
			const char **ret_reason)
{
	struct recording *recording = calloc(1, sizeof(*recording));

	*ret_reason = NULL;
	if (!recording)
		return -ENOMEM;
	recording->fd = -1;
	errno = 0;
	recording->text = open_text(path);
	if (!recording->text) {
		free(recording);
		return errno ? -errno : -EIO;
	}
	if (!recorded_text_look(recording->text, &recording->text_latency,
				&recording->text_share)) {
		*ret_reason = "no page faults with times and addresses are in it: perf script "
			      "--ns -F comm,pid,tid,time,period,event,addr,ip,sym,dso "
			      "--show-mmap-events --show-task-events --show-switch-events";
		recording_close(recording);
		return -EPROTO;
	}
	*ret_recording = recording;
	return 0;
}

bool recording_has_latency(const struct recording *recording)
{
	uint32_t i, ends = 0, begins = 0;

	if (recording->text)
		return recording->text_latency;
	for (i = 0; i < recording->attrs.n; i++) {
		const struct recorded_attr *attr = &recording->attrs.attr[i];

		begins += attr->fault && attr->kind == RECORDED_FAULT;
		ends += attr->fault && attr->kind != RECORDED_FAULT;
	}
	return begins && ends;
}

enum recorded_share recording_share(const struct recording *recording)
{
	uint32_t i;

	if (recording->text)
		return recording->text_share;
	for (i = 0; i < recording->attrs.n; i++)
		if (recording->attrs.attr[i].fault && recording->attrs.attr[i].samples)
			return RECORDED_SAMPLES;
	return RECORDED_EACH;
}

bool recording_has_point(const struct recording *recording, enum point point)
{
	uint32_t i;

	for (i = 0; i < recording->attrs.n; i++)
		if (recording->attrs.attr[i].point &&
		    recording->attrs.attr[i].point->point == point)
			return true;
	return false;
}

/* ---- telling ---- */

/* Where the run ends that begins at @first: times of one ring are in order. */
static uint64_t run_end(const struct held *held, uint64_t first, uint64_t n)
{
	uint64_t end = first + 1;

	while (end < n && held[end].time >= held[end - 1].time)
		end++;
	return end < n ? end : n;
}

/* Of two runs side by side; of equal times the first one's, as it stood in the file. */
static void merge(struct held *to, const struct held *a, uint64_t n_a, uint64_t n_b)
{
	const struct held *b = a + n_a, *end_a = b, *end_b = b + n_b;

	while (a < end_a && b < end_b)
		*to++ = b->time < a->time ? *b++ : *a++;
	memcpy(to, a, (size_t)(end_a - a) * sizeof(*a));
	memcpy(to + (end_a - a), b, (size_t)(end_b - b) * sizeof(*b));
}

/*
 * Sorts by time, and leaves those of one time as they stand in the file: mappings come before
 * their faults. A few runs are the rule, one for each ring and one that was held back: merging
 * those two by two takes a look or two at each record.
 */
static void sort_held(struct recording *recording)
{
	uint64_t n = recording->n_held, first, middle, end, runs;
	struct held *swapped;

	do {
		runs = 0;
		for (first = 0; first < n; first = end, runs++) {
			middle = run_end(recording->held, first, n);
			if (!first && middle == n)
				return;
			end = middle < n ? run_end(recording->held, middle, n) : n;
			merge(recording->sorted + first, recording->held + first,
			      middle - first, end - middle);
		}
		swapped = recording->held;
		recording->held = recording->sorted;
		recording->sorted = swapped;
	} while (runs > 1);
}

static int tell(struct recording *recording, const struct held *held, recorded_each *each,
		void *user)
{
	struct recorded_event event;

	if (!recorded_decode(held->attr, held->record, &event)) {
		recording->totals.skipped++;
		return 0;
	}
	event.time = held->time;
	if (held->time && held->time < recording->told)
		recording->totals.unsorted++;
	else if (held->time)
		recording->told = held->time;
	recording->totals.records++;
	return each(user, &event);
}

/* Pieces of which all was told. */
static void sweep(struct recording *recording)
{
	struct piece **link = &recording->pieces, *piece;

	while ((piece = *link)) {
		if (piece->n_held) {
			link = &piece->next;
			continue;
		}
		*link = piece->next;
		free(piece);
	}
}

/* All up to @limit. */
static int tell_until(struct recording *recording, uint64_t limit, recorded_each *each,
		      void *user)
{
	uint64_t n;
	int r = 0;

	if (!recording->n_held)
		return 0;
	sort_held(recording);
	for (n = 0; n < recording->n_held && recording->held[n].time <= limit && !r; n++) {
		r = tell(recording, &recording->held[n], each, user);
		recording->held_bytes -= recording->held[n].record->size;
		recording->held[n].piece->n_held--;
	}
	memmove(recording->held, recording->held + n,
		(recording->n_held - n) * sizeof(*recording->held));
	recording->n_held -= n;
	sweep(recording);
	return r;
}

static int make_room(struct recording *recording)
{
	uint64_t room = 2 * recording->room + 1024;
	struct held *more = realloc(recording->held, room * sizeof(*more));

	if (more)
		recording->held = more;
	/* Nothing is in it but while it is sorted. */
	free(recording->sorted);
	recording->sorted = malloc(room * sizeof(*more));
	if (!more || !recording->sorted)
		return -ENOMEM;
	recording->room = room;
	return 0;
}

static int hold(struct recording *recording, struct piece *piece,
		const struct perf_event_header *record)
{
	struct held held = { .record = record, .piece = piece };

	if (!recorded_time(&recording->attrs, record, &held.time, &held.attr)) {
		recording->totals.skipped++;
		return 0;
	}
	if (recording->n_held == recording->room && make_room(recording))
		return -ENOMEM;
	recording->held[recording->n_held++] = held;
	recording->held_bytes += record->size;
	piece->n_held++;
	if (held.time > recording->youngest)
		recording->youngest = held.time;
	return 0;
}

static int end_round(struct recording *recording, recorded_each *each, void *user)
{
	int r = tell_until(recording, recording->limit, each, user);

	recording->limit = recording->youngest;
	return r;
}

/* It was looked at whole; from now on it goes with the last of its records. */
static void keep(struct recording *recording, struct piece *piece)
{
	if (!piece->n_held) {
		free(piece);
		return;
	}
	piece->next = recording->pieces;
	recording->pieces = piece;
}

/* Behind one of an odd size they don't stand where numbers are read: a copy of it does. */
static int hold_copy(struct recording *recording, const char *at, uint64_t size)
{
	struct piece *copies = recording->copies;
	char *to;

	if (copies && PIECE - copies->length < size) {
		keep(recording, copies);
		copies = recording->copies = NULL;
	}
	if (!copies) {
		copies = malloc(sizeof(*copies) + PIECE);
		if (!copies)
			return -ENOMEM;
		copies->n_held = copies->length = 0;
		recording->copies = copies;
	}
	to = copies->bytes + copies->length;
	memcpy(to, at, size);
	copies->length += size;
	return hold(recording, copies, (const struct perf_event_header *)(const void *)to);
}

/* The rest of the file can't be read. */
static void give_up(struct recording *recording)
{
	recording->totals.cut_off = recording->gave_up = true;
	recording->at = recording->end;
}

static int take_packed(struct recording *recording, const char *at, uint64_t size,
		       recorded_each *each, void *user);

/* One that is whole, at @at of @piece. */
static int take_record(struct recording *recording, struct piece *piece, const char *at,
		       uint64_t size, recorded_each *each, void *user)
{
	struct perf_event_header record;
	int r = 0;

	memcpy(&record, at, sizeof(record));
	if (record.type == PERF_RECORD_FINISHED_ROUND) {
		r = end_round(recording, each, user);
	} else if (recorded_is_compressed(record.type)) {
		r = take_packed(recording, at, size, each, user);
	} else if (!recorded_is_told(record.type) || size % 8) {
		recording->totals.skipped++;
		recording->totals.unknown += !recorded_is_known(record.type);
	} else if ((uintptr_t)at % 8) {
		r = hold_copy(recording, at, size);
	} else {
		r = hold(recording, piece, (const struct perf_event_header *)(const void *)at);
	}
	if (!r && recording->held_bytes > HELD_MOST)
		r = tell_until(recording, UINT64_MAX, each, user);
	return r;
}

/*
 * The records that end inside of @piece; *ret_used: where the first stands that does not, or
 * behind the piece: bytes behind a record are not counted in its size.
 */
static int take_records(struct recording *recording, struct piece *piece, uint64_t *ret_used,
			recorded_each *each, void *user)
{
	struct perf_event_header record;
	uint64_t at = 0, step;
	int r = 0;

	while (!r && !recording->gave_up && at < piece->length) {
		step = recorded_step(piece->bytes + at, piece->length - at);
		if (step == UINT64_MAX)
			give_up(recording);
		if (!step || recording->gave_up)
			break;
		memcpy(&record, piece->bytes + at, sizeof(record));
		/* All of a record is needed, and nothing behind it. */
		if (recorded_is_told(record.type) || recorded_is_compressed(record.type)) {
			if (step > piece->length - at)
				break;
		}
		r = take_record(recording, piece, piece->bytes + at, step, each, user);
		at += step;
	}
	*ret_used = recording->gave_up ? piece->length : at;
	return r;
}

/* The next bytes of a compressed record, behind the rest of those before it. */
static int unpack_piece(struct recording *recording, struct piece **ret_piece)
{
	struct piece *piece = malloc(sizeof(*piece) + recording->n_packed + PIECE);
	uint64_t n;
	int r;

	if (!piece)
		return -ENOMEM;
	r = unpack_next(recording->unpacker, piece->bytes + recording->n_packed, PIECE, &n);
	if (r || !n) {
		free(piece);
		*ret_piece = NULL;
		return r;
	}
	if (recording->n_packed)
		memcpy(piece->bytes, recording->packed, recording->n_packed);
	piece->length = recording->n_packed + n;
	piece->n_held = 0;
	*ret_piece = piece;
	return 0;
}

/* The rest of @piece, from @used on. */
static int leave_packed(struct recording *recording, const struct piece *piece, uint64_t used)
{
	free(recording->packed);
	recording->packed = NULL;
	recording->n_packed = piece->length > used ? piece->length - used : 0;
	if (!recording->n_packed)
		return 0;
	recording->packed = malloc(recording->n_packed);
	if (!recording->packed)
		return -ENOMEM;
	memcpy(recording->packed, piece->bytes + used, recording->n_packed);
	return 0;
}

/* Records in records: these have no compressed ones, and nothing behind them, in turn. */
static int take_unpacked(struct recording *recording, struct piece *piece, uint64_t *ret_used,
			 recorded_each *each, void *user)
{
	struct perf_event_header record;
	uint64_t at = 0;
	int r = 0;

	while (!r && !recording->gave_up && piece->length - at >= sizeof(record)) {
		memcpy(&record, piece->bytes + at, sizeof(record));
		if (record.size < sizeof(record) || recorded_is_compressed(record.type)) {
			give_up(recording);
			break;
		}
		if (record.size > piece->length - at)
			break;
		r = take_record(recording, piece, piece->bytes + at, record.size, each, user);
		at += record.size;
	}
	*ret_used = at;
	return r;
}

static int take_packed(struct recording *recording, const char *at, uint64_t size,
		       recorded_each *each, void *user)
{
	struct piece *piece;
	uint64_t used;
	int r;

	if (!recording->unpacker)
		recording->unpacker = unpack_create();
	if (!recording->unpacker) {
		recording->reason = unpack_missing();
		return recording->reason ? -ENOTSUP : -ENOMEM;
	}
	unpack_record(recording->unpacker, at, size);
	for (;;) {
		r = unpack_piece(recording, &piece);
		if (r == -EPROTO) {
			give_up(recording);
			return 0;
		}
		if (r || !piece)
			return r;
		r = take_unpacked(recording, piece, &used, each, user);
		if (!r)
			r = leave_packed(recording, piece, used);
		keep(recording, piece);
		if (r || recording->gave_up)
			return r;
	}
}

/* The next piece: @rest bytes of the one before it, and the bytes that follow in the file. */
static int next_piece(struct recording *recording, const char *rest, uint64_t n_rest,
		      struct piece **ret_piece)
{
	uint64_t wanted = recording->end - recording->at;
	struct piece *piece;
	ssize_t n;

	if (wanted > PIECE)
		wanted = PIECE;
	piece = malloc(sizeof(*piece) + n_rest + wanted + 8);
	if (!piece)
		return -ENOMEM;
	if (n_rest)
		memcpy(piece->bytes, rest, n_rest);
	n = recorded_read_at(recording->fd, piece->bytes + n_rest, wanted, recording->at);
	if (n < 0) {
		free(piece);
		return (int)n;
	}
	/* The file was longer when it was opened. */
	if ((uint64_t)n < wanted) {
		recording->totals.cut_off = true;
		recording->end = recording->at + (uint64_t)n;
	}
	recording->at += (uint64_t)n;
	piece->length = n_rest + (uint64_t)n;
	piece->n_held = 0;
	*ret_piece = piece;
	return 0;
}

/*
 * The place in the file of @used in @piece: a record that is not whole in it, or the next one.
 */
static int leave_rest(struct recording *recording, const struct piece *piece, uint64_t used,
		      char **rest, uint64_t *n_rest)
{
	free(*rest);
	*rest = NULL;
	*n_rest = 0;
	if (used >= piece->length) {
		used -= piece->length;
		if (used > recording->end - recording->at)
			give_up(recording);
		else
			recording->at += used;
		return 0;
	}
	/* A record has 64 KiB at most. */
	*n_rest = piece->length - used;
	*rest = malloc(*n_rest);
	if (!*rest)
		return -ENOMEM;
	memcpy(*rest, piece->bytes + used, *n_rest);
	return 0;
}

int recording_each(struct recording *recording, recorded_each *each, void *user,
		   struct recording_totals *ret_totals, const char **ret_reason)
{
	struct piece *piece = NULL;
	char *rest = NULL;
	uint64_t n_rest = 0, used;
	int r = 0;

	*ret_reason = NULL;
	if (recording->text) {
		r = recorded_text_each(recording->text, each, user, &recording->totals);
		*ret_totals = recording->totals;
		return r;
	}
	while (!r && recording->at < recording->end) {
		r = next_piece(recording, rest, n_rest, &piece);
		if (r)
			break;
		r = take_records(recording, piece, &used, each, user);
		if (!r)
			r = leave_rest(recording, piece, used, &rest, &n_rest);
		keep(recording, piece);
	}
	if (n_rest || recording->n_packed)
		recording->totals.cut_off = true;
	free(rest);
	if (!r)
		r = tell_until(recording, UINT64_MAX, each, user);
	*ret_totals = recording->totals;
	*ret_reason = recording->reason;
	return r;
}

void recording_position(const struct recording *recording, uint64_t *ret_at, uint64_t *ret_size)
{
	*ret_at = recording->at - recording->first;
	*ret_size = recording->end - recording->first;
}

void recording_close(struct recording *recording)
{
	struct piece *piece;

	if (!recording)
		return;
	while ((piece = recording->pieces)) {
		recording->pieces = piece->next;
		free(piece);
	}
	free(recording->copies);
	free(recording->packed);
	unpack_free(recording->unpacker);
	free(recording->held);
	free(recording->sorted);
	free(recording->attrs.ids);
	if (recording->text)
		fclose(recording->text);
	if (recording->fd >= 0)
		close(recording->fd);
	free(recording);
}
