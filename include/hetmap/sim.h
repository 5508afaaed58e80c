/* SPDX-License-Identifier: MIT */
/*
 * The simulated device behind "sim:N" (the kernel module) and "soft:N" (its twin
 * in the process): what it is told and asked beyond what every device can do.
 * Faults on request, counters, places of pages: uapi/hetsim.h has the calls, which
 * is installed as <hetmap/uapi/hetsim.h>.
 */
#ifndef HETMAP_SIM_H
#define HETMAP_SIM_H

#include <hetmap/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * hm_sim_call - make a call of uapi/hetsim.h
 * @device:   [in] of the backends "sim" or "soft"
 * @cmd:      [in] HETSIM_*
 * @argument: [in,out] the call's structure; size filled in
 *
 * One that takes the device away makes its maps zeros before it returns. That and
 * HETSIM_INJECT_RESET need the setting test=1, of the module or in the variable
 * HETMAP_SOFT, which is read when the first device is opened.
 *
 * Handles and queue numbers are those of hm_sim_buffer() and hm_sim_queue(), or
 * of objects that the caller makes by these calls and ends himself. To change
 * what the library has made (close, resize, destroy, unbind) breaks it.
 *
 * The access hook (hetmap/access.h) is asked before HETSIM_BUFFER_CREATE, _BUFFER_RESIZE,
 * _EXPORT, _IMPORT and _SUBMIT.
 *
 * Errors: as uapi/hetsim.h says, *argument is as it was then; that of
 * HETSIM_HANDSHAKE: -EPERM, as it was done; -EOPNOTSUPP another kind of device;
 * -ENODEV the device was taken away; -EDEADLK it is to be taken away by a view's callback. A
 * call that a signal interrupts is not made again: -EINTR; nor one of a queue that is full:
 * -EAGAIN.
 */
HM_API int hm_sim_call(struct hm_device *device, unsigned long cmd, void *argument);

/**
 * hm_sim_buffer - the handle of a buffer
 * @buffer:     [in] of the backends "sim" or "soft"
 * @ret_handle: [out] valid as long as the buffer, until it is replaced or grows by
 *              HM_GROW_APPEND
 *
 * Errors: -EOPNOTSUPP of another device, or imported read-only, of which the device has
 * no handle; -EXDEV made of several objects; -EDEADLK from a view's callback.
 */
HM_API int hm_sim_buffer(struct hm_buffer *buffer, uint32_t *ret_handle);

/**
 * hm_sim_queue - the number of a queue
 * @queue:      [in] of the accelerators "sim" or "soft"
 * @ret_number: [out] valid as long as the queue
 *
 * Errors: -EOPNOTSUPP of another accelerator.
 */
HM_API int hm_sim_queue(struct hm_queue *queue, uint32_t *ret_number);

/**
 * hm_sim_plug - plug a device in again
 * @name: [in] "soft:N" or "sim:N" (root, debugfs), after it was taken away
 *
 * Errors: -EEXIST it is there; -EINVAL no such name or number, or HETMAP_SOFT has a
 * mistake; -EACCES, -ENOENT not permitted, or no debugfs; or what the module answers.
 */
HM_API int hm_sim_plug(const char *name);

#ifdef __cplusplus
}
#endif

#endif
