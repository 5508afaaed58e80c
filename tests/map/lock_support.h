/* SPDX-License-Identifier: MIT */
/* Two buffers of eight pages, and checks of their locked pages and of the budget. */
#ifndef HETMAP_TEST_LOCK_SUPPORT_H
#define HETMAP_TEST_LOCK_SUPPORT_H

#include <string.h>

#include "lib/support.h"

#define PAGES 8

static struct hm_device *host;

static inline void make(struct rig *l, const char *name)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = PAGES * PAGE,
		.max_size = 4 * PAGES * PAGE,
		.name = name,
	};

	*l = (struct rig){ .buffer = rig_buffer(host, &desc) };
	l->map = rig_map(l->buffer, NULL);
	l->bytes = hm_map_address(l->map);
}

static inline void begin(struct rig *a, struct rig *b)
{
	CHECK_OK_FATAL(hm_device_open("host", &host));
	make(a, "weights");
	make(b, "cache");
}

static inline void end(struct rig *a, struct rig *b)
{
	rig_drop(a);
	rig_drop(b);
	hm_device_unref(host);
	CHECK_OK(hm_lock_budget_set(HM_LOCK_NO_BUDGET));
}

static inline struct hm_lock_budget query(void)
{
	struct hm_lock_budget budget = { .struct_size = sizeof(budget) };

	CHECK_OK(hm_lock_budget_query(&budget));
	return budget;
}

static inline int lock(struct rig *l, uint64_t page, uint64_t n, uint32_t flags)
{
	uint64_t got = 4711;
	int r = hm_map_lock(l->map, page * PAGE, n * PAGE, flags, &got);

	CHECK(r ? got == 4711 : got == n * PAGE || (flags & HM_LOCK_PARTIAL));
	return r ? r : (int)(got / PAGE);
}

static inline int unlock(struct rig *l, uint64_t page, uint64_t n)
{
	return hm_map_unlock(l->map, page * PAGE, n * PAGE);
}

/* The account, and the kernel's. */
static inline void check_map(const struct rig *l, uint64_t held, uint64_t waiting)
{
	struct hm_map_info info = map_info(l->map, HM_MAP_LOCKED);

	CHECK_EQUAL(info.lock_held, held * PAGE);
	CHECK_EQUAL(info.lock_waiting, waiting * PAGE);
	CHECK_EQUAL(info.locked, held * PAGE);
}

static inline void check_budget(uint64_t used, uint64_t waiting, uint64_t room)
{
	struct hm_lock_budget budget = query();

	CHECK_EQUAL(budget.used, used * PAGE);
	CHECK_EQUAL(budget.waiting, waiting * PAGE);
	CHECK_EQUAL(budget.room, room * PAGE);
	CHECK_EQUAL(stats_now().bytes_locked, used * PAGE);
}

static inline void says(const char *part)
{
	if (!strstr(hm_errmsg(), part))
		test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", part, hm_errmsg());
}

static inline void warns(const char *part)
{
	if (!strstr(hm_warning(), part))
		test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", part, hm_warning());
}

#endif
