/* SPDX-License-Identifier: MIT */
/* The mirror of the process for its tests: an opener that has one, and work on plain pointers. */
#ifndef HETMAP_TESTS_MIRROR_SUPPORT_H
#define HETMAP_TESTS_MIRROR_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/hetsim.h"
#include "lib/rig.h"

#define MIRROR_HUGE (2u << 20)

struct mirror {
	int fd;
	uint32_t queue;        /* of HETSIM_QUEUE_COUNTER */
	uint64_t segment;      /* longest range of a command, in whole pages */
	unsigned char *result; /* a page of this process, for results of commands */
};

/* How work has ended. */
struct mirror_end {
	int status;
	uint32_t reason;
	uint32_t write;
	uint64_t address;
};

/* False: the test was skipped, as there is no device, or none with a mirror. */
bool mirror_open(struct mirror *mirror);
/* The same; the test ends where it would be skipped. */
struct mirror mirror_begin(void);
/* The same with another device's node, which the caller has opened. */
bool mirror_start(struct mirror *mirror, int fd);
void mirror_close(struct mirror *mirror);
AUTO_END(mirror, mirror_close)

/* Runs one command on @queue and waits. */
struct mirror_end mirror_run_on(const struct mirror *mirror, uint32_t queue,
				const struct hetsim_command *command);
struct mirror_end mirror_end_of(const struct mirror *mirror, uint32_t queue, uint64_t seqno);
/* The engine reads a range, or writes @value into its words, by as many commands as it takes. */
struct mirror_end mirror_read(const struct mirror *mirror, const void *from, size_t n);
struct mirror_end mirror_fill(const struct mirror *mirror, void *to, size_t n, uint32_t value);
struct mirror_end mirror_copy(const struct mirror *mirror, void *to, const void *from,
			      size_t n);

/* The first: all was done; the second: it ended with -EFAULT at @at for the reason @why. */
#define CHECK_DONE(end) CHECK_EQUAL((end).status, 0)
#define CHECK_FAULT(end, why, at, writing)                          \
	do {                                                        \
		struct mirror_end is = (end);                       \
                                                                    \
		CHECK_EQUAL(is.status, -EFAULT);                    \
		CHECK_EQUAL(is.reason, (why));                      \
		CHECK_EQUAL(is.address, (uint64_t)(uintptr_t)(at)); \
		CHECK_EQUAL(is.write, (writing));                   \
	} while (0)

/* Are all words of the range that? */
bool mirror_words_are(const void *bytes, size_t n, uint32_t value);

struct hetsim_page mirror_page(const struct mirror *mirror, const void *address);
int mirror_advise(const struct mirror *mirror, const void *address, size_t n, uint32_t advice,
		  uint64_t value);
struct mirror_end mirror_prefetch(const struct mirror *mirror, const void *address, size_t n,
				  uint32_t location, uint32_t flags);
struct hetsim_counters mirror_counters(const struct mirror *mirror);

/* mmap() that is aligned to 2 MiB, of @n bytes, a multiple of them; a failure ends the test. */
void *mirror_map(size_t n, int prot, int flags, int file);

#endif
