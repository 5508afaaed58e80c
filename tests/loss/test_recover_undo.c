// SPDX-License-Identifier: MIT
/*
 * Setting a policy, refreshing a shadow and recovering a device, with each call of the
 * library's failing in turn: a failed call leaves all as it was, and works afterwards.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "lib/inject.h"
#include "loss/losing_move.h"
#include "lib/sim_devices.h"

#define PAGES 10
#define SIZE (PAGES * PAGE + 100)
#define CALLS_MAX 300

struct lives {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map, *part;
	char *base;
};

static const enum inject_mode modes[] = { INJECT_ONE, INJECT_TWO, INJECT_REST };

static int set_policy(struct lives *lives, uint32_t policy, uint32_t flags,
		      int (*refill)(struct hm_buffer *buffer, void *bytes, uint64_t offset,
				    uint64_t length, void *user))
{
	return hm_buffer_set_loss(lives->buffer, DESC(hm_loss_desc, .policy = policy,
						      .flags = flags, .refill = refill));
}

static struct lives make(void)
{
	struct lives lives = { 0 };

	lives.device = sim_open();
	lives.buffer = sim_make(lives.device, SIZE, 4 * SIZE, &lives.map);
	lives.part = rig_map(lives.buffer, DESC(hm_map_desc, .access = HM_READ,
						.offset = 2 * PAGE, .length = 2 * PAGE));
	lives.base = hm_map_address(lives.map);
	pattern_write(lives.base, 0, SIZE, 1);
	CHECK_OK(hm_map_protect(lives.map, 4 * PAGE, PAGE, HM_READ));
	return lives;
}

static void drop(struct lives *lives)
{
	hm_map_unref(lives->part);
	hm_map_unref(lives->map);
	hm_buffer_unref(lives->buffer);
	hm_device_unref(lives->device);
	inject_forgive();
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
}

AUTO_END(lives, drop)

/* ---- a policy, and a refresh ---- */

static bool set_once(unsigned int n, enum inject_mode mode)
{
	bool failed;
	int r;
	AUTO(lives) lives = make();

	inject_arm(n, mode);
	r = set_policy(&lives, HM_LOSS_SHADOW, 0, NULL);
	failed = inject_disarm();
	if (r) {
		CHECK(failed && hm_errmsg()[0]);
		CHECK_EQUAL(buffer_info(lives.buffer).loss, HM_LOSS_ZERO);
		CHECK_EQUAL(stats_now().bytes_shadow, 0);
		CHECK_OK(set_policy(&lives, HM_LOSS_SHADOW, 0, NULL));
	}
	pattern_write(lives.base, 0, PAGE, 2);
	/* The source is mapped again, for there is a further object. */
	CHECK_OK(hm_buffer_resize(lives.buffer, 3 * SIZE, HM_GROW_APPEND));
	inject_arm(n, mode);
	r = hm_buffer_shadow(lives.buffer, 0, 3 * SIZE);
	failed |= inject_disarm();
	if (r) {
		CHECK(hm_errmsg()[0]);
		CHECK_OK(hm_buffer_shadow(lives.buffer, 0, 3 * SIZE));
	}
	CHECK_EQUAL(buffer_info(lives.buffer).lost, 0);
	if (sim_unplug(lives.device)) {
		CHECK(pattern_holds(lives.base, 0, PAGE, 2));
		CHECK(pattern_holds(lives.base, PAGE, SIZE, 1));
		CHECK(is_zero(lives.base, SIZE, 3 * SIZE));
		sim_plug();
	} else {
		failed = false;
	}
	return failed;
}

static void walk(bool (*once)(unsigned int n, enum inject_mode mode))
{
	unsigned int n, step;
	size_t i;

	inject_install();
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		step = inject_steps(modes[i], &n);
		for (; n < CALLS_MAX && once(n, modes[i]); n += step)
			;
		CHECK(n < CALLS_MAX);
	}
}

static void test_set(void)
{
	walk(set_once);
}

/* ---- a recovery ---- */

static uint32_t policy, policy_flags;
static bool refilled; /* by a callback */

static bool is_shadowed(void)
{
	return policy == HM_LOSS_SHADOW || policy_flags & HM_LOSS_WITH_SHADOW;
}

/* Refills one part after the other; a further recovery may ask for the last one again. */
static int refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		  void *user)
{
	char *base = (char *)bytes - offset;

	(void)buffer, (void)user;
	if (is_shadowed())
		CHECK(pattern_holds(base, offset, offset + length, 1));
	else
		CHECK(is_zero(base, offset, offset + length));
	pattern_write(base, offset, offset + length, 5);
	return 0;
}

static void check_back(const struct lives *lives)
{
	if (refilled)
		CHECK(pattern_holds(lives->base, 0, SIZE, 5));
	else if (is_shadowed())
		CHECK(pattern_holds(lives->base, 0, SIZE, 1));
	else
		CHECK(is_zero(lives->base, 0, SIZE));
}

