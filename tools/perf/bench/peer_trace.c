// SPDX-License-Identifier: MIT
/* Peers of what traces: the program that only faults, perf's recording of it, a bare read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "common/command.h"
#include "peer.h"

PEER_SOURCE(peer_trace_source);

/* ---- trace_overhead ---- */

/* What is traced, in a process of its own: hetmap bench --fault-read, --fault-write. */
int peer_fault(size_t length, bool write, double *ret_ns)
{
	volatile char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t at = 0, end;
	double start;

	if (bytes == MAP_FAILED)
		return -errno;
	madvise((void *)bytes, length, MADV_NOHUGEPAGE);
	start = bench_now();
	for (; at < length && !signals_pending(); at = end) {
		end = length - at > MIB(64) ? at + MIB(64) : length;
		if (write)
			for (; at < end; at += KIB(4))
				bytes[at] = 1;
		else
			for (; at < end; at += KIB(4))
				(void)bytes[at];
	}
	*ret_ns = bench_now() - start;
	munmap((void *)bytes, length);
	return signals_pending() ? -EINTR : 0;
}

/* The same events, one record a fault, and the same call chains as of hetmap trace. */
const char *const peer_perf[] = {
	"perf", "record", "-q", "-e", "page-faults", "-c", "1", "-d", "-g", "-o", NULL
}; /* a file, "--" and the program */

/* ---- report_10m ---- */

int peer_read_all(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *block = malloc(MIB(1));
	ssize_t n = 1;
	int r = fd < 0 ? -errno : block ? 0 : -ENOMEM;

	while (!r && n > 0) {
		n = read(fd, block, MIB(1));
		if (n < 0)
			r = -errno;
	}
	free(block);
	if (fd >= 0)
		close(fd);
	return r;
}
