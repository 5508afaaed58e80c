/* SPDX-License-Identifier: MIT */
/* Memory as a file, which can be sealed. */
#ifndef HETMAP_MEMFD_H
#define HETMAP_MEMFD_H

#include <stdbool.h>

/*
 * "hetmap:@name", empty, sealable, O_CLOEXEC; MFD_NOEXEC_SEAL where the kernel knows
 * it. @flags: further MFD_*. A descriptor, or a negative errno with a text.
 */
int memfd_open(const char *name, unsigned int flags);

/*
 * F_SEAL_FUTURE_WRITE, or F_SEAL_WRITE: whoever set it, and when, what is mapped of @fd from
 * then on is never writable, whatever it takes the place of [fcntl(2)].
 */
bool memfd_is_one_way(int fd);

#endif
