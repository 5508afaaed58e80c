// SPDX-License-Identifier: MIT
/*
 * hetsim: the driver is taken from a device and given back by sysfs, idle, under everything that
 * is open, and under load. HETMAP_UNBINDS: so many times under load, 100 for the long form.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/vgem_support.h"

#define BUS "/sys/bus/platform/"
#define DRIVER BUS "drivers/hetsim/"
#define DEVICE BUS "devices/hetsim.0"

/* 0 or a negative errno. */
static int tell(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int unbind(void)
{
	return tell(DRIVER "unbind", "hetsim.0");
}

static int bind(void)
{
	return tell(DRIVER "bind", "hetsim.0");
}

static bool is_there(const char *path)
{
	return !access(path, F_OK);
}

static bool may_bind(void)
{
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return false;
	hetsim_close(fd);
	if (access(DRIVER "unbind", W_OK)) {
		test_skip("kernel", "only root may write to " DRIVER "unbind");
		return false;
	}
	return true;
}

/* ---- the device in sysfs ---- */

static void check_driver(const char *device, const char *expected)
{
	char path[128], target[256] = "";

	snprintf(path, sizeof(path), "%s/driver", device);
	CHECK(readlink(path, target, sizeof(target) - 1) > 0);
	CHECK(strrchr(target, '/') && !strcmp(strrchr(target, '/') + 1, expected));
}

static void test_tree(void)
{
	TEST_NEEDS(may_bind());
	check_driver(DEVICE, "hetsim");
	CHECK(is_there(DEVICE "/misc/hetsim0/dev"));
	CHECK_EQUAL(bind(), -EBUSY);
	CHECK_EQUAL(unbind(), 0);
	CHECK(is_there(DEVICE) && !is_there(DEVICE "/driver") && !is_there(DEVICE "/misc"));
	CHECK(!is_there("/sys/kernel/debug/hetsim/hetsim0") && !is_there(HETSIM_PATH));
	CHECK_EQUAL(unbind(), -ENODEV);
	CHECK_EQUAL(bind(), 0);
	check_driver(DEVICE, "hetsim");
	CHECK(is_there(DEVICE "/misc/hetsim0/dev") && is_there(HETSIM_PATH));
}

/* An unplugged device is none that a driver could be bound to. */
static void test_unplugged(void)
{
	int fd;

	TEST_NEEDS(may_bind());
	fd = hetsim_open(O_RDWR);
	TEST_NEEDS(hetsim_may_unplug(fd));
	CHECK_EQUAL(unbind(), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -ENODEV);
	CHECK_EQUAL(tell("/sys/kernel/debug/hetsim/plug", "0"), -EEXIST);
	CHECK_EQUAL(bind(), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -ENODEV);
	hetsim_close(fd);

	fd = hetsim_open(O_RDWR);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK(!is_there(DEVICE));
	CHECK_EQUAL(bind(), -ENODEV);
	hetsim_plug();
	check_driver(DEVICE, "hetsim");
	hetsim_close(fd);
}

/* An administrator may name this driver for any device of the bus: it takes its own only. */
static void test_others(void)
{
	char path[256] = "", *name = NULL;
	glob_t found;
	size_t i;

	TEST_NEEDS(may_bind());
	CHECK_EQUAL(glob(BUS "devices/*", 0, NULL, &found), 0);
	for (i = 0; i < found.gl_pathc && !name; i++) {
		snprintf(path, sizeof(path), "%s/driver", found.gl_pathv[i]);
		if (!is_there(path))
			name = strrchr(found.gl_pathv[i], '/') + 1;
	}
	CHECK_FATAL(name);
	snprintf(path, sizeof(path), BUS "devices/%s/driver_override", name);
	CHECK_EQUAL(tell(path, "hetsim"), 0);
	CHECK_EQUAL(tell(DRIVER "bind", name), -ENODEV);
	CHECK_EQUAL(tell(path, "\n"), 0);
	globfree(&found);
}

/* ---- under what is open ---- */

static int fence_of_stuck(int fd, uint32_t queue)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence), .queue = queue };
	struct hetsim_command nothing = { 0 };
	uint64_t seqno = 0;

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	return fence.fd;
}

/* As if it had been unplugged; a device bound then has no objects of it. */
static void test_open(void)
{
	struct hetsim_query query = { .size = sizeof(query) };
	struct hetsim_buffer zeros, signals;
	struct pollfd fence = { .events = POLLIN };
	struct hetsim_import import;
	int fd, other, fresh, dmabuf;

	TEST_NEEDS(may_bind());
	fd = hetsim_open_zero();
	if (fd < 0)
		return;
	other = hetsim_open(O_RDWR);
	zeros = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	signals = hetsim_buffer_make(other, MIB(1), HETSIM_PLACE_SYSTEM);
	memset(zeros.bytes, 1, MIB(1));
	memset(signals.bytes, 2, MIB(1));
	dmabuf = hetsim_export(other, signals.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	fence.fd =
		fence_of_stuck(other, hetsim_queue_make(other, HETSIM_QUEUE_DMA_FENCE, 60000));

	CHECK_EQUAL(unbind(), 0);
	CHECK_EQUAL(poll(&fence, 1, 10000), 1);
	hetsim_fence_check(fence.fd, -ENODEV);
	close(fence.fd);
	CHECK_EQUAL(zeros.bytes[0], 0);
	CHECK_EQUAL(test_read_signal(signals.bytes), SIGBUS);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), -ENODEV);
	CHECK(hetsim_open_try(O_RDWR) < 0);

	CHECK_EQUAL(bind(), 0);
	CHECK_EQUAL(hetsim_objects(), 0);
	fresh = hetsim_open(O_RDWR);
	CHECK_FATAL(fresh >= 0);
	CHECK_EQUAL(hetsim_query(fresh).vram_used, 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), -ENODEV);
	CHECK_EQUAL(hetsim_import(fresh, dmabuf, &import), -EOPNOTSUPP);
	hetsim_munmap(zeros.bytes, MIB(1));
	hetsim_munmap(signals.bytes, MIB(1));
	close(dmabuf);
	hetsim_close(fresh);
	hetsim_close(other);
	hetsim_close(fd);
}

