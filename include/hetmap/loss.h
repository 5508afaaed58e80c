/* SPDX-License-Identifier: MIT */
/*
 * Loss: the fate of a buffer's bytes when its device is taken away, a file is cut or a page
 * fails; and how the bytes come back.
 *
 * Whatever the policy is, maps keep their addresses and get the next generation.
 * - A device is taken away: all bytes are lost. Calls that need the device return -ENODEV until
 *   hm_device_recover() has brought the buffer back.
 * - A file is cut or can't be reached, or a page fails: if the handler is installed (guard.h), a
 *   thread that touches the bytes finds the bytes that the policy says, for the 2 MiB block
 *   around them. For this block the map's brackets, copies, fences and hm_map_sync() return
 *   -EIO until hm_device_recover() repairs it, or else as long as the map lives; the other bytes of
 *   the map stay usable, and a new map shows the buffer's own bytes. The handler can call
 *   no function of the caller. The first of these calls, or hm_buffer_query() or hm_map_query(),
 *   therefore changes the generation and calls the lost callback, except while another thread
 *   changes the map.
 * The bytes that a map shows until then are private to that map: a recovery drops the stores to
 * them. Under vm.overcommit_memory=2 these bytes take memory that the kernel must promise when
 * the loss is found. Where the kernel cannot promise the memory, the bytes can be read, and a
 * store is a SIGSEGV.
 *
 * Another process, or the administrator, may take a device of "sim" or a DRM node away. In that
 * case plain reads meet the loss first. hm_buffer_info.unheard says which bytes such reads find.
 * With the handler, if the buffer has a shadow, a touch of a map of "sim" is a SIGBUS to the
 * handler, which puts the shadow in place. On a thread that blocks SIGBUS, or below another
 * handler, the SIGBUS acts as for a cut file (hetmap/guard.h). A system call that meets it
 * returns -EFAULT. Once a buffer has had a shadow, all maps of its object behave so until the
 * handler is removed. Maps of other buffers may show zeros, without a fault, before the library
 * knows of the loss.
 *
 * The library therefore asks the device, by one system call, at the end of a CPU bracket, at the
 * completion of a launch that was given such bytes, and in hm_copy_in() and hm_copy_out(). None
 * of these calls returns 0 over zeros that no program wrote. A thread that reads without these
 * calls hears of the loss by its next call on the device. The library asks the device that the
 * buffer is on in this process, also for a buffer that was received or imported.
 */
#ifndef HETMAP_LOSS_H
#define HETMAP_LOSS_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Policies of a loss.
 *
 * ZERO: pages of zeros, as for a buffer without a policy, which has no callbacks, however. A
 * recovery leaves such buffers as they are.
 *
 * SHADOW: the library's copy of the bytes, as of the last refresh. A refresh is the end of a CPU
 * bracket that wrote, the completion of a launch that wrote, or hm_buffer_shadow(). The launch's
 * refresh happens where the result is waited for; the wait returns -ENODEV if the bytes were
 * lost before. A shadow takes as much host memory as the buffer has bytes, plus 260 KiB
 * (hm_buffer_info.bytes_shadow). A reader finds either the old or the new bytes of a page, never
 * a mix of both. The same holds in a fork child: the handler puts copies in the child's
 * inherited maps of a file, while the child has memory for them.
 *
 * RECREATE: zeros, until hm_device_recover() makes another object on the device in its new
 * state. The refill callback writes the bytes of that object. With HM_LOSS_WITH_SHADOW: the
 * shadow, as above. The new object has the shadow's bytes before the library calls refill, if
 * the description has that callback.
 */
enum hm_loss_policy {
	HM_LOSS_ZERO = 0,
	HM_LOSS_SHADOW = 1,
	HM_LOSS_RECREATE = 2,
};

/* hm_loss_desc.flags */
#define HM_LOSS_WITH_SHADOW (1u << 0) /* flag of HM_LOSS_RECREATE */

enum hm_loss_event {
	HM_LOSS_TAKEN = 1,     /* the bytes are gone; maps show the policy's bytes */
	HM_LOSS_RECOVERED = 2, /* the maps show the buffer's bytes */
	HM_LOSS_LEFT = 3,      /* a recovery was to bring this buffer back, and could not */
	HM_LOSS_PART = 4,      /* a map shows the policy's bytes for bytes that failed */
};

