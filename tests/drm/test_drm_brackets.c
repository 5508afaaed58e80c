// SPDX-License-Identifier: MIT
/*
 * The CPU's access to buffers of DRM nodes, over the fake kernel: a bracket waits for other work in
 * the driver's own way, once the buffer is shared, and asks nothing before; its end asks the node
 * once whether it is still there.
 */
#include <errno.h>
#include <hetmap/drm.h>
#include <hetmap/hetmap.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "drm/drm_support.h"
#include "lib/inject.h"
#include "lib/support.h"

#define SIZE (64 * 1024ull)

static const struct fake_drm_control *fake;

static struct rig make_map(const struct drm_node *node)
{
	char name[80];

	snprintf(name, sizeof(name), "drm:%s", node->path);
	return rig_make(name, DESC(hm_buffer_desc, .size = SIZE, .max_size = 2 * SIZE));
}

static void check_trace(const char *what, const char *trace)
{
	if (strcmp(fake->trace(), trace) != 0)
		test_fail(__FILE__, __LINE__, "%s: \"%s\"", what, fake->trace());
	fake->trace_clear();
}

static void bracket(struct hm_map *map, uint32_t access)
{
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, access));
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, access));
}

static void check_ends(const char *what, struct hm_map *map, uint32_t access, const char *begin,
		       const char *end)
{
	fake->trace_clear();
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, access));
	check_trace(what, begin);
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, access));
	check_trace(what, end);
}

/* How each driver begins and ends access to shared buffers. */
static const struct {
	const char *begin, *end;
} bracket_traces[FAKE_DRM_NODES] = {
	[FAKE_AMDGPU] = { "wait for ever\n", DRM_FAKE_ASKED },
	[FAKE_I915] = { "wait -1\n", DRM_FAKE_ASKED },
	[FAKE_XE] = { "sync 3\n", DRM_FAKE_ASKED "sync 7\n" },
	[FAKE_NOUVEAU] = { "prep 30 s write\n", DRM_FAKE_ASKED "fini\n" },
	[FAKE_I915_INTEGRATED] = { "wait -1\n", DRM_FAKE_ASKED },
	[FAKE_VIRTIO] = { "wait 15 s\n", DRM_FAKE_ASKED },
	[FAKE_VIRTIO_HOST] = { "wait 15 s\n", DRM_FAKE_ASKED },
	[FAKE_I915_OLD] = { "wait -1\n", DRM_FAKE_ASKED },
};

static void check_bracket(struct drm_node *node, enum fake_drm_node at)
{
	int fd;
	AUTO(rig) s = make_map(node);

	/* Not shared: a bracket makes only the closing call, whatever the device does. */
	fake->busy(true);
	fake->fail(0, 0);
	check_ends(node->name, s.map, HM_READ | HM_WRITE, "", DRM_FAKE_ASKED);
	CHECK_EQUAL(fake->calls(), 1);
	fake->busy(false);

	CHECK_OK_FATAL(hm_buffer_export(s.buffer, HM_EXPORT_DMABUF, &fd));
	check_ends(node->name, s.map, HM_READ | HM_WRITE, bracket_traces[at].begin,
		   bracket_traces[at].end);
	/* The bracket waits until the work is done. */
	fake->busy_looks(3);
	bracket(s.map, HM_READ);
	fake->busy_looks(0);

	/* Also where it came from: this device's own, which is one object. */
	AUTO(hm_buffer) *again = rig_import(s.device, fd, NULL);
	AUTO(hm_map) *came = rig_map(again, NULL);
	check_ends(node->name, came, HM_READ | HM_WRITE, bracket_traces[at].begin,
		   bracket_traces[at].end);
	close(fd);
}

static void brackets(void)
{
	struct drm_node *node;
	unsigned int i;

	for (i = 0; i < FAKE_DRM_NODES; i++) {
		node = drm_open_fake(i);
		check_bracket(node, i);
		drm_node_put(node);
		CHECK_EQUAL(fake->handles(), 0);
		CHECK_EQUAL(fake->leaked(), 0);
	}
}

/* A dma-buf of another device is asked by its descriptor. */
static void bracket_foreign(void)
{
	struct drm_node *node = drm_open_fake(FAKE_AMDGPU);
	struct hm_device *other;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char path[64], name[80];
	int fd;
	AUTO(rig) s = make_map(node);

	CHECK_OK_FATAL(hm_buffer_export(s.buffer, HM_EXPORT_DMABUF, &fd));
	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(FAKE_I915, path, sizeof(path)));
	CHECK_OK_FATAL(hm_device_open(name, &other));
	CHECK_OK_FATAL(hm_buffer_import(other, fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	check_ends("foreign", map, HM_WRITE, "sync 2\n", DRM_FAKE_ASKED "sync 6\n");
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(other);
	close(fd);
	drm_node_put(node);
}

/*
 * amdgpu maps its own memory by its dma-buf when it comes back. In VRAM the bracket waits, and the
 * memory stays there: a bracket on its dma-buf would move it out.
 */
static void bracket_returned(void)
{
	static const struct {
		uint32_t place;
		const char *what, *begin, *end;
	} cases[] = {
		{ HM_PLACE_DEVICE, "in VRAM", "wait for ever\n", DRM_FAKE_ASKED },
		{ HM_PLACE_SYSTEM, "in memory", "sync 3\n", DRM_FAKE_ASKED "sync 7\n" },
	};
	struct drm_node *node = drm_open_fake(FAKE_AMDGPU);
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct hm_device *device;
	struct rig s;
	char name[80];
	size_t i;
	int fd;

	snprintf(name, sizeof(name), "drm:%s", node->path);
	CHECK_OK_FATAL(hm_device_open(name, &device));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		desc.place = cases[i].place;
		CHECK_OK_FATAL(hm_buffer_create(device, &desc, &s.buffer));
		CHECK_OK_FATAL(hm_buffer_export(s.buffer, HM_EXPORT_DMABUF, &fd));
		/* By a new handle, as in another process. */
		hm_buffer_unref(s.buffer);
		CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &s.buffer));
		close(fd);
		CHECK_OK_FATAL(hm_map_create(s.buffer, NULL, &s.map));
		check_ends(cases[i].what, s.map, HM_READ | HM_WRITE, cases[i].begin,
			   cases[i].end);
		hm_map_unref(s.map);
		hm_buffer_unref(s.buffer);
	}
	hm_device_unref(device);
	drm_node_put(node);
	CHECK_EQUAL(fake->handles(), 0);
}

