// SPDX-License-Identifier: MIT
/*
 * Lifetimes where real drivers hold the memory: processes, handles, files and modules end in any
 * order. The rest stays whole, and in the end nothing is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dmabuf/dmabuf_support.h"
#include "drm/drm_support.h"
#include "lib/peer.h"
#include "base/util.h"

#define LARGE MIB(8)
#define THOUSAND 1000

/* ---- the machine's memory ---- */

/* At least @bytes more than @before, or the check below would see nothing. */
static void check_given(const struct given *before, uint64_t bytes)
{
	CHECK(given_now().bytes + GIVEN_NOISE > before->bytes + bytes);
}

/* ---- processes ---- */

static int peer_exports(struct peer_world *world, uint64_t size, uint64_t b, uint64_t c)
{
	world->buffer = make(world->device, size);
	world->map = rig_map(world->buffer, NULL);
	pattern_write(hm_map_address(world->map), 0, size, 1);
	b = (uint64_t)export_of(world->buffer);
	send_fd(world->socket, (int)b);
	close((int)b);
	return (int)c;
}

/* Into its first word, until it is killed. */
static int peer_scribbles(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	volatile uint32_t *word = hm_map_address(world->map);

	(void)a, (void)b, (void)c;
	for (;;)
		++*word;
	return 0;
}

/* In the middle of a write. */
static void kill_scribbler(struct peer *peer, const volatile uint32_t *word)
{
	uint32_t was = *word;

	peer_begin(peer, peer_scribbles, 0, 0, 0);
	while (*word == was)
		usleep(1000);
	peer_kill(peer);
}

/* Two buffers of one dma-buf: by the device itself, and by a device that takes any. */
static struct rig import_by(const char *device, int fd)
{
	struct rig one = { .device = rig_device(device) };

	CHECK_OK_FATAL(hm_buffer_import(one.device, fd, NULL, &one.buffer));
	one.map = rig_map(one.buffer, NULL);
	one.bytes = hm_map_address(one.map);
	return one;
}

static void exporter_killed(void)
{
	struct given before = given_now();
	struct rig own, host;
	struct peer peer;
	int fd;

	peer_start(&peer, SOCK_STREAM, drm_device_of_test());
	CHECK_EQUAL(peer_call(&peer, peer_exports, LARGE, 0, 0), 0);
	fd = receive_fd(peer.socket);
	own = import_by(drm_device_of_test(), fd);
	host = import_by("host", fd);
	close(fd);
	CHECK(pattern_holds(own.bytes, 0, LARGE, 1));
	kill_scribbler(&peer, (uint32_t *)host.bytes);
	check_given(&before, LARGE);
	CHECK(pattern_holds(own.bytes, PAGE, LARGE, 1));
	pattern_write(own.bytes, 0, LARGE, 2);
	CHECK(pattern_holds(host.bytes, 0, LARGE, 2));
	rig_drop(&own);
	CHECK(pattern_holds(host.bytes, 0, LARGE, 2));
	pattern_write(host.bytes, 0, LARGE, 3);
	CHECK_OK(hm_map_begin_cpu(host.map, 0, LARGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(host.map, 0, LARGE, HM_READ));
	check_given(&before, LARGE);
	rig_drop(&host);
	check_given_back(&before);
}

static void importer_killed(void)
{
	struct given before = given_now();
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct peer peer;
	char *bytes;
	int fd;

	peer_start(&peer, SOCK_STREAM, drm_device_of_test());
	device = rig_device(drm_device_of_test());
	buffer = make(device, LARGE);
	map = rig_map(buffer, NULL);
	bytes = hm_map_address(map);
	pattern_write(bytes, 0, LARGE, 1);
	fd = export_of(buffer);
	send_fd(peer.socket, fd);
	close(fd);
	CHECK_EQUAL(peer_call(&peer, peer_import, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_holds, 0, LARGE, 1), 1);
	kill_scribbler(&peer, (uint32_t *)bytes);
	CHECK(pattern_holds(bytes, PAGE, LARGE, 1));
	pattern_write(bytes, 0, LARGE, 2);
	CHECK(pattern_holds(bytes, 0, LARGE, 2));
	check_given(&before, LARGE);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	check_given_back(&before);
}

/* These are never imported. */
static void thousand_exports(void)
{
	struct given before = given_now();
	struct hm_device *device = rig_device(drm_device_of_test());
	int i;

	for (i = 0; i < THOUSAND; i++) {
		AUTO(hm_buffer) *buffer = make(device, 16 * PAGE);
		close(export_of(buffer));
	}
	check_given_back(&before);
	hm_device_unref(device);
	check_given_back(&before);
}

/*
 * The program that takes over has no descriptor and no map of ours, nor has one that is
 * started beside.
 */
#define LOOK                                                            \
	"! { ls -l /proc/$$/fd; cat /proc/$$/maps; } |"                 \
	" grep -E '/dev/dri|/dev/dma_heap|/dev/udmabuf|dmabuf|hetmap:'" \
	" | grep -v '\\.so'"

static void execs(void *user)
{
	struct hm_device *device = rig_device(user);
	struct hm_buffer *buffer = make(device, LARGE);

	pattern_write(hm_map_address(rig_map(buffer, NULL)), 0, LARGE, 1);
	export_of(buffer);
	execl("/bin/sh", "sh", "-c", LOOK, NULL);
	_exit(1);
}

static void exec_ends(void)
{
	struct given before = given_now();
	struct hm_device *device = rig_device(drm_device_of_test());
	struct hm_buffer *buffer = make(device, SIZE);
	struct hm_map *map = rig_map(buffer, NULL);
	int fd = export_of(buffer);

	pattern_write(hm_map_address(map), 0, SIZE, 1);
	CHECK_EQUAL(system(LOOK), 0);
	CHECK_EQUAL(test_fork(execs, (void *)drm_device_of_test()), 0);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	close(fd);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	check_given_back(&before);
}

/* ---- handles and files ---- */

/* The map is all that is left, and is touched for the first time then. */
static void map_outlives(void)
{
	struct given before = given_now();
	struct hm_device *device = rig_device(drm_device_of_test());
	struct hm_buffer *buffer = make(device, LARGE);
	struct hm_map *map = rig_map(buffer, NULL);
	char *bytes = hm_map_address(map);

	close(export_of(buffer));
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	CHECK(is_zero(bytes, 0, LARGE));
	pattern_write(bytes, 0, LARGE, 1);
	CHECK(pattern_holds(bytes, 0, LARGE, 1));
	check_given(&before, LARGE);
	hm_map_unref(map);
	check_given_back(&before);
}

/* The same with the kernel's own: no handle, no file, no dma-buf descriptor. */
static void map_outlives_handle(void)
{
	struct given before = given_now();
	struct drm_object *object;
	struct drm_node *node;
	char *bytes, *other;
	int fd;

	CHECK_OK_FATAL(drm_node_get(drm_device_of_test() + strlen("drm:"), &node));
	CHECK_OK_FATAL(drm_object_create(node, LARGE, DRM_PLACE_DEFAULT, &object));
	CHECK_OK_FATAL(drm_object_export(object, true, &fd));
	bytes = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, node->fd,
		     (off_t)object->map_offset);
	other = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_FATAL(bytes != MAP_FAILED && other != MAP_FAILED);
	drm_object_put(object);
	drm_node_put(node);
	close(fd);
	pattern_write(bytes, 0, LARGE, 1);
	CHECK(pattern_holds(other, 0, LARGE, 1));
	munmap(bytes, LARGE);
	CHECK(pattern_holds(other, 0, LARGE, 1));
	pattern_write(other, 0, LARGE, 2);
	check_given(&before, LARGE);
	munmap(other, LARGE);
	check_given_back(&before);
}

