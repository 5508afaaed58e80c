// SPDX-License-Identifier: MIT
/* Memory as a file, which can be sealed. */
#include "base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/compat.h"
#include "core/core.h"
#include "base/rlimits.h"
#include "base/sys.h"

int memfd_open(const char *name, unsigned int flags)
{
	/*
	 * Linux 6.3 and later know NOEXEC_SEAL; older kernels answer EINVAL, and are asked once.
	 */
	static _Atomic unsigned int noexec = MFD_NOEXEC_SEAL;
	unsigned int extra = noexec;
	char full[BUFFER_NAME_MAX + 8];
	int fd;

	snprintf(full, sizeof(full), "hetmap:%s", name);
	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = sys_memfd_create(full, flags | extra);
	if (fd == -EINVAL && extra) {
		fd = sys_memfd_create(full, flags);
		if (fd >= 0)
			noexec = 0;
	}
	if (fd < 0)
		return rlimits_explain_fd(fd, "memfd_create");
	return fd;
}

bool memfd_is_one_way(int fd)
{
	int seals = sys_fcntl(fd, F_GET_SEALS, 0);

	return seals >= 0 && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
}
