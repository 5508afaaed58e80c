/* SPDX-License-Identifier: MIT */
/* Which file systems other machines have, too, and what that means for maps. */
#ifndef HETMAP_NETWORK_H
#define HETMAP_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * May a buffer with these HM_BUFFER_* be had of the file? -EOPNOTSUPP, with a sentence; 0,
 * and a sentence where it may show what is old.
 */
int network_check_buffer(int fd, uint32_t flags);

/* -EOPNOTSUPP on what other machines or a process may have, too, as "@why" has it. */
int network_refuse(int fd, const char *why);

/* Does another machine have the file, too? */
bool network_has(int fd);

#endif
