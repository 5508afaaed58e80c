// SPDX-License-Identifier: MIT
/*
 * Handles for the caller's own work, over the fake kernel: buffers on a node, and the memory of any
 * map, whose views follow the map.
 */
#include <errno.h>
#include <hetmap/drm.h>
#include <hetmap/hetmap.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hook/access_world.h"
#include "drm/drm_support.h"
#include "lib/inject.h"
#include "loss/losing_move.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (64 * 1024ull)
#define GROWN (256 * 1024ull)

AUTO_UNREF(hm_drm_view)

static const struct fake_drm_control *fake;

/* Drivers that take in a process's memory. */
static const enum fake_drm_node takers[] = { FAKE_AMDGPU, FAKE_I915, FAKE_I915_INTEGRATED };

struct scene {
	struct hm_device *host, *gpu;
	struct hm_buffer *buffer; /* on the host, up to GROWN bytes */
	struct hm_map *map;
};

static struct hm_device *open_node(enum fake_drm_node at)
{
	char path[64], name[80];

	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(at, path, sizeof(path)));
	return rig_device(name);
}

static struct scene begin(enum fake_drm_node at)
{
	struct scene c = { 0 };

	c.gpu = open_node(at);
	CHECK_OK_FATAL(hm_device_open("host", &c.host));
	c.buffer = rig_buffer(c.host, DESC(hm_buffer_desc, .size = SIZE, .max_size = GROWN));
	CHECK_OK_FATAL(hm_map_create(c.buffer, NULL, &c.map));
	fake->trace_clear();
	return c;
}

static void end(struct scene *c)
{
	hm_map_unref(c->map);
	hm_buffer_unref(c->buffer);
	hm_device_unref(c->host);
	hm_device_unref(c->gpu);
	CHECK_EQUAL(fake->handles(), 0);
}

AUTO_END(scene, end)

static struct hm_drm_view *view_of(struct scene *c, uint64_t offset, uint64_t length,
				   uint32_t access)
{
	struct hm_drm_view *view;

	CHECK_OK_FATAL(hm_drm_view_create(c->map, offset, length, c->gpu, access, &view));
	return view;
}

static struct hm_drm_handle hold(struct hm_drm_view *view)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) };

	CHECK_OK_FATAL(hm_drm_view_hold(view, &handle));
	return handle;
}

static void refused(int expected, struct hm_drm_view *view, const char *text)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle), .handle = 77 };

	CHECK_ERROR(expected, hm_drm_view_hold(view, &handle));
	CHECK_EQUAL(handle.handle, 77);
	if (!strstr(hm_errmsg(), text))
		test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", hm_errmsg(), text);
}

/* The handle has @length bytes now. */
static void holds(struct hm_drm_view *view, uint64_t length)
{
	struct hm_drm_handle handle = hold(view);

	CHECK(handle.handle != 0);
	CHECK_EQUAL(handle.length, length);
	CHECK_EQUAL(handle.offset, 0);
	hm_drm_view_release(view);
	CHECK_EQUAL(fake->handles(), 1);
}

/* ---- views ---- */

static void life(void)
{
	struct hm_drm_handle handle, other;
	struct hm_drm_view *view, *part;
	struct scene c;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(takers); i++) {
		c = begin(takers[i]);
		view = view_of(&c, 0, 0, HM_READ | HM_WRITE);
		CHECK(strstr(fake->trace(), "userptr 65536"));
		handle = hold(view);
		/* Each hold needs a release. */
		CHECK_EQUAL(hold(view).handle, handle.handle);
		hm_drm_view_release(view);
		CHECK_EQUAL(handle.length, SIZE);
		CHECK_EQUAL(handle.access, HM_READ | HM_WRITE);
		part = view_of(&c, PAGE, 2 * PAGE, HM_READ);
		CHECK(strstr(fake->trace(), "userptr 8192"));
		other = hold(part);
		CHECK_EQUAL(other.length, 2 * PAGE);
		CHECK_EQUAL(other.access, HM_READ);
		CHECK_EQUAL(other.fd, handle.fd);
		CHECK(other.handle != handle.handle);
		CHECK_EQUAL(fake->handles(), 2);
		hm_drm_view_release(part);
		hm_drm_view_release(view);
		hm_drm_view_unref(part);
		CHECK_EQUAL(fake->handles(), 1);
		/* The view keeps its map, and the node's file. */
		hm_map_unref(c.map);
		hm_device_unref(c.gpu);
		holds(view, SIZE);
		hm_drm_view_unref(view);
		CHECK_EQUAL(fake->handles(), 0);
		hm_buffer_unref(c.buffer);
		hm_device_unref(c.host);
	}
	hm_drm_view_unref(NULL);
	hm_drm_view_release(NULL);
}

