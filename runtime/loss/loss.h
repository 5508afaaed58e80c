/* SPDX-License-Identifier: MIT */
/*
 * What takes the place of bytes whose memory is gone: a buffer's policy.
 *
 * Lock order: a loss' lock is taken where a launch ends and after buffer->lock, never
 * with a map's change held and its buffer's lock free: with it a device's own are taken,
 * by shadow.c's calls, and by the twin's hook the change of maps whose buffer's lock was
 * free (reach.c). Callbacks are called without any.
 */
#ifndef HETMAP_LOSS_INTERNAL_H
#define HETMAP_LOSS_INTERNAL_H

#include <hetmap/lost.h>

#include "core/core.h"

struct shadow;

/* Made when a policy is set for the first time; goes with the buffer. */
struct loss {
	struct cds_list_head link; /* of all: loss_tell.c */
	struct hm_buffer *buffer;

	pthread_mutex_t lock;              /* protects the below */
	struct hm_loss_desc desc;          /* written with buffer->lock held, too */
	_Atomic(struct shadow *) shadow;   /* what is refreshed; or NULL */
	_Atomic(struct shadow *) in_place; /* what comes into the bytes' place: without lock */
	uint64_t limit;                    /* bytes of the buffer that may be touched */
	uint64_t missed;                   /* end of what was written beyond it; or 0 */
	bool stale;                        /* a refresh failed, and nobody was told */
	uint32_t calling;                  /* calls of desc.lost that run, or are about to */
	pthread_cond_t called;             /* calling is 0 */
	uint32_t pass;                     /* of loss_each(); under loss_tell.c's lock */
	_Atomic bool told;                 /* of the loss that is: its callback was called */
	_Atomic uint64_t teller;           /* the thread that is calling it; 0: none */

	uint32_t signals; /* of which handler maps are a SIGBUS when the device goes; or 0 */

	/*
	 * Bytes of the buffer whose pages were given up, and that are not in others yet
	 * (replaced.c): these, which the loss owns. Until they are, the buffer's are zeros.
	 * Written with buffer->lock held, too. Length 0: none.
	 */
	uint64_t unmended, unmended_length;
	char *unmended_bytes;
};

/*
 * Puts at @address what the policy of @buffer has for its bytes
 * [@buffer_offset, @buffer_offset + @length) once their memory is gone: pages of this
 * mapping's own, which nobody else sees written. All in whole pages; @prot as of mmap(),
 * less PROT_WRITE where there is no memory to promise for that; but a fork child's copy of
 * a shadow takes memory in any case. As reserve_map_over(): without a text, legal in a
 * signal handler, takes no lock, allocates nothing. 0, or a negative errno of mmap(), after
 * which nothing is known of the range.
 */
int loss_map_after(const struct hm_buffer *buffer, char *address, uint64_t buffer_offset,
		   uint64_t length, int prot);

/* The shadow, if there is one, of bytes that were written. Of more, up to the end. */
int loss_refresh(struct hm_buffer *buffer, uint64_t offset, uint64_t length);
/*
 * A fresh shadow of @size bytes of the buffer, as loss->shadow: who ends a bracket or a launch
 * from here on waits, and refreshes it after it was filled; what ended before is in the bytes.
 * Where there is one that is sealed, for a part's sake, it has what was lost from that, and is not
 * *ret_complete. Caller holds the loss' lock, as of the two below.
 */
int loss_fill_shadow(struct loss *loss, uint64_t size, struct shadow **ret_shadow,
		     bool *ret_complete);
/* @shadow, or NULL, is what there is from here on, in lost bytes' places, too. @old ends. */
void loss_change_shadow(struct loss *loss, struct shadow *old, struct shadow *shadow,
			bool complete);
/*
 * A refresh of the range was refused: where some map shows a part of the shadow, which stays as
 * it is there, and the device has the rest, another one takes its place. What became of the range
 * itself is the result, as of a refresh.
 */
int loss_renew_shadow(struct loss *loss, uint64_t offset, uint64_t length);

/* A refresh has failed, and who called is told something else. */
void loss_note_stale(struct loss *loss);
/* Of a buffer with a policy: is there a shadow? */
bool loss_is_kept(const struct hm_buffer *buffer);

int loss_ask_device(struct hm_buffer *buffer, const void **asked);
/*
 * For whoever has used bytes of @buffer, and says next that they were the buffer's: is the
 * device there still? A module's maps are zeros at once where another process, or the
 * administrator, took the device away, and raise no fault: whatever the policy, bytes are
 * told of as good only after this. -ENODEV. It may be called with any lock, and takes none
 * but the backend's.
 */
