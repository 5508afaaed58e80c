/* SPDX-License-Identifier: MIT */
/*
 * Identifies the process that owns a shared buffer, and tells whether it still runs.
 *
 * A pidfd tells that for sure, in any pid namespace, and costs a poll(): it is sent with the
 * control page. A receiver must check that it is a pidfd before it polls: the server of another
 * file might let a poll() wait for ever. Without a pidfd (in a sandbox that forbids
 * pidfd_open()), the process number and start time tell, as far as both processes see the same
 * numbers.
 */
#ifndef HETMAP_OWNER_H
#define HETMAP_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/* Start time of this process, in ticks since the machine's boot; 0: not known. */
uint64_t owner_own_start(void);

/*
 * A pidfd of this process; -1: this kernel or sandbox has none.
 * -EMFILE, -ENFILE, -ENOMEM.
 */
int owner_open(int *ret_fd);

/*
 * 0: @fd is a pidfd, so a poll() of it returns at once. Its process has number @pid in its own
 * namespace and began at @start, as far as can be told.
 * -EPROTO: @fd is another file, or another process's.
 * -ENOENT: there is no /proc.
 */
int owner_check(int fd, uint64_t pid, uint64_t start);

/* True: process @pid of this namespace began at @start. */
bool owner_is_seen(uint64_t pid, uint64_t start);

/*
 * Asks @fd, a pidfd. With -1 the number and start time decide, which must mean the same process
 * here (owner_is_seen()).
 */
bool owner_has_ended(int fd, uint64_t pid, uint64_t start);

#endif
