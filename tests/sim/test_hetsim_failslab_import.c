// SPDX-License-Identifier: MIT
/*
 * hetsim, whose allocations and copies fail in turn (fail_nth.h), with memory of other
 * devices: a second hetsim and vgem make dma-bufs that the first takes in, maps, reads
 * and writes; and they take in its own. Whatever fails, the same can be done again, and
 * no device has anything left.
 */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/fail_nth.h"
#include "lib/hetsim.h"
#include "sim/vgem_support.h"

#define SIZE (16 * PAGE)
#define BIND_AT 0x5000000000ull

/* Another device, of which there is one file. */
struct other {
	const char *name;
	int (*open)(void);
	int (*make)(int file);             /* a dma-buf of SIZE of its */
	int (*take)(int file, int dmabuf); /* one in, until the file is closed */
};

/* The objects for a call, and those that it may leave for tidy() to take away. */
struct scene {
	const struct other *other;
	int fd;                      /* of /dev/hetsim0 */
	int file;                    /* the other one's */
	int own;                     /* a dma-buf of /dev/hetsim0's */
	int dmabuf;                  /* the other one's */
	struct hetsim_import import; /* of the dma-buf, where a step is about it */
	void *map;
};

/* ---- the other devices ---- */

static int handshake(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE,
					SIZED(hetsim_handshake,
					      .version_major = HETSIM_VERSION_MAJOR)),
			    0);
	return fd;
}

static int second_open(void)
{
	return handshake(HETSIM_SECOND);
}

