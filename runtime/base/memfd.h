/* SPDX-License-Identifier: MIT */
/* Memory as a file, which can be sealed. */
#ifndef HETMAP_MEMFD_H
#define HETMAP_MEMFD_H

#include <stdbool.h>

/*
 * Makes a file "hetmap:@name": empty, sealable, O_CLOEXEC, with MFD_NOEXEC_SEAL where the kernel
 * knows it. @flags: further MFD_*. Returns a descriptor, or a negative errno with a text.
 */
int memfd_open(const char *name, unsigned int flags);

/*
 * Is @fd sealed by F_SEAL_FUTURE_WRITE or F_SEAL_WRITE? New mappings of it are never writable
 * then, even in place of writable ones [fcntl(2)].
 */
bool memfd_is_one_way(int fd);

#endif
