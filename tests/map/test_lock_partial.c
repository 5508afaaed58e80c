// SPDX-License-Identifier: MIT
/* HM_LOCK_PARTIAL over pages some of which are locked already. */
#include "map/lock_support.h"

/* A partial lock counts locked pages too, before and behind the new ones. */
static void partly_locked(void)
{
	struct rig a, b;

	begin(&a, &b);
	CHECK_OK(hm_lock_budget_set(4 * PAGE));
	CHECK_EQUAL(lock(&a, 0, 4, 0), 4);
	CHECK_EQUAL(lock(&a, 0, 8, HM_LOCK_PARTIAL), 4);
	warns("bytes short");
	CHECK_EQUAL(lock(&a, 2, 6, HM_LOCK_PARTIAL), 2);
	CHECK_EQUAL(lock(&a, 4, 4, HM_LOCK_PARTIAL), 0);
	check_map(&a, 4, 0);
	/* ..LL.... with room for two; another priority comes as far. */
	CHECK_OK(unlock(&a, 0, 2));
	CHECK_EQUAL(lock(&a, 0, 8, HM_LOCK_PARTIAL | HM_LOCK_PRIORITY(3)), 4);
	check_map(&a, 4, 0);
	CHECK_EQUAL(query().used_by[3], 4 * PAGE);
	/* ..LL..L. with room for one: nothing behind the first gap. */
	CHECK_OK(unlock(&a, 0, 2));
	CHECK_EQUAL(lock(&a, 6, 1, 0), 1);
	CHECK_EQUAL(lock(&a, 0, 8, HM_LOCK_PARTIAL), 1);
	check_map(&a, 4, 0);
	end(&a, &b);
}

static const struct test tests[] = {
	{ "partly_locked", partly_locked, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "lock_partial", tests)