static void follows(void)
{
	struct hm_drm_view *view, *last;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(takers); i++) {
		AUTO(scene) c = begin(takers[i]);
		view = view_of(&c, 0, 0, HM_READ | HM_WRITE);
		CHECK_OK(hm_buffer_resize(c.buffer, GROWN, 0));
		CHECK(strstr(fake->trace(), "userptr 262144"));
		holds(view, GROWN);
		CHECK_OK(hm_buffer_resize(c.buffer, 5 * PAGE + 1, 0));
		holds(view, 5 * PAGE + 1);
		CHECK_OK(hm_buffer_resize(c.buffer, SIZE, 0));
		/* Past max_size, wherever that is. */
		CHECK_OK(hm_buffer_resize(c.buffer, 4 * GROWN, HM_MAY_MOVE));
		holds(view, 4 * GROWN);
		CHECK_OK(hm_buffer_resize(c.buffer, SIZE, 0));
		hm_drm_view_unref(view);

		AUTO(hm_drm_view) *part = view_of(&c, 2 * PAGE, 4 * PAGE, HM_READ | HM_WRITE);
		CHECK_OK(hm_buffer_resize(c.buffer, 4 * PAGE, 0));
		holds(part, 2 * PAGE);
		CHECK_OK(hm_buffer_resize(c.buffer, PAGE, 0));
		refused(-ERANGE, part, "ends before the view begins");
		CHECK_EQUAL(fake->handles(), 0);
		CHECK_OK(hm_buffer_resize(c.buffer, SIZE, 0));
		holds(part, 4 * PAGE);
		CHECK_OK(hm_map_protect(c.map, 3 * PAGE, PAGE, HM_READ));
		refused(-EACCES, part, "no longer allows");
		/* A change outside its range does not touch it. */
		last = view_of(&c, 8 * PAGE, PAGE, HM_READ);
		hm_drm_view_unref(last);
		CHECK_OK(hm_map_protect(c.map, 3 * PAGE, PAGE, HM_READ | HM_WRITE));
		holds(part, 4 * PAGE);
	}
}

/* A driver marks memory that is read-only for the device, and a view adds no rights. */
static void rights(void)
{
	struct hm_drm_view *view = (void *)0x10;
	AUTO(scene) c = begin(FAKE_AMDGPU);

	CHECK_OK(hm_map_protect(c.map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EACCES, hm_drm_view_create(c.map, 0, 0, c.gpu, HM_READ | HM_WRITE, &view));
	CHECK(view == (void *)0x10);
	view = view_of(&c, 0, 0, HM_READ);
	/* AMDGPU_GEM_USERPTR_READONLY | VALIDATE | REGISTER */
	CHECK(strstr(fake->trace(), "userptr 65536 flags d"));
	holds(view, SIZE);
	CHECK_OK(hm_map_protect(c.map, 0, PAGE, HM_NONE));
	refused(-EACCES, view, "no longer allows");
	CHECK_OK(hm_map_protect(c.map, 0, PAGE, HM_READ));
	holds(view, SIZE);
	hm_drm_view_unref(view);
}

/* Held, or with work that does not end: the change is refused, and all is as it was. */
static void busy(void)
{
	struct hm_drm_handle handle;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(takers); i++) {
		AUTO(scene) c = begin(takers[i]);
		AUTO(hm_drm_view) *view = view_of(&c, 0, 0, HM_READ | HM_WRITE);
		handle = hold(view);
		CHECK_ERROR(-EBUSY, hm_buffer_resize(c.buffer, GROWN, 0));
		CHECK_EQUAL(hm_map_length(c.map), SIZE);
		hm_drm_view_release(view);
		fake->fail(1, EIO);
		CHECK_ERROR(-EBUSY, hm_buffer_resize(c.buffer, GROWN, 0));
		fake->fail(0, 0);
		CHECK_EQUAL(hold(view).handle, handle.handle);
		hm_drm_view_release(view);
		/* The change waits for work that ends. */
		fake->busy_looks(3);
		CHECK_OK(hm_buffer_resize(c.buffer, GROWN, 0));
		fake->busy_looks(0);
		holds(view, GROWN);
	}
}

