// SPDX-License-Identifier: MIT
/* Brings pages in (prefetch), and takes advice about them; lock.c keeps them. */
#include "map/resident.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/compat.h"
#include "base/sys.h"

/* ---- prefetch ---- */

int resident_check(const struct hm_buffer *buffer)
{
	if (buffer->caps & HM_CAP_POPULATE)
		return 0;
	return err_set(-EOPNOTSUPP, "%s: this device's pages can't be brought in ahead",
		       buffer->name);
}

/* ---- advise ---- */
