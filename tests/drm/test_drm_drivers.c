// SPDX-License-Identifier: MIT
/*
 * The rows of amdgpu, i915, xe, nouveau and virtio_gpu over the fake kernel: they find, make, map,
 * share and wait, and they clean up when any call of theirs fails.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/drm.h>

#include "lib/inject.h"
#include "drm/drm_support.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (64 * 1024ull)

static const struct fake_drm_control *fake;

/* The fake's hardware, and how a row must report it. */
static const struct expected {
	const char *driver;
	uint64_t vram, visible, system;
	enum drm_place place; /* by default */
	bool vram_made;       /* on request */
	bool waits, userptr;
	bool memory;    /* reports free memory */
	bool cached;    /* also of its VRAM */
	bool whole;     /* VRAM is mapped as a whole only */
	bool own;       /* takes in no other device's */
	uint32_t back;  /* enum hm_cache of a default object that comes back */
	bool timelines; /* syncobjs, and points of them */
} expected[FAKE_DRM_NODES] = {
	[FAKE_AMDGPU] = { "amdgpu", MIB(256), MIB(64), MIB(1024), DRM_PLACE_VRAM, true, true,
			  true, true, false, false, false, HM_CACHE_WRITE_COMBINING, true },
	[FAKE_I915] = { "i915", MIB(256), MIB(64), MIB(1024), DRM_PLACE_VRAM, true, true, true,
			true, false, false, false, HM_CACHE_UNKNOWN, true },
	[FAKE_XE] = { "xe", MIB(256), MIB(64), MIB(1024), DRM_PLACE_VRAM, true, false, false,
		      true, false, false, false, HM_CACHE_UNKNOWN, true },
	[FAKE_NOUVEAU] = { "nouveau", MIB(256), 0, MIB(1024), DRM_PLACE_SYSTEM, false, true,
			   false, false, false, false, false, HM_CACHE_UNKNOWN, false },
	[FAKE_I915_INTEGRATED] = { "i915", 0, 0, MIB(1024), DRM_PLACE_SYSTEM, false, true, true,
				   true, false, false, false, HM_CACHE_WRITE_BACK, true },
	[FAKE_I915_OLD] = { "i915", MIB(256), MIB(256), MIB(1024), DRM_PLACE_VRAM, true, true,
			    true, true, false, false, false, HM_CACHE_UNKNOWN, true },
	[FAKE_VIRTIO] = { .driver = "virtio_gpu",
			  .place = DRM_PLACE_SYSTEM,
			  .waits = true,
			  .own = true },
	[FAKE_VIRTIO_HOST] = { .driver = "virtio_gpu",
			       .place = DRM_PLACE_SYSTEM,
			       .vram_made = true,
			       .waits = true,
			       .cached = true,
			       .whole = true,
			       .own = true },
};

static void each(void (*run)(struct drm_node *node, const struct expected *one))
{
	struct drm_node *node;
	unsigned int i;

	for (i = 0; i < FAKE_DRM_NODES; i++) {
		node = drm_open_fake(i);
		run(node, &expected[i]);
		drm_node_put(node);
		CHECK_EQUAL(fake->handles(), 0);
		CHECK_EQUAL(fake->leaked(), 0);
	}
}

static char *map(int fd, uint64_t offset, uint64_t size)
{
	char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (mapped == MAP_FAILED) {
		test_fail(__FILE__, __LINE__, "mmap: %s", strerror(errno));
		test_abandon();
	}
	return mapped;
}

/* Maps it as the backend does: through the node, or through its own dma-buf. */
static char *map_object(const struct drm_object *object)
{
	return map(object->dma_buf < 0 ? object->node->fd : object->dma_buf, object->map_offset,
		   SIZE);
}

/* ---- the node and its memory ---- */

