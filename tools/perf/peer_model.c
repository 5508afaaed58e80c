// SPDX-License-Identifier: MIT
/* Peers of models: the safetensors package, and a file that is read and then copied. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_model_source);

/* ---- safetensors_open ---- */

/*
 * Prints how many ns it takes from the file's name to the first element of a tensor, by a
 * process that has done it before. numpy may be Debian's own, outside of an environment.
 */
const char peer_safetensors_open[] =
	"import sys, time\n"
	"sys.path.append('/usr/lib/python3/dist-packages')\n"
	"from safetensors import safe_open\n"
	"for turn in range(2):\n"
	"    start = time.perf_counter_ns()\n"
	"    with safe_open(sys.argv[1], framework='np') as file:\n"
	"        value = file.get_tensor(sys.argv[2])[0]\n"
	"    ns = time.perf_counter_ns() - start\n"
	"print(ns)\n";

/* ---- load ---- */

/* All of the file by read(2) into malloc()ed memory, then to where the device has it. */
int peer_load(const char *path, char *to, char **ret_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t done = 0, size = 0;
	char *bytes = NULL;
	struct stat st;
	ssize_t n = 1;
	int r = fd < 0 ? -errno : 0;

	if (!r && fstat(fd, &st))
		r = -errno;
	if (!r) {
		size = (size_t)st.st_size;
		bytes = malloc(size);
		r = bytes ? 0 : -ENOMEM;
	}
	while (!r && done < size) {
		n = read(fd, bytes + done, size - done);
		if (n <= 0)
			r = n < 0 ? -errno : -ENODATA;
		else
			done += (size_t)n;
	}
	if (!r)
		memcpy(to, bytes, size);
	if (fd >= 0)
		close(fd);
	if (r) {
		free(bytes);
		return r;
	}
	*ret_bytes = bytes;
	return 0;
}
