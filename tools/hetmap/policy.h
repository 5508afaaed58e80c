/* SPDX-License-Identifier: MIT */
/*
 * Policy: a file of rules for the library's operations in this process; the access hook decides
 * by them. hetmap-run(1) has the format.
 */
#ifndef HETMAP_POLICY_H
#define HETMAP_POLICY_H

/*
 * Reads @path and sets the hook. 0, or an exit status, the failure told already:
 * STATUS_USAGE with the line that is wrong.
 */
int policy_load(const char *path);
/* No hook, no rules. */
void policy_drop(void);

#endif