static void check_open(struct drm_node *node, const struct expected *one)
{
	uint64_t total = 0, available = 0;

	CHECK(!strcmp(node->name, one->driver));
	CHECK(node->driver && !strcmp(node->driver->name, one->driver));
	CHECK(!node->primary);
	CHECK_EQUAL(node->vram_total, one->vram);
	CHECK_EQUAL(node->vram_visible, one->visible);
	CHECK_EQUAL(node->system_total, one->system);
	CHECK_EQUAL(!!node->driver->wait, one->waits);
	CHECK_EQUAL(!!node->driver->userptr, one->userptr);
	CHECK_EQUAL(!!node->driver->memory, one->memory);
	if (!one->memory)
		return;
	CHECK_OK(node->driver->memory(node, &total, &available));
	CHECK_EQUAL(total, one->vram ? one->vram : one->system);
	CHECK(available <= total && (one->vram ? available < total : available == total));
}

static void open_all(void)
{
	each(check_open);
}

/* ---- objects ---- */

static void check_place(struct drm_node *node, const struct expected *one, enum drm_place asked,
			enum drm_place got)
{
	bool vram = got == DRM_PLACE_VRAM;
	uint64_t part = vram && one->whole ? SIZE : PAGE;
	struct drm_object *object;
	char *first, *second;
	uint64_t i;

	CHECK_OK_FATAL(drm_object_create(node, SIZE, asked, &object));
	CHECK_EQUAL(object->place, got);
	CHECK_EQUAL(object->size, SIZE);
	CHECK_EQUAL(object->cache,
		    vram && !one->cached ? HM_CACHE_WRITE_COMBINING : HM_CACHE_WRITE_BACK);
	first = map(node->fd, object->map_offset, SIZE);
	second = map(node->fd, object->map_offset, part);
	for (i = 0; i < SIZE; i++)
		if (first[i]) {
			test_fail(__FILE__, __LINE__, "byte %llu is not zero",
				  (unsigned long long)i);
			break;
		}
	first[17] = 'x';
	CHECK_EQUAL(second[17], 'x');
	munmap(second, part);
	/* The handle first, then the map: a map keeps its memory. */
	drm_object_put(object);
	first[SIZE - 1] = 'y';
	CHECK_EQUAL(first[17], 'x');
	munmap(first, SIZE);
}

static void check_places(struct drm_node *node, const struct expected *one)
{
	struct drm_object *object;

	check_place(node, one, DRM_PLACE_DEFAULT, one->place);
	check_place(node, one, DRM_PLACE_SYSTEM, DRM_PLACE_SYSTEM);
	if (one->vram_made) {
		check_place(node, one, DRM_PLACE_VRAM, DRM_PLACE_VRAM);
		return;
	}
	CHECK_ERROR(-EOPNOTSUPP, drm_object_create(node, SIZE, DRM_PLACE_VRAM, &object));
	CHECK(strstr(hm_errmsg(), "system memory"));
}

static void places(void)
{
	each(check_places);
}

/* One page: where VRAM has larger ones the object has, too. */
static void check_sizes(struct drm_node *node, const struct expected *one)
{
	struct drm_object *object = (void *)0x10;

	CHECK_OK_FATAL(drm_object_create(node, PAGE, DRM_PLACE_DEFAULT, &object));
	CHECK(object->size >= PAGE && is_aligned(object->size, PAGE));
	munmap(map(node->fd, object->map_offset, object->size), object->size);
	/* More than the object is refused by the kernel, and a part of it as well. */
	CHECK(mmap(NULL, object->size + PAGE, PROT_READ, MAP_SHARED, node->fd,
		   (off_t)object->map_offset) == MAP_FAILED);
	CHECK_EQUAL(errno, EINVAL);
	drm_object_put(object);
	object = (void *)0x10;
	test_forget_text();
	CHECK(drm_object_create(node, GIB(64), DRM_PLACE_DEFAULT, &object) < 0);
	CHECK(object == (void *)0x10);
	CHECK(strstr(hm_errmsg(), node->path) && strstr(hm_errmsg(), one->driver));
}

static void sizes(void)
{
	each(check_sizes);
}

/* amdgpu_gem_create_ioctl() falls back to GTT without a word. */
static void vram_full(void)
{
	struct drm_node *node = drm_open_fake(FAKE_AMDGPU);
	struct drm_object *object;

	CHECK_OK_FATAL(drm_object_create(node, MIB(512), DRM_PLACE_DEFAULT, &object));
	CHECK_EQUAL(object->place, DRM_PLACE_SYSTEM);
	drm_object_put(object);
	drm_node_put(node);
}

