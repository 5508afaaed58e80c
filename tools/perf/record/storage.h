/* SPDX-License-Identifier: MIT */
/* How fast a file's storage reads on this machine, measured past the page cache. */
#ifndef HETMAP_STORAGE_H
#define HETMAP_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#define STORAGE_BOOT_MAX 40

/* Which machine this is, since which start of it; false: it does not tell. */
bool storage_boot(char id[STORAGE_BOOT_MAX]);

/*
 * Reads some of @path, 128 MiB or 0.3 seconds at most, with O_DIRECT, so that nothing is
 * brought into the page cache or driven out of it. @inode: the file's; 0: any. 0; -ESTALE it is
 * another file by now; -EOPNOTSUPP its file system can't, or it is too small to tell; or
 * another negative errno.
 */
int storage_measure(const char *path, uint64_t inode, double *ret_bytes_per_ns);

/* Of those that were read, by device: as many as somebody who waits for a report bears. */
#define STORAGE_MEASURED_MOST 6

struct storage_rates {
	int (*measure)(const char *path, uint64_t inode, double *ret_bytes_per_ns);
	unsigned int n_measured; /* with those that failed */
	unsigned int n;
	struct {
		uint64_t device;
		double bytes_per_ns;
	} known[STORAGE_MEASURED_MOST];
};

/*
 * The same, measured once for each device. -EAGAIN: STORAGE_MEASURED_MOST files were read,
 * and none of them was on that one.
 */
int storage_rate(struct storage_rates *rates, const char *path, uint64_t inode,
		 double *ret_bytes_per_ns);

#endif
