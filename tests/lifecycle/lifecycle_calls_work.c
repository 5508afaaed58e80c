// SPDX-License-Identifier: MIT
/* Operations on the objects of work and guards, for the walk over the table of lifecycles. */
#include <errno.h>
#include <unistd.h>

#include <hetmap/drm.h>
#include <hetmap/sim.h>

#include "accel/accel_support.h"
#include "lifecycle/lifecycle_world.h"

#define SIZE (UNITS * life->f.unit)
#define UNIT (life->f.unit)

static void *base_of(struct life *life)
{
	return hm_map_address(life->map);
}

static bool is_writable(struct life *life)
{
	return life->f.writable;
}

/* ---- scope ---- */

static int scope_end(struct life *life)
{
	int r = hm_map_protect_end(life->scope);

	if (r != -EDEADLK)
		life->scope = NULL;
	return r;
}

/* ---- bracket ---- */

/* The bytes that a shrink cut off. */
static uint64_t bracket_offset(const struct life *life)
{
	return life->state == LC_BRACKET_CUT_OFF ? SIZE - UNIT : 0;
}

static int bracket_begin(struct life *life)
{
	return hm_map_begin_cpu(life->map, bracket_offset(life), UNIT, HM_READ);
}

static int bracket_end(struct life *life)
{
	return hm_map_end_cpu(life->map, bracket_offset(life), UNIT, HM_READ);
}

/* ---- views ---- */

static int view_unref(struct life *life)
{
	hm_view_unref(life->view);
	life->view = NULL;
	return 0;
}

static int drm_view_hold(struct life *life)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) };

	return hm_drm_view_hold(life->drm_view, &handle);
}

static int drm_view_release(struct life *life)
{
	hm_drm_view_release(life->drm_view);
	return 0;
}

static int drm_view_unref(struct life *life)
{
	hm_drm_view_unref(life->drm_view);
	life->drm_view = NULL;
	return 0;
}

/* ---- queue, fence ---- */

static int queue_launch_list(struct life *life)
{
	return hm_launch(life->queue, life->kernel, 1, &life->made_fence,
			 HM_RANGE(base_of(life), UNIT, HM_READ));
}

/* Its own, that of another queue, which is done. */
static int queue_wait(struct life *life)
{
	struct hm_fence *fence = life->fence;
	int r;

	if (fence)
		return hm_queue_wait(life->queue, fence);
	AUTO(rig) rig = rig_make("host", DESC(hm_buffer_desc, .size = 4096));
	AUTO(hm_accel) *cpu = rig_accel("cpu", NULL);
	AUTO(hm_queue) *other = rig_queue(cpu, 0);
	CHECK_OK_FATAL(hm_queue_fill(other, hm_map_address(rig.map), 1, 4096, &fence));
	r = hm_queue_wait(life->queue, fence);
	hm_fence_unref(fence);
	return r;
}

static int sim_queue(struct life *life)
{
	uint32_t number;

	return hm_sim_queue(life->queue, &number);
}

static bool is_engine(struct life *life)
{
	return life->state == LC_QUEUE_GONE;
}

static int queue_ref(struct life *life)
{
	CHECK(hm_queue_ref(life->queue) == life->queue);
	hm_queue_unref(life->queue);
	return 0;
}

static int queue_unref(struct life *life)
{
	hm_queue_ref(life->queue);
	hm_queue_unref(life->queue);
	return 0;
}

static int fence_poll(struct life *life)
{
	return hm_fence_wait(life->fence, 0);
}

static int fence_wait_for_ever(struct life *life)
{
	return hm_fence_wait(life->fence, UINT64_MAX);
}

static int fence_query(struct life *life)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };

	return hm_fence_query(life->fence, &info);
}

static int fence_fd(struct life *life)
{
	return hm_fence_fd(life->fence, &life->made_fd);
}

/* Few of a subject's fences are the kernel's, and here is no node for one. */
static int fence_export(struct life *life)
{
	int r = hm_fence_export_syncobj(life->fence, -1, 1, 0);

	return r == -EBADF ? -EOPNOTSUPP : r;
}

static int fence_export_dmabuf(struct life *life)
{
	int r = hm_fence_export_dmabuf(life->fence, -1, HM_READ);

	return r == -EBADF ? -EOPNOTSUPP : r;
}

static bool has_no_node(struct life *life)
{
	(void)life;
	return false;
}

static int fence_merge(struct life *life)
{
	return hm_fence_merge(&life->fence, 1, &life->made_fence);
}

