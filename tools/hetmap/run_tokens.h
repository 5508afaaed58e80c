/* SPDX-License-Identifier: MIT */
/* hetmap run tokens: shared by its steps. */
#ifndef HETMAP_RUN_TOKENS_H
#define HETMAP_RUN_TOKENS_H

#include "job.h"

/* In the device's buffer: the thread fills one while another one is looked at. */
#define SLOTS 3
/* Sizes of a batch, one after another: grown, and shrunk again. */
#define PHASES_MAX 7

/*
 * Values behind the end of a document: of x, and of y where its type has negative numbers, as
 * training leaves out places with -100.
 */
#define PAD_X 0
#define PAD_Y (-100)

/* Sums of a batch, equal only for the same tokens in the same order. */
struct token_sums {
	uint64_t x, y;                   /* sums of the tokens */
	uint64_t x_in_order, y_in_order; /* sums of each token times its place, from 1 */
};

struct tokens_job {
	const struct job_options *options;
	uint32_t n_npy; /* how many of the files name their own type */
	struct hm_tokens *tokens;
	struct hm_tokens_info info;
	struct hm_batches *batches;
	struct hm_batches_info cost; /* when all were taken */
	uint32_t to;                 /* type of a token in the device's buffer, */
	uint32_t width;              /* and its bytes */

	struct hm_device *device;
	char device_name[64];
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *address; /* address of the map, when it was made */

	uint64_t phase[PHASES_MAX]; /* blocks of a batch */
	unsigned int n_phase;
	uint64_t size, size_least, size_most; /* size of the buffer: now, and so far */
	unsigned int resizes;
	double resize_seconds;

	/* Totals of all batches: */
	uint64_t n_batch, n_block;
	struct token_sums *sums;
	uint64_t *blocks;  /* how many it had */
	uint64_t *starts;  /* n_block of them */
	uint64_t *lengths; /* likewise: tokens before the padding */
	int64_t pad_y;

	double seconds; /* time of taking and checking them */
	long minor, major;
};

/* Tokens of each file that are looked at first. */
#define VOCABULARY_FIRST 4096

/* ---- run_tokens_check.c ---- */

/*
 * Are the first tokens of each file below --vocab? A wrong type and a header that was not skipped
 * show there. An exit status.
 */
int tokens_check_vocabulary(const struct tokens_job *job);

/* Has an integer type numbers below 0? */
bool tokens_type_is_signed(uint32_t dtype);

/* Adds @n tokens of @dtype at @bytes, of which the first one has place @place. */
void tokens_add_up(uint32_t dtype, const void *bytes, uint64_t n, uint64_t *sum,
		   uint64_t *in_order);
/* Reads the files again, as plainly as can be, and compares: an exit status. */
int tokens_verify(const struct tokens_job *job);

/* ---- run_tokens_report.c ---- */

void tokens_print(const struct tokens_job *job);

#endif
