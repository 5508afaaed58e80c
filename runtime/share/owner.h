/* SPDX-License-Identifier: MIT */
/*
 * The process that a shared buffer belongs to, and whether it is still there.
 *
 * A pidfd tells that for sure, in any pid namespace, and costs a poll(): it goes beside the
 * control page. A receiver must check that it is one before it waits for it: the server of
 * another file might let a poll() wait for ever. Where there is none (a sandbox that forbids
 * pidfd_open()), its number and when it began tell, as far as both processes see the same
 * numbers.
 */
#ifndef HETMAP_OWNER_H
#define HETMAP_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/* When this process began, in ticks since the machine did; 0: not told. */
uint64_t owner_own_start(void);

/* A pidfd of this process; -1: this kernel or sandbox has none. -EMFILE, -ENFILE, -ENOMEM. */
int owner_open(int *ret_fd);

/*
 * 0: @fd is a pidfd, so that a poll() of it returns at once, of the process that has
 * number @pid where it is and began at @start, as far as can be told. Else -EPROTO;
 * -ENOENT without /proc.
 */
int owner_check(int fd, uint64_t pid, uint64_t start);

/* Process @pid, as it is numbered here, is the one that began at @start. */
bool owner_is_seen(uint64_t pid, uint64_t start);

/*
 * By @fd, a pidfd, or where it is -1 by number and start, which the caller has found to
 * mean the same process here.
 */
bool owner_has_ended(int fd, uint64_t pid, uint64_t start);

#endif
