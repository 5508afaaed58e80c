/* SPDX-License-Identifier: MIT */
/*
 * The door: what a public function does around its work, in this order.
 *
 *   1. err_begin() clears the thread's texts.
 *   2. object_check(), buffer_check() or map_check() checks the object; the latter two follow the
 *      size of a buffer that was received.
 *   3. struct_read() and struct_check_out() read the structs.
 *   4. hook_*() asks the hook.
 *   5. The work; again while retire_relieve() finds room for it.
 *   6. device_loss_notice() tells of a device that the work found gone.
 *   7. probe_*() tells tracers.
 *
 * Functions of the same names without "hm_" do 2 to 7, for callers inside the library.
 */
#ifndef HETMAP_DOOR_H
#define HETMAP_DOOR_H

#include "api/api.h"
#include "hook/hook.h"
#include "loss/device_loss.h"
#include "map/retire.h"
#include "share/share.h"
#include "tell/probe.h"
#include "tell/trace.h"

/* Checks the arguments of a function that makes a buffer: -EINVAL, -EOWNERDEAD. */
int buffer_check_args(struct hm_device *device, const void *ret_buffer, const char *what);
/* Copies a description, checked; NULL: all defaults. */
int buffer_read_desc(const struct hm_buffer_desc *from, struct hm_buffer_desc *desc);

#endif
