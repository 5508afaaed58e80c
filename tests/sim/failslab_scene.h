/* SPDX-License-Identifier: MIT */
/*
 * hetsim under a kernel that makes each allocation and each copy from and to user space fail in
 * turn: the scene that each try finds, and the walk over tries of several calls.
 */
#ifndef HETMAP_TESTS_FAILSLAB_SCENE_H
#define HETMAP_TESTS_FAILSLAB_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAILSLAB_PAGES 64
#define FAILSLAB_BOUND_AT 0x7000000000ull

/* What a call finds, and what it may leave for tidy() to take away. */
struct failslab_scene {
	int fd, other;   /* two openers */
	uint32_t handle; /* FAILSLAB_PAGES pages in system memory, bound at FAILSLAB_BOUND_AT */
	uint64_t offset;
	uint32_t queue;
	uint64_t seqno;   /* done */
	uint32_t counter; /* a queue of HETSIM_QUEUE_COUNTER; 0: none yet */
	uint32_t second;  /* a buffer, too; 0: none yet */
	int dmabuf;       /* of the buffer */
	int eventfd;
	int timeline, fence; /* of a submission that is done */
	unsigned char *map;  /* of the buffer, not touched yet */
	int made;            /* a descriptor that the call made, or -1 */
	void *more;          /* a map that the call made */
	bool gone;           /* the device was taken away */
};

struct failslab_step {
	const char *name;
	int (*run)(struct failslab_scene *scene); /* 0 or a negative errno */
	void (*before)(struct failslab_scene *scene);
	unsigned int least; /* failures that there are to inject */
};

/* The test: each step with each of its failures. Skips the test where that can't be. */
void failslab_walk(const struct failslab_step *steps, size_t n);

/* A step's before, where there is nothing to do. */
void failslab_no_more(struct failslab_scene *scene);

/* ioctl(): 0 or a negative errno. */
int failslab_call(int fd, unsigned long cmd, void *argument);
void *failslab_map(const struct failslab_scene *scene);
int failslab_export(struct failslab_scene *scene, uint32_t flags);
int failslab_wait(struct failslab_scene *scene);
int failslab_unplug(struct failslab_scene *scene);
int failslab_plug(struct failslab_scene *scene);

#endif
