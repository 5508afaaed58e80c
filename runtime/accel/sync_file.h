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
/* One that is done when both are; they stay the caller's. */
int sync_file_merge(int a, int b, int *ret_fd);

#endif
