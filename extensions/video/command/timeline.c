// SPDX-License-Identifier: MIT
/* Moments of pictures, and the page that shows them. */
#include "timeline.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "perf/report/page.h"

#define FILE_TEXT(symbol, name)                                   \
	__asm__(".pushsection .rodata\n"                          \
		".hidden " #symbol "\n" #symbol ":\n"             \
		".incbin \"extensions/video/command/" name "\"\n" \
		".byte 0\n.popsection\n");                        \
	extern const char symbol[]

FILE_TEXT(timeline_frame, "timeline.html");
FILE_TEXT(timeline_style, "timeline.css");
FILE_TEXT(timeline_script, "timeline.js");

#define PICTURES_MOST 20000
#define WATCHED_MOST 256
#define LOOK_NS 100000000ull

struct picture {
	unsigned int decoder;
	uint64_t number;
	_Atomic uint64_t at[N_MOMENT]; /* of timeline_now(); 0: not met */
};

struct watched {
	struct picture *picture;
	struct hm_fence *fence;
};

struct timeline {
	const char *path;
	FILE *out;
	bool written;
	pthread_t watcher;
	struct picture *pictures; /* PICTURES_MOST */

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t changed;
	uint32_t n_picture;
	uint64_t n_beyond; /* pictures for which there was no room */
	struct watched watched[WATCHED_MOST];
	unsigned int first, n_watched;
	bool end;
};

uint64_t timeline_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- moments ---- */

struct picture *timeline_picture(struct timeline *timeline, unsigned int decoder,
				 uint64_t number, uint64_t read_ns)
{
	struct picture *picture = NULL;

	if (!timeline)
		return NULL;
	pthread_mutex_lock(&timeline->lock);
	if (timeline->n_picture < PICTURES_MOST)
		picture = &timeline->pictures[timeline->n_picture++];
	else
		timeline->n_beyond++;
	pthread_mutex_unlock(&timeline->lock);
	if (picture) {
		picture->decoder = decoder;
		picture->number = number;
		atomic_store(&picture->at[MOMENT_READ], read_ns);
	}
	return picture;
}

void picture_meets(struct picture *picture, enum moment moment)
{
	uint64_t none = 0;

	if (picture)
		atomic_compare_exchange_strong(&picture->at[moment], &none, timeline_now());
}

void timeline_watch(struct timeline *timeline, struct picture *picture, struct hm_fence *fence)
{
	if (!timeline || !picture)
		return;
	pthread_mutex_lock(&timeline->lock);
	/* Beyond that the sink's thread sees the end. */
	if (timeline->n_watched < WATCHED_MOST) {
		timeline->watched[(timeline->first + timeline->n_watched++) % WATCHED_MOST] =
			(struct watched){ picture, hm_fence_ref(fence) };
		pthread_cond_signal(&timeline->changed);
	}
	pthread_mutex_unlock(&timeline->lock);
}

static bool is_ended(struct timeline *timeline)
{
	bool end;

	pthread_mutex_lock(&timeline->lock);
	end = timeline->end;
	pthread_mutex_unlock(&timeline->lock);
	return end;
}

/* Conversions end in the order of the queue. */
static void *watch(void *user)
{
	struct timeline *timeline = user;
	struct watched one;
	int r;

	for (;;) {
		pthread_mutex_lock(&timeline->lock);
		while (!timeline->n_watched && !timeline->end)
			pthread_cond_wait(&timeline->changed, &timeline->lock);
		if (!timeline->n_watched) {
			pthread_mutex_unlock(&timeline->lock);
			return NULL;
		}
		one = timeline->watched[timeline->first];
		timeline->first = (timeline->first + 1) % WATCHED_MOST;
		timeline->n_watched--;
		pthread_mutex_unlock(&timeline->lock);
		r = hm_fence_wait(one.fence, 0);
		while (r == -ETIME && !is_ended(timeline))
			r = hm_fence_wait(one.fence, LOOK_NS);
		if (!r)
			picture_meets(one.picture, MOMENT_CONVERTED);
		hm_fence_unref(one.fence);
	}
}

/* ---- the page ---- */

static json_t *moments_json(struct picture *picture, uint64_t begin_ns)
{
	json_t *row = json_array();
	unsigned int i;
	uint64_t at;

	json_array_append_new(row, json_integer((json_int_t)picture->decoder));
	json_array_append_new(row, json_integer((json_int_t)picture->number));
	for (i = 0; i < N_MOMENT; i++) {
		at = atomic_load(&picture->at[i]);
		json_array_append_new(
			row, json_integer(at > begin_ns ? (json_int_t)(at - begin_ns) : 0));
	}
	return row;
}

