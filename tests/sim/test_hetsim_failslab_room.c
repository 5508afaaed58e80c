// SPDX-License-Identifier: MIT
/*
 * hetsim makes room in a full VRAM, and each allocation and copy of that fails in turn
 * (fail_nth.h): the opener that needs the room gets it or an errno, and the one whose buffer is in
 * the way has all its bytes, in VRAM or not, as both are counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/fail_nth.h"
#include "lib/hetsim.h"
#include "lib/support.h"

#define PAGES 64
#define BYTES (PAGES * PAGE)
#define VICTIMS 2

/*
 * Buffers of another opener, which take all of VRAM: two small ones, and one that was used later,
 * whose turn it is when those can't be moved.
 */
struct victim {
	int fd;
	struct hetsim_buffer buffers[VICTIMS], rest;
	unsigned char *bytes[VICTIMS];
};

struct scene {
	int fd;
	uint32_t handle; /* of a buffer, from before() */
};

/* A device that could not make room for want of memory has none. */
static int answer(int r)
{
	return r == -ENOSPC ? -ENOMEM : r;
}

static void no_more(struct scene *scene)
{
	(void)scene;
}

static void make_in(struct scene *scene, uint32_t place)
{
	struct hetsim_buffer buffer = { .handle = 0 };

	CHECK_EQUAL(hetsim_buffer_create(scene->fd, BYTES, place, 0, &buffer), 0);
	scene->handle = buffer.handle;
}

/* The create made room for itself, but not for a growth. */
static void make_in_vram(struct scene *scene)
{
	make_in(scene, HETSIM_PLACE_VRAM);
}

static void make_in_system(struct scene *scene)
{
	make_in(scene, HETSIM_PLACE_SYSTEM);
}

static int run_create(void *user)
{
	struct scene *scene = user;
	struct hetsim_buffer buffer;

	return answer(hetsim_buffer_create(scene->fd, BYTES, HETSIM_PLACE_VRAM, 0, &buffer));
}

static int run_grow(void *user)
{
	struct scene *scene = user;

	return answer(hetsim_buffer_resize(scene->fd, scene->handle, 2 * BYTES));
}

static int run_move(void *user)
{
	struct scene *scene = user;

	return answer(
		hetsim_buffer_move(scene->fd, scene->handle, 0, BYTES, HETSIM_PLACE_VRAM));
}

static const struct step {
	const char *name;
	void (*before)(struct scene *scene);
	int (*run)(void *user);
	unsigned int least; /* failures that there are to inject: the pages of both, and more */
} steps[] = {
	{ "create, with VRAM full", no_more, run_create, 2 * PAGES + 4 },
	{ "grow, with VRAM full", make_in_vram, run_grow, 2 * PAGES + 4 },
	{ "move, with VRAM full", make_in_system, run_move, 2 * PAGES + 3 },
};

static struct victim victim_make(void)
{
	struct victim victim = { .fd = hetsim_open(O_RDWR) };
	struct hetsim_query query;
	unsigned int i;

	for (i = 0; i < VICTIMS; i++) {
		CHECK_EQUAL(hetsim_buffer_create(victim.fd, BYTES, HETSIM_PLACE_VRAM, 0,
						 &victim.buffers[i]),
			    0);
		CHECK_EQUAL(hetsim_mmap(victim.fd, BYTES, PROT_READ | PROT_WRITE,
					victim.buffers[i].offset, &victim.bytes[i]),
			    0);
		CHECK_FATAL(victim.bytes[i] != NULL);
		pattern_write(victim.bytes[i], 0, BYTES, i);
	}
	query = hetsim_query(victim.fd);
	CHECK_EQUAL(hetsim_buffer_create(victim.fd, query.vram_bytes - query.vram_used,
					 HETSIM_PLACE_VRAM, 0, &victim.rest),
		    0);
	return victim;
}

static void add_places(int fd, const struct hetsim_buffer *buffer, uint64_t *vram,
		       uint64_t *system)
{
	struct hetsim_buffer_info info = hetsim_buffer_info(fd, buffer->handle);

	*vram += info.vram_bytes;
	*system += info.system_bytes;
}

static void bring_back(int fd, const struct hetsim_buffer *buffer)
{
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer->handle, 0, buffer->length,
				       HETSIM_PLACE_VRAM),
		    0);
}

/* The buffers are unchanged, and go back to VRAM, where there is room again. */
static void victim_holds(const struct victim *victim, const char *name, unsigned int nth)
{
	struct hetsim_query query = hetsim_query(victim->fd);
	uint64_t vram = 0, system = 0;
	unsigned int i;

	add_places(victim->fd, &victim->rest, &vram, &system);
	for (i = 0; i < VICTIMS; i++)
		add_places(victim->fd, &victim->buffers[i], &vram, &system);
	if (vram + system != query.vram_bytes || query.system_used != system ||
	    query.vram_used != vram)
		test_fail(__FILE__, __LINE__, "%s: failure %u: %llu of VRAM and %llu of system",
			  name, nth, (unsigned long long)vram, (unsigned long long)system);
	for (i = 0; i < VICTIMS; i++) {
		if (!pattern_holds(victim->bytes[i], 0, BYTES, i))
			test_fail(__FILE__, __LINE__, "%s: failure %u: other bytes", name, nth);
		/* Mapped again, so that the next one has something to take away. */
		bring_back(victim->fd, &victim->buffers[i]);
		CHECK(pattern_holds(victim->bytes[i], 0, BYTES, i));
	}
	bring_back(victim->fd, &victim->rest); /* last: it is the one that was used last */
	CHECK_EQUAL(hetsim_query(victim->fd).vram_used, query.vram_bytes);
}

static void walk(const struct step *step, const struct victim *victim, int nth_file)
{
	bool injected = true;
	unsigned int nth;

	for (nth = 1; injected && nth < FAIL_NTH_MOST; nth++) {
		struct scene scene = { .fd = hetsim_open(O_RDWR) };

		step->before(&scene);
		injected = fail_nth_run(nth_file, step->name, nth, step->run, &scene);
		close(scene.fd);
		victim_holds(victim, step->name, nth);
	}
	fail_nth_enough(step->name, nth, step->least);
}

static void test_room(void)
{
	int nth_file = fail_nth_open(), fd;
	struct victim victim;
	size_t i;

	if (nth_file < 0)
		return;
	fd = hetsim_open(O_RDWR);
	if (fd < 0) {
		close(nth_file);
		return;
	}
	close(fd);
	victim = victim_make();
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		walk(&steps[i], &victim, nth_file);
	for (i = 0; i < VICTIMS; i++)
		hetsim_munmap(victim.bytes[i], BYTES);
	close(victim.fd);
	CHECK_EQUAL(hetsim_objects(), 0);
	close(nth_file);
}

static const struct test tests[] = {
	{ "room", test_room, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_failslab_room", tests)
