/* SPDX-License-Identifier: MIT */
/*
 * Tour: one buffer of a device through its whole life. Each step queries the state, compares it
 * with the expected one, and shows it.
 */
#ifndef HETMAP_TOUR_H
#define HETMAP_TOUR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>

#define TOUR_CELLS 24 /* blocks of the drawing */
#define TOUR_BUFFER "tour"

struct tour {
	const char *device_name; /* NULL: the best one that opens */
	const char *accel_name;  /* NULL: the device's own, or the best one there is */

	struct hm_device *device;
	struct hm_device_info device_info;
	struct hm_accel *accel;
	struct hm_accel_info accel_info;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t *words; /* the map's first byte */

	uint64_t first_size; /* when it is made */
	uint64_t size;       /* now */
	uint64_t max_size;   /* after it has grown */
	/* Bytes of each of its three parts: operand, result, growth. Whole pages. */
	uint64_t part;
	bool is_protected; /* the first part */
	bool is_locked;    /* the second part */
	bool computed;
	struct hm_stats before; /* when the tour began */

	/* State of the current step. */
	const char *step;
	char *text; /* result of the step; free() it */
	/* Where it failed: told once the step is shown. free() it; its errno. */
	char *failure;
	int error;
	uint64_t n_expected;
	double seconds;

	json_t *steps;
	uint64_t n_done, n_absent, n_checks;
};

/*
 * A step returns STATUS_DONE, TOUR_ABSENT where the device has no such thing, or
 * an exit status: after tour_fail(), or 128 + n when signal n came.
 */
#define TOUR_ABSENT (-1)

typedef int tour_step(struct tour *tour);

/* The steps, in their order. tour_steps.c: */
tour_step tour_open, tour_create, tour_map, tour_write, tour_grow, tour_lock, tour_protect,
	tour_shrink, tour_release;
/* tour_compute.c: */
tour_step tour_launch, tour_read;
/* tour_share.c: */
tour_step tour_bracket, tour_second, tour_prefetch;

/* ---- tour_check.c: for the steps ---- */

/* Sets the step's result, a sentence. */
void tour_say(struct tour *tour, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why the step fails; returns @status. @error: errno, positive or negative. */
int tour_fail(struct tour *tour, int status, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Returns 0; or STATUS_WRONG after tour_fail() with the difference, unless @holds. */
int tour_expect(struct tour *tour, bool holds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int tour_expect_number(struct tour *tour, uint64_t found, uint64_t expected, const char *what);
/* The rights that the page table gives at @pointer: enum hm_access. */
int tour_expect_access(struct tour *tour, const void *pointer, uint32_t access,
		       const char *what);

/*
 * Returns the tour's result for a failed call: TOUR_ABSENT for -EOPNOTSUPP, unless the buffer
 * has @cap (0: no capability stands for it); a lost device is STATUS_WRONG, a limit
 * STATUS_ENVIRONMENT.
 */
int tour_failed(struct tour *tour, int r, uint64_t cap, const char *what);

/* Word @i of the buffer before any computing. */
static inline uint32_t tour_word(uint64_t i)
{
	return (uint32_t)(i * 2654435761u + 1);
}

/* ---- tour_show.c ---- */

void tour_show_head(const struct tour *tour);
/* @status: result of the step. */
void tour_show_step(struct tour *tour, int status);
void tour_show_end(struct tour *tour);

#endif
