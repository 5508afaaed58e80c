/* SPDX-License-Identifier: MIT */
/*
 * View: a map, or a range of it, as one user outside the CPU sees it: an RDMA registration, an MPI
 * window, registered buffers of io_uring. The accelerators of this library use views, too.
 */
#ifndef HETMAP_VIEW_H
#define HETMAP_VIEW_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_view;

/* Change that is about to happen to the range. */
struct hm_view_change {
	void *old_address;
	uint64_t old_length;
	void *new_address;   /* the same if nothing moves */
	uint64_t new_length; /* of the view's range then; 0: all cut off, until the map grows */
	uint32_t new_access; /* HM_READ | HM_WRITE: access of all of that range afterwards */
	uint32_t reserved;
};

/*
 * Callbacks of a view, for a change of its address or of any byte of its range, and, with a length
 * of 0, for each change of the map's length. A change is a resize, hm_buffer_seal(),
 * hm_map_protect(), the begin or the end of a protection scope, or a recovery. The thread that
 * changes the map calls them; meanwhile launches on the map are -EBUSY, and other changes wait. A
 * callback may load and store in the range, whose work has ended before. It must not wait for other
 * work or another thread that uses the map. A call that changes, protects or resizes that map or
 * launches on it is -EDEADLK. A call that finds a device taken away is -ENODEV, and a later call
 * outside of callbacks tells the device's maps of the loss. In order:
 *
 *   quiesce     [optional] stops using the range; a result other than 0 refuses the change, which
 *               ends with -EBUSY and has no effect: views that agreed before get reattach, the
 *               refusing one does not
 *   invalidate  [optional] forgets address, pages and rights, which are about to change, even if
 *               the address stays
 *   reattach    [optional] uses the range again: the change is done, or was given up, and @change
 *               describes the new state. After lost, a recovery makes this call alone
 *   lost        [optional] takes notice that the device is gone, and the bytes with it, without a
 *               call before; or, in place of reattach, that a failed change has lost the map. No
 *               call tells of blocks that the handler of hetmap/guard.h has replaced
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
 * @map:    [in] the map; the view takes a reference
 * @offset, @length: [in] a range of any alignment; length 0: from @offset to the map's end,
 *          following the map's size
 * @ops:    [in] callbacks; copied
 * @user:   [in] pointer that each callback is given
 * @ret_view: [out] a view; the caller must end it with hm_view_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:  the range ends past the map's end.
 *   -ENOMEM:  memory is exhausted.
 *   -E2BIG:   the struct_size of @ops is larger than this library knows.
 *   -ENODEV:  as map.h says.
 *   -EDEADLK: as map.h says.
 */
HM_API int hm_view_create(struct hm_map *map, uint64_t offset, uint64_t length,
			  const struct hm_view_ops *ops, void *user, struct hm_view **ret_view);

/**
 * hm_view_unref - end the view; NULL is allowed
 *
 * Waits for a change of the view's map that is under way. When the function returns, the view's
 * callbacks are no longer running and will not be called again.
 *
 * Inside a callback of any view the function does not wait. If another thread is changing the
 * view's map at that time, one of the ended view's callbacks may still be running, but none starts
 * any more. Once the call that runs the outer callback has returned, no callback of the ended view
 * runs.
 *
 * Thread safety: any thread.
 */
HM_API void hm_view_unref(struct hm_view *view);

#ifdef __cplusplus
}
#endif

#endif
