// SPDX-License-Identifier: MIT
/*
 * Common mistakes with DRM nodes, and their errors: a sentence that names the node, its driver, the
 * errno and the remedy; nothing is left behind. Over the fake kernel; tests/drm/test_drm_nodes.c
 * does it where the real one can.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/drm.h>

#include "core/core.h"
#include "dmabuf/dmabuf_support.h"
#include "drm/drm_support.h"
#include "base/err.h"
#include "lib/inject.h"
#include "base/sys.h"
#include "base/util.h"

static const struct fake_drm_control *fake;

/* By its node, its driver and its address. */
static const struct known {
	const char *driver, *by_driver, *address;
} known[FAKE_DRM_NODES] = {
	[FAKE_AMDGPU] = { "amdgpu", "drm:amdgpu", "drm:pci-0000:05:00.0" },
	[FAKE_I915] = { "i915", "drm:i915", NULL },
	[FAKE_XE] = { "xe", "drm:xe", NULL },
	[FAKE_NOUVEAU] = { "nouveau", "drm:nouveau", "drm:pci-0000:08:00.0" },
	[FAKE_I915_INTEGRATED] = { "i915", "drm:i915#1", NULL },
	[FAKE_VIRTIO] = { "virtio_gpu", "drm:virtio_gpu", NULL },
	[FAKE_VIRTIO_HOST] = { "virtio_gpu", "drm:virtio_gpu#1", NULL },
	[FAKE_I915_OLD] = { "i915", "drm:i915#2", NULL },
};

static void has_part(const char *part)
{
	if (!strstr(hm_errmsg(), part))
		test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", hm_errmsg(), part);
}

/* The last text names the node, its driver, the error and the remedy. */
static void tells(enum fake_drm_node node, const char *error, const char *remedy)
{
	char path[64];

	has_part(drm_fake_path(node, path, sizeof(path)));
	has_part(known[node].driver);
	has_part(error);
	has_part(remedy);
}

static struct hm_device *open_node(enum fake_drm_node node)
{
	char path[64], name[80];

	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(node, path, sizeof(path)));
	return rig_device(name);
}

/* @run on each node; nothing of it may be open afterwards. */
static void each(void (*run)(enum fake_drm_node node))
{
	unsigned int node, fds;

	make_table();
	fds = test_holding_now().fds;
	for (node = 0; node < FAKE_DRM_NODES; node++) {
		run(node);
		CHECK_EQUAL(fake->handles(), 0);
		CHECK_EQUAL(fake->leaked(), 0);
		CHECK_EQUAL(test_holding_now().fds, fds);
	}
}

/* ---- opening ---- */

/* Each of the node's names, which is found as before. */
static void refused(enum fake_drm_node node, int expected, const char *error,
		    const char *remedy)
{
	const char *names[3] = { NULL, known[node].by_driver, known[node].address };
	struct hm_device *device = NULL;
	char path[64], name[80];
	size_t i;

	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(node, path, sizeof(path)));
	names[0] = name;
	for (i = 0; i < ARRAY_SIZE(names) && names[i]; i++) {
		CHECK_ERROR(expected, hm_device_open(names[i], &device));
		tells(node, error, remedy);
	}
	CHECK(!device);
}

static struct hm_drm_node listed(enum fake_drm_node node)
{
	struct hm_drm_node nodes[2 * FAKE_DRM_NODES];
	uint32_t n, i;
	char path[64];

	nodes[0].struct_size = sizeof(nodes[0]);
	CHECK_OK_FATAL(hm_drm_list(nodes, ARRAY_SIZE(nodes), &n));
	for (i = 0; i < n && i < ARRAY_SIZE(nodes); i++)
		if (!strcmp(nodes[i].path, drm_fake_path(node, path, sizeof(path))))
			return nodes[i];
	test_abandon();
}

