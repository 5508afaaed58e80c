/* SPDX-License-Identifier: MIT */
/* The kernel's fences as descriptors [linux/sync_file.h]. */
#ifndef HETMAP_SYNC_FILE_H
#define HETMAP_SYNC_FILE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What has become of it: 1 not yet, 0 done, or a negative errno that its work ended
 * with. -ENOTTY: the descriptor is no sync_file.
 */
int sync_file_query(int fd, int *ret_status);
bool sync_file_is(int fd);
/*
 * A fence as one, for @holder, which takes no other: the caller closes it. -1: the work has
 * ended well, and there is nothing to hold. -EOPNOTSUPP, with a text.
 */
struct hm_fence;
int sync_file_of(struct hm_fence *fence, const char *holder, int *ret_fd);
/* One that is done when both are; they stay the caller's. */
int sync_file_merge(int a, int b, int *ret_fd);

#endif
