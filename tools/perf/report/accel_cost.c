// SPDX-License-Identifier: MIT
/* Measures a prefetch to an accelerator, on memory of this process. */
#include "accel_cost.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <hetmap/accel.h>
#include <hetmap/range.h>

#define PIECE ((size_t)2 << 20)
#define PIECES 24
#define PAGE 4096

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The least of some: other work of the machine is no cost of it. */
static int measure(struct hm_accel *accel, char *bytes, bool touched, double *ret_ns)
{
	double least = 0, took;
	int i, r = 0;

	if (touched)
		memset(bytes, 1, PIECE * PIECES);
	for (i = 0; i < PIECES && !r; i++) {
		took = now_ns();
		r = hm_range_prefetch(bytes + (size_t)i * PIECE, PIECE, accel,
				      HM_READ | HM_WRITE, NULL);
		took = now_ns() - took;
		if (!i || took < least)
			least = took;
	}
	if (!r)
		*ret_ns = least * PAGE / PIECE;
	return r;
}

int accel_prefetch_cost(const char *name, double *ret_ns)
{
	const size_t length = PIECE * PIECES;
	struct hm_accel *accel;
	char *bytes;
	int r = hm_accel_open(name, NULL, &accel);

	if (r)
		return r;
	bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r = bytes == MAP_FAILED ? -errno : 0;
	if (!r) {
		/* As the traced program's faults had them: by 4 KiB. */
		madvise(bytes, length, MADV_NOHUGEPAGE);
		r = measure(accel, bytes, !strncmp(name, "soft:", 5), ret_ns);
		munmap(bytes, length);
	}
	hm_accel_unref(accel);
	return r;
}
