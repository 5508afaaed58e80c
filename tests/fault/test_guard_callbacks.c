// SPDX-License-Identifier: MIT
/* Hooks and callbacks that run inside guarded scopes, and touch lost memory. */
#include <errno.h>
#include <unistd.h>

#include "fault/guard_support.h"
#include "lib/units.h"

#define SIZE (8 * PAGE)

/* A callback that touches lost memory, in a scope of its own. */
struct toucher {
	const volatile unsigned char *byte;
	unsigned int n;
};

static void touch(struct toucher *toucher)
{
	struct hm_fault fault;

	if (!toucher->n++)
		CHECK_EQUAL(read_guarded(toucher->byte + PAGE, &fault), -ERANGE);
	CHECK_EQUAL(*toucher->byte, 0);
}

static int touching_hook(void *user, const struct hm_access_request *request, char *reason)
{
	(void)reason;
	if (request->operation == HM_ACCESS_MAP)
		touch(user);
	return 0;
}

static int touching_quiesce(void *user, const struct hm_view_change *change)
{
	(void)change;
	touch(user);
	return 0;
}

static void touching_reattach(void *user, const struct hm_view_change *change)
{
	(void)change;
	touch(user);
}

static void open_cut_off(struct file_map *file, struct toucher *toucher)
{
	*file = open_file_map(SIZE);
	CHECK(!ftruncate(file->fd, PAGE));
	*toucher = (struct toucher){ .byte = (void *)(file->base + PAGE) };
}

/* Maps in a scope: 0, or the scope's error. */
static int map_in_scope(struct hm_buffer *buffer)
{
	struct hm_guard guard;
	struct hm_map *map;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r;
	CHECK_OK(hm_map_create(buffer, NULL, &map));
	hm_map_unref(map);
	return hm_guard_end(&guard);
}

static void in_hook(void)
{
	struct file_map lost;
	struct toucher toucher;
	struct hm_fault fault;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	open_cut_off(&lost, &toucher);
	CHECK_OK(hm_access_hook_set(touching_hook, &toucher));
	CHECK_OK(map_in_scope(file.buffer));
	CHECK_EQUAL(toucher.n, 1);
	CHECK_OK(map_in_scope(file.buffer));
	CHECK_EQUAL(toucher.n, 2);
	/* No hook runs now, so this does not wait. */
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK(!ftruncate(file.fd, PAGE));
	CHECK_EQUAL(read_guarded((void *)(file.base + PAGE), &fault), -ERANGE);
	close_file_map(&lost);
}

/* Changes the map in a scope: its locks are free afterwards. */
static void in_callback(void)
{
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = touching_quiesce,
		.invalidate = touching_reattach,
		.reattach = touching_reattach,
	};
	struct toucher toucher;
	struct file_map lost;
	struct hm_guard guard;
	struct hm_view *view;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	open_cut_off(&lost, &toucher);
	CHECK_OK_FATAL(hm_view_create(file.map, 0, 0, &ops, &toucher, &view));
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	CHECK_OK(r);
	if (!r) {
		CHECK_OK(hm_map_protect(file.map, 0, PAGE, HM_READ));
		CHECK_OK(hm_guard_end(&guard));
	}
	CHECK(toucher.n > 1);
	CHECK_OK(hm_map_protect(file.map, 0, PAGE, HM_READ | HM_WRITE));
	hm_view_unref(view);
	close_file_map(&lost);
}

static const struct test tests[] = {
	{ "in_hook", in_hook, 0, 0 },
	{ "in_callback", in_callback, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "guard_callbacks", tests)