static inline int loss_ask(struct hm_buffer *buffer)
{
	return likely(buffer->ask == ASK_NOBODY) ? 0 : loss_ask_device(buffer, NULL);
}

int loss_launch_ended(const struct map_use *use, const void **asked);
/*
 * Work is done, and in flight still. No signal handler gets here. -ENODEV: the bytes that
 * it wrote were lost before the shadow had them, or those that it used may have been what
 * takes the place of lost ones. *@asked: NULL before the first use of the work's; a device
 * is asked once for all that follow each other.
 */
static inline int loss_after_launch(const struct map_use *use, const void **asked)
{
	const struct hm_buffer *buffer = use->map->buffer;

	/* Where a shadow is kept of what can't go, that is refreshed all the same. */
	if (likely(buffer->ask == ASK_NOBODY && !buffer->loss))
		return 0;
	return loss_launch_ended(use, asked);
}

/* Around a change of size. Caller holds buffer->lock. */
void loss_resize_begin(struct hm_buffer *buffer, uint64_t new_size);
void loss_resize_end(struct hm_buffer *buffer, uint64_t old_size);

/*
 * Nothing of the library's maps the buffer's objects for the sake of its shadow any more,
 * until the next refresh, which maps those that there are then. Caller holds buffer->lock.
 */
void loss_let_go(struct hm_buffer *buffer);

/* The devices whose own is @backend were taken away: calls back. No locks are held. */
void loss_tell(const void *backend);
void loss_call(struct hm_buffer *buffer, enum hm_loss_event event);
/*
 * Around loss_call(), so that one event comes after the other; of a buffer that is held. False:
 * one is being told, by another thread or by this one further up.
 */
bool loss_teller_take(struct hm_buffer *buffer);
void loss_teller_give(struct hm_buffer *buffer);
/*
 * loss_call() when its turn comes, which is waited for. @whole: of all of the buffer, which may
 * be told of the next loss from here on if it is back.
 */
void loss_call_in_turn(struct hm_buffer *buffer, enum hm_loss_event event, bool whole);
/* Is another thread telling of the loss that is? */
bool loss_is_being_told(const struct loss *loss);
/*
 * Takes device->recovery. -EDEADLK: the caller has it, or another device's; -EBUSY: another
 * thread has it, and may wait for the caller, who is in a callback of loss_tell().
 */
int loss_recovery_lock(struct hm_device *device);
void loss_recovery_unlock(struct hm_device *device);

/* -EIO, with a text, while some are unmended: a map would show zeros. Caller holds buffer->lock. */
int loss_check_mended(struct hm_buffer *buffer);

/* Fills in what hm_buffer_query tells. Caller holds buffer->lock. */
void loss_describe_locked(struct hm_buffer *buffer, struct hm_buffer_info *info);

/* ---- loss_tell.c ---- */

void loss_enter(struct loss *loss);
void loss_leave(struct loss *loss);
/*
 * Until no thread calls what the policy before this one had; not in a callback: one that does
 * may wait for the recovery whose callback this is.
 */
void loss_drain(struct loss *loss);
/* Calls @visit with each buffer that has a policy, which is held. No locks are held. */
void loss_each(void (*visit)(struct hm_buffer *buffer));

/* ---- loss_signal.c ---- */

/*
 * The policy or the objects are others: whether maps of @buffer are to be a signal when the
 * device goes. Caller holds buffer->lock. Where that fails they are zeros, as a query says; no
 * text is set.
 */
void loss_choose_signal(struct hm_buffer *buffer);
/*
 * An object that maps are about to show, and that is the buffer's after that. Likewise; but
 * -ENODEV, with a text, where it can't be shown, as it would be zeros.
 */
int loss_signal_fresh(const struct hm_buffer *buffer, const struct hm_segment *fresh);
/* Caller holds buffer->lock. */
enum hm_unheard loss_unheard_locked(const struct hm_buffer *buffer);
/* There is a handler that repairs: all buffers, after that, with no lock held. */
void loss_handler_comes(void);
void loss_signal_each(void);
/* There is none any more when this has returned. No buffer's lock is held. */
void loss_handler_goes(void);
void loss_signal_fork_child(void);

/* The buffer's end. */
void loss_end(struct hm_buffer *buffer);

void loss_fork_child(void);

#endif
