/* SPDX-License-Identifier: MIT */
/*
 * View: a map, or a range of it, as one user outside the CPU sees it: an
 * RDMA registration, an MPI window, io_uring's registered buffers. The
 * accelerators of this library use the same thing.
 */
#ifndef HETMAP_VIEW_H
#define HETMAP_VIEW_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_view;

/* What is about to happen to the range. */
struct hm_view_change {
	void *old_address;
	uint64_t old_length;
	void *new_address;   /* the same where nothing moves */
	uint64_t new_length; /* of the view's range afterwards; 0: all cut off */
	uint32_t new_access; /* HM_READ | HM_WRITE: of all of that range afterwards */
	uint32_t reserved;
};

/*
 * Called while the map is frozen, by the thread that changes it. They must
 * not change, protect, resize or launch on that map: -EDEADLK. A call of theirs that finds
 * a device taken away is -ENODEV, and the device's maps learn of it by a later one. In order:
 *
 *   quiesce     [optional] stop using the range; a non-zero return refuses, the
 *               change ends with -EBUSY and nothing has changed
 *   invalidate  [optional] forget the address: it is about to change
 *   reattach    [optional] the change is done, or was given up (the change
 *               says what holds now); use the range again
 *   lost        [optional] the bytes are gone: the device is
 */
struct hm_view_ops {
	uint32_t struct_size;
	uint32_t reserved;
	int (*quiesce)(void *user, const struct hm_view_change *change);
	void (*invalidate)(void *user, const struct hm_view_change *change);
	void (*reattach)(void *user, const struct hm_view_change *change);
	void (*lost)(void *user);
};

/**
 * hm_view_create - be told before a range of a map changes, and be able to refuse
 * @map:    [in] the view holds a reference
 * @offset, @length: [in] any alignment; length 0: all of the map, following it
 * @ops:    [in] copied
 * @user:   [in] handed to the callbacks
 * @ret_view: [out] dropped with hm_view_unref()
 *
 * Errors: -ERANGE; -ENOMEM; -E2BIG; -ENODEV, -EDEADLK as map.h says.
 */
HM_API int hm_view_create(struct hm_map *map, uint64_t offset, uint64_t length,
			  const struct hm_view_ops *ops, void *user, struct hm_view **ret_view);

/**
 * hm_view_unref - end the view; NULL is allowed
 *
 * Waits for a change of its map that is under way: its callbacks do not run any more, and
 * are not called again. In a callback, of whatever view, it waits for nobody: where another
 * thread is just changing the view's map, a callback of it may be running still, until
 * the call has returned that this callback is of; none begins.
 */
HM_API void hm_view_unref(struct hm_view *view);

#ifdef __cplusplus
}
#endif

#endif
