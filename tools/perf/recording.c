// SPDX-License-Identifier: MIT
/*
 * A recording, read in pieces and told by time.
 *
 * Each CPU's records are in order, and were written in rounds: what is behind a round's
 * end is younger than the youngest of the round before. So after a round all up to that
 * one can be told, and no more is held than two rounds are long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording_private.h"

#define PIECE (UINT64_C(1) << 20)
/* A recording without rounds, or with too long ones, is told out of order rather. */
#define HELD_MOST (UINT64_C(256) << 20)
/* All tracepoints of a kernel are some MiB. */
#define FORMATS_MOST (UINT64_C(64) << 20)

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
	struct recorded_attrs attrs;
	uint64_t at, end; /* of the records, in the file */
	uint64_t first;
	struct held *held;   /* in the order of the file */
	struct held *sorted; /* as much room, for merging */
	uint64_t n_held, room, held_bytes;
	struct piece *pieces;
	uint64_t youngest; /* of all that were read */
	uint64_t limit;    /* of the round before: those can be told at its end */
	uint64_t told;     /* the time of the last one */
	struct recording_totals totals;
};

static ssize_t read_at(int fd, void *to, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = pread(fd, (char *)to + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (uint64_t)n;
	}
	return (ssize_t)done;
}

/* ---- its head ---- */

static enum recorded kind_of(const struct perf_event_attr *attr, bool *ret_fault)
{
	*ret_fault = attr->type == PERF_TYPE_SOFTWARE;
	switch (attr->config) {
	case PERF_COUNT_SW_PAGE_FAULTS:
		return RECORDED_FAULT;
	case PERF_COUNT_SW_PAGE_FAULTS_MIN:
		return RECORDED_MINOR;
	case PERF_COUNT_SW_PAGE_FAULTS_MAJ:
		return RECORDED_MAJOR;
	default:
		*ret_fault = false;
		return RECORDED_FAULT;
	}
}

