/* SPDX-License-Identifier: MIT */
/*
 * Loss: what becomes of a buffer's bytes when its device is taken away, a file is cut or
 * a page fails; and how they come back.
 *
 * Whatever the policy: maps keep their addresses, and have the next generation.
 * - A device is taken away: all bytes are lost, and what needs the device answers -ENODEV
 *   until hm_device_recover() has brought the buffer back.
 * - A file is cut or can't be reached, or a page fails: with the handler (guard.h) who
 *   touches it finds what the policy says, for the 2 MiB around it. That map answers -EIO
 *   for these bytes, by brackets, copies, fences and hm_map_sync(), until
 *   hm_device_recover(); the other bytes go on. The handler can call nobody: the generation and
 *   the lost callback tell with the first of these calls, or hm_buffer_query() or
 *   hm_map_query(), but not while another thread changes the map.
 * What a map shows until then is the map's own: stores to it stay there and are dropped
 * with it. Under vm.overcommit_memory=2 they take memory that has to be promised when the
 * loss is found: where none is left, these bytes can be read, and a store is a SIGSEGV.
 *
 * Another process, or the administrator, may take a device of "sim" or a DRM node away: then
 * plain reads are the first to meet the loss. hm_buffer_info.unheard says what they find. With
 * the handler, maps of "sim" whose buffer has a shadow are a SIGBUS to the handler, which puts
 * the shadow there: on a thread that blocks SIGBUS, or below another handler, it is what a
 * cut file is (hetmap/guard.h), and a system call that meets it is -EFAULT. Once a buffer has had
 * a shadow that is so of all maps of its object, until the handler is removed. Others may have
 * zeros, without a fault, before the library knows. So it asks the device, by one system call,
 * where a bracket of the CPU's ends, where a launch is complete that was given such bytes, and
 * in hm_copy_in() and hm_copy_out(): none of these is 0 over zeros that are nobody's. Who reads
 * without them hears of it by the next call on the device. Asked is the device that the buffer
 * is on in this process, also of one that was received or imported.
 */
#ifndef HETMAP_LOST_H
#define HETMAP_LOST_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * ZERO: pages of zeros, as of a buffer whose policy was never set; but with one lost is called.
 * SHADOW: the library's copy of the bytes, as of the last refresh: the end of a CPU's
 * write bracket, the completion of a launch that wrote (where its result is waited for,
 * which is -ENODEV if the bytes were lost before), hm_buffer_shadow(). It takes as much
 * memory of the host's as the buffer has bytes, and 260 KiB (hm_buffer_info.bytes_shadow).
 * A reader finds the old bytes of a page, or the new ones, and never some of both; a fork
 * child, too, in whose inherited maps of a file the handler puts copies, while there is memory
 * for them.
 * RECREATE: zeros, until hm_device_recover() makes another object on the device as it is
 * then, whose bytes the refill callback writes. With HM_LOSS_WITH_SHADOW the shadow, as
 * above, which is what the new object has before refill is called, if there is one.
 */
enum hm_loss_policy {
	HM_LOSS_ZERO = 0,
	HM_LOSS_SHADOW = 1,
	HM_LOSS_RECREATE = 2,
};

/* hm_loss_desc.flags */
#define HM_LOSS_WITH_SHADOW (1u << 0) /* of HM_LOSS_RECREATE */

enum hm_loss_event {
	HM_LOSS_TAKEN = 1,     /* the bytes are gone; maps show what the policy says */
	HM_LOSS_RECOVERED = 2, /* the maps show the buffer's bytes */
	HM_LOSS_LEFT = 3,      /* a recovery was made, and this buffer could not be */
	HM_LOSS_PART = 4,      /* of bytes that failed a map shows what the policy says */
};

/*
 * Called without locks, so they may call the library, by the thread whose call found
 * out, before that returns; a loss is told once, and of replaced blocks (HM_LOSS_PART) those
 * of a map that there are by then. That thread may be in any call on the
 * device or what is on it. They keep the buffer alive while they run. One event comes after
 * the other: a loss while RECOVERED is told is told of afterwards, by the same thread; but what
 * a callback finds out by its own calls may be told within it. They return: one that ends its
 * thread, or jumps out of it, leaves the buffer's next events untold.
 *
 *   lost    [optional]
 *   refill  [optional] writes bytes [offset, offset + length) of a new object at @bytes,
 *           which is memory of the library's, until it returns: nobody sees them before
 *           all are there. Large buffers are asked for part by part, in order. 0, or a
 *           negative errno, which leaves the buffer lost
 */
struct hm_loss_desc {
	uint32_t struct_size;
	uint32_t policy; /* enum hm_loss_policy */
	uint32_t flags;  /* HM_LOSS_WITH_SHADOW */
	uint32_t reserved;
	void (*lost)(struct hm_buffer *buffer, enum hm_loss_event event, void *user);
	int (*refill)(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		      void *user);
	void *user; /* handed to both */
};

