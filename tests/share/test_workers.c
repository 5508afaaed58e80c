// SPDX-License-Identifier: MIT
/*
 * Four processes on one file, each with a map of its own: they read the same bytes, write parts
 * of their own, and one of them is killed at some moment, which the others don't notice.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/support.h"

#define WORKERS 4u
#define PART (64 * 4096ull)
#define READ_ONLY_PART PART /* before those that are written */
#define SIZE (READ_ONLY_PART + WORKERS * PART)
#define PASSES 40u
#define ROUNDS 10u

static int map_file(const char *path, struct hm_map **ret_map)
{
	struct hm_device *device;
	AUTO(hm_buffer) *buffer = NULL;
	int r = hm_device_open("file", &device);

	if (r)
		return r;
	r = hm_buffer_from_file(device, path, -1, NULL, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	return hm_map_create(buffer, NULL, ret_map);
}

/* The common part is unchanged; the worker's own part has its last stores. */
static void work(const char *path, uint32_t number)
{
	uint64_t offset = READ_ONLY_PART + number * PART;
	struct hm_map *map;
	uint32_t pass;
	char *base;

	if (map_file(path, &map))
		_exit(1);
	base = hm_map_address(map);
	for (pass = 1; pass <= PASSES; pass++) {
		if (!pattern_holds(base, 0, READ_ONLY_PART, 1))
			_exit(2);
		pattern_write(base + offset, 0, PART, number << 16 | pass);
		if (pass % 8 == 0 && hm_file_publish(map, offset, PART))
			_exit(3);
		if (!pattern_holds(base + offset, 0, PART, number << 16 | pass))
			_exit(4);
	}
	hm_map_unref(map);
	_exit(0);
}

static void one_round(const char *path, uint64_t *state)
{
	uint32_t i, killed = (uint32_t)(test_random(state) % WORKERS);
	AUTO(hm_map) *map = NULL;
	pid_t pid[WORKERS];
	int status;
	char *base;

	for (i = 0; i < WORKERS; i++) {
		pid[i] = fork();
		CHECK_FATAL(pid[i] >= 0);
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(path, i);
		}
	}
	usleep((useconds_t)(test_random(state) % 10000));
	kill(pid[killed], SIGKILL);
	for (i = 0; i < WORKERS; i++) {
		CHECK_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
		if (i != killed)
			CHECK_EQUAL(status, 0);
	}
	CHECK_OK_FATAL(map_file(path, &map));
	base = hm_map_address(map);
	CHECK(pattern_holds(base, 0, READ_ONLY_PART, 1));
	for (i = 0; i < WORKERS; i++)
		if (i != killed)
			CHECK(pattern_holds(base + READ_ONLY_PART + i * PART, 0, PART,
					    i << 16 | PASSES));
}

static void one_killed(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = folder_path(folder, "file");
	uint64_t state = test_seed();
	struct hm_map *map;
	uint32_t i;

	file_sparse(folder, "file", SIZE);
	CHECK_OK_FATAL(map_file(path, &map));
	pattern_write(hm_map_address(map), 0, READ_ONLY_PART, 1);
	hm_map_unref(map);
	for (i = 0; i < ROUNDS; i++)
		one_round(path, &state);
}

static const struct test tests[] = {
	{ "one_killed", one_killed, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "workers", tests)
