/* SPDX-License-Identifier: MIT */
/*
 * Timeline: when each picture was where, as a page (--timeline). Without a timeline all of the
 * functions get NULL, and do nothing.
 */
#ifndef HETMAP_VIDEO_TIMELINE_H
#define HETMAP_VIDEO_TIMELINE_H

#include <jansson.h>
#include <stdint.h>

#include <hetmap/hetmap.h>

struct timeline;
struct picture;

/* The moments of a picture, in the order in which it meets them. */
enum moment {
	MOMENT_READ,      /* its decoder was asked for it */
	MOMENT_DECODED,   /* and has given it */
	MOMENT_ROOM,      /* a result was free */
	MOMENT_LAUNCHED,  /* its conversion was handed to the accelerator */
	MOMENT_CONVERTED, /* and was seen done */
	MOMENT_SINK,      /* the sink began with it */
	MOMENT_END,       /* and was done */
	MOMENT_DROPPED,   /* in place of all that did not come any more */
	N_MOMENT,
};

/*
 * Begins the file @path. Whatever happens until timeline_write() takes it away. An exit status; a
 * failure is reported.
 */
int timeline_create(const char *path, struct timeline **ret_timeline);
void timeline_destroy(struct timeline *timeline);

/* A picture that its decoder was asked for at @read_ns; NULL: there are too many. Any thread. */
struct picture *timeline_picture(struct timeline *timeline, unsigned int decoder,
				 uint64_t number, uint64_t read_ns);
/* The picture meets @moment now; the first call counts. Any thread. */
void picture_meets(struct picture *picture, enum moment moment);
/* Has the end of the conversion seen by a thread that does nothing else. Any thread. */
void timeline_watch(struct timeline *timeline, struct picture *picture, struct hm_fence *fence);

/*
 * Writes the page, once all other threads have ended. @report: what --json prints; @begin_ns: the
 * begin of the work. An exit status; a failure is reported.
 */
int timeline_write(struct timeline *timeline, const json_t *report, uint64_t begin_ns);

/* CLOCK_MONOTONIC */
uint64_t timeline_now(void);

#endif
