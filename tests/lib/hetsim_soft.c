// SPDX-License-Identifier: MIT
/*
 * soft:0 for the tests of the simulated device: open files by number, and the maps
 * of them, which it is for these functions to change when the device says so.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "soft/soft.h"

#define FIRST 0x40000000 /* no descriptor is that high */
#define FILES_MAX 64
#define MAPS_MAX 1024
#define HANDLES_MAX 1024

struct map {
	char *bytes; /* NULL: free */
	uint64_t length;
	int prot;
	int fd; /* file that it was made through, -1: that is closed */
	uint32_t handle;
	uint64_t position; /* in the buffer */
	uint64_t offset;   /* on the device */
};

static struct {
	pthread_mutex_t lock; /* protects the below */
	struct soft_file *files[FILES_MAX];
	bool taken[FILES_MAX];
	struct map maps[MAPS_MAX];
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A child of a process with threads has a lock that it can take. */
static void lock_state(void)
{
	pthread_mutex_lock(&state.lock);
}

static void unlock_state(void)
{
	pthread_mutex_unlock(&state.lock);
}

static void at_fork(void)
{
	pthread_atfork(lock_state, unlock_state, unlock_state);
}

bool hetsim_soft_has(int fd)
{
	return fd >= FIRST && fd < FIRST + FILES_MAX;
}

static struct soft_file *file_of(int fd)
{
	struct soft_file *file;