/* To a frame that this process has just made, on the host. */
static int frame_fence_add(struct life *life)
{
	struct hm_frame_pool *pool;
	struct hm_frame *frame;
	int r;
	AUTO(hm_device) *device = rig_device("host");

	CHECK_OK_FATAL(hm_frame_pool_create(device,
					    DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_R8,
						 .width = 16, .height = 1),
					    &pool));
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, 0, &frame));
	r = hm_frame_fence_add(frame, life->fence, HM_READ);
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
	return r;
}

static int fence_ref(struct life *life)
{
	CHECK(hm_fence_ref(life->fence) == life->fence);
	hm_fence_unref(life->fence);
	return 0;
}

static int fence_unref(struct life *life)
{
	hm_fence_ref(life->fence);
	hm_fence_unref(life->fence);
	return 0;
}

/* ---- the process's operations ---- */

static int lock_budget_nothing(struct life *life)
{
	(void)life;
	return hm_lock_budget_set(0);
}

static int lock_budget_no_limit(struct life *life)
{
	(void)life;
	return hm_lock_budget_set(HM_LOCK_NO_BUDGET);
}

static int lock_budget_query(struct life *life)
{
	struct hm_lock_budget budget = { .struct_size = sizeof(budget) };

	(void)life;
	return hm_lock_budget_query(&budget);
}

static int lock_restore(struct life *life)
{
	(void)life;
	return hm_lock_restore(NULL);
}

static int lock_restore_with_room(struct life *life)
{
	CHECK_OK(lock_budget_no_limit(life));
	return hm_lock_restore(NULL);
}

static int handler_install(struct life *life)
{
	int r = hm_handler_install(0);

	/* Several installs leave only one for the end. */
	if (!r && life->handled && life->state == LC_HANDLER_INSTALLED)
		CHECK_OK(hm_handler_remove());
	else if (!r && life->handled)
		life->n_installed++;
	life->handled = life->handled || !r;
	return r;
}

static int handler_remove(struct life *life)
{
	int r = hm_handler_remove();

	if (!r)
		life->handled = false;
	return r;
}

static int handler_chained(struct life *life)
{
	(void)life;
	return hm_handler_chained();
}

static int handler_query(struct life *life)
{
	struct hm_handler_info info = { .struct_size = sizeof(info) };

	(void)life;
	return hm_handler_query(&info);
}

static int guard_enter(struct life *life)
{
	struct hm_guard guard;
	int r;

	(void)life;
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	return r ? r : hm_guard_end(&guard);
}

static int guard_begin(struct life *life)
{
	int r;

	HM_GUARD_INIT(&life->guard);
	r = hm_guard_begin(&life->guard);
	if (!r)
		life->n_guard = 1;
	return r;
}

static int guard_end(struct life *life)
{
	int r = hm_guard_end(&life->guard);

	if (!r)
		life->n_guard = 0;
	return r;
}

static void init_guard(struct life *life)
{
	HM_GUARD_INIT(&life->guard);
}

/* The fault is in a scope of this very function. */
static int guard_caught(struct life *life)
{
	struct hm_guard guard;
	int r;

	CHECK_OK_FATAL(hm_map_protect(life->map, 0, UNIT, HM_NONE));
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r;
	*(volatile char *)base_of(life);
	return hm_guard_end(&guard);
}

static int retire_defer(struct life *life)
{
	(void)life;
	return hm_retire_set(DESC(hm_retire_desc, .flags = HM_RETIRE_DEFER));
}

static int retire_in_place(struct life *life)
{
	(void)life;
	return hm_retire_set(NULL);
}

static int retire_flush(struct life *life)
{
	(void)life;
	return hm_retire_flush();
}

/* After it no lookup finds the map, at once. */
static int map_last_unref(struct life *life)
{
	void *base = base_of(life);
	struct hm_pointer_info info;

	hm_map_unref(life->map);
	life->map = NULL;
	CHECK_EQUAL(hm_pointer_find(base, &info), -ENOENT);
	return 0;
}

/* ---- the table ---- */

#define CALL(noun, function, variant, call, is_supported, is_meant)               \
	{                                                                         \
		LC_##noun, #function, variant, call, is_supported, is_meant, NULL \
	}

