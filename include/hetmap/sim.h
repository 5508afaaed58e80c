/* SPDX-License-Identifier: MIT */
/*
 * The simulated device behind "sim:N" (the kernel module) and "soft:N" (the module's twin in this
 * process): functions beyond those that every device has, which provide faults on request,
 * counters and the places of pages. uapi/hetsim.h has the calls, and is installed as
 * <hetmap/uapi/hetsim.h>.
 */
#ifndef HETMAP_SIM_H
#define HETMAP_SIM_H

#include <hetmap/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * hm_sim_call - make a call of uapi/hetsim.h
 * @device:   [in] a device of the backends "sim" or "soft"
 * @cmd:      [in] HETSIM_*
 * @argument: [in,out] structure of the call; the caller must set its size
 *
 * If the call takes the device away, the device's maps are zeros when the function returns. Such
 * a call and HETSIM_INJECT_RESET need the setting test=1, either as the module's parameter or in
 * the environment variable HETMAP_SOFT, which the library reads when the first device is opened.
 *
 * Handles and queue numbers are those of hm_sim_buffer() and hm_sim_queue(), or those of objects
 * that the caller makes by these calls. The caller must end the objects that it makes. The caller
 * must not change objects that the library made (close, resize, destroy, unbind); such a call
 * breaks the library.
 *
 * The access hook (hetmap/access.h) is asked before HETSIM_BUFFER_CREATE, _BUFFER_RESIZE,
 * _EXPORT, _IMPORT and _SUBMIT.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EPERM:      the call is HETSIM_HANDSHAKE, which the library made when the device was opened;
 *                or the setting test=1 is missing.
 *   -EOPNOTSUPP: the device is of another kind.
 *   -ENODEV:     the device was taken away.
 *   -EDEADLK:    a view's callback made a call that takes the device away; make it outside of the
 *                callback.
 *   -EINTR:      a signal interrupted the call; the library does not repeat it.
 *   -EAGAIN:     the queue is full; the library does not repeat the call.
 *
 * In addition the errors that uapi/hetsim.h lists; *argument is unchanged then.
 */
HM_API int hm_sim_call(struct hm_device *device, unsigned long cmd, void *argument);

/**
 * hm_sim_buffer - tell the handle of a buffer
 * @buffer:     [in] a buffer of the backends "sim" or "soft"
 * @ret_handle: [out] a handle, which is valid as long as the buffer exists, is not replaced and
 *              does not grow by HM_GROW_APPEND
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the buffer is on another kind of device; or it was imported read-only, and the
 *                device has no handle for it.
 *   -EXDEV:      the buffer is made of several objects.
 *   -EDEADLK:    a view's callback made the call; make it outside of the callback.
 */
HM_API int hm_sim_buffer(struct hm_buffer *buffer, uint32_t *ret_handle);

/**
 * hm_sim_queue - tell the number of a queue
 * @queue:      [in] a queue of the accelerators "sim" or "soft"
 * @ret_number: [out] a number, which is valid as long as the queue
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the queue is on another accelerator.
 */
HM_API int hm_sim_queue(struct hm_queue *queue, uint32_t *ret_number);

/**
 * hm_sim_plug - plug a device in again, after it was taken away
 * @name: [in] "soft:N"; or "sim:N", which needs root and debugfs
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EEXIST: the device is plugged in.
 *   -EINVAL: no device has that name or number, or HETMAP_SOFT has a mistake.
 *   -EACCES: permission is missing; the function needs root for "sim:N".
 *   -ENOENT: debugfs is not mounted, or lacks the module.
 *
 * In addition the errors that the module returns.
 */
HM_API int hm_sim_plug(const char *name);

#ifdef __cplusplus
}
#endif

#endif
