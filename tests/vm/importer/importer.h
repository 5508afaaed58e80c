/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Calls of /dev/importer, see importer.c. Each returns 0 or an errno; one dma-buf at a time. */
#ifndef IMPORTER_H
#define IMPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define IMPORTER_MOST 1024 /* bytes of one copy */

struct importer_copy {
	__aligned_u64 offset; /* in the dma-buf */
	__aligned_u64 bytes;  /* address of the caller's */
	__u32 length;         /* within a page */
	__u32 __reserved;
};

/* Attaches the device to a dma-buf, and has the exporter map it for reading and writing. */
#define IMPORTER_ATTACH _IOW('i', 0, __s32)
#define IMPORTER_DETACH _IO('i', 1)
/* The device copies bytes out of the dma-buf, or into it. */
#define IMPORTER_READ _IOW('i', 2, struct importer_copy)
#define IMPORTER_WRITE _IOW('i', 3, struct importer_copy)
/* A mapping of the kernel's, for CPUs. */
#define IMPORTER_VMAP _IOW('i', 4, __s32)
#define IMPORTER_VUNMAP _IO('i', 5)
/* Has a few bytes go through a bounce buffer, as those of an untrusted device do. */
#define IMPORTER_BOUNCE _IO('i', 6)

/* As the first one, with an attachment that the exporter may tell of changes (move_notify). */
#define IMPORTER_ATTACH_DYNAMIC _IOW('i', 7, __s32)
/* How often it has. From then on the device does not use the mapping: ENODEV. */
#define IMPORTER_NOTICES _IOR('i', 8, __u32)

#endif