const struct life_call life_calls_work[] = {
	CALL(SCOPE, hm_map_protect_end, "", scope_end, NULL, NULL),
	CALL(BRACKET, hm_map_begin_cpu, "", bracket_begin, NULL, NULL),
	CALL(BRACKET, hm_map_end_cpu, "", bracket_end, NULL, NULL),
	CALL(VIEW, hm_view_unref, "", view_unref, NULL, NULL),
	CALL(DRM_VIEW, hm_drm_view_hold, "", drm_view_hold, NULL, NULL),
	CALL(DRM_VIEW, hm_drm_view_release, "", drm_view_release, NULL, NULL),
	CALL(DRM_VIEW, hm_drm_view_unref, "", drm_view_unref, NULL, NULL),
	CALL(QUEUE, hm_queue_launch, "", life_queue_launch, NULL, NULL),
	CALL(QUEUE, hm_queue_launch_list, "", queue_launch_list, NULL, NULL),
	CALL(QUEUE, hm_queue_copy, "", life_queue_copy, NULL, is_writable),
	CALL(QUEUE, hm_queue_fill, "", life_queue_fill, NULL, is_writable),
	CALL(QUEUE, hm_queue_wait, "", queue_wait, NULL, NULL),
	CALL(QUEUE, hm_sim_queue, "", sim_queue, is_engine, NULL),
	CALL(QUEUE, hm_queue_ref, "", queue_ref, NULL, NULL),
	CALL(QUEUE, hm_queue_unref, "", queue_unref, NULL, NULL),
	CALL(FENCE, hm_fence_wait, "0 ns", fence_poll, NULL, NULL),
	CALL(FENCE, hm_fence_wait, "for ever", fence_wait_for_ever, NULL, NULL),
	CALL(FENCE, hm_fence_query, "", fence_query, NULL, NULL),
	CALL(FENCE, hm_fence_fd, "", fence_fd, NULL, NULL),
	CALL(FENCE, hm_fence_export_dmabuf, "", fence_export_dmabuf, has_no_node, NULL),
	CALL(FENCE, hm_fence_export_syncobj, "", fence_export, has_no_node, NULL),
	CALL(FENCE, hm_fence_merge, "", fence_merge, NULL, NULL),
	CALL(FENCE, hm_frame_fence_add, "", frame_fence_add, NULL, NULL),
	CALL(FENCE, hm_queue_wait, "", queue_wait, NULL, NULL),
	CALL(FENCE, hm_fence_ref, "", fence_ref, NULL, NULL),
	CALL(FENCE, hm_fence_unref, "", fence_unref, NULL, NULL),
	CALL(LOCK, hm_map_lock, "", life_map_lock, NULL, NULL),
	CALL(LOCK, hm_map_unlock, "", life_map_unlock, NULL, NULL),
	CALL(LOCK, hm_lock_budget_set, "to nothing", lock_budget_nothing, NULL, NULL),
	CALL(LOCK, hm_lock_budget_set, "to no limit", lock_budget_no_limit, NULL, NULL),
	CALL(LOCK, hm_lock_budget_query, "", lock_budget_query, NULL, NULL),
	CALL(LOCK, hm_lock_restore, "without room", lock_restore, NULL, NULL),
	CALL(LOCK, hm_lock_restore, "with room", lock_restore_with_room, NULL, NULL),
	CALL(HANDLER, hm_handler_install, "", handler_install, NULL, NULL),
	CALL(HANDLER, hm_handler_remove, "", handler_remove, NULL, NULL),
	CALL(HANDLER, hm_handler_chained, "", handler_chained, NULL, NULL),
	CALL(HANDLER, hm_handler_query, "", handler_query, NULL, NULL),
	CALL(HANDLER, hm_guard_enter, "", guard_enter, NULL, NULL),
	CALL(HANDLER, hm_copy_in, "", life_copy_in, NULL, NULL),
	CALL(HANDLER, hm_copy_out, "", life_copy_out, NULL, NULL),
	CALL(GUARD, hm_guard_enter, "", guard_begin, NULL, NULL),
	CALL(GUARD, hm_guard_caught, "after a touch without right", guard_caught, NULL, NULL),
	{ LC_GUARD, "hm_guard_end", "", guard_end, NULL, NULL, init_guard },
	CALL(RETIREMENT, hm_retire_set, "HM_RETIRE_DEFER", retire_defer, NULL, NULL),
	CALL(RETIREMENT, hm_retire_set, "NULL", retire_in_place, NULL, NULL),
	CALL(RETIREMENT, hm_retire_flush, "", retire_flush, NULL, NULL),
	CALL(RETIREMENT, hm_map_unref, "the last", map_last_unref, NULL, NULL),
	{ .call = NULL },
};
