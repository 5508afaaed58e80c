/* SPDX-License-Identifier: MIT */
/* Memory as a file, which can be sealed. */
#ifndef HETMAP_MEMFD_H
#define HETMAP_MEMFD_H

/*
 * "hetmap:@name", empty, sealable, O_CLOEXEC; MFD_NOEXEC_SEAL where the kernel knows
 * it. @flags: further MFD_*. A descriptor, or a negative errno with a text.
 */
int memfd_open(const char *name, unsigned int flags);

#endif