static void *grow(void *buffer)
{
	return (void *)(intptr_t)hm_buffer_resize(buffer, GROWN, 0);
}

/* While a change waits for the device's work, a hold does not wait, too. */
static void told_at_once(void)
{
	pthread_t thread;
	uint64_t begun;
	void *result;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(takers); i++) {
		AUTO(scene) c = begin(takers[i]);
		AUTO(hm_drm_view) *view = view_of(&c, 0, 0, HM_READ | HM_WRITE);
		fake->busy(true);
		fake->fail(0, 0);
		CHECK_FATAL(!pthread_create(&thread, NULL, grow, c.buffer));
		while (!fake->calls())
			usleep(1000);
		begun = time_now_ns();
		refused(-EBUSY, view, "being changed");
		CHECK(time_now_ns() - begun < 2000000000);
		fake->busy(false);
		CHECK_FATAL(!pthread_join(thread, &result));
		CHECK_EQUAL((intptr_t)result, 0);
		holds(view, GROWN);
	}
}

/* The CPU's access waits for the device's work on the view, and needs it not without. */
static void brackets(void)
{
	struct hm_drm_view *view;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(takers); i++) {
		AUTO(scene) c = begin(takers[i]);
		view = view_of(&c, 0, 2 * PAGE, HM_READ | HM_WRITE);
		fake->trace_clear();
		CHECK_OK(hm_map_begin_cpu(c.map, 4 * PAGE, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(c.map, 4 * PAGE, PAGE, HM_READ));
		CHECK(!*fake->trace());
		fake->busy_looks(3);
		CHECK_OK(hm_map_begin_cpu(c.map, PAGE, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(c.map, PAGE, PAGE, HM_READ));
		fake->busy_looks(0);
		CHECK(strstr(fake->trace(), "wait"));
		fake->fail(1, EIO);
		CHECK_ERROR(-EIO, hm_map_begin_cpu(c.map, 0, PAGE, HM_READ));
		fake->fail(0, 0);
		hm_drm_view_unref(view);
		fake->trace_clear();
		CHECK_OK(hm_map_begin_cpu(c.map, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(c.map, 0, PAGE, HM_READ));
		CHECK(!*fake->trace());
	}
}

static void try(int expected, struct hm_map *map, uint64_t offset, uint64_t length,
		struct hm_device *device, uint32_t access, const char *text)
{
	struct hm_drm_view *view = (void *)0x10;

	CHECK_ERROR(expected, hm_drm_view_create(map, offset, length, device, access, &view));
	CHECK(view == (void *)0x10);
	if (!strstr(hm_errmsg(), text))
		test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", hm_errmsg(), text);
}

static void arguments(void)
{
	static const enum fake_drm_node others[] = { FAKE_XE, FAKE_NOUVEAU, FAKE_VIRTIO };
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) + 8 };
	size_t i;
	AUTO(scene) c = begin(FAKE_AMDGPU);

	try(-EINVAL, NULL, 0, 0, c.gpu, HM_READ, "map");
	try(-EINVAL, c.map, 0, 0, NULL, HM_READ, "device");
	try(-EOPNOTSUPP, c.map, 0, 0, c.host, HM_READ, "no DRM node");
	try(-EINVAL, c.map, 1, 0, c.gpu, HM_READ, "whole pages");
	try(-EINVAL, c.map, 0, PAGE + 1, c.gpu, HM_READ, "whole pages");
	try(-EINVAL, c.map, 0, 0, c.gpu, HM_WRITE, "access");
	try(-EINVAL, c.map, 0, 0, c.gpu, HM_NONE, "access");
	try(-ERANGE, c.map, SIZE, 0, c.gpu, HM_READ, "");
	try(-ERANGE, c.map, 0, SIZE + PAGE, c.gpu, HM_READ, "");
	CHECK_ERROR(-EINVAL, hm_drm_view_create(c.map, 0, 0, c.gpu, HM_READ, NULL));
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		AUTO(hm_device) *other = open_node(others[i]);
		try(-EOPNOTSUPP, c.map, 0, 0, other, HM_READ, "amdgpu and i915");
	}
	AUTO(hm_drm_view) *view = view_of(&c, 0, 0, HM_READ);
	CHECK_ERROR(-E2BIG, hm_drm_view_hold(view, &handle));
	CHECK_ERROR(-EINVAL, hm_drm_view_hold(view, NULL));
	CHECK_ERROR(-EINVAL, hm_drm_view_hold(NULL, &handle));
}

