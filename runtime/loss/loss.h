/* SPDX-License-Identifier: MIT */
/*
 * A buffer's loss policy: the replacement of bytes whose memory is gone.
 *
 * Lock order: a loss' lock is taken where a launch ends and after buffer->lock, never with a
 * map's change held and its buffer's lock free. Under it shadow.c's calls take a device's own
 * locks, and the twin's hook takes the change of maps whose buffer's lock was free (reach.c).
 * Callbacks are called without any lock.
 */
#ifndef HETMAP_LOSS_INTERNAL_H
#define HETMAP_LOSS_INTERNAL_H

#include <hetmap/loss.h>

#include "core/core.h"

struct shadow;

/* Made when a policy is set for the first time; freed with the buffer. */
struct loss {
	struct cds_list_head link; /* in loss_tell.c's list */
	struct hm_buffer *buffer;

	pthread_mutex_t lock;              /* protects the fields below */
	struct hm_loss_desc desc;          /* written with buffer->lock held, too */
	_Atomic(struct shadow *) shadow;   /* the one that is refreshed; or NULL */
	_Atomic(struct shadow *) in_place; /* replaces lost bytes; read without lock */
	uint64_t limit;                    /* bytes of the buffer that may be touched */
	uint64_t missed;                   /* end of the bytes written beyond it; or 0 */
	bool stale;                        /* a refresh failed, and no caller was told */
	uint32_t calling;                  /* calls of desc.lost that run, or are about to */
	pthread_cond_t called;             /* calling is 0 */
	uint32_t pass;                     /* of loss_each(); under loss_tell.c's lock */
	_Atomic bool told;                 /* the callback was called for the present loss */
	_Atomic uint64_t teller;           /* the thread that is calling it; 0: none */

	uint32_t signals; /* handler for which maps become a SIGBUS at a loss; or 0 */

	/*
	 * Bytes of the buffer whose pages were given up, and which have no new pages yet
	 * (block_loss.c): a copy that the loss owns. Until they have pages, the buffer's are
	 * zeros. Written with buffer->lock held, too. Length 0: none.
	 */
	uint64_t unmended, unmended_length;
	char *unmended_bytes;
};

/*
 * Puts the policy's replacement of the bytes [@buffer_offset, @buffer_offset + @length) of
 * @buffer at @address once their memory is gone: pages of this mapping's own, whose stores no
 * other map sees. All in whole pages; @prot as for mmap(), less PROT_WRITE where there is no
 * memory to promise for stores. A fork child's copy of a shadow takes memory in any case. Like
 * reserve_map_over(), sets no text, is legal in a signal handler, takes no lock and allocates
 * nothing. Returns 0, or a negative errno of mmap(), after which the state of the range is
 * unknown.
 */
int loss_map_after(const struct hm_buffer *buffer, char *address, uint64_t buffer_offset,
		   uint64_t length, int prot);

/*
 * Refreshes the shadow, if there is one, with bytes that were written, up to the buffer's end.
 */
int loss_refresh(struct hm_buffer *buffer, uint64_t offset, uint64_t length);
/*
 * Makes a fresh shadow of @size bytes of the buffer, which is loss->shadow from the beginning:
 * a thread that ends a bracket or a launch from then on waits, and refreshes it after it was
 * filled; stores that ended before are in the bytes. If the present shadow is sealed for the
 * sake of a part, lost bytes of that part come from there, and *ret_complete is false. Caller
 * holds the loss' lock, as for the next two functions.
 */
int loss_fill_shadow(struct loss *loss, uint64_t size, struct shadow **ret_shadow,
		     bool *ret_complete);
/* Makes @shadow, or NULL, the one in use, also for lost bytes. Frees @old. */
void loss_change_shadow(struct loss *loss, struct shadow *old, struct shadow *shadow,
			bool complete);
/*
 * Called when a refresh of the range was refused. If some map shows a part of the shadow, which
 * must stay as it is there, and the device has the rest, makes another shadow in its place.
 * Returns the result of the range's refresh.
 */
int loss_renew_shadow(struct loss *loss, uint64_t offset, uint64_t length);

/* Notes a failed refresh if the caller is told another error. */
void loss_note_stale(struct loss *loss);
/* For a buffer with a policy: is there a shadow? */
bool loss_is_kept(const struct hm_buffer *buffer);

int loss_ask_device(struct hm_buffer *buffer, const void **asked);
/*
 * Is the device still there? To be called after the bytes of @buffer were used, and before they
 * are called the buffer's. A module's maps become zeros at once when another process, or the
 * administrator, takes the device away, and raise no fault: under any policy, bytes are
 * reported as good only after this. -ENODEV. May be called with any lock held, and takes none
 * except the backend's.
 */
