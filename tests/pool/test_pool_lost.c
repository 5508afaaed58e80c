// SPDX-License-Identifier: MIT
/* Pools of a device that is taken away, comes back, or lets CPUs reach a part of its memory. */
#include <errno.h>
#include <string.h>

#include "lib/sim_devices.h"
#include "pool/pool_support.h"

static struct hm_pool *pool_on(struct hm_device *device)
{
	struct hm_pool *pool;

	CHECK_OK_FATAL(hm_pool_create(
		device, DESC(hm_pool_desc, .name = "on a device", .block_size = MIB(1)),
		&pool));
	return pool;
}

/* Within a bracket: CPUs may reach a part of the device's memory only. */
static void write_in_bracket(char *bytes, uint64_t size, uint32_t salt)
{
	struct hm_pointer_info at;

	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_OK(hm_map_begin_cpu(at.map, at.map_offset, size, HM_WRITE));
	pattern_write(bytes, 0, size, salt);
	CHECK_OK(hm_map_end_cpu(at.map, at.map_offset, size, HM_WRITE));
}

static bool holds_in_bracket(char *bytes, uint64_t size, uint32_t salt)
{
	struct hm_pointer_info at;
	bool holds;

	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_OK(hm_map_begin_cpu(at.map, at.map_offset, size, HM_READ));
	holds = pattern_holds(bytes, 0, size, salt);
	CHECK_OK(hm_map_end_cpu(at.map, at.map_offset, size, HM_READ));
	return holds;
}

static void check_length(char *bytes, uint64_t length)
{
	struct hm_pointer_info at;

	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_EQUAL(at.length, length);
}

/* Addresses stay, the pool makes no more allocations, and frees work. */
static void lost(void)
{
	struct hm_device *device = sim_open();
	struct hm_pool *pool = pool_on(device);
	char *bytes = pool_take(pool, 1000), *kept = pool_take(pool, 1000), *none = NULL;
	struct hm_pointer_info at;

	write_in_bracket(bytes, 1000, 1);
	CHECK_OK(hm_pool_free(pool, kept));
	if (!sim_unplug(device))
		goto out;
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK(at.base == bytes && at.length == 1000 && at.pool == pool);
	CHECK_EQUAL(at.generation, 1);
	CHECK(is_zero(bytes, 0, 1000));
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(at.map, at.map_offset, 1000, HM_READ));
	/* Memory that the thread has at hand is not given either. */
	CHECK_ERROR(-ENODEV, hm_pool_alloc(pool, 1000, 0, (void *)&none));
	CHECK_ERROR(-ENODEV, hm_pool_realloc(pool, bytes, 5000, HM_MAY_MOVE, NULL));
	CHECK(!none);
	CHECK_EQUAL(pool_info(pool).allocations, 1);
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, kept));
	CHECK_OK(hm_pool_free(pool, bytes));
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, bytes));
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	CHECK_EQUAL(pool_info(pool).held, 0);
	bytes = NULL;
	sim_plug();
out:
	hm_pool_unref(pool);
	hm_device_unref(device);
	CHECK_OK(hm_free(bytes));
}

/* Growth whose new bytes can't be cleared does not happen. */
static void lost_before_clearing(void)
{
	struct hm_device *device = sim_open();
	struct hm_pool *pool;
	struct hm_pool_info before;
	char *bytes, *pages;

	CHECK_OK_FATAL(hm_pool_create(
		device, DESC(hm_pool_desc, .flags = HM_POOL_ZERO, .block_size = MIB(4)),
		&pool));
	bytes = pool_take(pool, 100);
	pages = pool_take(pool, MIB(1) + 1);
	before = pool_info(pool);
	if (!sim_unplug(device))
		goto out;
	CHECK_ERROR(-ENODEV, hm_pool_realloc(pool, bytes, 110, 0, NULL));
	CHECK_ERROR(-ENODEV, hm_pool_realloc(pool, pages, MIB(2), 0, NULL));
	check_length(bytes, 100);
	check_length(pages, MIB(1) + 1);
	CHECK_EQUAL(pool_info(pool).live, before.live);
	CHECK_EQUAL(pool_info(pool).rounding, before.rounding);
	sim_plug();
out:
	CHECK_OK(hm_pool_free(pool, bytes));
	CHECK_OK(hm_pool_free(pool, pages));
	hm_pool_unref(pool);
	hm_device_unref(device);
}

/* Blocks without a policy stay lost: new allocations are in new ones. */
static void recovered(void)
{
	struct hm_device *device = sim_open();
	struct hm_pool *pool = pool_on(device);
	char *bytes = pool_take(pool, 1000), *cached = pool_take(pool, 1000), *fresh;
	struct hm_pointer_info old, at;

	CHECK_OK(hm_pool_free(pool, cached));
	if (!sim_unplug(device))
		goto out;
	sim_plug();
	sim_recover(device, 0);
	CHECK_EQUAL(hm_pointer_find(bytes, &old), 0);
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(old.map, 0, 1, HM_READ));
	fresh = pool_take(pool, 1000);
	CHECK_EQUAL(hm_pointer_find(fresh, &at), 0);
	CHECK(at.map != old.map);
	write_in_bracket(fresh, 1000, 2);
	CHECK(holds_in_bracket(fresh, 1000, 2));
	CHECK_EQUAL(pool_info(pool).blocks, 2);
	/* A lost block goes with its last allocation. */
	CHECK_OK(hm_pool_free(pool, bytes));
	CHECK_OK(hm_pool_trim(pool, UINT64_MAX, NULL));
	CHECK_EQUAL(pool_info(pool).blocks, 1);
	bytes = fresh;
