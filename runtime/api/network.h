/* SPDX-License-Identifier: MIT */
/* Tells which file systems other machines share, and the consequences for maps. */
#ifndef HETMAP_NETWORK_H
#define HETMAP_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * May the file have a buffer with these HM_BUFFER_* flags?
 * -EOPNOTSUPP, with a text: no.
 * 0: yes; a text is set if the buffer may show old bytes.
 */
int network_check_buffer(int fd, uint32_t flags);

/*
 * -EOPNOTSUPP, with the text @why, on a file system that other machines or a process may have,
 * too.
 */
int network_refuse(int fd, const char *why);

/* Does another machine have the file, too? */
bool network_has(int fd);

#endif
