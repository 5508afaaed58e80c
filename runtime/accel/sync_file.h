/* SPDX-License-Identifier: MIT */
/* The kernel's fences as descriptors [linux/sync_file.h]. */
#ifndef HETMAP_SYNC_FILE_H
#define HETMAP_SYNC_FILE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads the state: 1 active, 0 done, or the negative errno of the work's failure. -ENOTTY: the
 * descriptor is no sync_file.
 */
int sync_file_query(int fd, int *ret_status);
bool sync_file_is(int fd);
/*
 * Returns the fence as a sync_file, for @holder, which takes nothing else; the caller closes it.
 * -1: the work has succeeded, and there is nothing to hold. -EOPNOTSUPP, with a text.
 */
struct hm_fence;
int sync_file_of(struct hm_fence *fence, const char *holder, int *ret_fd);
/* Makes a sync_file that is done when both are; they stay the caller's. */
int sync_file_merge(int a, int b, int *ret_fd);

#endif