static int hetsim_make(int file)
{
	struct hetsim_buffer buffer;
	int dmabuf;

	CHECK_FATAL(hetsim_buffer_create(file, SIZE, HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	dmabuf = hetsim_export(file, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	return dmabuf;
}

static int hetsim_take(int file, int dmabuf)
{
	struct hetsim_import import;

	return hetsim_import(file, dmabuf, &import);
}

static int vgem_make_one(int file)
{
	return vgem_make(file, SIZE, DRM_RDWR);
}

static int vgem_take(int file, int dmabuf)
{
	struct drm_prime_handle prime = { .fd = dmabuf };

	return ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) ? -errno : 0;
}

static const struct other others[] = {
	{ "a second hetsim", second_open, hetsim_make, hetsim_take },
	{ "vgem", vgem_open, vgem_make_one, vgem_take },
};

/* ---- steps ---- */

static int run_import(void *user)
{
	struct scene *scene = user;

	return hetsim_import(scene->fd, scene->dmabuf, &scene->import);
}

static int run_take(void *user)
{
	struct scene *scene = user;

	return scene->other->take(scene->file, scene->own);
}

static int run_mmap(void *user)
{
	struct scene *scene = user;

	scene->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, scene->fd,
			  (off_t)scene->import.offset);
	return scene->map == MAP_FAILED ? -errno : 0;
}

static int run_bind(void *user)
{
	struct scene *scene = user;

	return hetsim_call(scene->fd, HETSIM_BIND,
			   SIZED(hetsim_bind, .flags = HETSIM_BIND_WRITE,
				 .handle = scene->import.handle, .address = BIND_AT,
				 .length = SIZE));
}

/* On the exporter's pages, from one into the next. */
static int run_read(void *user)
{
	static unsigned char bytes[2 * PAGE];
	struct scene *scene = user;
	ssize_t n = hetsim_pread(scene->fd, bytes, sizeof(bytes), scene->import.offset + 100);

	return n < 0 ? (int)n : 0;
}

static int run_write(void *user)
{
	static unsigned char bytes[2 * PAGE];
	struct scene *scene = user;
	ssize_t n = hetsim_pwrite(scene->fd, bytes, sizeof(bytes), scene->import.offset + 100);

	return n < 0 ? (int)n : 0;
}

static int run_close_handle(void *user)
{
	struct scene *scene = user;

	return hetsim_close_handle(scene->fd, scene->import.handle);
}

static void nothing(struct scene *scene)
{
	(void)scene;
}

static void imported(struct scene *scene)
{
	CHECK_EQUAL(run_import(scene), 0);
}

static void mapped(struct scene *scene)
{
	imported(scene);
	CHECK_EQUAL(run_mmap(scene), 0);
}

/* A fault without memory is taken again; at worst it is a signal. */
static int run_touch(void *user)
{
	struct scene *scene = user;
	int signal = test_write_signal(scene->map);

	return signal && signal != SIGBUS ? -EINVAL : 0;
}

static const struct step {
	const char *name;
	int (*run)(void *scene);
	void (*before)(struct scene *scene);
	unsigned int least; /* failures that there are to inject */
} steps[] = {
	/* The buffer, its array, the attachment, the exporter's table, its slot, its handle. */
	{ "import", run_import, nothing, 8 }, { "be taken in", run_take, nothing, 4 },
	{ "mmap", run_mmap, imported, 2 },    { "touch", run_touch, mapped, 1 },
	{ "bind", run_bind, imported, 4 },    { "read", run_read, imported, 1 },
	{ "write", run_write, imported, 1 },  { "close handle", run_close_handle, imported, 1 },
};

/* ---- the scene of each try ---- */

static void set_up(struct scene *scene, const struct other *other)
{
	*scene = (struct scene){ .other = other, .map = MAP_FAILED };
	scene->fd = handshake(HETSIM_PATH);
	scene->file = other->open();
	CHECK_FATAL(scene->fd >= 0 && scene->file >= 0);
	scene->own = hetsim_make(scene->fd);
	scene->dmabuf = other->make(scene->file);
}

/* A call that failed for want of memory works now, whatever it has left. */
static void use(struct scene *scene)
{
	unsigned char byte = 1, back = 0;

	CHECK_EQUAL(run_import(scene), 0);
	CHECK_EQUAL(hetsim_pwrite(scene->fd, &byte, 1, scene->import.offset + SIZE - 1), 1);
	CHECK_EQUAL(hetsim_pread(scene->fd, &back, 1, scene->import.offset + SIZE - 1), 1);
	CHECK_EQUAL(back, 1);
}

static void tidy(struct scene *scene, int nth_file)
{
	use(scene);
	if (scene->map != MAP_FAILED)
		munmap(scene->map, SIZE);
	CHECK_EQUAL(close_range((unsigned int)nth_file + 1, ~0u, 0), 0);
	CHECK_EQUAL(hetsim_objects(), 0);
	CHECK(hetsim_objects_of(HETSIM_SECOND) <= 0);
}

static void walk(const struct step *step, const struct other *other, int nth_file)
{
	struct scene scene;
	bool injected = true;
	char name[64];
	unsigned int nth;

	snprintf(name, sizeof(name), "%s, %s", step->name, other->name);
	for (nth = 1; injected && nth < FAIL_NTH_MOST; nth++) {
		set_up(&scene, other);
		step->before(&scene);
		injected = fail_nth_run(nth_file, name, nth, step->run, &scene);
		tidy(&scene, nth_file);
	}
	fail_nth_enough(name, nth, step->least);
}

static void walk_other(const struct other *other)
{
	int nth_file = fail_nth_open(), fd, file;
	size_t i;

	if (nth_file < 0)
		return;
	fd = hetsim_open(O_RDWR);
	file = other->open();
	if (fd >= 0 && file < 0)
		test_skip("kernel", "there is no %s", other->name);
	close_range((unsigned int)nth_file + 1, ~0u, 0);
	if (fd >= 0 && file >= 0)
		for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			walk(&steps[i], other, nth_file);
	close(nth_file);
}

static void test_second(void)
{
	walk_other(&others[0]);
}

static void test_vgem(void)
{
	walk_other(&others[1]);
}

static const struct test tests[] = {
	{ "second", test_second, 30, TEST_ONCE },
	{ "vgem", test_vgem, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_failslab_import", tests)