/* In the list it is, and is gone when it is opened; in the next list it has a reason. */
static void gone(enum fake_drm_node node)
{
	CHECK_EQUAL(listed(node).error, 0);
	fake->unplug(node, true);
	refused(node, -ENODEV, "ENODEV", "hetmap devices");
	CHECK_EQUAL(listed(node).error, -ENODEV);
	CHECK(strstr(listed(node).remedy, "gone"));
	fake->unplug(node, false);
	CHECK_EQUAL(listed(node).error, 0);
}

static void node_gone(void)
{
	each(gone);
}

/* The kernel has the device, but /dev has no node of it: a container, as a rule. */
static void hidden(enum fake_drm_node node)
{
	struct hm_drm_node before = listed(node), found;

	fake->hide(node, true);
	found = listed(node);
	CHECK_EQUAL(found.error, -ENODEV);
	CHECK(strstr(found.remedy, "/dev has no such node"));
	CHECK(strstr(found.remedy, "--device /dev/dri/renderD"));
	CHECK(!strcmp(found.driver, known[node].driver));
	refused(node, -ENODEV, "ENOENT", "--device");
	CHECK(!known[node].address || !strcmp(found.address, known[node].address + 4));
	CHECK_EQUAL(found.vendor, before.vendor);
	CHECK_EQUAL(found.device, before.device);
	fake->hide(node, false);
	CHECK_EQUAL(listed(node).error, 0);
}

static void node_hidden(void)
{
	each(hidden);
}

static void not_permitted(enum fake_drm_node node)
{
	fake->forbid(node, true);
	refused(node, -EACCES, "EACCES", "group render");
	CHECK_EQUAL(listed(node).error, -EACCES);
	fake->forbid(node, false);
}

/* Its driver is that of the child on the virtio bus, not that of the carrier. */
static void virtio_carried(void)
{
	static const char *const carriers[] = { "virtio-pci", "virtio-mmio" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(carriers); i++) {
		fake->carry(FAKE_VIRTIO, carriers[i]);
		hidden(FAKE_VIRTIO);
		not_permitted(FAKE_VIRTIO);
	}
	fake->carry(FAKE_VIRTIO, NULL);
	hidden(FAKE_VIRTIO);
}

/* A driver that knows no dma-bufs says so before it is asked for one. */
static void no_dmabufs(enum fake_drm_node node)
{
	const uint64_t none = HM_CAP_EXPORT | HM_CAP_IMPORT | HM_CAP_DMABUF;
	struct hm_device *device, *host;
	struct hm_buffer *buffer, *other;
	int fd = -1;

	fake->no_prime(true);
	device = open_node(node);
	CHECK_EQUAL(device_info(device).caps & none, 0);
	CHECK_OK_FATAL(hm_device_open("host", &host));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = 4096), &buffer));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, 0, &fd));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_import(device, STDIN_FILENO, NULL, &other));
	hm_buffer_unref(buffer);
	hm_device_unref(host);
	hm_device_unref(device);
	fake->no_prime(false);
}

static void node_no_dmabufs(void)
{
	each(no_dmabufs);
}

/*
 * The node vanishes between the list's look at it and ours: the first open() is the list's, which
 * succeeds, or with a path the look at the node.
 */
static int (*real_open)(const char *path, int flags, mode_t mode);
static const char *vanishing;
static unsigned int opens_left;
static int vanishing_error;

static int open_vanishes(const char *path, int flags, mode_t mode)
{
	if (!strcmp(path, vanishing) && !opens_left--) {
		opens_left = 0;
		errno = vanishing_error;
		return -1;
	}
	return real_open(path, flags, mode);
}

static void vanish_after(enum fake_drm_node node, unsigned int opens, int error)
{
	static char path[64];

	vanishing = drm_fake_path(node, path, sizeof(path));
	opens_left = opens;
	vanishing_error = error;
	real_open = sys_table.open;
	sys_table.open = open_vanishes;
}

