// SPDX-License-Identifier: MIT
/* Fork children and a shadow: they see no byte that their parent writes there later. */
#include <hetmap/file.h>
#include <hetmap/loss.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/core.h"
#include "lib/harness.h"
#include "fault/repair.h"
#include "loss/shadow.h"
#include "lib/sim_devices.h"
#include "lib/support.h"

#define SIZE (2 * REPAIR_BLOCK)

struct scene {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	volatile char *base;
	int fd;
	int told[2], asked[2]; /* pipes: from the child, and to it */
	struct sigaction handlers[2];
};

static void fill(int fd, int value)
{
	char bytes[SIZE];

	memset(bytes, value, SIZE);
	CHECK_EQUAL(pwrite(fd, bytes, SIZE, 0), SIZE);
}

static struct scene begin(void)
{
	struct scene scene = { 0 };

	scene.fd = scratch_file(SIZE);
	fill(scene.fd, 'a');
	/* An unrepaired access ends its process; a sanitizer would report of its own. */
	CHECK_FATAL(signal(SIGBUS, SIG_DFL) != SIG_ERR);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_FATAL(!sigaction(SIGBUS, NULL, &scene.handlers[0]));
	CHECK_FATAL(!sigaction(SIGSEGV, NULL, &scene.handlers[1]));
	CHECK_OK_FATAL(hm_device_open("file", &scene.device));
	CHECK_OK_FATAL(hm_buffer_from_file(scene.device, NULL, scene.fd, NULL, &scene.buffer));
	CHECK_OK_FATAL(hm_map_create(scene.buffer, NULL, &scene.map));
	CHECK_OK_FATAL(
		hm_buffer_set_loss(scene.buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	scene.base = hm_map_address(scene.map);
	CHECK_FATAL(!pipe(scene.told) && !pipe(scene.asked));
	return scene;
}

static void end(struct scene *scene)
{
	hm_map_unref(scene->map);
	hm_buffer_unref(scene->buffer);
	hm_device_unref(scene->device);
	close(scene->fd);
	close(scene->told[0]);
	close(scene->told[1]);
	close(scene->asked[0]);
	close(scene->asked[1]);
	CHECK_OK(hm_handler_remove());
}

AUTO_END(scene, end)

/* test_fork() has taken it. */
static void have_handler(const struct scene *scene)
{
	CHECK_FATAL(!sigaction(SIGBUS, &scene->handlers[0], NULL));
	CHECK_FATAL(!sigaction(SIGSEGV, &scene->handlers[1], NULL));
}

static void tell(int fd)
{
	CHECK_EQUAL(write(fd, "", 1), 1);
}

static void await(int fd)
{
	char byte;

	CHECK_EQUAL(read(fd, &byte, 1), 1);
}

/* ---- replaced for good ---- */

static void read_twice(void *user)
{
	const struct scene *scene = user;

	have_handler(scene);
	await(scene->asked[0]);
	CHECK_EQUAL(scene->base[0], 'a');
	tell(scene->told[1]);
	await(scene->asked[0]);
	CHECK_EQUAL(scene->base[0], 'a');
	CHECK_EQUAL(scene->base[REPAIR_BLOCK - 1], 'a');
	scene->base[PAGE] = 'c';
	CHECK_EQUAL(scene->base[PAGE], 'c');
}

static void *change(void *user)
{
	struct scene *scene = user;

	CHECK_EQUAL(ftruncate(scene->fd, 0), 0);
	tell(scene->asked[1]);
	await(scene->told[0]);
	CHECK_EQUAL(ftruncate(scene->fd, SIZE), 0);
	fill(scene->fd, 'b');
	CHECK_OK(hm_buffer_shadow(scene->buffer, 0, SIZE));
	tell(scene->asked[1]);
	return NULL;
}

/* The parent, which has lost nothing, refreshes a shadow that a child shows. */
static void refreshed_later(void)
{
	pthread_t thread;
	AUTO(scene) scene = begin();

	CHECK_FATAL(!pthread_create(&thread, NULL, change, &scene));
	CHECK_EQUAL(test_fork(read_twice, &scene), 0);
	pthread_join(thread, NULL);
	/* A child's repair is no one else's. */
	CHECK_EQUAL(scene.base[PAGE], 'b');
	CHECK(!buffer_info(scene.buffer).lost);
}

/* ---- without the file ---- */

static void read_without(void *user)
{
	const struct scene *scene = user;
	int other = memfd_create("other", 0), fd;

	have_handler(scene);
	CHECK_FATAL(other >= 0 && !ftruncate(other, 4 * (off_t)SIZE));
	/* As daemons do, which then open files of their own. */
	for (fd = 3; fd < 64; fd++)
		if (fd != other && fd != scene->told[1])
			dup2(other, fd);
	(void)scene->base[0];
	tell(scene->told[1]);
}

/* Its descriptor is another file's in the child: no byte of that is shown. */
static void without_descriptor(void)
{
	AUTO(scene) scene = begin();

	CHECK_EQUAL(ftruncate(scene.fd, 0), 0);
	CHECK_EQUAL(test_fork(read_without, &scene), SIGBUS);
	CHECK_EQUAL(ftruncate(scene.fd, SIZE), 0);
}

/* ---- in the midst of a cut ---- */

/* The page by which the owner of a shadow tells its fork children of cuts: struct flights. */
static _Atomic uint64_t *told_to_children(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long first, behind;
	char line[256];
	void *page = NULL;

	CHECK_FATAL(maps != NULL);
	while (!page && fgets(line, sizeof(line), maps))
		if (strstr(line, "memfd:hetmap:shadow") &&
		    sscanf(line, "%lx-%lx", &first, &behind) == 2 && behind - first == PAGE)
			page = (void *)first;
	fclose(maps);
	CHECK_FATAL(page != NULL);
	return page;
}

static void read_old(void *user)
{
	const struct scene *scene = user;

	have_handler(scene);
	CHECK_EQUAL(scene->base[0], 'a');
}

/*
 * Bytes that a cut clears have no other place. While a parent is stopped in the midst of a cut,
 * or has ended there, a child is shown nothing, after a bounded number of tries.
 */
static void midst_of_a_cut(void)
{
	AUTO(scene) scene = begin();
	_Atomic uint64_t *count = told_to_children();

	CHECK_EQUAL(*count % 2, 0);
	CHECK_EQUAL(ftruncate(scene.fd, 0), 0);
	count[1] = 0; /* nothing flies */
	++*count;
	CHECK_EQUAL(test_fork(read_old, &scene), SIGBUS);
	++*count;
	CHECK_EQUAL(test_fork(read_old, &scene), 0);
	CHECK_EQUAL(ftruncate(scene.fd, SIZE), 0);
}

/* ---- several threads ---- */

#define READERS 2
#define CHILDREN 20

static struct {
	volatile char *base;
	_Atomic unsigned int ready, zeros;
} seen;

static void *read_all(void *user)
{
	uint64_t at;

	(void)user;
	seen.ready++;
	while (seen.ready < READERS)
		;
	for (at = 0; at < REPAIR_BLOCK; at += PAGE)
		seen.zeros += seen.base[at] != 'a';
	return NULL;
}

static void read_together(void *user)
{
	const struct scene *scene = user;
	pthread_t thread[READERS];
	unsigned int i;

	have_handler(scene);
	seen.base = scene->base;
	for (i = 0; i < READERS; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_all, NULL));
	for (i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	CHECK_EQUAL(seen.zeros, 0);
}

/* No child sees a copy that is not whole yet. */
static void threads(void)
{
	unsigned int i;
	AUTO(scene) scene = begin();

	CHECK_EQUAL(ftruncate(scene.fd, 0), 0);
	for (i = 0; i < CHILDREN; i++)
		CHECK_EQUAL(test_fork(read_together, &scene), 0);
	CHECK_EQUAL(ftruncate(scene.fd, SIZE), 0);
}

/* ---- pages whole ---- */

#define COPIES 300

static struct {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct shadow *shadow;
	_Atomic bool over;
} flight;

static void *refresh(void *user)
{
	unsigned char value = 0;

	(void)user;
	for (; !flight.over; value++) {
		memset(hm_map_address(flight.map), value, SIZE);
		CHECK_OK_FATAL(shadow_refresh(flight.shadow, flight.buffer, 0, SIZE));
	}
	return NULL;
}

static void flight_make(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };

	CHECK_OK_FATAL(hm_device_open("host", &flight.device));
	CHECK_OK_FATAL(hm_buffer_create(flight.device, &desc, &flight.buffer));
	CHECK_OK_FATAL(hm_map_create(flight.buffer, NULL, &flight.map));
	CHECK_OK_FATAL(shadow_create(SIZE, &flight.shadow));
}

static void flight_drop(void)
{
	shadow_free(flight.shadow);
	hm_map_unref(flight.map);
	hm_buffer_unref(flight.buffer);
	hm_device_unref(flight.device);
}

/* Does each of @n copies succeed, its pages each of one time? */
static bool copy(unsigned int n)
{
	char *to = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at, length;

	if (to == MAP_FAILED)
		return false;
	while (n--) {
		if (shadow_copy(flight.shadow, to, 0, SIZE, PROT_READ, &length) ||
		    length != SIZE)
			return false;
		for (at = 0; at < SIZE; at += PAGE)
			if (memcmp(to + at, to + at + 1, PAGE - 1))
				return false;
	}
	return true;
}

/* A page that a child copies while its parent refreshes is of one time. */
static void never_torn(void)
{
	int go[2], status;
	pthread_t thread;
	pid_t child;

	flight_make();
	CHECK_FATAL(!pipe(go));
	/* Before there is a thread, which TSan would miss in the child. */
	child = fork();
	CHECK_FATAL(child >= 0);
	if (!child) {
		await(go[0]);
		_exit(copy(COPIES) ? 0 : 1);
	}
	CHECK_FATAL(!pthread_create(&thread, NULL, refresh, NULL));
	tell(go[1]);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	flight.over = true;
	pthread_join(thread, NULL);
	close(go[0]);
	close(go[1]);
	flight_drop();
}

/* A child, which copies once told to, and its parent, which refreshes until it is killed. */
static void refresh_for_ever(int go, int told)
{
	flight_make();
	if (!fork()) {
		await(go);
		_exit(write(told, copy(1) ? "y" : "n", 1) == 1 ? 0 : 1);
	}
	tell(told);
	refresh(NULL);
}

/* Whatever flew when the parent ended, in its midst, the child has each page whole. */
static void parent_killed(void)
{
	const struct timespec pause = { .tv_nsec = 3000000 };
	int go[2], told[2], i;
	char byte;
	pid_t pid;

	for (i = 0; i < CHILDREN; i++) {
		CHECK_FATAL(!pipe(go) && !pipe(told));
		pid = fork();
		CHECK_FATAL(pid >= 0);
		if (!pid) {
			refresh_for_ever(go[0], told[1]);
			_exit(1);
		}
		await(told[0]);
		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
		tell(go[1]);
		CHECK(read(told[0], &byte, 1) == 1 && byte == 'y');
		close(go[0]);
		close(go[1]);
		close(told[0]);
		close(told[1]);
	}
}

static const struct test tests[] = {
	{ .name = "refreshed_later", .run = refreshed_later },
	{ .name = "without_descriptor", .run = without_descriptor },
	{ .name = "midst_of_a_cut", .run = midst_of_a_cut },
	{ .name = "threads", .run = threads },
	{ .name = "never_torn", .run = never_torn },
	{ .name = "parent_killed", .run = parent_killed },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "shadow_fork", tests)