static int compare_ids(const void *a, const void *b)
{
	const struct recorded_id *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int read_ids(struct recording *recording, const struct perf_data_section *section,
		    uint32_t attr, uint64_t size)
{
	struct recorded_attrs *attrs = &recording->attrs;
	uint64_t n = section->size / sizeof(uint64_t), i;
	struct recorded_id *more;
	uint64_t *ids;

	if (section->offset > size || section->size > size - section->offset)
		return -EPROTO;
	ids = malloc(n * sizeof(*ids) + 1);
	more = realloc(attrs->ids, (attrs->n_id + n + 1) * sizeof(*more));
	if (more)
		attrs->ids = more;
	if (!ids || !more) {
		free(ids);
		return -ENOMEM;
	}
	if (read_at(recording->fd, ids, n * sizeof(*ids), section->offset) !=
	    (ssize_t)(n * sizeof(*ids)))
		n = 0;
	for (i = 0; i < n; i++)
		attrs->ids[attrs->n_id++] = (struct recorded_id){ ids[i], attr };
	free(ids);
	return 0;
}

static int read_attr(struct recording *recording, const struct perf_data_head *head, uint32_t i,
		     uint64_t size)
{
	struct perf_data_section ids;
	struct perf_event_attr attr = { 0 };
	uint64_t offset = head->attrs.offset + i * head->attr_size;
	uint64_t length = head->attr_size - sizeof(ids);
	struct recorded_attr *known = &recording->attrs.attr[i];

	if (length > sizeof(attr))
		length = sizeof(attr);
	if (read_at(recording->fd, &attr, length, offset) != (ssize_t)length ||
	    read_at(recording->fd, &ids, sizeof(ids), offset + head->attr_size - sizeof(ids)) !=
		    (ssize_t)sizeof(ids))
		return -EPROTO;
	known->sample_type = attr.sample_type;
	known->trailer = attr.sample_id_all;
	known->time_at = recorded_time_at(attr.sample_type);
	known->kind = kind_of(&attr, &known->fault);
	if (attr.type == PERF_TYPE_TRACEPOINT)
		known->point = recorded_point(&recording->attrs, attr.config);
	return read_ids(recording, &ids, i, size);
}

/* Where the formats of tracepoints are: a recording that is cut off has no table of features. */
static bool find_formats(const struct recording *recording, const struct perf_data_head *head,
			 uint64_t size, struct perf_data_section *ret_section)
{
	uint64_t table = head->data.offset + head->data.size;
	uint64_t before = head->features[0] & ((UINT64_C(1) << PERF_DATA_FORMATS) - 1);

	*ret_section = head->formats;
	if (head->formats.size)
		return true;
	if (!(head->features[0] & UINT64_C(1) << PERF_DATA_FORMATS) ||
	    head->data.size > size - head->data.offset)
		return false;
	table += (uint64_t)__builtin_popcountll(before) * sizeof(*ret_section);
	return read_at(recording->fd, ret_section, sizeof(*ret_section), table) ==
	       (ssize_t)sizeof(*ret_section);
}

/* What is wrong with them is as if there were none. */
static void read_points(struct recording *recording, const struct perf_data_head *head,
			uint64_t size)
{
	struct perf_data_section section;
	char *data;

	if (!find_formats(recording, head, size, &section) || section.offset > size ||
	    section.size > size - section.offset || section.size > FORMATS_MOST)
		return;
	data = malloc(section.size + 1);
	if (data &&
	    read_at(recording->fd, data, section.size, section.offset) == (ssize_t)section.size)
		recorded_points_take(&recording->attrs, data, section.size);
	free(data);
}

/*
 * Of several events, each sample has to say of which it is, at one place in all: perf has
 * them do so at their front where their types differ, and else behind the address.
 */
static const char *look_at_attrs(const struct recorded_attrs *attrs)
{
	uint32_t i, id_at = recorded_id_at(attrs->attr[0].sample_type);
	bool any = false;

	for (i = 0; i < attrs->n; i++) {
		any |= attrs->attr[i].fault;
		if (!(attrs->attr[i].sample_type & PERF_SAMPLE_TIME))
			return "it has no times: perf record -T -d -e page-faults -c 1";
		if (attrs->attr[i].fault && !(attrs->attr[i].sample_type & PERF_SAMPLE_ADDR))
			return "it has no addresses: perf record -d -e page-faults -c 1";
		if (attrs->n > 1 &&
		    (!id_at || recorded_id_at(attrs->attr[i].sample_type) != id_at))
			return "its samples don't say of which event they are";
	}
	return any ? NULL : "no page faults were recorded: perf record -d -e page-faults -c 1";
}

static int read_head(struct recording *recording, const char **ret_reason)
{
	struct perf_data_head head;
	struct stat st;
	uint64_t size, n;
	uint32_t i;
	int r = 0;

	*ret_reason = "it is no recording of perf or hetmap";
	if (fstat(recording->fd, &st))
		return -errno;
	size = (uint64_t)st.st_size;
	if (!S_ISREG(st.st_mode) ||
	    read_at(recording->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return -EPROTO;
	if (!head.magic[0] && !head.size) {
		*ret_reason = "the one who recorded it did not come to its end: its head is "
			      "not written";
		return -EPROTO;
	}
	if (memcmp(head.magic, PERF_DATA_MAGIC, sizeof(head.magic)) != 0)
		return -EPROTO;
	if (head.size < sizeof(head)) {
		*ret_reason = "it was written to a pipe: perf record -o FILE";
		return -EPROTO;
	}
	*ret_reason = "its head makes no sense";
	if (head.attr_size < PERF_ATTR_SIZE_VER0 + sizeof(struct perf_data_section) ||
	    head.attr_size > 4096)
		return -EPROTO;
	*ret_reason =
		"it is cut off before its records, or its head makes no sense: nothing of "
		"it can be read. Copy it again, or record it again";
	if (head.attrs.offset > size || head.attrs.size > size - head.attrs.offset ||
	    head.data.offset > size)
		return -EPROTO;
	n = head.attrs.size / head.attr_size;
	if (!n || n > ATTRS_MOST)
		return -EPROTO;
	recording->attrs.n = (uint32_t)n;
	read_points(recording, &head, size);
	for (i = 0; i < n && !r; i++)
		r = read_attr(recording, &head, i, size);
	if (r)
		return r;
	if (recording->attrs.n_id)
		qsort(recording->attrs.ids, recording->attrs.n_id,
		      sizeof(*recording->attrs.ids), compare_ids);
	*ret_reason = look_at_attrs(&recording->attrs);
	if (*ret_reason)
		return -EPROTO;
	recording->first = recording->at = head.data.offset;
	/* perf writes the size at its end: without it, all that is there. */
	recording->end = size;
	if (head.data.size && head.data.size <= size - head.data.offset)
		recording->end = head.data.offset + head.data.size;
	else
		recording->totals.cut_off = true;
	return 0;
}

int recording_open(const char *path, struct recording **ret_recording, const char **ret_reason)
{
	struct recording *recording = calloc(1, sizeof(*recording));
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
	r = read_head(recording, ret_reason);
	if (r) {
		recording_close(recording);
		return r;
	}
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
	if (!recorded_text_look(recording->text, &recording->text_latency)) {
		*ret_reason = "no page faults with times and addresses are in it: perf script "
			      "--ns -F comm,pid,tid,time,event,addr,ip,sym,dso "
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
 * Sorts by time, and leaves those of one time as they stand in the file: what is mapped
 * comes before its faults. A few runs are the rule, one for each ring and one that was
 * held back: merging those two by two takes a look or two at each record.
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

/* The records that end inside of @piece; *ret_used: where the first stands that does not. */
static int take_records(struct recording *recording, struct piece *piece, uint64_t *ret_used,
			recorded_each *each, void *user)
{
	const struct perf_event_header *record;
	uint64_t at = 0;
	int r = 0;

	while (!r && at + sizeof(*record) <= piece->length) {
		record = (const struct perf_event_header *)(const void *)(piece->bytes + at);
		if (record->size < sizeof(*record) || record->size % 8) {
			/* From here on it can't be known where records begin. */
			recording->totals.cut_off = true;
			recording->at = recording->end;
			at = piece->length;
			break;
		}
		if (at + record->size > piece->length)
			break;
		at += record->size;
		if (record->type == PERF_RECORD_FINISHED_ROUND)
			r = end_round(recording, each, user);
		else
			r = hold(recording, piece, record);
		if (!r && recording->held_bytes > HELD_MOST)
			r = tell_until(recording, UINT64_MAX, each, user);
	}
	*ret_used = at;
	return r;
}

/* The next piece: @rest bytes of the one before it, and what follows in the file. */
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
	n = read_at(recording->fd, piece->bytes + n_rest, wanted, recording->at);
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

int recording_each(struct recording *recording, recorded_each *each, void *user,
		   struct recording_totals *ret_totals)
{
	struct piece *piece = NULL;
	char *rest = NULL;
	uint64_t n_rest = 0, used;
	int r = 0;

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
		n_rest = piece->length - used;
		free(rest);
		/* A record has 64 KiB at most. */
		rest = malloc(n_rest + 1);
		if (!rest)
			r = -ENOMEM;
		else
			memcpy(rest, piece->bytes + used, n_rest);
		keep(recording, piece);
	}
	if (n_rest)
		recording->totals.cut_off = true;
	free(rest);
	if (!r)
		r = tell_until(recording, UINT64_MAX, each, user);
	*ret_totals = recording->totals;
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
	free(recording->held);
	free(recording->sorted);
	free(recording->attrs.ids);
	if (recording->text)
		fclose(recording->text);
	if (recording->fd >= 0)
		close(recording->fd);
	free(recording);
}
