// SPDX-License-Identifier: MIT
/*
 * The order in which pages are touched, as a prefetcher sees it: each thread has some streams,
 * each of which expects its next page at its last one and a step. A fault where one expects it
 * is foretold; the step of most of those is the pattern.
 */
#include <errno.h>
#include <stdlib.h>

#include "analysis.h"

#define STREAMS 4
#define STEPS 8
/* A page further away than that begins a stream rather than goes one on. */
#define NEAR 4096
/* Fewer faults than that have no pattern, and nothing to gain. */
#define FAULTS_LEAST 32
/* That share of the faults has to be foretold. */
#define REGULAR_LEAST 0.6
/* Pages that one fault on a file brings in around it [filemap_map_pages()]. */
#define FAULT_AROUND 16
#define HUGE_PAGES 512

struct stream {
	int64_t last, step;
	uint64_t used; /* when: streams->clock */
};

struct step {
	int64_t pages;
	uint64_t n;
};

struct streams {
	uint32_t tid;
	uint64_t clock;
	uint64_t n, foretold;
	uint64_t onward; /* the others whose step a fault on a file may bring in */
	uint64_t waited_ns;
	struct stream stream[STREAMS];
	struct step step[STEPS]; /* the frequent ones; see count_step() */
	struct streams *next;
};

static struct streams *streams_of(struct streams **first, uint32_t tid)
{
	struct streams *streams = *first, **link = first;

	for (; streams; link = &streams->next, streams = *link) {
		if (streams->tid != tid)
			continue;
		/* To the front: the next fault is this thread's, mostly. */
		*link = streams->next;
		streams->next = *first;
		return *first = streams;
	}
	streams = calloc(1, sizeof(*streams));
	if (!streams)
		return NULL;
	streams->tid = tid;
	streams->next = *first;
	return *first = streams;
}

/* Misra and Gries 1982: a step that comes more often than 1 in STEPS is in it at the end. */
static void count_step(struct streams *streams, int64_t pages)
{
	struct step *empty = NULL;
	int i;

	for (i = 0; i < STEPS; i++) {
		if (streams->step[i].n && streams->step[i].pages == pages) {
			streams->step[i].n++;
			return;
		}
		if (!streams->step[i].n)
			empty = &streams->step[i];
	}
	if (empty) {
		*empty = (struct step){ pages, 1 };
		return;
	}
	for (i = 0; i < STEPS; i++)
		streams->step[i].n--;
}

static bool expects(const struct stream *stream, int64_t page)
{
	return stream->used && stream->step && page == stream->last + stream->step;
}

int pattern_note(struct streams **first, uint32_t tid, int64_t page)
{
	struct streams *streams = streams_of(first, tid);
	struct stream *stream, *nearest = NULL, *oldest;
	int64_t distance, step, least = NEAR;
	int i;

	if (!streams)
		return -ENOMEM;
	streams->n++;
	streams->clock++;
	oldest = &streams->stream[0];
	for (i = 0; i < STREAMS; i++) {
		stream = &streams->stream[i];
		if (expects(stream, page)) {
			streams->foretold++;
			count_step(streams, stream->step);
			stream->last = page;
			stream->used = streams->clock;
			return 0;
		}
		distance = llabs(page - stream->last);
		if (stream->used && distance <= least) {
			least = distance;
			nearest = stream;
		}
		if (stream->used < oldest->used)
			oldest = stream;
	}
	if (!nearest) {
		*oldest = (struct stream){ .last = page, .used = streams->clock };
		return 0;
	}
	step = page - nearest->last;
	/* Not in the other direction. */
	if (step && llabs(step) <= FAULT_AROUND && (step > 0) == (nearest->step >= 0))
		streams->onward++;
	if (step)
		nearest->step = step;
	nearest->last = page;
	nearest->used = streams->clock;
	return 0;
}

void pattern_waited(struct streams *streams, uint32_t tid, uint64_t ns)
{
	/* Its fault began a moment ago: it is among the first. */
	while (streams && streams->tid != tid)
		streams = streams->next;
	if (streams)
		streams->waited_ns += ns;
}

uint64_t pattern_longest_wait(const struct streams *streams)
{
	uint64_t longest = 0;

	for (; streams; streams = streams->next)
		if (streams->waited_ns > longest)
			longest = streams->waited_ns;
	return longest;
}

void pattern_join(struct streams **to, struct streams **from)
{
	struct streams **end = from;

	while (*end)
		end = &(*end)->next;
	*end = *to;
	*to = *from;
	*from = NULL;
}

/*
 * A fault on a file brings in the pages around it that are in memory: up to FAULT_AROUND, or
 * fewer where it came before the read that was under way.
 */
static bool brings_in_around(const struct object *object)
{
	return object->kind != OBJECT_ANON && object->kind != OBJECT_HEAP;
}

static bool is_sequential(const struct object *object, int64_t step)
{
	int64_t pages = llabs(step);

	return pages == 1 || pages == HUGE_PAGES ||
	       (brings_in_around(object) && pages <= FAULT_AROUND);
}

void pattern_judge(struct counted *counted)
{
	uint64_t n = 0, foretold = 0, most = 0;
	const struct streams *streams;
	int64_t step = 0;
	int i;

	for (streams = counted->streams; streams; streams = streams->next) {
		n += streams->n;
		foretold += streams->foretold;
		if (brings_in_around(counted->object))
			foretold += streams->onward;
		for (i = 0; i < STEPS; i++)
			if (streams->step[i].n > most) {
				most = streams->step[i].n;
				step = streams->step[i].pages;
			}
	}
	counted->regular = n ? (double)foretold / (double)n : 0;
	if (n < FAULTS_LEAST) {
		counted->pattern = PATTERN_FEW;
		return;
	}
	if (counted->regular < REGULAR_LEAST) {
		counted->pattern = PATTERN_RANDOM;
		return;
	}
	counted->stride = step;
	counted->pattern = is_sequential(counted->object, step) ? PATTERN_SEQUENTIAL :
								  PATTERN_STRIDED;
}

void pattern_free(struct streams *streams)
{
	struct streams *next;

	for (; streams; streams = next) {
		next = streams->next;
		free(streams);
	}
}