static void vanishes(enum fake_drm_node node)
{
	static const struct {
		int error, expected;
		const char *name, *remedy;
	} rows[] = {
		{ ENOENT, -ENODEV, "ENOENT", "--device" },
		{ ENXIO, -ENODEV, "ENXIO", "hetmap devices" },
		{ ENODEV, -ENODEV, "ENODEV", "hetmap devices" },
		{ EACCES, -EACCES, "EACCES", "--group-add" },
		{ EPERM, -EACCES, "EPERM", "--device" },
		{ EMFILE, -EMFILE, "EMFILE", "RLIMIT_NOFILE" },
		{ ENFILE, -ENFILE, "ENFILE", "fs.file-max" },
	};
	struct hm_device *device = NULL;
	unsigned int opens;
	char path[64], name[80];
	size_t i;

	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(node, path, sizeof(path)));
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		for (opens = 0; opens < 2; opens++) {
			/* The look at the node, or the opening itself. */
			vanish_after(node, opens, rows[i].error);
			CHECK_ERROR(rows[i].expected, hm_device_open(name, &device));
			sys_table.open = real_open;
			tells(node, rows[i].name, rows[i].remedy);
			/* The list's, and those two after it. */
			vanish_after(node, opens + 1, rows[i].error);
			CHECK_ERROR(rows[i].expected,
				    hm_device_open(known[node].by_driver, &device));
			sys_table.open = real_open;
			tells(node, rows[i].name, rows[i].remedy);
		}
	CHECK(!device);
}

static void node_vanishes(void)
{
	each(vanishes);
}

/* The node opens, and is gone before it has named its driver. */
static void vanishes_opened(enum fake_drm_node node)
{
	struct hm_device *device = NULL;
	char path[64], name[80];

	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(node, path, sizeof(path)));
	fake->fail(2, ENODEV);
	CHECK_ERROR(-ENODEV, hm_device_open(name, &device));
	CHECK(fake->failed() && !strcmp(fake->failed(), "drm_version"));
	fake->fail(0, 0);
	tells(node, "ENODEV", "hetmap devices");
	CHECK(!device);
}

static void node_vanishes_opened(void)
{
	each(vanishes_opened);
}

/* ---- no descriptor is left ---- */

static void without_descriptors(enum fake_drm_node node)
{
	static const struct {
		int error;
		const char *name, *remedy;
	} rows[] = {
		{ EMFILE, "EMFILE", "RLIMIT_NOFILE" },
		{ ENFILE, "ENFILE", "fs.file-max" },
	};
	AUTO(hm_device) *device = open_node(node);
	struct hm_buffer *buffer = make(device, SIZE), *twin = NULL;
	int exported = export_of(buffer), fd = -1;
	char path[64];
	size_t i;

	/* Its own duplicate the library makes first, whatever the device is. */
	inject_always("fcntl", EMFILE);
	CHECK_ERROR(-EMFILE, hm_buffer_import(device, exported, NULL, &twin));
	inject_disarm();
	has_part(drm_fake_path(node, path, sizeof(path)));
	has_part("RLIMIT_NOFILE");
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		fake->fail(1, rows[i].error);
		CHECK_ERROR(-rows[i].error, hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
		tells(node, rows[i].name, rows[i].remedy);
		fake->fail(1, rows[i].error);
		CHECK_ERROR(-rows[i].error, hm_buffer_import(device, exported, NULL, &twin));
		tells(node, rows[i].name, rows[i].remedy);
		fake->fail(0, 0);
	}
	CHECK(!twin && fd == -1);
	close(exported);
	hm_buffer_unref(buffer);
}

static unsigned int n_duplicates;

