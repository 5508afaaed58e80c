/* SPDX-License-Identifier: MIT */
/*
 * The caller's environment. A program with other rights than those of its caller (set-user-ID,
 * set-group-ID, file capabilities) must not do what the caller's variables say: they name files to
 * write and libraries to load. This room alone reads the environment; tools/directions checks that.
 */
#ifndef HETMAP_ENV_H
#define HETMAP_ENV_H

#include <stdbool.h>

/* The variable's value, or NULL where it is not set or env_is_foreign(). */
const char *env_get(const char *name);

/* Has this program more rights than its caller, so that the environment is a stranger's? */
bool env_is_foreign(void);

#endif
