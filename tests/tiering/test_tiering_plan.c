// SPDX-License-Identifier: MIT
/* Plans of a tiering: which blocks move, and the heat that they are chosen by. */
#include "lib/support.h"
#include "tiering/tiering.h"

static struct tiering_block plan_blocks[8];
static uint32_t plan_order[8];
static struct tiering_step plan_steps[TIERING_ROUND];

static void set(uint32_t i, enum tiering_place place, uint16_t heat)
{
	plan_blocks[i] = (struct tiering_block){ .place = place, .heat = heat, .bytes = 10 };
}

static uint32_t plan(uint64_t fast_bytes, uint64_t tokens)
{
	return plan_make(plan_blocks, 8, fast_bytes, tokens, plan_order, plan_steps);
}

static void check_step(uint32_t i, uint32_t block, uint32_t why)
{
	CHECK_EQUAL(plan_steps[i].block, block);
	CHECK_EQUAL(plan_steps[i].why, why);
}

static void test_plan(void)
{
	uint32_t i;

	for (i = 0; i < 8; i++)
		set(i, i < 2 ? TIERING_FAST : TIERING_SLOW, 0);
	CHECK_EQUAL(plan(20, 1000), 0);
	/* The fast tier has room: the hottest come first, and only hot ones. */
	set(4, TIERING_SLOW, 900);
	set(5, TIERING_SLOW, 950);
	set(6, TIERING_SLOW, TIERING_HOT - 1);
	CHECK_EQUAL(plan(40, 1000), 2);
	check_step(0, 5, HM_TIERING_HOT);
	check_step(1, 4, HM_TIERING_HOT);
	/* Bytes that may move now. */
	CHECK_EQUAL(plan(40, 10), 1);
	CHECK_EQUAL(plan(40, 9), 0);
	/* No room: each takes the place of the coldest, which is paid for, too. */
	set(0, TIERING_FAST, 100);
	CHECK_EQUAL(plan(20, 1000), 4);
	check_step(0, 1, HM_TIERING_COLD);
	check_step(1, 5, HM_TIERING_HOT);
	check_step(2, 0, HM_TIERING_COLD);
	check_step(3, 4, HM_TIERING_HOT);
	CHECK_EQUAL(plan(20, 39), 2);
	CHECK_EQUAL(plan(20, 19), 0);
	/* A block that is little hotter stays. */
	set(0, TIERING_FAST, 901 - TIERING_MARGIN);
	set(1, TIERING_FAST, 951 - TIERING_MARGIN);
	CHECK_EQUAL(plan(20, 1000), 2);
	/* A block that rests is not asked. */
	plan_blocks[0].rest = 1;
	CHECK_EQUAL(plan(20, 1000), 0);
	/* More than the budget allows goes first. */
	plan_blocks[0].rest = 0;
	CHECK_EQUAL(plan(10, 1000), 1);
	check_step(0, 0, HM_TIERING_OVER);
	CHECK_EQUAL(plan_best(plan_blocks, 8, 20, plan_order), 1850);
}

static void test_heat(void)
{
	struct tiering_block block = { .touched = true };
	uint32_t i;

	for (i = 0; i < 100; i++)
		plan_heat(&block, 1);
	CHECK_EQUAL(block.heat, TIERING_HEAT_MOST);
	block.touched = false;
	plan_heat(&block, 1);
	CHECK(block.heat < TIERING_HEAT_MOST);
	for (i = 0; i < 100; i++)
		plan_heat(&block, 1);
	CHECK_EQUAL(block.heat, 0);
}

static const struct test tests[] = {
	{ .name = "plan", .run = test_plan },
	{ .name = "heat", .run = test_heat },
	{ 0 },
};

TEST_MAIN(harness_main, "tiering_plan", tests)
