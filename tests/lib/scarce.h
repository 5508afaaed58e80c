/* SPDX-License-Identifier: MIT */
/*
 * The operations of undo_operations.c where there is little of something, on each of
 * some devices: a test for each pair, "ulimit_n.soft:0".
 */
#ifndef HETMAP_TESTS_SCARCE_H
#define HETMAP_TESTS_SCARCE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/harness.h"

struct scarcity {
	const char *name;
	bool (*is_ours)(void);         /* to change; NULL: yes. False: the test was skipped */
	void (*give_up)(void);         /* in the child: privileges, say; NULL: nothing is */
	void (*scarce)(uint64_t room); /* when the world of an operation is there */
	void (*plenty)(void);
	uint64_t most, step; /* room, from 0 on */
	int errors[5];       /* that are documented for it */
	/*
	 * How many processes the kernel has ended for want of it; NULL: it ends none. One that
	 * is ended leaves nothing, and no other one is harmed.
	 */
	uint64_t (*kills)(void);
	/* The device whose operations ask for none of it, or NULL. */
	const char *unused_on;
};

extern const struct scarcity scarce_descriptors, scarce_locked;

/* A test: all operations that the device can, with little of that. */
struct scarce_walk {
	const struct scarcity *of;
	const char *device;
};

/* main(): @walks up to an empty one, then @others, which may be NULL. */
int scarce_main(int argc, char **argv, const char *suite, const struct scarce_walk *walks,
		const struct test *others);

#endif
