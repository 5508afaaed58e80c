// SPDX-License-Identifier: MIT
/* Peers of models: packages, one pass over a header, and a file that is read and then copied. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* ---- gguf_open ---- */

/* The same for a file of GGUF; the package takes seconds, so it does it once. */
const char peer_gguf_open[] =
	"import sys, time\n"
	"from gguf import GGUFReader\n"
	"start = time.perf_counter_ns()\n"
	"reader = GGUFReader(sys.argv[1])\n"
	"value = [t for t in reader.tensors if t.name == sys.argv[2]][0].data[0]\n"
	"print(time.perf_counter_ns() - start)\n";

/* Bytes of a kind of number; 8: a string, 9: an array. */
static const unsigned char kind_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

static uint64_t take(const char **at, size_t n)
{
	uint64_t number = 0;

	memcpy(&number, *at, n);
	*at += n;
	return number;
}

static void skip_value(const char **at, uint64_t kind)
{
	uint64_t n = 1, length;

	if (kind == 9) {
		kind = take(at, 4);
		n = take(at, 8);
	}
	if (kind != 8)
		*at += n * kind_bytes[kind];
	for (; kind == 8 && n; n--) {
		length = take(at, 8);
		*at += length;
	}
}

/* The offset of the tensor, and the end of the header; a trusted file. */
static const char *walk(const char *at, const char *wanted, uint64_t *ret_offset)
{
	uint64_t tensors, keys, kind, length, rank;
	const char *name;

	at += 8;
	tensors = take(&at, 8);
	for (keys = take(&at, 8); keys; keys--) {
		length = take(&at, 8);
		at += length;
		kind = take(&at, 4);
		skip_value(&at, kind);
	}
	for (; tensors; tensors--) {
		length = take(&at, 8);
		name = at;
		at += length;
		rank = take(&at, 4);
		at += 8 * rank + 4;
		if (length == strlen(wanted) && !memcmp(name, wanted, length))
			memcpy(ret_offset, at, 8);
		at += 8;
	}
	return at;
}

int peer_gguf_pass(const char *path, const char *wanted, float *ret_value)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = fd < 0 ? -errno : 0;
	uint64_t offset = UINT64_MAX, data;
	char *map = MAP_FAILED;
	struct stat st;

	if (!r && fstat(fd, &st))
		r = -errno;
	if (!r) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		r = map == MAP_FAILED ? -errno : 0;
	}
	if (!r) {
		data = (uint64_t)(walk(map, wanted, &offset) - map);
		data = (data + 31) / 32 * 32;
		if (offset == UINT64_MAX)
			r = -ENOENT;
		else
			memcpy(ret_value, map + data + offset, sizeof(*ret_value));
	}
	if (map != MAP_FAILED)
		munmap(map, (size_t)st.st_size);
	if (fd >= 0)
		close(fd);
	return r;
}

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
