/* SPDX-License-Identifier: MIT */
/* What a program has of the library's when it ends. */
#ifndef HETMAP_TESTS_LEAVING_H
#define HETMAP_TESTS_LEAVING_H

/*
 * Makes each object twice, on the device @name where it can: the first ones are dropped, the second
 * ones are not, and handler and hook stay. For programs of their own, outside of the harness: a
 * failure ends them.
 */
void leaving_with(const char *name);

#endif
