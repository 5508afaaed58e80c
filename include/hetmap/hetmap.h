/* SPDX-License-Identifier: MIT */
/* hetmap: one pointer to the same bytes for CPU code and accelerators. */
#ifndef HETMAP_HETMAP_H
#define HETMAP_HETMAP_H

#include <hetmap/base.h>

/*
 * This header leaves out accel_ops.h and backend.h, which are for plug-ins that add kinds of
 * accelerators and devices; error.h, which is for these and for extensions; drm.h and sim.h,
 * which are for some devices only; and published.h, which is for tools that watch other
 * processes.
 */
#include <hetmap/accel.h>
#include <hetmap/access.h>
#include <hetmap/alloc.h>
#include <hetmap/buffer.h>
#include <hetmap/combine.h>
#include <hetmap/copy.h>
#include <hetmap/device.h>
#include <hetmap/fence.h>
#include <hetmap/file.h>
#include <hetmap/frame.h>
#include <hetmap/gguf.h>
#include <hetmap/guard.h>
#include <hetmap/kernel.h>
#include <hetmap/load.h>
#include <hetmap/lock.h>
#include <hetmap/loss.h>
#include <hetmap/map.h>
#include <hetmap/npy.h>
#include <hetmap/pieces.h>
#include <hetmap/pointer.h>
#include <hetmap/pool.h>
#include <hetmap/protect.h>
#include <hetmap/queue.h>
#include <hetmap/range.h>
#include <hetmap/reader.h>
#include <hetmap/retire.h>
#include <hetmap/ring.h>
#include <hetmap/safetensors.h>
#include <hetmap/stats.h>
#include <hetmap/tier.h>
#include <hetmap/tiering.h>
#include <hetmap/tokens.h>
#include <hetmap/view.h>

#endif