/* ---- the driver's module ---- */

static int unload(void)
{
	return syscall(SYS_delete_module, "vgem", O_NONBLOCK) ? -errno : 0;
}

/* An open node, a map and a dma-buf keep vgem, each by itself; then it goes, and comes. */
static void module_stays(void)
{
	char name[80];
	AUTO(hm_device) *device = rig_device(drm_vgem_name(name, sizeof(name)));
	struct hm_buffer *buffer;
	struct hm_map *map;
	int fd;

	CHECK_EQUAL(unload(), -EAGAIN);
	buffer = make(device, SIZE);
	map = rig_map(buffer, NULL);
	fd = export_of(buffer);
	hm_device_unref(device);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(unload(), -EAGAIN);
	pattern_write(hm_map_address(map), 0, SIZE, 1);
	hm_map_unref(map);
	CHECK_EQUAL(unload(), -EAGAIN);
	device = rig_device("host");
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &buffer));
	close(fd);
	map = rig_map(buffer, NULL);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	CHECK_EQUAL(unload(), -EAGAIN);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	hm_map_unref(map);

	CHECK_EQUAL(unload(), 0);
	device = NULL;
	CHECK_ERROR(-ENODEV, hm_device_open(name, &device));
	CHECK(strstr(hm_errmsg(), name + strlen("drm:")) && strstr(hm_errmsg(), "ENOENT"));
	CHECK_FATAL(
		!system("busybox insmod $(find /lib/modules/$(uname -r)/ -name 'vgem.ko*')"));
	CHECK(!chmod(drm_find("vgem", true).path, 0666)); /* as tests/vm/init does it */
	CHECK(!chmod(drm_find("vgem", false).path, 0666));
	device = rig_device(drm_vgem_name(name, sizeof(name)));
	hm_buffer_unref(make(device, SIZE));
}

#define ON_DRM(run)                                     \
	{ "host", { #run ".virtio_gpu", run, 60, 0 } }, \
	{                                               \
		"host",                                 \
		{                                       \
#run ".vgem", run, 60, 0        \
		}                                       \
	}
#define ON_EACH(run)                                                  \
	ON_DRM(run), { "heap:system", { #run ".heap", run, 60, 0 } }, \
	{                                                             \
		"udmabuf",                                            \
		{                                                     \
#run ".udmabuf", run, 60, 0                   \
		}                                                     \
	}

static const struct dmabuf_test tests[] = {
	ON_EACH(exporter_killed),
	ON_EACH(importer_killed),
	ON_DRM(thousand_exports), /* the others: tests/dmabuf/test_dmabuf.c */
	ON_EACH(exec_ends),
	ON_EACH(map_outlives),
	ON_DRM(map_outlives_handle),
	{ "host", { "module_stays", module_stays, 60, 0 } },
	{ NULL, { NULL, NULL, 0, 0 } },
};

TEST_MAIN(dmabuf_main, "drm_nodes_lifetimes", tests)
