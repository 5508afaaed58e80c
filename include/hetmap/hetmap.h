/* SPDX-License-Identifier: MIT */
/* hetmap: one pointer to the same bytes for CPU code and accelerators. */
#ifndef HETMAP_HETMAP_H
#define HETMAP_HETMAP_H

#include <hetmap/base.h>

/*
 * Not here: accel.h and backend.h, for who plugs kinds of accelerators and devices in;
 * drm.h and sim.h, of some devices only; published.h, for tools that watch others.
 */
#include <hetmap/accelerator.h>
#include <hetmap/access.h>
#include <hetmap/alloc.h>
#include <hetmap/buffer.h>
#include <hetmap/device.h>
#include <hetmap/fence.h>
#include <hetmap/file.h>
#include <hetmap/guard.h>
#include <hetmap/kernel.h>
#include <hetmap/load.h>
#include <hetmap/lock.h>
#include <hetmap/lost.h>
#include <hetmap/map.h>
#include <hetmap/npy.h>
#include <hetmap/pointer.h>
#include <hetmap/protect.h>
#include <hetmap/queue.h>
#include <hetmap/reader.h>
#include <hetmap/retire.h>
#include <hetmap/ring.h>
#include <hetmap/safetensors.h>
#include <hetmap/stats.h>
#include <hetmap/tokens.h>
#include <hetmap/view.h>

#endif
