/* SPDX-License-Identifier: MIT */
/*
 * Pipeline: decoders, each on a thread of its own, launch the conversion of their pictures, and
 * the main thread gives the results to the sink in the order of the launches.
 */
#ifndef HETMAP_VIDEO_PIPELINE_H
#define HETMAP_VIDEO_PIPELINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>
#include <hetmap/video.h>

#include "convert.h"
#include "sink.h"
#include "timeline.h"

#define DECODERS_MOST 16
#define PIPELINE_LOOK_NS 100000000ull /* a wait is interrupted as often, to look at signals */
#define IN_FLIGHT 4 /* pictures of a decoder between its conversion and the end of the sink */
#define QUEUE_MOST (DECODERS_MOST * IN_FLIGHT)

/* Fate of a picture for which no result is free, because the sink is slower. */
enum pipeline_policy {
	POLICY_WAIT,        /* its decoder waits */
	POLICY_DROP_OLDEST, /* the picture that waits longest for the sink is dropped */
	POLICY_DROP_NEWEST, /* it is dropped itself */
};

struct pipeline_options {
	const char *input;
	const char *format;   /* of a raw input; NULL: the file says */
	const char *codec;    /* "v4l2:/dev/video1" decodes; NULL: libavcodec */
	const char *device;   /* NULL: HETMAP_DEVICE, or host */
	const char *accel;    /* NULL: opencl:0, or else cpu */
	const char *sink;     /* "null", "png:DIR", "display", "display:CARD" */
	const char *timeline; /* file for the page; NULL: none */
	bool bench;
	bool paced;             /* pictures are due at the rate of the video */
	uint32_t policy;        /* enum pipeline_policy */
	bool check;             /* reads back what a display shows */
	uint32_t camera_policy; /* enum hm_frame_policy */
	uint32_t memory;        /* of a camera: HM_VIDEO_DMABUF, HM_VIDEO_EXPBUF, or 0 */
	uint64_t decoders;
	uint64_t frames;  /* pictures of each decoder; 0: all */
	uint64_t threads; /* of each decoder; 0: the library chooses */
};

/* A picture on its way to the sink. */
struct converted {
	struct hm_frame *frame;
	struct hm_fence *fence;  /* of the conversion; NULL: there is none */
	struct picture *picture; /* in the timeline */
	unsigned int decoder;
	uint64_t number; /* of the decoder's pictures, from 1 */
	uint64_t decoded_ns;
};

struct producer {
	struct pipeline *pipeline;
	struct hm_video *video;
	pthread_t thread;
	unsigned int index;
	bool running;
};

struct pipeline {
	const struct pipeline_options *options;
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_frame_pool *source; /* of all decoders */
	struct sink sink;
	struct timeline *timeline;
	char device_name[64];
	struct hm_accel_info accel_info;
	struct hm_video_info video_info;
	struct producer producer[DECODERS_MOST];

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t changed;
	struct hm_frame_pool *results; /* XRGB8888 */
	uint32_t result_width, result_height;
	uint64_t results_bytes; /* peak */
	uint32_t results_peak;
	struct converted converted[QUEUE_MOST];
	unsigned int first, n_converted;
	unsigned int n_running;
	bool stop;
	uint64_t dropped;
	bool looked; /* colour is that of the first picture */
	struct convert_colour colour;
	/* The first failure of a decoder. */
	int error;
	char text[512];

	/* The main thread's. */
	uint64_t pictures;
	uint64_t bytes_converted; /* copied by the launches */
	uint64_t bytes_decoded;   /* copied after the decoder */
	uint64_t repeated;
	uint32_t way_in;
	double *latencies; /* seconds, of each picture */
	uint64_t n_latency, latency_room;
	double begin, end;
	struct hm_frame_pool_info source_info; /* at the end */
	struct display_info display_info;      /* likewise, of a display */
};

/* The functions return exit statuses; failures are reported already. */
int pipeline_open(struct pipeline *pipeline, const struct pipeline_options *options);
int pipeline_run(struct pipeline *pipeline);
void pipeline_close(struct pipeline *pipeline);

/* The latency that @part of the pictures were not above. Sorts them. */
double pipeline_latency(struct pipeline *pipeline, double part);
double pipeline_now(void);
/* "drop-oldest"; NULL: there is no such policy. */
const char *pipeline_policy_name(uint32_t policy);

/* For the threads of the pipeline: all decoders end after the picture that they are at. */
void pipeline_stop(struct pipeline *pipeline);
/* Takes the peak of the pool of results. The caller has the lock. (producer.c) */
void pipeline_note_results(struct pipeline *pipeline);
/* The thread of a struct producer. (producer.c) */
void *producer_run(void *producer);

/* The line that shows how far it is, on a terminal (report.c). */
void live_line(struct pipeline *pipeline);
void live_line_end(void);
void report(struct pipeline *pipeline);
#define FOURCC_TEXT 5
/* "NV12". Returns @text. */
const char *report_fourcc(uint32_t fourcc, char text[FOURCC_TEXT]);
/* Name of an enum hm_way_in; NULL: it has none. */
const char *report_way(uint32_t way);
/* Object that --json prints. */
json_t *report_object(struct pipeline *pipeline);

#endif