out:
	CHECK_OK(hm_pool_free(pool, bytes));
	hm_pool_unref(pool);
	hm_device_unref(device);
}

/* With a shadow the bytes come back, at their addresses, and the block goes on. */
static void shadowed(void)
{
	struct hm_device *device = sim_open();
	struct hm_pool *pool = pool_on(device);
	char *bytes = pool_take(pool, 1000), *fresh;
	struct hm_pointer_info old, at;

	CHECK_EQUAL(hm_pointer_find(bytes, &old), 0);
	CHECK_OK(hm_buffer_set_loss(old.buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	write_in_bracket(bytes, 1000, 3);
	CHECK_OK(hm_buffer_shadow(old.buffer, 0, MIB(1)));
	if (!sim_unplug(device))
		goto out;
	CHECK(pattern_holds(bytes, 0, 1000, 3));
	sim_plug();
	sim_recover(device, HM_RECOVER_SHADOWED);
	CHECK(holds_in_bracket(bytes, 1000, 3));
	fresh = pool_take(pool, 1000);
	CHECK_EQUAL(hm_pointer_find(fresh, &at), 0);
	CHECK(at.map == old.map);
	CHECK_OK(hm_pool_free(pool, fresh));
out:
	CHECK_OK(hm_pool_free(pool, bytes));
	hm_pool_unref(pool);
	hm_device_unref(device);
}

/* A block that stays lost at first, and comes back by a second recovery, goes on as well. */
static void shadowed_later(void)
{
	struct hm_device *device = sim_open();
	struct hm_pool *pool = pool_on(device);
	char *bytes = pool_take(pool, 1000), *fresh;
	struct hm_pointer_info old, at;

	CHECK_EQUAL(hm_pointer_find(bytes, &old), 0);
	CHECK_OK(hm_buffer_set_loss(old.buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	if (!sim_unplug(device))
		goto out;
	sim_plug();
	sim_recover(device, 0);
	fresh = pool_take(pool, 1000);
	CHECK_EQUAL(hm_pointer_find(fresh, &at), 0);
	CHECK(at.map != old.map);
	sim_recover(device, HM_RECOVER_SHADOWED);
	CHECK_OK(hm_pool_free(pool, fresh));
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	/* The block serves objects of the same class again, and whole pages. */
	fresh = pool_take(pool, 1000);
	CHECK_EQUAL(hm_pointer_find(fresh, &at), 0);
	CHECK(at.map == old.map);
	CHECK_OK(hm_pool_free(pool, fresh));
	fresh = pool_take(pool, KIB(512));
	CHECK_EQUAL(hm_pointer_find(fresh, &at), 0);
	CHECK(at.map == old.map);
	CHECK_OK(hm_pool_free(pool, fresh));
	CHECK_EQUAL(pool_info(pool).blocks, 1);
out:
	CHECK_OK(hm_pool_free(pool, bytes));
	hm_pool_unref(pool);
	hm_device_unref(device);
}

/* The pool's own touches of bytes are in brackets, too. */
static void windowed(void)
{
	AUTO(hm_device) *device = sim_open();
	char *bytes, *again, *others[8];
	unsigned int i;
	AUTO(hm_pool) *pool = NULL;

	CHECK_OK_FATAL(hm_pool_create(
		device, DESC(hm_pool_desc, .flags = HM_POOL_ZERO, .block_size = MIB(2)),
		&pool));
	bytes = pool_take(pool, 300000);
	write_in_bracket(bytes, 300000, 4);
	/* As much as the window: the bytes leave it. */
	for (i = 0; i < 8; i++) {
		others[i] = pool_take(pool, MIB(1));
		write_in_bracket(others[i], MIB(1), i);
	}
	CHECK_OK_FATAL(hm_pool_realloc(pool, bytes, 700000, HM_MAY_MOVE, &again));
	CHECK(holds_in_bracket(again, 300000, 4));
	for (i = 0; i < 8; i++) {
		CHECK(holds_in_bracket(others[i], MIB(1), i));
		CHECK_OK(hm_pool_free(pool, others[i]));
	}
	CHECK_OK(hm_pool_free(pool, again));
}

static const struct sim_case cases[] = {
	{ "lost", lost },
	{ "lost_before_clearing", lost_before_clearing },
	{ "recovered", recovered },
	{ "shadowed", shadowed },
	{ "shadowed_later", shadowed_later },
	{ "windowed", windowed },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return sim_main_with(argc, argv, "pool_lost", "vram_mb=64 system_mb=64 bar_mb=4 test=1",
			     cases);
}