static inline int loss_ask(struct hm_buffer *buffer)
{
	return likely(buffer->ask == ASK_NOBODY) ? 0 : loss_ask_device(buffer, NULL);
}

int loss_launch_ended(const struct map_use *use, const void **asked);
/*
 * Called when work is done, while it is still in flight. Never in a signal handler. -ENODEV:
 * bytes that it wrote were lost before the shadow had them, or bytes that it used may have been
 * replacements of lost ones. *@asked: NULL before the first use of the work; a device is asked
 * once for all uses that follow each other.
 */
static inline int loss_after_launch(const struct map_use *use, const void **asked)
{
	const struct hm_buffer *buffer = use->map->buffer;

	/* A shadow of a device that can't go is refreshed all the same. */
	if (likely(buffer->ask == ASK_NOBODY && !buffer->loss))
		return 0;
	return loss_launch_ended(use, asked);
}

/* Called before and after a change of size. Caller holds buffer->lock. */
void loss_resize_begin(struct hm_buffer *buffer, uint64_t new_size);
void loss_resize_end(struct hm_buffer *buffer, uint64_t old_size);

/*
 * Unmaps the buffer's objects that are mapped for the sake of its shadow. The next refresh maps
 * the objects that there are then. Caller holds buffer->lock.
 */
void loss_let_go(struct hm_buffer *buffer);

/*
 * Makes callbacks after the devices with @backend were taken away. The caller holds no locks.
 */
void loss_tell(const void *backend);
void loss_call(struct hm_buffer *buffer, enum hm_loss_event event);
/*
 * To be called around loss_call(), so that events come one after the other; the buffer is held.
 * False: an event is being told, by another thread or by this one further up.
 */
bool loss_teller_take(struct hm_buffer *buffer);
void loss_teller_give(struct hm_buffer *buffer);
/*
 * As loss_call(), after a wait for its turn. @whole: the event is about all of the buffer,
 * which may be told of the next loss from here on if it is back.
 */
void loss_call_in_turn(struct hm_buffer *buffer, enum hm_loss_event event, bool whole);
/* Is another thread telling of the present loss? */
bool loss_is_being_told(const struct loss *loss);
/*
 * Takes device->recovery.
 * -EDEADLK: the caller has it, or another device's.
 * -EBUSY: another thread has it, and may wait for the caller, which is in a callback of
 * loss_tell().
 */
int loss_recovery_lock(struct hm_device *device);
void loss_recovery_unlock(struct hm_device *device);

/*
 * -EIO, with a text, while bytes are unmended: a map would show zeros. Caller holds
 * buffer->lock.
 */
int loss_check_mended(struct hm_buffer *buffer);

/* Fills in the fields for hm_buffer_query(). Caller holds buffer->lock. */
void loss_describe_locked(struct hm_buffer *buffer, struct hm_buffer_info *info);

/* ---- loss_tell.c ---- */

void loss_enter(struct loss *loss);
void loss_leave(struct loss *loss);
/*
 * Waits until no thread is in the callback of the policy before this one. Does not wait in a
 * callback, because such a thread may wait for the recovery that made this callback.
 */
void loss_drain(struct loss *loss);
/* Calls @visit with each buffer that has a policy, and holds the buffer. Holds no locks. */
void loss_each(void (*visit)(struct hm_buffer *buffer));

/* ---- loss_signal.c ---- */

/*
 * Decides, after a change of policy or objects, whether maps of @buffer become a signal when
 * the device goes. Caller holds buffer->lock. A failure makes them zeros, as a query says; sets
 * no text.
 */
void loss_choose_signal(struct hm_buffer *buffer);
/*
 * The same for an object that maps are about to show, and that is the buffer's after that.
 * -ENODEV, with a text: the object must not be shown, as it would be zeros.
 */
int loss_signal_fresh(const struct hm_buffer *buffer, const struct hm_segment *fresh);
/* Caller holds buffer->lock. */
enum hm_unheard loss_unheard_locked(const struct hm_buffer *buffer);
/*
 * A handler that repairs is installed; loss_signal_each() decides for all buffers, with no lock
 * held.
 */
void loss_handler_comes(void);
void loss_signal_each(void);
/* The handler is gone once this has returned. The caller holds no buffer's lock. */
void loss_handler_goes(void);
void loss_signal_fork_child(void);

/* Ends the buffer's policy. */
void loss_end(struct hm_buffer *buffer);

void loss_fork_child(void);

/* hm_buffer_set_loss() and hm_buffer_shadow() on arguments that are checked. */
int loss_set(struct hm_buffer *buffer, const struct hm_loss_desc *desc);
int loss_shadow(struct hm_buffer *buffer, uint64_t offset, uint64_t length);

#endif