/*
 * The data, version 1:
 *
 *	version		1
 *	began		seconds since 1970
 *	report		what --json prints
 *	beyond		pictures that are not in the table, because it was full
 *	pictures	[[decoder from 0, number from 1, and each moment in ns from the begin of
 *			the work, 0: not met], ...] in the order of MOMENT_DECODED
 */
static json_t *page_json(struct timeline *timeline, const json_t *report, uint64_t begin_ns)
{
	json_t *rows = json_array();
	uint64_t ago = timeline_now() - begin_ns;
	uint32_t i;

	for (i = 0; i < timeline->n_picture; i++)
		json_array_append_new(rows, moments_json(&timeline->pictures[i], begin_ns));
	return json_pack("{s:i, s:f, s:O, s:I, s:o}", "version", 1, "began",
			 (double)time(NULL) - (double)ago / 1e9, "report", report, "beyond",
			 (json_int_t)timeline->n_beyond, "pictures", rows);
}

static int fail_to_write(const char *path, int error)
{
	char *shown = text_escape(path);
	int status = fail(STATUS_ENVIRONMENT, error, NULL, "cannot write %s: %s", shown,
			  strerror(error < 0 ? -error : error));

	free(shown);
	return status;
}

/* Ends the thread; what it has not seen done it gives back. */
static void end_watcher(struct timeline *timeline)
{
	pthread_mutex_lock(&timeline->lock);
	timeline->end = true;
	pthread_cond_signal(&timeline->changed);
	pthread_mutex_unlock(&timeline->lock);
	pthread_join(timeline->watcher, NULL);
}

int timeline_write(struct timeline *timeline, const json_t *report, uint64_t begin_ns)
{
	struct page_part parts[] = {
		{ "@STYLE@", page_style, NULL },
		{ "@MORE@", timeline_style, NULL },
		{ "@DATA@", NULL, NULL },
		{ "@WORDS@", page_words, NULL },
		{ "@SCRIPT@", timeline_script, NULL },
	};
	json_t *data;
	int r;

	if (!timeline)
		return 0;
	data = page_json(timeline, report, begin_ns);
	parts[2].data = data;
	r = data ? page_fill(timeline->out, timeline_frame, parts,
			     sizeof(parts) / sizeof(parts[0])) :
		   -ENOMEM;
	json_decref(data);
	if (fclose(timeline->out) && !r)
		r = -errno;
	timeline->out = NULL;
	timeline->written = !r;
	return r ? fail_to_write(timeline->path, r) : 0;
}

int timeline_create(const char *path, struct timeline **ret_timeline)
{
	struct timeline *timeline;
	int error;

	timeline = calloc(1, sizeof(*timeline));
	if (!timeline)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for a timeline");
	timeline->path = path;
	timeline->pictures = calloc(PICTURES_MOST, sizeof(*timeline->pictures));
	if (!timeline->pictures) {
		free(timeline);
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for a timeline");
	}
	timeline->out = fopen(path, "we");
	error = timeline->out ? 0 : errno;
	if (error)
		goto err_free;
	pthread_mutex_init(&timeline->lock, NULL);
	pthread_cond_init(&timeline->changed, NULL);
	error = pthread_create(&timeline->watcher, NULL, watch, timeline);
	if (error)
		goto err_close;
	*ret_timeline = timeline;
	return 0;
err_close:
	pthread_cond_destroy(&timeline->changed);
	pthread_mutex_destroy(&timeline->lock);
	fclose(timeline->out);
	unlink(path);
err_free:
	free(timeline->pictures);
	free(timeline);
	return fail_to_write(path, error);
}

void timeline_destroy(struct timeline *timeline)
{
	struct stat status;

	if (!timeline)
		return;
	end_watcher(timeline);
	if (timeline->out)
		fclose(timeline->out);
	/* A part of it would pass for the whole; and not of /dev/stdout. */
	if (!timeline->written && !stat(timeline->path, &status) && S_ISREG(status.st_mode))
		unlink(timeline->path);
	pthread_cond_destroy(&timeline->changed);
	pthread_mutex_destroy(&timeline->lock);
	free(timeline->pictures);
	free(timeline);
}