/* Nothing has begun where the wait fails, and the text names the error. */
static void bracket_fails(void)
{
	struct drm_node *node = drm_open_fake(FAKE_AMDGPU);
	struct hm_map_info info = { .struct_size = sizeof(info) };
	int fd;
	AUTO(rig) s = make_map(node);

	CHECK_OK_FATAL(hm_buffer_export(s.buffer, HM_EXPORT_DMABUF, &fd));
	fake->fail(1, ENOMEM);
	CHECK_ERROR(-ENOMEM, hm_map_begin_cpu(s.map, 0, SIZE, HM_READ));
	CHECK(strstr(hm_errmsg(), node->path) && strstr(hm_errmsg(), "waiting"));
	fake->fail(0, 0);
	/* The fake returns EINTR from a wait that would never end. */
	fake->busy(true);
	CHECK_ERROR(-EINTR, hm_map_begin_cpu(s.map, 0, SIZE, HM_READ));
	fake->busy(false);
	CHECK_OK(hm_map_query(s.map, &info));
	CHECK_EQUAL(info.brackets, 0);
	bracket(s.map, HM_READ);
	close(fd);
	drm_node_put(node);
}

/* The second of two objects can't begin: the first has ended, and nothing has begun. */
static void bracket_undone(void)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) };
	struct drm_node *node = drm_open_fake(FAKE_NOUVEAU);
	AUTO(rig) s = make_map(node);

	CHECK_OK(hm_drm_buffer_handle(s.buffer, 0, &handle));
	CHECK_OK_FATAL(hm_buffer_resize(s.buffer, 2 * SIZE, HM_GROW_APPEND));
	CHECK_OK(hm_drm_buffer_handle(s.buffer, SIZE, &handle));
	fake->trace_clear();
	fake->fail(2, ENOMEM);
	CHECK_ERROR(-ENOMEM, hm_map_begin_cpu(s.map, 0, 2 * SIZE, HM_READ));
	fake->fail(0, 0);
	CHECK(!strcmp(fake->trace(), "prep 30 s read\nfini\n"));
	drm_node_put(node);
}

static int use(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

/* Copies and launches, too: one call each, the launch's for all of its arguments. */
static void asked_once(void)
{
	struct drm_node *node = drm_open_fake(FAKE_AMDGPU);
	struct hm_kernel *kernel = make_kernel("use", "inout in", use);
	struct hm_fence *fence;
	struct accel_rig rig;
	char bytes[8], *at;
	AUTO(rig) s = make_map(node);

	at = hm_map_address(s.map);
	accel_rig_open(&rig, "cpu", 0, 0);
	CHECK_OK_FATAL(hm_handler_install(0));
	fake->fail(0, 0);
	fake->trace_clear();
	CHECK_OK(hm_copy_in(at, "bytes", 5, NULL));
	check_trace("copy in", DRM_FAKE_ASKED);
	CHECK_OK(hm_copy_out(bytes, at, 5, NULL));
	check_trace("copy out", DRM_FAKE_ASKED);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence,
				 HM_RANGE(at, SIZE / 2, HM_READ | HM_WRITE),
				 HM_RANGE(at + SIZE / 2, SIZE / 2, HM_READ)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	check_trace("launch", DRM_FAKE_ASKED);
	CHECK_EQUAL(fake->calls(), 3);
	CHECK_OK(hm_handler_remove());
	hm_kernel_unref(kernel);
	accel_rig_close(&rig);
	drm_node_put(node);
}

/* xe has no wait: its buffers are exported with a descriptor for it, or not at all. */
static void export_undone(void)
{
	struct drm_node *node = drm_open_fake(FAKE_XE);
	unsigned int n = 0;
	bool failed;
	int fd, r;

	inject_install();
	do {
		AUTO(rig) s = make_map(node);
		fd = -1;
		inject_arm(++n, INJECT_ONE);
		r = hm_buffer_export(s.buffer, HM_EXPORT_DMABUF, &fd);
		failed = inject_disarm();
		if (r)
			CHECK(fd == -1 && *hm_errmsg());
		else
			close(fd);
	} while (failed && n < 100);
	CHECK(n > 2 && n < 100);
	CHECK_OK(r);
	drm_node_put(node);
}

static const struct test tests[] = {
	{ "brackets", brackets, .seconds = 0 },
	{ "foreign", bracket_foreign, .seconds = 0 },
	{ "returned", bracket_returned, .seconds = 0 },
	{ "fails", bracket_fails, .seconds = 0 },
	{ "undone", bracket_undone, .seconds = 0 },
	{ "asked_once", asked_once, .seconds = 0 },
	{ "export_undone", export_undone, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_brackets", tests);
}
