// SPDX-License-Identifier: MIT
/*
 * The cost of faults on this machine: memory of this program, touched page by page, against the
 * same memory brought in by one call. The median of some rounds, in CPU time.
 */
#include "calibrate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)8 << 20)
#define PAGE ((size_t)4096)
#define HUGE ((size_t)2 << 20)
#define ROUNDS 5

/* Before 5.14: the call is refused, and its figure not known. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static double now(void)
{
	struct timespec time;

	/* Other work on this CPU meanwhile does not count. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

struct way {
	const char *name;
	bool file;     /* pages that are in the page cache; else new memory */
	int advice;    /* before */
	int populate;  /* 0: page by page */
	bool by_fault; /* its figure is of a fault; else of a page */
};

static const struct way ways[] = {
	{ "anon_fault_ns", false, MADV_NOHUGEPAGE, 0, true },
	{ "anon_populate_ns", false, MADV_NOHUGEPAGE, MADV_POPULATE_WRITE, false },
	{ "anon_huge_ns", false, MADV_HUGEPAGE, 0, false },
	{ "file_fault_ns", true, MADV_NORMAL, 0, true },
	{ "file_populate_ns", true, MADV_NORMAL, MADV_POPULATE_READ, false },
};

/* The aligned part of twice as much, so that huge pages fit. */
static char *map(const struct way *way, int fd, char **ret_base)
{
	char *base = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE,
			  way->file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
			  way->file ? fd : -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	*ret_base = base;
	return (char *)(((uintptr_t)base + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
}

static long faults(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_minflt;
}

/* Nanoseconds, or a negative number. */
static double measure(const struct way *way, int fd)
{
	char *base, *bytes = map(way, fd, &base);
	volatile char *at;
	long n = faults();
	double begin;
	int r = 0;

	if (!bytes)
		return -1;
	if (way->advice != MADV_NORMAL)
		r = madvise(bytes, BYTES, way->advice);
	begin = now();
	if (!r && way->populate)
		r = madvise(bytes, BYTES, way->populate);
	for (at = bytes; !r && at < bytes + BYTES; at += PAGE) {
		if (way->file)
			(void)*at;
		else
			*at = 1;
	}
	begin = now() - begin;
	n = faults() - n;
	munmap(base, BYTES + HUGE);
	if (r || (way->by_fault && n <= 0))
		return -1;
	return begin / (way->by_fault ? (double)n : (double)BYTES / (double)PAGE);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A file whose pages are in memory. */
static int make_file(void)
{
	int fd = memfd_create("calibrate", MFD_CLOEXEC);
	char page[PAGE] = { 1 };
	size_t at;

	for (at = 0; fd >= 0 && at < BYTES + HUGE; at += PAGE) {
		if (pwrite(fd, page, PAGE, (off_t)at) == (ssize_t)PAGE)
			continue;
		close(fd);
		fd = -1;
	}
	return fd;
}

json_t *calibrate(void)
{
	json_t *costs = json_object();
	double times[ROUNDS];
	int fd = make_file(), round;
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		for (round = 0; round < ROUNDS; round++)
			times[round] = ways[i].file && fd < 0 ? -1 : measure(&ways[i], fd);
		qsort(times, ROUNDS, sizeof(times[0]), compare);
		json_object_set_new(costs, ways[i].name,
				    times[0] > 0 ? json_real(times[ROUNDS / 2]) : json_null());
	}
	if (fd >= 0)
		close(fd);
	return costs;
}
