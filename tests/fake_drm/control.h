/* SPDX-License-Identifier: MIT */
/*
 * The requests of a test to tests/fake_drm.so, which it finds by dlsym() under FAKE_DRM_CONTROL
 * once it runs with it preloaded. Environment, for programs that know nothing of it:
 *
 * FAKE_DRM_LEAK=abort     a node that is closed with handles left ends the process
 * FAKE_DRM_CARD=1         FAKE_CARD is there from the start
 * FAKE_DRM_FAIL=N:ERRNO   the N-th call (ioctl, mmap, open) fails with ERRNO
 */
#ifndef HETMAP_TESTS_FAKE_DRM_CONTROL_H
#define HETMAP_TESTS_FAKE_DRM_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_DRM_CONTROL "fake_drm_control"

/* Nodes are /dev/dri/renderD180 and on, and /dev/dri/card52. */
#define FAKE_DRM_MINOR 180
#define FAKE_DRM_CARD_MINOR 52

enum fake_drm_node {
	FAKE_AMDGPU,
	FAKE_I915, /* discrete */
	FAKE_XE,
	FAKE_NOUVEAU,
	FAKE_I915_INTEGRATED,
	FAKE_VIRTIO,      /* its host has pictures only */
	FAKE_VIRTIO_HOST, /* its host has blobs, and memory of its own */
	FAKE_I915_OLD,    /* discrete, on a kernel before 6.0 */
	FAKE_DRM_NODES,
	FAKE_CARD = FAKE_DRM_NODES, /* no render node: dumb buffers */
	FAKE_DRM_ALL,
};

struct fake_drm_control {
	/* The @n-th call from now (from 1) fails with @error; 0: none. */
	void (*fail)(unsigned int n, int error);
	/* That call: the struct it takes, "open", "mmap"; NULL: it was not made yet. */
	const char *(*failed)(void);
	/* Calls since then. */
	unsigned int (*calls)(void);
	/* Opening a node fails with EACCES; calls and maps on it with ENODEV. */
	void (*forbid)(enum fake_drm_node node, bool forbidden);
	void (*unplug)(enum fake_drm_node node, bool gone);
	/* FAKE_CARD is there from here on. */
	void (*plug_card)(void);
	/* The drivers know no dma-bufs. */
	void (*no_prime)(bool without);
	/* Dumb buffers have fewer bytes than were asked for. */
	void (*dumb_short)(bool is_short);
	/* A sync_file, of work that goes on for ever or has ended. */
	int (*sync_file)(bool done);
	/* The node is in sysfs, and /dev lacks it. */
	void (*hide)(enum fake_drm_node node, bool hidden);
	/* In sysfs the node is by its device's carrier, with this driver; NULL: its own. */
	void (*carry)(enum fake_drm_node node, const char *carrier);
	/* Work on every object has not ended; or it will have after @n looks at one. */
	void (*busy)(bool busy);
	void (*busy_looks)(unsigned int n);
	/* Handles that are open now on any file; those that were at a last close. */
	unsigned int (*handles)(void);
	unsigned int (*leaked)(void);

	/*
	 * The @nth time (from 0) that the kernel reads a struct @name from its user,
	 * the @size bytes at @offset are XORed with @bits, or @add is added. NULL: none.
	 */
	void (*mutate)(const char *name, unsigned int nth, size_t offset, size_t size,
		       uint64_t bits, uint64_t add);
	/* Structs that were read since the last trace_clear(). False past the last. */
	bool (*read_struct)(unsigned int index, const char **ret_name, size_t *ret_size,
			    unsigned int *ret_times);
	/* The kernel's actions for the calls, as a text: equal for equal actions. */
	const char *(*trace)(void);
	void (*trace_clear)(void);
};

#endif
