// SPDX-License-Identifier: MIT
/* The only reader of the environment: see env.h. */
#include "base/env.h"

#include <stdlib.h>
#include <sys/auxv.h>

const char *env_get(const char *name)
{
	return secure_getenv(name);
}

bool env_is_foreign(void)
{
	return getauxval(AT_SECURE);
}