	lock_state();
	file = state.files[fd - FIRST];
	unlock_state();
	return file;
}

/* ---- pages as the device gives them ---- */

/*
 * By number: TSan takes libc's mmap() for a write to the pages, which other threads
 * touch meanwhile, as is meant here.
 */
static void *place_map(const struct map *map, char *at, uint64_t length, int flags, int fd,
		       uint64_t offset)
{
	return (void *)syscall(SYS_mmap, at, length, map->prot, flags | MAP_FIXED, fd, offset);
}

/* Once the device is gone, the buffer has no say in the map. */
static void *place_back(const struct map *map, char *at, uint64_t length)
{
	uint64_t from;
	int fd;

	if (soft_map_fd(state.files[map->fd - FIRST], map->offset + (uint64_t)(at - map->bytes),
			&fd, &from))
		return at;
	return place_map(map, at, length, MAP_SHARED, fd, from);
}

static void *place_bus(const struct map *map, char *at, uint64_t length)
{
	int fd = memfd_create("bus", MFD_CLOEXEC);
	void *placed = place_map(map, at, length, MAP_SHARED, fd, 0);

	close(fd);
	return placed;
}

static void *place_zero(const struct map *map, char *at, uint64_t length)
{
	return place_map(map, at, length, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void check_placed(const void *placed)
{
	if (placed == MAP_FAILED)
		test_fail(__FILE__, __LINE__, "the map can't be changed");
}

/* With the lock held: maps the pages as the device gives them now. */
static void show(const struct map *map)
{
	struct soft_file *file = state.files[map->fd - FIRST];
	uint64_t at, length;
	bool hidden;

	for (at = 0; at < map->length; at += length) {
		hidden = soft_hidden(file, map->handle, map->position + at, map->length - at,
				     &length);
		check_placed(hidden ? place_bus(map, map->bytes + at, length) :
				      place_back(map, map->bytes + at, length));
	}
}

static void pages_changed(void *user, uint32_t handle)
{
	int fd = (int)(intptr_t)user;
	unsigned int i;

	lock_state();
	for (i = 0; i < MAPS_MAX; i++)
		if (state.maps[i].bytes && state.maps[i].fd == fd &&
		    state.maps[i].handle == handle)
			show(&state.maps[i]);
	unlock_state();
}

static void lost(void *user)
{
	int fd = (int)(intptr_t)user;
	unsigned int i;

	lock_state();
	for (i = 0; i < MAPS_MAX; i++)
		if (state.maps[i].bytes && state.maps[i].fd == fd)
			check_placed(place_zero(&state.maps[i], state.maps[i].bytes,
						state.maps[i].length));
	unlock_state();
}

static int visit_maps(void *user, uint32_t handle, soft_visit *visit, void *context)
{
	int fd = (int)(intptr_t)user, r = 0;
	unsigned int i;

	lock_state();
	for (i = 0; i < MAPS_MAX && !r; i++) {
		struct map *map = &state.maps[i];

		if (map->bytes && map->fd == fd && map->handle == handle)
			r = visit(context, map->bytes, map->position, map->length);
	}
	unlock_state();
	return r;
}

static const struct soft_hooks hooks = {
	.pages = pages_changed,
	.lost = lost,
	.maps = visit_maps,
};

/* ---- open files ---- */

int hetsim_soft_open(int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct soft_file *file;
	int i, r;

	pthread_once(&once, at_fork);
	lock_state();
	for (i = 0; i < FILES_MAX && state.taken[i]; i++)
		;
	if (i < FILES_MAX)
		state.taken[i] = true;
	unlock_state();
	if (i == FILES_MAX)
		return -EMFILE;
	r = soft_open(0, flags, &hooks, (void *)(intptr_t)(FIRST + i), &file);
	lock_state();
	if (r)
		state.taken[i] = false;
	else
		state.files[i] = file;
	unlock_state();
	return r ? r : FIRST + i;
}

/* The number is free when nothing of the file calls any more. */
void hetsim_soft_close(int fd)
{
	unsigned int i;

	soft_close(file_of(fd));
	lock_state();
	for (i = 0; i < MAPS_MAX; i++)
		if (state.maps[i].fd == fd)
			state.maps[i].fd = -1;
	state.files[fd - FIRST] = NULL;
	state.taken[fd - FIRST] = false;
	unlock_state();
}

int hetsim_soft_call(int fd, unsigned long cmd, void *argument)
{
	return soft_call(file_of(fd), cmd, argument);
}

ssize_t hetsim_soft_pread(int fd, void *to, uint64_t length, uint64_t offset)
{
	return soft_read(file_of(fd), to, length, offset);
}

ssize_t hetsim_soft_pwrite(int fd, const void *from, uint64_t length, uint64_t offset)
{
	return soft_write(file_of(fd), from, length, offset);
}

/* ---- maps ---- */

/* The buffer with the pages at @offset. */
static uint32_t handle_at(struct soft_file *file, uint64_t offset)
{
	struct hetsim_query query = { .size = sizeof(query) };
	uint32_t handle;

	soft_call(file, HETSIM_QUERY, &query);
	for (handle = 1; handle < HANDLES_MAX; handle++) {
		struct hetsim_buffer_info info = { .size = sizeof(info), .handle = handle };

		if (!soft_call(file, HETSIM_BUFFER_INFO, &info) && info.offset <= offset &&
		    offset - info.offset < query.max_buffer)
			return handle;
	}
	return 0;
}

/* With the lock held: between map_fd and the entry, no change is told of. */
static int map_add(struct map *map, struct soft_file *file, unsigned char **ret_bytes)
{
	uint64_t last;
	unsigned int i;
	void *bytes;
	int fd, r;

	for (i = 0; i < MAPS_MAX && state.maps[i].bytes; i++)
		;
	if (i == MAPS_MAX)
		return -ENOMEM;
	r = soft_map_fd(file, map->offset + map->length - 1, &fd, &last);
	if (r)
		return r;
	r = soft_map_fd(file, map->offset, &fd, &map->position);
	if (r)
		return r;
	bytes = mmap(NULL, map->length, map->prot, MAP_SHARED, fd, (off_t)map->position);
	if (bytes == MAP_FAILED)
		return -errno;
	map->bytes = bytes;
	state.maps[i] = *map;
	show(map);
	*ret_bytes = bytes;
	return 0;
}

int hetsim_soft_mmap(int fd, uint64_t length, int prot, uint64_t offset,
		     unsigned char **ret_bytes)
{
	struct soft_file *file = file_of(fd);
	struct map map = { .length = length, .prot = prot, .fd = fd, .offset = offset };
	int r;

	map.handle = handle_at(file, offset);
	lock_state();
	r = map_add(&map, file, ret_bytes);
	unlock_state();
	return r;
}

int hetsim_soft_munmap(void *bytes, uint64_t length)
{
	unsigned int i;
	int r;

	lock_state();
	for (i = 0; i < MAPS_MAX; i++)
		if (state.maps[i].bytes == bytes)
			state.maps[i].bytes = NULL;
	r = munmap(bytes, length) ? -errno : 0;
	unlock_state();
	return r;
}