/* A device's own pages are shared in another way. */
static void of_devices(void)
{
	AUTO(hm_device) *amdgpu = open_node(FAKE_AMDGPU);
	AUTO(hm_device) *i915 = open_node(FAKE_I915);
	AUTO(hm_buffer) *buffer = rig_buffer(amdgpu, DESC(hm_buffer_desc, .size = SIZE));
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	try(-EOPNOTSUPP, map, 0, 0, i915, HM_READ, "export");
}

/* ---- when something fails ---- */

static void hardware_that_can_not(void)
{
	struct hm_drm_view *view = (void *)0x10;
	AUTO(scene) c = begin(FAKE_I915);

	fake->fail(1, ENODEV);
	CHECK_ERROR(-EOPNOTSUPP, hm_drm_view_create(c.map, 0, 0, c.gpu, HM_READ, &view));
	CHECK(strstr(hm_errmsg(), "hardware"));
	fake->fail(1, EFAULT);
	CHECK_ERROR(-EFAULT, hm_drm_view_create(c.map, 0, 0, c.gpu, HM_READ, &view));
	CHECK(strstr(hm_errmsg(), "host"));
	fake->fail(0, 0);
	CHECK(view == (void *)0x10);
}

/* The change is done; the view says why it has no handle, and has one after the next. */
static void reattach_fails(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(takers); i++) {
		AUTO(scene) c = begin(takers[i]);
		AUTO(hm_drm_view) *view = view_of(&c, 0, 0, HM_READ | HM_WRITE);
		/* The wait, the old handle's close, the new one. */
		fake->fail(3, ENOMEM);
		CHECK_OK(hm_buffer_resize(c.buffer, GROWN, 0));
		CHECK(fake->failed() && strstr(fake->failed(), "userptr"));
		fake->fail(0, 0);
		refused(-ENOMEM, view, "no memory");
		CHECK_EQUAL(fake->handles(), 0);
		CHECK_OK(hm_map_begin_cpu(c.map, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(c.map, 0, PAGE, HM_READ));
		CHECK_OK(hm_buffer_resize(c.buffer, SIZE, 0));
		holds(view, SIZE);
	}
}

static void without_memory(void)
{
	struct hm_drm_view *view;
	unsigned int n = 0;
	bool failed;
	int r;
	AUTO(scene) c = begin(FAKE_AMDGPU);

	inject_install();
	do {
		view = (void *)0x10;
		inject_arm(++n, INJECT_ONE);
		r = hm_drm_view_create(c.map, 0, 0, c.gpu, HM_READ, &view);
		failed = inject_disarm();
		if (r) {
			CHECK(view == (void *)0x10);
			CHECK(*hm_errmsg());
			CHECK_EQUAL(fake->handles(), 0);
		} else {
			hm_drm_view_unref(view);
		}
	} while (failed && n < 100);
	CHECK(n > 2 && n < 100);
	CHECK_OK(r);
}