/* ---- sharing ---- */

static void check_share(struct drm_node *node, const struct expected *one)
{
	struct drm_prime_handle prime = { 0 };
	struct drm_gem_close gem_close = { 0 };
	struct drm_object *object, *again;
	char *mine, *shared;
	int fd, second, other;

	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
	CHECK_OK_FATAL(drm_object_export(object, true, &fd));
	CHECK_OK_FATAL(drm_object_export(object, true, &second));
	mine = map(node->fd, object->map_offset, SIZE);
	shared = map(fd, 0, SIZE);
	mine[PAGE] = 'a';
	CHECK_EQUAL(shared[PAGE], 'a');
	CHECK_EQUAL(lseek(fd, 0, SEEK_END), SIZE);

	/* The object comes back as the same one. */
	CHECK_OK_FATAL(drm_object_import(node, second, &again));
	CHECK(again == object);
	drm_object_put(again);
	CHECK_EQUAL(fake->handles(), 1);

	/* In another file of the node it has a handle of its own. */
	other = open(node->path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(other >= 0);
	prime.fd = fd;
	CHECK_EQUAL(ioctl(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), 0);
	CHECK_EQUAL(fake->handles(), 2);
	munmap(map(other, object->map_offset, PAGE), PAGE);
	gem_close.handle = prime.handle;
	CHECK_EQUAL(ioctl(other, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, (off_t)object->map_offset) ==
	      MAP_FAILED);
	CHECK_EQUAL(errno, EACCES);
	close(other);

	/* The object goes, and its bytes come back by the dma-buf. */
	drm_object_put(object);
	munmap(mine, SIZE);
	CHECK_EQUAL(fake->handles(), 0);
	CHECK_OK_FATAL(drm_object_import(node, fd, &object));
	CHECK_EQUAL(object->cache, one->back);
	mine = map_object(object);
	CHECK_EQUAL(mine[PAGE], 'a');
	drm_object_put(object);
	munmap(mine, SIZE);
	munmap(shared, SIZE);
	close(fd);
	close(second);
}

static void share(void)
{
	each(check_share);
}

static void check_read_only(struct drm_node *node, const struct expected *one)
{
	struct drm_object *object;
	int fd = -1, second = -1;

	(void)one;
	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
	CHECK_OK_FATAL(drm_object_export(object, false, &fd));
	CHECK_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	CHECK(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_EQUAL(errno, EACCES);
	CHECK_ERROR(-EBUSY, drm_object_export(object, true, &second));
	CHECK_EQUAL(second, -1);
	close(fd);
	drm_object_put(object);
}

static void read_only(void)
{
	each(check_read_only);
}

/* ---- waiting ---- */

static void check_wait(struct drm_node *node, const struct expected *one)
{
	const uint64_t timeout = 5 * 1000 * 1000;
	struct drm_object *object;
	uint64_t begin;

	if (!one->waits)
		return;
	CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
	CHECK_OK(node->driver->wait(object, true, 0));
	CHECK_OK(node->driver->wait(object, false, UINT64_MAX));
	fake->busy(true);
	CHECK_EQUAL(node->driver->wait(object, true, 0), -ETIME);
	begin = time_now_ns();
	CHECK_EQUAL(node->driver->wait(object, false, timeout), -ETIME);
	CHECK(time_now_ns() - begin >= timeout);
	/* A wait with a limit reports it, instead of success. */
	fake->busy(false);
	fake->busy_looks(3);
	CHECK_OK(node->driver->wait(object, true, UINT64_MAX));
	fake->busy_looks(0);
	drm_object_put(object);
}

static void wait_idle(void)
{
	each(check_wait);
}

/* ---- memory of the user's ---- */

static void close_handle(struct drm_node *node, uint32_t handle)
{
	struct drm_gem_close gem_close = { .handle = handle };

	CHECK_EQUAL(drm_call(node, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
}

static void check_userptr(struct drm_node *node, const struct expected *one)
{
	struct drm_object object = { .node = node };
	char *memory =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_FATAL(memory != MAP_FAILED);
	if (!one->userptr)
		goto out;
	CHECK_OK_FATAL(node->driver->userptr(node, memory, SIZE, true, &object));
	CHECK_EQUAL(object.size, SIZE);
	CHECK_EQUAL(object.place, DRM_PLACE_SYSTEM);
	/* The object has a map already; there is no other. */
	CHECK(node->driver->map_offset(&object) < 0);
	close_handle(node, object.handle);
	CHECK_OK_FATAL(node->driver->userptr(node, memory, SIZE, false, &object));
	close_handle(node, object.handle);
	CHECK_EQUAL(node->driver->userptr(node, memory + 1, SIZE, true, &object), -EINVAL);
	CHECK_EQUAL(node->driver->userptr(node, memory, SIZE + 1, true, &object), -EINVAL);
	munmap(memory + PAGE, PAGE);
	CHECK_EQUAL(node->driver->userptr(node, memory, SIZE, true, &object), -EFAULT);
out:
	munmap(memory, SIZE);
}

static void userptr(void)
{
	each(check_userptr);
}

/* ---- other devices' ---- */

static void bring(struct drm_node *from, struct drm_node *to)
{
	struct drm_object *object, *came;
	char *mine, *shared;
	int fd;

	CHECK_OK_FATAL(drm_object_create(from, SIZE, DRM_PLACE_DEFAULT, &object));
	mine = map_object(object);
	CHECK_OK_FATAL(drm_object_export(object, true, &fd));
	CHECK_OK_FATAL(drm_object_import(to, fd, &came));
	close(fd);
	/* Through this node it would be refused, or be a SIGBUS. */
	CHECK(came->dma_buf >= 0);
	CHECK_EQUAL(came->size, SIZE);
	CHECK_EQUAL(came->cache, HM_CACHE_UNKNOWN);
	shared = map_object(came);
	mine[PAGE] = 'f';
	CHECK_EQUAL(shared[PAGE], 'f');
	drm_object_put(object);
	munmap(mine, SIZE);
	CHECK_EQUAL(shared[PAGE], 'f');
	drm_object_put(came);
	munmap(shared, SIZE);
}

static void bring_refused(struct drm_node *from, struct drm_node *to)
{
	struct drm_object *object, *came;
	int fd;

	CHECK_OK_FATAL(drm_object_create(from, SIZE, DRM_PLACE_DEFAULT, &object));
	CHECK_OK_FATAL(drm_object_export(object, true, &fd));
	CHECK_ERROR(-EOPNOTSUPP, drm_object_import(to, fd, &came));
	CHECK(strstr(hm_errmsg(), "its own"));
	close(fd);
	drm_object_put(object);
}

/* Every device's dma-buf on every other. */
static void foreign(void)
{
	struct drm_node *from, *to;
	unsigned int i, j;

	for (i = 0; i < FAKE_DRM_NODES; i++)
		for (j = 0; j < FAKE_DRM_NODES; j++) {
			if (i == j)
				continue;
			from = drm_open_fake(i);
			to = drm_open_fake(j);
			(expected[j].own ? bring_refused : bring)(from, to);
			CHECK_EQUAL(fake->handles(), 0);
			drm_node_put(to);
			drm_node_put(from);
		}
}

/* ---- when calls fail ---- */

struct doing {
	struct drm_node *node;
	struct drm_object *object, *again;
	int fd;
};

static void undo(struct doing *d)
{
	if (d->again)
		drm_object_put(d->again);
	if (d->fd >= 0)
		close(d->fd);
	if (d->object)
		drm_object_put(d->object);
	if (d->node)
		drm_node_put(d->node);
}

/* Everything, up to the first failure, where results keep their old values. */
static int do_all(enum fake_drm_node at, struct doing *d)
{
	uint64_t total, available;
	char path[64];
	enum drm_place place = DRM_PLACE_DEFAULT;
	int r;

	/* Its own memory, where that is no default. */
	if (expected[at].vram_made)
		place = DRM_PLACE_VRAM;
	*d = (struct doing){ .fd = -1 };
	r = drm_node_get(drm_fake_path(at, path, sizeof(path)), &d->node);
	if (!r && d->node->driver->memory)
		r = d->node->driver->memory(d->node, &total, &available);
	if (!r)
		r = drm_object_create(d->node, SIZE, place, &d->object);
	if (!r && d->node->driver->wait)
		r = d->node->driver->wait(d->object, true, 0);
	if (!r)
		r = drm_object_export(d->object, true, &d->fd);
	if (!r)
		r = drm_object_import(d->node, d->fd, &d->again);
	return r;
}

static void fail_each(int error, bool retried)
{
	unsigned int at, n, calls;
	const char *failed;
	struct doing d;
	int r;

	for (at = 0; at < FAKE_DRM_NODES; at++) {
		fake->fail(0, 0);
		CHECK_OK_FATAL(do_all(at, &d));
		calls = fake->calls();
		undo(&d);
		CHECK(calls > 5);
		for (n = 1; n <= calls; n++) {
			fake->fail(n, error);
			r = do_all(at, &d);
			failed = fake->failed();
			fake->fail(0, 0);
			CHECK_FATAL(failed != NULL);
			/* A failed query for dumb buffers is no failure: these do not need any. */
			if (retried ? r : !r && strcmp(failed, "drm_get_cap") != 0)
				test_fail(__FILE__, __LINE__, "%s: %s, call %u of %u: %d",
					  expected[at].driver, failed, n, calls, r);
			undo(&d);
			if (fake->handles() || fake->leaked()) {
				test_fail(__FILE__, __LINE__, "%s: call %u of %u leaks handles",
					  expected[at].driver, n, calls);
				return;
			}
		}
	}
}

static void undo_no_memory(void)
{
	fail_each(ENOMEM, false);
}

static void undo_interrupted(void)
{
	fail_each(EINTR, true);
}

static void unplugged(void)
{
	struct doing d;
	unsigned int at;
	char path[64];
	struct drm_node *node = NULL;

	for (at = 0; at < FAKE_DRM_NODES; at++) {
		CHECK_OK_FATAL(do_all(at, &d));
		fake->unplug(at, true);
		CHECK_ERROR(-ENODEV,
			    drm_object_create(d.node, SIZE, DRM_PLACE_DEFAULT, &d.again));
		CHECK(d.node->gone);
		CHECK_ERROR(-ENODEV,
			    drm_node_get(drm_fake_path(at, path, sizeof(path)), &node));
		undo(&d);
		fake->unplug(at, false);
	}
	CHECK(!node);
}

static void forbidden(void)
{
	struct drm_node *node = NULL;
	unsigned int at;
	char path[64];

	for (at = 0; at < FAKE_DRM_NODES; at++) {
		fake->forbid(at, true);
		CHECK_ERROR(-EACCES,
			    drm_node_get(drm_fake_path(at, path, sizeof(path)), &node));
		CHECK(strstr(hm_errmsg(), path) && strstr(hm_errmsg(), "render"));
		fake->forbid(at, false);
	}
	CHECK(!node);
}

static void found(void)
{
	struct drm_found *all;
	uint32_t n, i;

	fake->forbid(FAKE_XE, true);
	CHECK_OK_FATAL(drm_discover(&all, &n));
	CHECK_EQUAL(n, FAKE_DRM_NODES);
	for (i = 0; i < n; i++) {
		CHECK(!strcmp(all[i].bus, "pci"));
		CHECK_EQUAL(all[i].numa_node, -1);
		if (strcmp(all[i].driver, "xe") != 0)
			CHECK_EQUAL(all[i].error, 0);
		else
			CHECK_EQUAL(all[i].error, -EACCES);
	}
	free(all);
	fake->forbid(FAKE_XE, false);
}

/* Whatever allocation fails, it is told of, and nothing is left. */
static void found_without_memory(void)
{
	struct drm_found *all;
	unsigned int n = 0;
	uint32_t n_found;
	bool failed;
	int r;

	inject_install();
	do {
		all = NULL;
		n_found = 0;
		inject_arm(++n, INJECT_ONE);
		r = drm_discover(&all, &n_found);
		failed = inject_disarm();
		if (r)
			CHECK(r == -ENOMEM && !all && !n_found);
		free(all);
	} while (failed && n < 500);
	CHECK(n > 1 && n < 500);
	CHECK_OK(r);
	CHECK_EQUAL(n_found, FAKE_DRM_NODES);
}

/* Devices that can't be looked for are not left out; and all are looked for at once. */
static void devices_without_memory(void)
{
	struct hm_device_info devices[FAKE_DRM_NODES + 16];
	unsigned int n = 0, all;
	uint32_t n_device = 0;
	bool failed;
	int r;

	inject_install();
	devices[0].struct_size = sizeof(devices[0]);
	inject_arm(0, INJECT_ONE);
	CHECK_OK(hm_device_list(devices, ARRAY_SIZE(devices), &n_device));
	all = inject_calls();
	CHECK(n_device >= FAKE_DRM_NODES && all < 50 * n_device);
	do {
		inject_arm(++n, INJECT_ONE);
		r = hm_device_list(devices, ARRAY_SIZE(devices), &n_device);
		failed = inject_disarm();
		if (!strcmp(inject_failed(), "calloc"))
			CHECK_EQUAL(r, -ENOMEM);
	} while (failed && n < 2 * all);
	CHECK(n > 1 && n < 2 * all);
	CHECK_OK(r);
}

/* The public list matches the drivers. */
static void listed(void)
{
	struct hm_drm_node nodes[FAKE_DRM_NODES + 8];
	uint32_t i, n, at = 0;
	char path[64];

	nodes[0].struct_size = sizeof(nodes[0]);
	CHECK_OK_FATAL(hm_drm_list(nodes, ARRAY_SIZE(nodes), &n));
	for (i = 0; i < n && i < ARRAY_SIZE(nodes) && at < FAKE_DRM_NODES; i++) {
		const struct expected *one = &expected[at];

		if (strcmp(nodes[i].path, drm_fake_path(at, path, sizeof(path))) != 0)
			continue;
		CHECK_EQUAL(nodes[i].memory, one->vram);
		CHECK_EQUAL(nodes[i].memory_visible, one->visible);
		CHECK_EQUAL(nodes[i].memory_system, one->system);
		CHECK_EQUAL(!!(nodes[i].features & HM_DRM_WAIT), one->waits);
		CHECK_EQUAL(!!(nodes[i].features & HM_DRM_USERPTR), one->userptr);
		CHECK_EQUAL(nodes[i].features & (HM_DRM_SYNCOBJ | HM_DRM_TIMELINE),
			    one->timelines ? HM_DRM_SYNCOBJ | HM_DRM_TIMELINE : 0);
		/* Only virtio_gpu's code ran on a real kernel. */
		CHECK_EQUAL(!!(nodes[i].features & HM_DRM_EXPERIMENTAL),
			    strcmp(one->driver, "virtio_gpu") != 0);
		at++;
	}
	CHECK_EQUAL(at, FAKE_DRM_NODES);
}

static const struct test tests[] = {
	{ "listed", listed, .seconds = 0 },
	{ "open", open_all, .seconds = 0 },
	{ "found", found, .seconds = 0 },
	{ "found_without_memory", found_without_memory, .seconds = 0 },
	{ "devices_without_memory", devices_without_memory, .seconds = 0 },
	{ "places", places, .seconds = 0 },
	{ "sizes", sizes, .seconds = 0 },
	{ "vram_full", vram_full, .seconds = 0 },
	{ "share", share, .seconds = 0 },
	{ "read_only", read_only, .seconds = 0 },
	{ "wait", wait_idle, .seconds = 0 },
	{ "userptr", userptr, .seconds = 0 },
	{ "foreign", foreign, .seconds = 0 },
	{ "undo_no_memory", undo_no_memory, .seconds = 60 },
	{ "undo_interrupted", undo_interrupted, .seconds = 60 },
	{ "unplugged", unplugged, .seconds = 0 },
	{ "forbidden", forbidden, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_drivers", tests);
}