static void check_lost(const struct lives *lives, enum inject_mode mode)
{
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(lives->map, 0, PAGE, HM_READ));
	/* Where undoing fails, too, a map may be without access. */
	if (mode != INJECT_ONE)
		return;
	if (is_shadowed())
		CHECK(pattern_holds(lives->base, 0, SIZE, 1));
	else
		CHECK(is_zero(lives->base, 0, SIZE));
	CHECK_EQUAL(test_write_signal(lives->base + 4 * PAGE), SIGSEGV);
}

static bool recover_once(unsigned int n, enum inject_mode mode)
{
	struct hm_recover_info info = { .struct_size = sizeof(info), .buffers = 77 };
	bool failed;
	int r;
	AUTO(lives) lives = make();

	CHECK_OK_FATAL(set_policy(&lives, policy, policy_flags, refilled ? refill : NULL));
	if (!sim_unplug(lives.device))
		return false;
	sim_plug();
	inject_arm(n, mode);
	r = hm_device_recover(lives.device, HM_RECOVER_SHADOWED, &info);
	failed = inject_disarm();
	if (r) {
		CHECK(failed && hm_errmsg()[0]);
		CHECK_EQUAL(info.buffers, 77);
		check_lost(&lives, mode);
	} else if (info.buffers_left) {
		CHECK(failed && info.error && hm_errmsg()[0]);
		CHECK_EQUAL(info.buffers_back + info.maps_back, 0);
		check_lost(&lives, mode);
	}
	if (r || info.buffers_left) {
		CHECK_OK(hm_device_recover(lives.device, HM_RECOVER_SHADOWED, &info));
		CHECK_EQUAL(info.error, 0);
	}
	CHECK_EQUAL(info.generation, 1);
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_EQUAL(info.maps_back, 2);
	/* A shadow that the callback's bytes could not be brought to says so. */
	if (failed && refilled && buffer_info(lives.buffer).lost == HM_LOST_STALE)
		CHECK_OK(hm_buffer_shadow(lives.buffer, 0, SIZE));
	CHECK_EQUAL(buffer_info(lives.buffer).lost, 0);
	CHECK_EQUAL(info.bytes_refilled, refilled ? SIZE : 0);
	check_back(&lives);
	CHECK_EQUAL(test_write_signal(lives.base + 4 * PAGE), SIGSEGV);
	CHECK_EQUAL(test_read_signal(lives.base + (PAGES + 1) * PAGE), SIGSEGV);
	pattern_write(lives.base, 0, 4 * PAGE, 3);
	CHECK(pattern_holds((char *)hm_map_address(lives.part) - 2 * PAGE, 2 * PAGE, 4 * PAGE,
			    3));
	CHECK_OK(hm_buffer_resize(lives.buffer, 2 * SIZE, 0));
	return failed;
}

static void walk_recovery(uint32_t of, uint32_t flags, bool by_callback)
{
	policy = of;
	policy_flags = flags;
	refilled = by_callback;
	walk(recover_once);
}

static void test_recover_shadow(void)
{
	walk_recovery(HM_LOSS_SHADOW, 0, false);
}

static void test_recover_zeros(void)
{
	walk_recovery(HM_LOSS_RECREATE, 0, false);
}

static void test_recover_refilled(void)
{
	walk_recovery(HM_LOSS_RECREATE, 0, true);
}

static void test_recover_with_shadow(void)
{
	walk_recovery(HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW, false);
}

static void test_recover_both(void)
{
	walk_recovery(HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW, true);
}

/* A map that a failed change has lost stays lost, without access, when the rest is back. */
static void test_given_up(void)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	struct hm_pointer_info found;
	struct lives lives = make();

	hm_map_unref(lives.part);
	lives.part = NULL;
	CHECK_OK_FATAL(set_policy(&lives, HM_LOSS_RECREATE, 0, NULL));
	losing_move_begin();
	CHECK_ERROR(-ENOMEM, hm_buffer_resize(lives.buffer, 2 * SIZE, HM_GROW_REPLACE));
	losing_move_end();
	CHECK_OK_FATAL(hm_map_create(lives.buffer, NULL, &lives.part));
	if (sim_unplug(lives.device)) {
		sim_plug();
		CHECK_OK(hm_device_recover(lives.device, 0, &info));
		CHECK_EQUAL(info.buffers_back, 1);
		CHECK_EQUAL(info.maps_back, 1);
		CHECK_ERROR(-ENODEV, hm_map_begin_cpu(lives.map, 0, PAGE, HM_READ));
		CHECK_OK(hm_pointer_find(lives.base, &found));
		CHECK_EQUAL(found.access, HM_NONE);
		CHECK_OK(hm_map_begin_cpu(lives.part, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(lives.part, 0, PAGE, HM_READ));
	}
	drop(&lives);
}

static const struct sim_case cases[] = {
	{ "set", test_set },
	{ "recover_shadow", test_recover_shadow },
	{ "recover_zeros", test_recover_zeros },
	{ "recover_refilled", test_recover_refilled },
	{ "recover_with_shadow", test_recover_with_shadow },
	{ "recover_both", test_recover_both },
	{ "given_up", test_given_up },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "recover_undo", cases)