/*
 * Policy of a buffer, and the functions to call.
 *
 *   lost    [optional] takes notice of an event
 *   refill  [optional] writes bytes [offset, offset + length) of a new object, or of new pages
 *           of created memory of "host", at @bytes, which is memory of the library. The memory
 *           holds the shadow's bytes or zeros at first, and is valid until refill returns. No map
 *           shows the object before all its bytes are there. The library calls refill part by
 *           part, in order. refill returns 0, or a negative errno, which leaves the buffer lost
 *
 * The thread whose call found the loss calls the callbacks before that call returns. That call
 * may be any call on the device or on an object of the device. The library holds no locks
 * meanwhile, so the callbacks may call the library, except that hm_device_recover() may be -EBUSY
 * or -EDEADLK there. A running callback keeps the buffer alive.
 *
 * Each loss is told once. One HM_LOSS_PART covers all blocks of a map that the handler has
 * replaced by then. The library delivers one event after the other: the same thread delivers a
 * loss that occurs during RECOVERED, after that event. But a loss that a callback finds by its
 * own calls may be told within the callback. A callback must return: after a callback that ends
 * its thread or jumps out, the buffer's next events remain untold.
 */
struct hm_loss_desc {
	uint32_t struct_size;
	uint32_t policy;   /* enum hm_loss_policy */
	uint32_t flags;    /* HM_LOSS_WITH_SHADOW */
	uint32_t reserved; /* 0 */
	void (*lost)(struct hm_buffer *buffer, enum hm_loss_event event, void *user);
	int (*refill)(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		      void *user);
	void *user; /* pointer that both functions are given */
};

/**
 * hm_buffer_set_loss - set the loss policy of a buffer
 * @buffer: [in]
 * @desc:   [in] policy and callbacks, which the library copies
 *
 * The policy holds from the return on, and may be set again. The function first fills a shadow,
 * for which it reads all bytes. The same holds for an existing shadow that lacks some bytes
 * (HM_LOST_STALE). The shadow follows growth and shrinking of the buffer. Its source is the
 * buffer: a store outside brackets is in the shadow after hm_buffer_shadow().
 *
 * When the function returns, the previous lost callback is no longer running and will not be
 * called again. The function waits as long as that takes, except when a lost or refill callback
 * makes the call. A recovery that is under way may still call the previous refill.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the policy or a flag is unknown.
 *   -EOPNOTSUPP: the policy is a shadow of private memory, or RECREATE of a buffer that was
 *                imported, was received or is a file.
 *   -ENODEV:     the buffer is lost.
 *   -ENOMEM:     memory has no room for a shadow; the text has its size. The old policy still
 *                holds.
 *   -EMFILE:     no descriptor is left for a shadow; raise RLIMIT_NOFILE. The old policy still
 *                holds.
 *   -EFBIG:      the shadow would exceed RLIMIT_FSIZE; raise the limit. The old policy still
 *                holds.
 *   -EIO:        bytes of the buffer can't be read.
 *   -ENOSPC:     the part of the device's memory that CPUs reach (HM_CAP_BRACKET) has no room for
 *                the bytes.
 *   -EDEADLK:    a view's callback made the call; make it outside of the callback.
 */
HM_API int hm_buffer_set_loss(struct hm_buffer *buffer, const struct hm_loss_desc *desc);

