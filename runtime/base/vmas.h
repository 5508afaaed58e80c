/* SPDX-License-Identifier: MIT */
/* The mappings of this process [proc_pid_maps(5)], for ranges that need not be in a map of ours. */
#ifndef HETMAP_VMAS_H
#define HETMAP_VMAS_H

#include <hetmap/base.h>

#include <stdbool.h>

struct vma {
	uint64_t start, end;
	uint32_t access; /* HM_READ | HM_WRITE */
	bool shared;
	uint64_t offset; /* in the file */
	uint64_t dev;    /* major << 32 | minor */
	uint64_t ino;    /* 0: no file */
};

/*
 * Calls @each(@user) for every mapping with bytes in [@start, @end), in address order, until a call
 * returns non-zero, which is the result. Slow: reads /proc/self/maps from its beginning.
 *
 * Errors, with a text: those of reading the file.
 */
int vmas_each(uint64_t start, uint64_t end, int (*each)(void *user, const struct vma *vma),
	      void *user);

/* A descriptor for vma_find(), which makes it quick. The caller closes it. */
int vmas_open(void);
/*
 * The mapping that has the byte at @address; -ENOENT: none has. Errors as above. @fd: of
 * vmas_open(), or -1.
 */
int vma_find(int fd, uint64_t address, struct vma *ret_vma);

/* Do bytes of both ranges come from one shared object, through any mappings? false on failure. */
bool vmas_share_bytes(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length);

#endif