/**
 * hm_buffer_set_loss - what becomes of the bytes of a buffer that is lost
 * @buffer: [in]
 * @desc:   [in] copied
 *
 * Holds from its return on, and may be called again; a shadow is filled first, which
 * reads all bytes: also one that there is, where it lacks some (HM_LOST_STALE). The
 * shadow follows growth and shrinking. Its source is the buffer: stores outside brackets
 * are in it once hm_buffer_shadow() was called.
 *
 * When it returns the lost callback that there was does not run any more, and is not
 * called again: it waits for as long as that takes, but not in a lost or refill callback.
 *
 * Errors: -EINVAL unknown policy or flag; -EOPNOTSUPP a shadow of private memory, or
 * RECREATE of what was imported, received or is a file; -ENODEV the buffer is lost;
 * -ENOMEM, -EMFILE, -EFBIG no room for a shadow (the old policy holds then); -EIO bytes
 * that can't be read; -ENOSPC there is no room for them where CPUs reach them
 * (HM_CAP_BRACKET); -EDEADLK from a view's callback.
 */
HM_API int hm_buffer_set_loss(struct hm_buffer *buffer, const struct hm_loss_desc *desc);

/**
 * hm_buffer_shadow - bring the shadow up to date
 * @buffer: [in] with a shadow
 * @offset, @length: [in] bytes of the buffer, in any alignment
 *
 * For what was stored outside brackets. Does not wait for work in flight.
 *
 * A shadow that some map shows (HM_LOST_SEALED) stays as it is there: while the device is,
 * this, or the end of a bracket or a launch, makes another, which reads all bytes; those that
 * can't be read are as they were in the old one, also after hm_buffer_set_loss(). Of the range
 * that is asked for they are -EIO.
 *
 * Errors: -ERANGE; -EOPNOTSUPP it has no shadow; -ENODEV the buffer is lost; -EIO bytes that
 * can't be read; -ENOSPC, -EMFILE, -EFBIG as of hm_buffer_set_loss; -EDEADLK from a view's
 * callback; -ENOMEM.
 */
HM_API int hm_buffer_shadow(struct hm_buffer *buffer, uint64_t offset, uint64_t length);

/*
 * hm_device_recover flags
 *
 * SHADOWED: buffers of HM_LOSS_SHADOW come back, too, with the bytes of the shadow.
 */
#define HM_RECOVER_SHADOWED (1u << 0)

struct hm_recover_info {
	uint32_t struct_size;
	uint32_t generation; /* of the device: 1 after the first recovery */
	uint32_t buffers;    /* that were lost, in all or in part */
	uint32_t buffers_back;
	uint32_t buffers_left;   /* whose policy asks for it, and that stay lost */
	uint32_t maps_back;      /* at their addresses, usable */
	uint64_t bytes_shadow;   /* brought back from shadows */
	uint64_t bytes_refilled; /* by callbacks */
	uint64_t bytes_zero;     /* of what has neither */
	int32_t error;           /* the first that left a buffer; 0: none */
	uint32_t reserved;
};

/**
 * hm_device_recover - open a lost device again, and bring back what was on it
 * @device:   [in] stays the same object
 * @flags:    [in] HM_RECOVER_SHADOWED
 * @ret_info: [in,out, optional] struct_size set by the caller
 *
 * Opens the device under its name. Then each buffer of HM_LOSS_RECREATE that was created
 * on it (hm_buffer_create, hm_alloc) gets a new object, filled before anybody sees it,
 * and its maps show that at the addresses that they have: generation + 1, views told
 * (reattach), no pages locked. Waits for work in flight on the old maps, for 10 s at
 * most. Stores that other threads make to these maps meanwhile are lost. Accelerators of
 * the device are to be opened again; others go on.
 *
 * While the device is there: maps with blocks that the handler has replaced, of buffers of these
 * policies, show their buffer's bytes again, likewise; locks of other blocks stay. Open
 * brackets are waited for, too: -EBUSY after 10 s. In memory that was created ("host")
 * broken pages get new ones first, with the shadow's bytes, or zeros, and then those of
 * refill; a file is not the library's to mend: -EIO as long as it is cut. Of private memory
 * -EOPNOTSUPP, of what was exported as a dma-buf -EBUSY, of what was sent or exported to be
 * read, by maps that may be written, -EPERM. Pages that are given up before there is memory for
 * others are kept by the library until there is: their bytes are -EIO, and so are new maps.
 *
 * Buffers that can't come back stay lost: imported ones, sent or exported ones, whose
 * receivers have the old object, and those for which something failed: @ret_info counts
 * them, and has the first error, and hm_errmsg() the sentence. That is a success. It may
 * be called again, also while the device is there: for those that were left.
 *
 * Errors: -ENODEV it is not there, or was taken away again; -EACCES, -EPROTO, -EMFILE,
 * -ENOMEM, -EOPNOTSUPP, -EINVAL as of hm_device_open(); -EDEADLK in a callback of a
 * recovery, be it another device's, or of a view; -EBUSY in a callback that tells of a loss, while
 * another thread recovers the device, which waits for that callback; -EINVAL an unknown flag;
 * -E2BIG.
 */
HM_API int hm_device_recover(struct hm_device *device, uint32_t flags,
			     struct hm_recover_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
