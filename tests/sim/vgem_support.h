/* SPDX-License-Identifier: MIT */
/* vgem, as another device: dma-bufs of its, and others' dma-bufs in it. */
#ifndef HETMAP_TESTS_VGEM_SUPPORT_H
#define HETMAP_TESTS_VGEM_SUPPORT_H

#include <stdint.h>

/* vgem's card node: render nodes make no dumb buffers. -1 without. */
int vgem_open(void);
/*
 * A dma-buf of @bytes, a multiple of a page and 4 MiB at most, which nothing else keeps. @flags:
 * DRM_RDWR, or 0. A failure ends the test.
 */
int vgem_make(int vgem, uint64_t bytes, uint32_t flags);
/*
 * A fence of vgem's on its own memory, of somebody who writes, until it is signalled or 10 s have
 * passed. Returns its number; 0: vgem makes none, as there is one.
 */
uint32_t vgem_fence_attach(int vgem, int dmabuf);
void vgem_fence_signal(int vgem, uint32_t fence);

#endif
