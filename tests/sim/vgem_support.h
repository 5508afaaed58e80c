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

#endif