static void unplugged(void)
{
	struct hm_drm_view *view, *kept, *none;
	struct scene c = begin(FAKE_AMDGPU);

	view = view_of(&c, 0, 0, HM_READ | HM_WRITE);
	kept = view_of(&c, 0, PAGE, HM_READ);
	hold(kept);
	fake->unplug(FAKE_AMDGPU, true);
	/* A release that is due is due there, too. */
	CHECK_ERROR(-ENODEV, hm_drm_view_create(c.map, 0, PAGE, c.gpu, HM_READ, &none));
	refused(-ENODEV, kept, "taken away");
	hm_drm_view_release(kept);
	hm_drm_view_unref(kept);
	/* Nothing of the device's is in the way of the map, which is not its. */
	CHECK_OK(hm_map_begin_cpu(c.map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(c.map, 0, PAGE, HM_READ));
	CHECK_OK(hm_buffer_resize(c.buffer, GROWN, 0));
	refused(-ENODEV, view, "taken away");
	hm_drm_view_unref(view);
	hm_map_unref(c.map);
	hm_buffer_unref(c.buffer);
	hm_device_unref(c.host);
	hm_device_unref(c.gpu);
	fake->unplug(FAKE_AMDGPU, false);
}

static void lost(void)
{
	AUTO(scene) c = begin(FAKE_AMDGPU);
	AUTO(hm_drm_view) *view = view_of(&c, 0, 0, HM_READ | HM_WRITE);

	losing_move_begin();
	CHECK_ERROR(-ENOMEM, hm_buffer_resize(c.buffer, GROWN, HM_GROW_REPLACE));
	losing_move_end();
	CHECK_EQUAL(fake->handles(), 0);
	refused(-ENODEV, view, "lost");
}

/* ---- handles of buffers ---- */

static void of_buffers(void)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = SIZE,
		.max_size = GROWN,
	};
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) }, second = handle;
	struct hm_buffer *buffer;
	struct hm_device *gpu;
	struct hm_map *map;
	unsigned int at;

	for (at = 0; at < FAKE_DRM_NODES; at++) {
		gpu = open_node(at);
		CHECK_OK_FATAL(hm_buffer_create(gpu, &desc, &buffer));
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
		CHECK_OK(hm_drm_buffer_handle(buffer, PAGE, &handle));
		CHECK(handle.handle && handle.fd >= 0);
		CHECK_EQUAL(handle.offset, PAGE);
		CHECK_EQUAL(handle.length, SIZE - PAGE);
		/* Now there may be work on it: all but xe's can be waited for. */
		fake->trace_clear();
		CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
		CHECK_EQUAL(*fake->trace() != '\0', at != FAKE_XE);
		/* Its end asks all nodes whether they are there, and ends the access. */
		fake->trace_clear();
		CHECK_OK(hm_map_end_cpu(map, 0, PAGE, HM_READ));
		CHECK(!strcmp(fake->trace(),
			      at == FAKE_NOUVEAU ? DRM_FAKE_ASKED "fini\n" : DRM_FAKE_ASKED));
		/* The first object stays, and the buffer grows by a further one. */
		CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, 0));
		CHECK_OK(hm_drm_buffer_handle(buffer, 0, &second));
		CHECK_EQUAL(second.handle, handle.handle);
		CHECK_EQUAL(second.length, SIZE);
		CHECK_OK(hm_drm_buffer_handle(buffer, SIZE + 1, &second));
		CHECK(second.handle != handle.handle);
		CHECK_EQUAL(second.offset, 1);
		CHECK_ERROR(-ERANGE, hm_drm_buffer_handle(buffer, 2 * SIZE, &second));
		CHECK_ERROR(-EINVAL, hm_drm_buffer_handle(buffer, 0, NULL));
		hm_map_unref(map);
		hm_buffer_unref(buffer);
		hm_device_unref(gpu);
		CHECK_EQUAL(fake->handles(), 0);
	}
	CHECK_OK_FATAL(hm_device_open("host", &gpu));
	CHECK_OK_FATAL(hm_buffer_create(gpu, &desc, &buffer));
	CHECK_ERROR(-EOPNOTSUPP, hm_drm_buffer_handle(buffer, 0, &handle));
	CHECK(strstr(hm_errmsg(), "hm_drm_view_create"));
	hm_buffer_unref(buffer);
	hm_device_unref(gpu);
}

