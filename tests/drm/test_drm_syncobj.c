// SPDX-License-Identifier: MIT
/*
 * Fences into syncobjs and points of them, and out, over the fake kernel: whichever call
 * fails, that is told, the syncobj is as it was, and nothing is left behind.
 */
#include <drm.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <hetmap/drm.h>
#include <hetmap/fence.h>

#include "drm/drm_support.h"
#include "lib/inject.h"
#include "lib/support.h"
#include "base/util.h"

#define CALLS_MAX 100
#define UNTOUCHED ((void *)0x10)

static const struct fake_drm_control *fake;

/* The state of one fence on its way. */
static struct {
	int node;
	uint32_t handle;
	uint64_t point;
	struct hm_fence *fence, *back;
	int status; /* the fence's expected status */
} now;

static int there(void)
{
	return hm_fence_export_syncobj(now.fence, now.node, now.handle, now.point);
}

static int back(void)
{
	int r;

	now.back = UNTOUCHED;
	r = hm_fence_import_syncobj(now.node, now.handle, now.point, &now.back);
	CHECK_EQUAL(!r, now.back != UNTOUCHED);
	return r;
}

static void make_syncobj(void)
{
	struct drm_syncobj_create create = { 0 };

	CHECK_FATAL(!ioctl(now.node, DRM_IOCTL_SYNCOBJ_CREATE, &create));
	now.handle = create.handle;
}

static void end_syncobj(uint32_t handle)
{
	struct drm_syncobj_destroy destroy = { .handle = handle };

	CHECK_EQUAL(ioctl(now.node, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
}

/* ---- making the n-th call fail ---- */

static int error; /* for the node's calls; 0: any call of the library's, as in inject.h */

static void arm(unsigned int n)
{
	if (error)
		fake->fail(n, error);
	else
		inject_arm(n, INJECT_ONE);
}

static bool disarm(void)
{
	bool failed;

	if (!error) {
		failed = inject_disarm();
		inject_forgive();
		return failed;
	}
	failed = fake->failed();
	fake->fail(0, 0);
	return failed;
}

/* Signals are not reported as failures; a lack of memory is. */
static bool is_retried(void)
{
	return error == EINTR || error == EAGAIN;
}

/* The end of the fence's way: its result and its handles. */
static void check_end(int r, bool failed, const char *text, unsigned int handles)
{
	if (!failed || is_retried())
		CHECK_EQUAL(r, 0);
	else if (r)
		CHECK(*text);
	if (r && error)
		CHECK_EQUAL(r, -error);
	/* Only a syncobj whose destroy call failed is left, and that is no failure. */
	if (!r && failed && !is_retried() && fake->handles() == handles + 1)
		end_syncobj(now.handle + 1);
	CHECK_EQUAL(fake->handles(), handles);
}

/* The n-th call fails on the fence's way there, and then on its way back: until none does. */
static void walk(bool on_the_way_back)
{
	unsigned int n, handles, fds = test_holding_now().fds, n_failed = 0;
	bool failed = true;
	int r;

	for (n = 1; failed && n < CALLS_MAX; n++) {
		make_syncobj();
		handles = fake->handles();
		if (on_the_way_back)
			CHECK_OK_FATAL(there());
		arm(n);
		r = on_the_way_back ? back() : there();
		failed = disarm();
		check_end(r, failed, hm_errmsg(), handles);
		n_failed += !!r;
		/* A failed export leaves no fence; a failed import can be repeated. */
		if (!on_the_way_back && r)
			CHECK_ERROR(-EINVAL, back());
		else if (!on_the_way_back || r)
			CHECK_OK_FATAL(back());
		if (now.back != UNTOUCHED) {
			CHECK_EQUAL(hm_fence_wait(now.back, 0), now.status);
			hm_fence_unref(now.back);
		}
		end_syncobj(now.handle);
		CHECK_EQUAL(test_holding_now().fds, fds);
	}
	CHECK(!failed && n > 2);
	CHECK_EQUAL(!n_failed, is_retried());
}

/* A fence whose work goes on, by a sync_file; one that is done, by a call that signals. */
static void walk_all(void)
{
	static const uint64_t points[] = { 0, 5 };
	struct drm_node *node = drm_open_fake(FAKE_AMDGPU);
	unsigned int i;
	int fd;

	now.node = node->fd;
	for (i = 0; i < 2 * ARRAY_SIZE(points); i++) {
		now.point = points[i / 2];
		now.status = i % 2 ? 0 : -ETIME;
		fd = i % 2 ? eventfd(1, EFD_CLOEXEC) : fake->sync_file(false);
		CHECK_OK_FATAL(hm_fence_import_fd(fd, &now.fence));
		walk(false);
		walk(true);
		hm_fence_unref(now.fence);
		close(fd);
	}
	drm_node_put(node);
	CHECK_EQUAL(fake->handles(), 0);
	CHECK_EQUAL(fake->leaked(), 0);
}

static void undo(void)
{
	error = 0;
	inject_install();
	walk_all();
}

static void undo_no_memory(void)
{
	error = ENOMEM;
	walk_all();
}

static void undo_interrupted(void)
{
	error = EINTR;
	walk_all();
	error = EAGAIN;
	walk_all();
}

static const struct test tests[] = {
	{ "undo", undo, .seconds = 0 },
	{ "undo_no_memory", undo_no_memory, .seconds = 0 },
	{ "undo_interrupted", undo_interrupted, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_syncobj", tests);
}