/* ---- under load ---- */

#define LOADS 3
#define DEFAULT_UNBINDS 10

struct load {
	pthread_t thread;
	int vgem; /* -1: there is none */
	_Atomic bool stop;
	unsigned long opened;
};

/* Work with a fence; every third one hangs, until its time is up or the device goes. */
static void load_queue(int fd, struct hetsim_buffer *buffer, unsigned long n)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL,
					  .destination = (uintptr_t)buffer->bytes,
					  .length = MIB(1),
					  .value = 1 };
	struct hetsim_queue_create queue = { .size = sizeof(queue), .timeout_ms = 100 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct pollfd wait = { .events = POLLIN };
	uint64_t seqno;

	if (hetsim_call(fd, HETSIM_QUEUE_CREATE, &queue))
		return;
	if (n % 3 == 0)
		hetsim_inject(fd, HETSIM_INJECT_STUCK, queue.queue, 1);
	if (hetsim_submit(fd, queue.queue, &command, 1, &seqno))
		return;
	fence.queue = queue.queue;
	fence.seqno = seqno;
	if (hetsim_call(fd, HETSIM_FENCE_FD, &fence))
		return;
	wait.fd = fence.fd;
	poll(&wait, 1, 10000);
	CHECK(wait.revents & POLLIN);
	close(fence.fd);
}

/* Imports begin and end as the device goes. */
static void load_import(int fd, int foreign)
{
	struct hetsim_import import;

	if (foreign >= 0 && !hetsim_import(fd, foreign, &import))
		hetsim_close_handle(fd, import.handle);
}

static void load_buffer(int fd, struct hetsim_buffer *buffer, unsigned long n)
{
	int dmabuf;

	hetsim_bind(fd, buffer, HETSIM_BIND_WRITE);
	memset(buffer->bytes, 1, MIB(1));
	dmabuf = hetsim_export(fd, buffer->handle, HETSIM_EXPORT_WRITE);
	load_queue(fd, buffer, n);
	if (dmabuf >= 0)
		close(dmabuf);
}

static void *load_run(void *user)
{
	struct load *load = user;
	int foreign = load->vgem >= 0 ? vgem_make(load->vgem, MIB(1), O_RDWR) : -1;

	while (!load->stop) {
		struct hetsim_buffer buffer;
		int fd = hetsim_open_try(O_RDWR);

		if (fd < 0) {
			sched_yield();
			continue;
		}
		load->opened++;
		hetsim_call(fd, HETSIM_HANDSHAKE,
			    SIZED(hetsim_handshake, .flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
				  .version_major = HETSIM_VERSION_MAJOR));
		load_import(fd, foreign);
		if (!hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer) &&
		    !hetsim_mmap(fd, MIB(1), PROT_READ | PROT_WRITE, buffer.offset,
				 &buffer.bytes)) {
			load_buffer(fd, &buffer, load->opened);
			hetsim_munmap(buffer.bytes, MIB(1));
		}
		hetsim_close(fd);
	}
	if (foreign >= 0)
		close(foreign);
	return NULL;
}

static unsigned int unbinds(void)
{
	const char *text = getenv("HETMAP_UNBINDS");

	return text ? (unsigned int)strtoul(text, NULL, 10) : DEFAULT_UNBINDS;
}

static void test_under_load(void)
{
	struct load loads[LOADS] = { 0 };
	unsigned int i, round, n = unbinds();
	glob_t lost;
	int vgem;

	TEST_NEEDS(may_bind());
	vgem = vgem_open();
	for (i = 0; i < LOADS; i++) {
		loads[i].vgem = vgem;
		CHECK_FATAL(!pthread_create(&loads[i].thread, NULL, load_run, &loads[i]));
	}
	for (round = 0; round < n; round++) {
		usleep((useconds_t)(round % 4) * 20000);
		CHECK_EQUAL(unbind(), 0);
		CHECK(!is_there(HETSIM_PATH));
		CHECK_EQUAL(bind(), 0);
		CHECK(is_there(HETSIM_PATH));
	}
	for (i = 0; i < LOADS; i++) {
		loads[i].stop = true;
		pthread_join(loads[i].thread, NULL);
		CHECK(loads[i].opened > 0);
	}
	if (vgem >= 0)
		close(vgem);
	CHECK_EQUAL(hetsim_objects(), 0);
	CHECK_EQUAL(glob("/sys/kernel/debug/hetsim/*.lost*", 0, NULL, &lost), GLOB_NOMATCH);
}

static const struct test tests[] = {
	{ "bind_tree", test_tree, 0, 0 },
	{ "bind_unplugged", test_unplugged, 0, 0 },
	{ "bind_others", test_others, 0, 0 },
	{ "bind_open", test_open, 60, 0 },
	{ "bind_under_load", test_under_load, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_bind", tests, NULL)