/* ---- the access hook ---- */

static void was_asked(const struct access_log *log, struct hm_buffer *buffer, uint32_t access,
		      uint32_t flags)
{
	const char *text = "the access hook refused export";

	if (!strstr(hm_errmsg(), text))
		test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", hm_errmsg(), text);
	CHECK_EQUAL(log->n, 1);
	CHECK_EQUAL(log->last.operation, HM_ACCESS_EXPORT);
	CHECK_EQUAL(log->last.serial, buffer_info(buffer).serial);
	CHECK_EQUAL(log->last.access, access);
	CHECK_EQUAL(log->last.flags, flags);
}

/* A device's work may access a view's memory: it is checked like an export of a buffer. */
static void views_are_asked_for(void)
{
	static const struct {
		uint32_t access, flags;
	} rows[] = {
		{ HM_READ | HM_WRITE, 0 },
		{ HM_READ, HM_EXPORT_READ_ONLY },
	};
	struct hm_drm_view *view;
	struct access_log log;
	size_t i;
	AUTO(scene) c = begin(FAKE_AMDGPU);

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		view = NULL;
		log = (struct access_log){ .refuse = ~0u, .r = -EPERM };
		CHECK_OK(hm_access_hook_set(access_log_hook, &log));
		CHECK_ERROR(-EPERM,
			    hm_drm_view_create(c.map, 0, 0, c.gpu, rows[i].access, &view));
		CHECK(!view);
		CHECK(!strstr(fake->trace(), "userptr"));
		was_asked(&log, c.buffer, rows[i].access, rows[i].flags);
	}
	log.refuse = 0;
	hm_drm_view_unref(view_of(&c, 0, 0, HM_READ | HM_WRITE));
	CHECK_EQUAL(log.n, 2);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static void handles_are_asked_for(void)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle), .handle = 77 };
	struct access_log log = { .refuse = ~0u, .r = -EPERM };
	AUTO(hm_device) *gpu = open_node(FAKE_AMDGPU);
	AUTO(hm_buffer) *buffer = rig_buffer(gpu, DESC(hm_buffer_desc, .size = SIZE));

	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_ERROR(-EPERM, hm_drm_buffer_handle(buffer, 0, &handle));
	CHECK_EQUAL(handle.handle, 77);
	was_asked(&log, buffer, HM_READ | HM_WRITE, 0);
	log.refuse = 0;
	CHECK_OK(hm_drm_buffer_handle(buffer, 0, &handle));
	CHECK(handle.handle != 77);
	CHECK_EQUAL(log.n, 2);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static const struct test tests[] = {
	{ "life", life, .seconds = 0 },
	{ "follows", follows, .seconds = 0 },
	{ "rights", rights, .seconds = 0 },
	{ "busy", busy, .seconds = 0 },
	{ "told_at_once", told_at_once, .seconds = 0 },
	{ "brackets", brackets, .seconds = 0 },
	{ "arguments", arguments, .seconds = 0 },
	{ "of_devices", of_devices, .seconds = 0 },
	{ "hardware_that_can_not", hardware_that_can_not, .seconds = 0 },
	{ "reattach_fails", reattach_fails, .seconds = 0 },
	{ "without_memory", without_memory, .seconds = 0 },
	{ "unplugged", unplugged, .seconds = 0 },
	{ "lost", lost, .seconds = 0 },
	{ "of_buffers", of_buffers, .seconds = 0 },
	{ "views_are_asked_for", views_are_asked_for, .seconds = 0 },
	{ "handles_are_asked_for", handles_are_asked_for, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_view", tests);
}
