// SPDX-License-Identifier: MIT
/*
 * The device is taken away and comes back under an OpenCL kernel that writes its memory where
 * it is, and CPUs that write beside it: a launch that answers success has all its bytes.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/sim_devices.h"

#define WRITERS 2
#define PAGES_EACH 16ull
/* Bytes of the kernel: behind the threads' pages, and enough for it to run until the end. */
#define LAUNCHED (WRITERS * PAGES_EACH * PAGE)
#define LENGTH (4ull << 20)
#define WORDS (LENGTH / sizeof(uint32_t))

static struct hm_device *device;
static struct hm_buffer *buffer;
static struct hm_map *map;
static uint32_t policy;
static _Atomic bool ending;
static _Atomic uint32_t n_launched, n_right, n_failed, n_written;

static uint64_t rounds(void)
{
	const char *text = getenv("HETMAP_ROUNDS");

	return text ? strtoull(text, NULL, 10) : 50;
}

/* The map's generation; each loss and each recovery changes it. */
static uint32_t generation_now(void)
{
	struct hm_pointer_info info;

	CHECK_OK(hm_pointer_find(hm_map_address(map), &info));
	return info.generation;
}

static void *write_pages(void *user)
{
	uint64_t from = (uint64_t)(uintptr_t)user * PAGES_EACH * PAGE;
	char *bytes = (char *)hm_map_address(map) + from;
	int value = 0;

	while (!ending) {
		if (hm_map_begin_cpu(map, from, PAGES_EACH * PAGE, HM_WRITE)) {
			sched_yield();
			continue;
		}
		memset(bytes, ++value, PAGES_EACH * PAGE);
		if (!hm_map_end_cpu(map, from, PAGES_EACH * PAGE, HM_WRITE))
			n_written++;
	}
	return NULL;
}

static uint64_t first_wrong(const uint32_t *words, uint32_t value)
{
	uint64_t i;

	for (i = 0; i < WORDS && ((volatile const uint32_t *)words)[i] == value; i++)
		;
	return i;
}

/*
 * Looks in a bracket, until one is of one object from its begin to its end: of the module's
 * device a map has zeros before the library knows that it is gone, which brackets ask.
 */
static uint64_t look(const uint32_t *words, uint32_t value, uint32_t *ret_generation)
{
	uint64_t wrong;
	uint32_t before;
	int r;

	do {
		before = generation_now();
		r = hm_map_begin_cpu(map, LAUNCHED, LENGTH, HM_READ);
		if (r) {
			sched_yield();
			continue;
		}
		wrong = first_wrong(words, value);
		r = hm_map_end_cpu(map, LAUNCHED, LENGTH, HM_READ);
	} while (r || before != generation_now());
	*ret_generation = before;
	return wrong;
}

/* With a shadow they are there whatever came after; without one, until the device goes. */
static void check_success(const uint32_t *words, uint32_t value, uint32_t before)
{
	uint32_t after;
	uint64_t wrong = look(words, value, &after);

	if (policy != HM_LOSS_SHADOW && after != before)
		return;
	if (wrong < WORDS)
		test_fail(__FILE__, __LINE__,
			  "launch %u succeeded, and word %llu of its result is %u", value,
			  (unsigned long long)wrong, words[wrong]);
	n_right++;
}

static void *launch(void *user)
{
	struct accel_rig *rig = user;
	uint32_t *words = (uint32_t *)((char *)hm_map_address(map) + LAUNCHED);
	uint32_t value = 1, generation;
	struct hm_fence *fence;
	int r;

	for (; !ending; value++) {
		generation = generation_now();
		if (hm_launch(rig->queue, rig->kernel[FILL], WORDS, &fence,
			      HM_RANGE(words, LENGTH, HM_WRITE), HM_U32(value))) {
			sched_yield();
			continue;
		}
		n_launched++;
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
		if (!r) {
			check_success(words, value, generation);
			continue;
		}
		CHECK_EQUAL(r, -ENODEV);
		n_failed++;
	}
	return NULL;
}

/* At any time; or while a kernel runs, which may be over when it is seen. */
static void one_round(uint64_t *state, uint64_t round)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	uint32_t before = n_launched;

	while (round % 2 && n_launched == before)
		sched_yield();
	usleep(test_random(state) % (round % 2 ? 300 : 3000));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	usleep(test_random(state) % 1000);
	sim_plug();
	CHECK_OK_FATAL(hm_device_recover(device, HM_RECOVER_SHADOWED, &info));
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_EQUAL(info.maps_back, 1);
}

static bool may_unplug(void)
{
	if (!sim_unplug(device))
		return false;
	sim_plug();
	CHECK_OK_FATAL(hm_device_recover(device, HM_RECOVER_SHADOWED, NULL));
	return true;
}

static void all_rounds(void)
{
	pthread_t writers[WRITERS], launcher;
	uint64_t state = test_seed(), round;
	struct accel_rig rig;
	unsigned int i;

	/* Its compiler is done with before anything is taken away. */
	accel_rig_open(&rig, "opencl:0", 0, 0);
	CHECK_OK_FATAL(hm_kernel_build(rig.kernel[FILL], rig.accel));
	ending = false;
	n_launched = n_right = n_failed = n_written = 0;
	for (i = 0; i < WRITERS; i++)
		CHECK_FATAL(
			!pthread_create(&writers[i], NULL, write_pages, (void *)(uintptr_t)i));
	CHECK_FATAL(!pthread_create(&launcher, NULL, launch, &rig));
	for (round = 0; round < rounds(); round++)
		one_round(&state, round);
	/* Launches are right again once no thread takes the device away. */
	for (i = n_right; n_right == i;)
		sched_yield();
	ending = true;
	for (i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	pthread_join(launcher, NULL);
	CHECK(n_written);
	CHECK(n_failed || rounds() < 10);
	accel_rig_close(&rig);
}

static void lose(uint32_t by)
{
	if (!use_pocl("pthread"))
		return;
	policy = by;
	device = sim_open();
	buffer = sim_make(device, LAUNCHED + LENGTH, 0, &map);
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = by)));
	if (may_unplug())
		all_rounds();
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
}

static void test_shadowed(void)
{
	lose(HM_LOSS_SHADOW);
}

static void test_recreated(void)
{
	lose(HM_LOSS_RECREATE);
}

static const struct sim_case cases[] = {
	{ "shadowed", test_shadowed },
	{ "recreated", test_recreated },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "lost_opencl", cases)