/**
 * hm_buffer_shadow - refresh a range of the shadow
 * @buffer: [in] a buffer with a shadow
 * @offset, @length: [in] bytes of the buffer, in any alignment
 *
 * Brings stores that were made outside brackets into the shadow. Does not wait for work in
 * flight.
 *
 * A shadow that some map shows (HM_LOST_SEALED) keeps its bytes in that map. While the device is
 * there, this function, or the end of a bracket or a launch, makes another shadow, for which the
 * library reads all bytes. Bytes that can't be read are copied from the old shadow, also after
 * hm_buffer_set_loss(); if such bytes are in the given range, the function returns -EIO.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:     the range ends past the buffer's end.
 *   -EOPNOTSUPP: the buffer has no shadow.
 *   -ENODEV:     the buffer is lost.
 *   -EIO:        bytes of the range can't be read.
 *   -ENOSPC:     as for hm_buffer_set_loss().
 *   -EMFILE:     as for hm_buffer_set_loss().
 *   -EFBIG:      as for hm_buffer_set_loss().
 *   -EDEADLK:    a view's callback made the call; make it outside of the callback.
 *   -ENOMEM:     memory is exhausted.
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
	uint32_t generation; /* generation of the device: 1 after the first recovery */
	uint32_t buffers;    /* buffers that were lost, in all or in part, of any policy */
	uint32_t buffers_back;
	uint32_t buffers_left;   /* buffers that were to come back, and are still lost */
	uint32_t maps_back;      /* maps that are usable again, at their addresses */
	uint64_t bytes_shadow;   /* bytes restored from shadows */
	uint64_t bytes_refilled; /* bytes restored by callbacks */
	uint64_t bytes_zero;     /* bytes with neither shadow nor callback */
	int32_t error;           /* first error that left a buffer; 0: none */
	uint32_t reserved;
};

/**
 * hm_device_recover - open a lost device again, and bring its buffers back
 * @device:   [in] the device, which stays the same object
 * @flags:    [in] 0 or HM_RECOVER_SHADOWED
 * @ret_info: [in,out, optional] the caller must set struct_size
 *
 * Opens the device under its name. After that each buffer of HM_LOSS_RECREATE that was created
 * on the device (hm_buffer_create, hm_alloc) gets a new object, which is filled before any map
 * shows it. The buffer's maps show the new object at their old addresses: they get the next
 * generation, their views are told (reattach), and no pages are locked. For each buffer the
 * function first waits until work in flight and open brackets on its maps have ended, for at most
 * 10 s. Stores that other threads make to these maps meanwhile are lost. If the device was gone,
 * the caller must open its engine again; other accelerators go on. A second thread's call waits
 * for the first.
 *
 * In buffers whose device is there, with HM_LOSS_RECREATE, or HM_LOSS_SHADOW and
 * HM_RECOVER_SHADOWED, the function repairs blocks that the handler has replaced: they show the
 * buffer's bytes again, the maps get the next generation, and their views are told. Locks of
 * other blocks stay. In memory that was created ("host") broken pages get new pages first, with
 * the shadow's bytes or zeros, and afterwards the bytes of refill. Some memory is left with an
 * error:
 *   -EIO:        a file, which the library cannot mend, as long as it is cut.
 *   -EOPNOTSUPP: private memory.
 *   -EBUSY:      memory that was exported as a dma-buf; a view refused; or work or open brackets
 *                did not end within 10 s.
 *   -EPERM:      memory that was sent or exported to be read, in maps that may be written.
 * If the old pages are given up and memory for new pages is missing, the library keeps the bytes
 * for the new pages until memory is there. Meanwhile these bytes are -EIO, and so are new maps.
 *
 * Some buffers can't come back and stay lost: imported buffers; sent or exported buffers, because
 * their receivers have the old object; and buffers whose recovery failed. @ret_info counts them
 * and has the first error, and hm_warning() has its sentence. The function still returns 0. The
 * caller may call again for the buffers that were left, also while the device is there.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENODEV:     the device is not there, or was taken away again; call again once it is back.
 *   -EACCES:     as for hm_device_open().
 *   -EPROTO:     as for hm_device_open().
 *   -EMFILE:     as for hm_device_open().
 *   -ENOMEM:     as for hm_device_open().
 *   -EOPNOTSUPP: as for hm_device_open().
 *   -EDEADLK:    the call was made in a callback of a recovery, of this device or another one, or
 *                in a callback of a view; make it outside of the callback.
 *   -EBUSY:      the call was made in a callback that tells of a loss, while another thread
 *                recovers the device and waits for that callback; return from the callback, and
 *                call again.
 *   -EINVAL:     a flag is unknown; or as for hm_device_open().
 *   -E2BIG:      struct_size is larger than this library knows.
 */
HM_API int hm_device_recover(struct hm_device *device, uint32_t flags,
			     struct hm_recover_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
