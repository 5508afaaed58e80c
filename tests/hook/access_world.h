/* SPDX-License-Identifier: MIT */
/* For tests of the access hook: a hook that notes each request, and a world for the calls. */
#ifndef HETMAP_TESTS_ACCESS_WORLD_H
#define HETMAP_TESTS_ACCESS_WORLD_H

#include <limits.h>
#include <string.h>

#include "lib/support.h"

#define WORLD_SIZE (3 * 4096ull + 100)
#define WORLD_MAX_SIZE (16 * 4096ull)

#define CHECK_TEXT(have, wanted)                                                           \
	do {                                                                               \
		if (strcmp(have, wanted) != 0)                                             \
			test_fail(__FILE__, __LINE__, "\"%s\", not \"%s\"", have, wanted); \
	} while (0)

/* A hook's user data: its answer, and the last request. */
struct access_log {
	uint32_t refuse; /* bits of operations */
	int r;           /* answer to them */
	const char *reason;
	unsigned int n;
	char order[256]; /* names, each with a blank behind */
	struct hm_access_request last;
	char device[64], accel[64], kernel[64], buffer[64], path[PATH_MAX];
};

int access_log_hook(void *user, const struct hm_access_request *request, char *reason);
struct hm_access_counters access_counters_now(void);

/* In it every operation can be done, of those that the device has. */
struct access_world {
	const char *device_name, *accel_name;
	struct hm_device *device, *files;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_buffer *buffer;
	struct hm_map *map;
	int socket[2];
	int fd;     /* a descriptor of the buffer */
	char *path; /* a file of WORLD_SIZE bytes */
	char *link; /* to it */
};

struct access_world access_world_begin(void); /* "host", "cpu" */
struct access_world access_world_begin_on(const char *device, const char *accel);
/* Takes the hook away, too. */
void access_world_end(struct access_world *w);
AUTO_END(access_world, access_world_end)

#endif
