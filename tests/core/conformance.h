/* SPDX-License-Identifier: MIT */
/*
 * The conformance suite: every case runs on every subject, which is a way to make a buffer on
 * some device. No case asks which backend it is; backends differ by capabilities, and each is
 * asserted in both directions.
 */
#ifndef HETMAP_TESTS_CONFORMANCE_H
#define HETMAP_TESTS_CONFORMANCE_H

#include "lib/support.h"

/* A device and the flags its buffers are made with. */
struct subject {
	char name[96];
	char device[64];
	uint32_t flags;       /* HM_BUFFER_* */
	uint32_t place;       /* enum hm_place */
	const char *exporter; /* the device that its buffers come from, as dma-bufs; or NULL */
	const char *settings; /* HETMAP_SOFT, or NULL */
};

/* A case's fixture: the open device, and properties of a buffer of the subject. */
struct fixture {
	const struct subject *subject;
	struct hm_device *device;
	struct hm_device_info device_info;
	struct hm_buffer_info info; /* of a buffer of UNITS units */
	uint64_t caps;              /* of such a buffer */
	uint64_t unit;              /* its page size */
	bool writable;
};

/* Sizes that the cases use, in units. */
#define UNITS 8
#define MAX_UNITS 32

struct conformance_case {
	const char *name;
	void (*run)(struct fixture *f);
};

/* One table for each conformance_*.c; each ends with an empty entry. */
extern const struct conformance_case conformance_objects[];
extern const struct conformance_case conformance_maps[];
extern const struct conformance_case conformance_resize[];
extern const struct conformance_case conformance_grow[];
extern const struct conformance_case conformance_pages[];
extern const struct conformance_case conformance_sharing[];
extern const struct conformance_case conformance_share[];
extern const struct conformance_case conformance_counts[];

/* The subjects there are on this machine. Returns their number. */
unsigned int conformance_subjects(struct subject *subjects, unsigned int capacity);

void fixture_open(struct fixture *f, const struct subject *subject);
void fixture_close(struct fixture *f);
/* The generations that a resize inside max_size adds to a buffer with one map. */
#define RESIZE_STEP (has(f, HM_CAP_RESIZE_REPLACES) ? 1u : 0u)
static inline bool has(const struct fixture *f, uint64_t cap)
{
	return f->caps & cap;
}

/* A buffer of the subject, in bytes; all are zero. */
int fixture_buffer(struct fixture *f, uint64_t size, uint64_t max_size,
		   struct hm_buffer **ret_buffer);
/* Likewise; abandons the test on failure. A map of all of it, if @ret_map. */
struct hm_buffer *fixture_make(struct fixture *f, uint64_t size, uint64_t max_size,
			       struct hm_map **ret_map);
/* The same as a rig, whose device is the fixture's alone. */
struct rig fixture_rig(struct fixture *f, uint64_t size, uint64_t max_size);

/*
 * Is the subject's buffer sent to others? Not without a descriptor, nor if a peer could cut it
 * off, nor if the device does not import it.
 */
bool fixture_is_sent(struct fixture *f, uint32_t flags);

/*
 * pattern_write and pattern_holds for subjects that cannot be written, too:
 * there the bytes stay zero.
 */
void put(const struct fixture *f, void *base, uint64_t from, uint64_t to, uint32_t salt);
bool holds(const struct fixture *f, const void *base, uint64_t from, uint64_t to,
	   uint32_t salt);

#endif