/* A dma-buf that the driver can't map by its node, or can't wait for, is kept by a duplicate. */
static void without_duplicates(enum fake_drm_node at)
{
	AUTO(hm_device) *other = open_node(at == FAKE_XE ? FAKE_NOUVEAU : FAKE_XE);
	AUTO(hm_buffer) *buffer = make(other, SIZE);
	struct drm_node *node = drm_open_fake(at);
	int exported = export_of(buffer), r;
	struct drm_object *object;

	err_clear();
	inject_always("fcntl", EMFILE);
	r = drm_object_import(node, exported, &object);
	inject_disarm();
	if (!r) {
		drm_object_put(object);
	} else if (r == -EMFILE) {
		tells(at, "EMFILE", "RLIMIT_NOFILE");
		n_duplicates++;
	}
	close(exported);
	drm_node_put(node);
}

static void no_descriptors(void)
{
	each(without_descriptors);
	each(without_duplicates);
	CHECK(n_duplicates > 1);
}

static void node_not_permitted(void)
{
	each(not_permitted);
}

/* ---- a descriptor that has another owner ---- */

/* Calls on the device; maps and open files are not asked. */
static void check_lost(enum fake_drm_node at, struct hm_device *device,
		       struct hm_buffer *buffer)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *none = NULL;
	int fd = -7;

	CHECK_ERROR(-EBADF, hm_buffer_create(device, &desc, &none));
	tells(at, "EBADF", "open it again");
	CHECK_ERROR(-EBADF, hm_buffer_export(buffer, 0, &fd));
	tells(at, "EBADF", "open it again");
	CHECK_ERROR(-EBADF, hm_device_query(device, &info));
	tells(at, "EBADF", "open it again");
	CHECK(!none && fd == -7);
}

static void closed_behind(enum fake_drm_node at)
{
	AUTO(hm_device) *device = open_node(at);
	AUTO(hm_buffer) *buffer = make(device, SIZE);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	struct drm_object *object = buffer->segment[0].object;
	int number = object->node->fd, kept = dup(number);

	pattern_write(hm_map_address(map), 0, SIZE, 1);
	CHECK_FATAL(kept >= 0);
	close(number);
	check_lost(at, device, buffer);
	CHECK_FATAL(open("/dev/null", O_RDWR | O_CLOEXEC) == number);
	check_lost(at, device, buffer);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	/* Opened again, it is another one. */
	hm_device_unref(open_node(at));
	CHECK_FATAL(dup3(kept, number, O_CLOEXEC) == number);
	close(kept);
}

static void node_closed_behind(void)
{
	each(closed_behind);
}

/* The file that another node is open as has a handle of its own, with the same number. */
static uint32_t handle_in(int file, enum fake_drm_node other)
{
	struct hm_device *device = open_node(other);
	struct hm_buffer *buffer = make(device, SIZE);
	struct drm_prime_handle prime = { .fd = export_of(buffer) };

	CHECK_EQUAL(ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), 0);
	close(prime.fd);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return prime.handle;
}

static void close_handle(int file, uint32_t handle, int expected)
{
	struct drm_gem_close gem_close = { .handle = handle };

	CHECK_EQUAL(ioctl(file, DRM_IOCTL_GEM_CLOSE, &gem_close), expected);
}

/* The other node answers, and takes the handles' numbers: still it is not ours. */
static void becomes_another(enum fake_drm_node at)
{
	enum fake_drm_node other = (at + 1) % FAKE_DRM_NODES;
	struct hm_device *device = open_node(at);
	struct hm_buffer *buffer = make(device, SIZE);
	struct drm_object *object = buffer->segment[0].object;
	int number = object->node->fd, kept = dup(number);
	uint32_t handle = object->handle;
	char path[64];

	CHECK_FATAL(kept >= 0);
	close(number);
	CHECK_FATAL(open(drm_fake_path(other, path, sizeof(path)), O_RDWR | O_CLOEXEC) ==
		    number);
	CHECK_EQUAL(handle_in(number, other), handle);
	check_lost(at, device, buffer);
	/* Opened again, it is another one. */
	hm_device_unref(open_node(at));
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	/* Their file is open, and has its handle. */
	close_handle(number, handle, 0);
	close(number);
	close_handle(kept, handle, 0);
	close(kept);
}

static void node_becomes_another(void)
{
	each(becomes_another);
}

/* ---- dma-bufs ---- */

static void no_dmabuf(enum fake_drm_node at)
{
	int memfd = memfd_create("none", MFD_CLOEXEC), pipes[2];
	AUTO(hm_device) *device = open_node(at);
	struct hm_buffer *buffer = NULL;

	CHECK_FATAL(!ftruncate(memfd, SIZE) && !pipe2(pipes, O_CLOEXEC));
	CHECK_ERROR(-EINVAL, hm_buffer_import(device, memfd, NULL, &buffer));
	tells(at, "EINVAL", "hm_buffer_export");
	CHECK_ERROR(-EINVAL, hm_buffer_import(device, pipes[0], NULL, &buffer));
	tells(at, "EINVAL", "hm_buffer_export");
	CHECK_ERROR(-EBADF, hm_buffer_import(device, -1, NULL, &buffer));
	CHECK(!buffer);
	close(memfd);
	close(pipes[0]);
	close(pipes[1]);
}

static void nodes_take_no_file(void)
{
	each(no_dmabuf);
}

/* Exported read-only first, wanted writable later: by its maker, and by the importer. */
static void read_only_first(enum fake_drm_node at)
{
	AUTO(hm_device) *device = open_node(at);
	struct hm_buffer *buffer = make(device, SIZE), *other = NULL;
	int fd, none = -7;

	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &none));
	has_part("without HM_EXPORT_READ_ONLY");
	CHECK(none == -7);
	fd = drm_export_read_only(buffer);
	CHECK_ERROR(-EBUSY, hm_buffer_export(buffer, 0, &none));
	tells(at, "EBUSY", "export it for writing first");
	CHECK_ERROR(-EACCES, hm_buffer_import(device, fd, NULL, &other));
	tells(at, "EACCES", "HM_BUFFER_READ_ONLY");
	CHECK(!other && none == -7);
	close(fd);
	hm_buffer_unref(buffer);
}

static void nodes_keep_rights(void)
{
	each(read_only_first);
}

/* ---- sizes ---- */

static void too_large(enum fake_drm_node at)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = GIB(64) };
	AUTO(hm_device) *device = open_node(at);
	struct hm_buffer *buffer = NULL;
	int r;

	test_forget_text();
	r = hm_buffer_create(device, &desc, &buffer);
	CHECK(r == -ENOMEM || r == -ENOSPC || r == -E2BIG || r == -EINVAL);
	/* One node knows it before the kernel is asked. */
	tells(at, strerrorname_np(-r), at == FAKE_VIRTIO ? "blob=on" : "release some");
	has_part(at == FAKE_VIRTIO ? "68719476736" : "64 GiB");
	desc.size = UINT64_MAX;
	CHECK(hm_buffer_create(device, &desc, &buffer) < 0 && *hm_errmsg());
	CHECK(!buffer);
}

static void nodes_are_finite(void)
{
	each(too_large);
}

static const struct test tests[] = {
	{ "node_gone", node_gone, 0, 0 },
	{ "node_hidden", node_hidden, 0, 0 },
	{ "virtio_carried", virtio_carried, 0, 0 },
	{ "node_no_dmabufs", node_no_dmabufs, 0, 0 },
	{ "node_vanishes", node_vanishes, 0, 0 },
	{ "node_vanishes_opened", node_vanishes_opened, 0, 0 },
	{ "no_descriptors", no_descriptors, 0, 0 },
	{ "node_not_permitted", node_not_permitted, 0, 0 },
	{ "node_closed_behind", node_closed_behind, 0, 0 },
	{ "node_becomes_another", node_becomes_another, 0, 0 },
	{ "nodes_take_no_file", nodes_take_no_file, 0, 0 },
	{ "nodes_keep_rights", nodes_keep_rights, 0, 0 },
	{ "nodes_are_finite", nodes_are_finite, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_bad_input", tests);
}
