// SPDX-License-Identifier: MIT
/* DRM nodes of a real kernel: virtio_gpu's render node, vgem's card node. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drm/drm_support.h"
#include "lib/peer.h"
#include "lib/support.h"

#define SIZE (16 * PAGE)

static struct hm_device *open_vgem(void)
{
	char name[80];

	return rig_device(drm_vgem_name(name, sizeof(name)));
}

static struct hm_buffer *make(struct hm_device *device, uint64_t size, struct hm_map **ret_map)
{
	struct hm_buffer *buffer;

	buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = size, .max_size = 4 * size));
	if (ret_map)
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	return buffer;
}

static bool says(const char *text)
{
	if (strstr(hm_errmsg(), text))
		return true;
	test_fail(__FILE__, __LINE__, "\"%s\" lacks \"%s\"", hm_errmsg(), text);
	return false;
}

/* ---- names ---- */

static void names(void)
{
	struct drm_found node = drm_find("virtio_gpu", false);
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *none = NULL;
	char path[80], address[80], link[200];
	const char *const all[] = { path, address, link, "drm:virtio_gpu", "drm:virtio_gpu#0" };
	size_t i;

	snprintf(path, sizeof(path), "drm:%s", node.path);
	snprintf(address, sizeof(address), "drm:%s", node.address);
	CHECK(!strncmp(node.address, "pci-", 4));
	CHECK_EQUAL(node.vendor, 0x1af4);
	/* Another name of the node, as /dev/dri/by-path has. */
	snprintf(link, sizeof(link), "drm:/tmp/hetmap-node-%d", getpid());
	CHECK_FATAL(!symlink(node.path, link + 4));
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		AUTO(hm_device) *device = rig_device(all[i]);
		CHECK_OK(hm_device_query(device, &info));
		CHECK(!strcmp(info.name, path));
		CHECK(strstr(info.description, "virtio_gpu"));
	}
	unlink(link + 4);
	CHECK_ERROR(-ENODEV, hm_device_open("drm:virtio_gpu#1", &none));
	CHECK(!none);
}

/* Only card nodes make dumb buffers: the name of such a driver means its card node. */
static void card_nodes(void)
{
	struct hm_device *device = NULL;
	char name[80], card[84];

	CHECK_OK_FATAL(hm_device_open("drm:vgem", &device));
	CHECK(!strcmp(device_info(device).name, drm_vgem_name(name, sizeof(name))));
	hm_device_unref(device);
	device = NULL;
	snprintf(card, sizeof(card), "\"%s\"", name);
	snprintf(name, sizeof(name), "drm:%s", drm_find("vgem", false).path);
	CHECK_ERROR(-EACCES, hm_device_open(name, &device));
	says(card);
	CHECK(!device);
}

/* A node, the device of that name, and the remedy for a refusal. */
struct barred {
	const char *path, *name, *driver, *remedy;
};

static void as_nobody(void *user)
{
	const struct barred *node = user;
	struct hm_device *device = NULL;

	CHECK_FATAL(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
	CHECK_ERROR(-EACCES, hm_device_open(node->name, &device));
	says(node->path);
	says(node->driver);
	says("EACCES");
	says(node->remedy);
	CHECK(!device);
}

static void bar(const struct barred *node)
{
	struct stat st;

	if (stat(node->path, &st))
		return; /* Linux 6.1 lacks some */
	CHECK_FATAL(!chmod(node->path, 0660));
	CHECK_EQUAL(test_fork(as_nobody, (void *)node), 0);
	CHECK(!chmod(node->path, st.st_mode));
}

static void lists_as_nobody(void *user)
{
	struct drm_found node;

	(void)user;
	CHECK_FATAL(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
	node = drm_find("virtio_gpu", false);
	CHECK_EQUAL(node.error, -EACCES);
	CHECK(strstr(node.remedy, "group render"));
}

static void not_permitted(void)
{
	struct drm_found render = drm_find("virtio_gpu", false);
	struct drm_found card = drm_find("virtio_gpu", true), vgem = drm_find("vgem", true);
	char names[3][80];
	const struct barred nodes[] = {
		{ render.path, names[0], "virtio_gpu", "group render" },
		{ render.path, "drm:virtio_gpu", "virtio_gpu", "--group-add" },
		{ card.path, names[1], "virtio_gpu", "group video" },
		{ vgem.path, names[2], "", "group video" },
		{ "/dev/dma_heap/system", "heap:system", "", "chmod a+r" },
		{ "/dev/udmabuf", "udmabuf", "", "join the group" },
	};
	struct stat st;
	size_t i;

	snprintf(names[0], sizeof(names[0]), "drm:%s", render.path);
	snprintf(names[1], sizeof(names[1]), "drm:%s", card.path);
	snprintf(names[2], sizeof(names[2]), "drm:%s", vgem.path);
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		bar(&nodes[i]);
	CHECK_FATAL(!stat(render.path, &st) && !chmod(render.path, 0660));
	CHECK_EQUAL(test_fork(lists_as_nobody, NULL), 0);
	CHECK(!chmod(render.path, st.st_mode));
}

/* As in a container whose /dev is none: even root may not open its nodes. */
static void in_container(void *user)
{
	char folder[] = "/tmp/hetmap-dev-XXXXXX", path[80], name[90];
	const struct drm_found *node = user;
	struct hm_device *device = NULL;
	struct stat st;

	CHECK_FATAL(!unshare(CLONE_NEWNS) && mkdtemp(folder) && !stat(node->path, &st));
	CHECK_FATAL(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	CHECK_FATAL(!mount("dev", folder, "tmpfs", MS_NODEV, NULL));
	snprintf(path, sizeof(path), "%s/renderD128", folder);
	CHECK_FATAL(!mknod(path, S_IFCHR | 0666, st.st_rdev));
	snprintf(name, sizeof(name), "drm:%s", path);
	CHECK_ERROR(-EACCES, hm_device_open(name, &device));
	says(path);
	says("EACCES");
	says("in a container");
	/* Without a node at all. */
	CHECK_FATAL(!unlink(path));
	CHECK_ERROR(-ENODEV, hm_device_open(name, &device));
	says(path);
	says("ENOENT");
	says("--device");
	CHECK(!device);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}

static void containers(void)
{
	struct drm_found node = drm_find("virtio_gpu", false);

	CHECK_EQUAL(test_fork(in_container, &node), 0);
}

/* ---- sharing ---- */

/* One object for each handle of the kernel's, however often it comes in. */
static void evil_twins(void)
{
	struct hm_device *device = rig_device("drm:virtio_gpu");
	struct hm_map *map, *map_of[2];
	struct hm_buffer *buffer = make(device, SIZE, &map), *twin[2];
	int fd, i;

	pattern_write(hm_map_address(map), 0, SIZE, 1);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &twin[i]));
	close(fd);
	/* The maker's end must not close files that the others hold. */
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_buffer_unref(twin[1]);
	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(hm_map_create(twin[0], NULL, &map_of[i]));
	CHECK(pattern_holds(hm_map_address(map_of[0]), 0, SIZE, 1));
	pattern_write(hm_map_address(map_of[1]), 0, SIZE, 2);
	CHECK(pattern_holds(hm_map_address(map_of[0]), 0, SIZE, 2));
	hm_map_unref(map_of[0]);
	hm_buffer_unref(twin[0]);
	hm_device_unref(device);
	CHECK(pattern_holds(hm_map_address(map_of[1]), 0, SIZE, 2));
	hm_map_unref(map_of[1]);
}

static void between(struct hm_device *from, struct hm_device *to)
{
	struct hm_map *map;
	struct hm_buffer *buffer = make(from, SIZE, &map), *other = NULL;
	int fd, r;

	pattern_write(hm_map_address(map), 0, SIZE, 3);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	r = hm_buffer_import(to, fd, NULL, &other);
	close(fd);
	if (r) {
		/* virtio_gpu takes in its own only, up to Linux 6.13. */
		CHECK_EQUAL(r, -EOPNOTSUPP);
		says("virtio_gpu imports its own dma-bufs only");
	} else {
		CHECK_EQUAL(buffer_info(other).size, SIZE);
		AUTO(hm_map) *other_map = rig_map(other, NULL);
		hm_map_unref(map);
		hm_buffer_unref(buffer);
		CHECK(pattern_holds(hm_map_address(other_map), 0, SIZE, 3));
		hm_buffer_unref(other);
		return;
	}
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static void devices_share(void)
{
	AUTO(hm_device) *gpu = rig_device("drm:virtio_gpu");
	AUTO(hm_device) *vgem = open_vgem();

	between(gpu, vgem);
	between(vgem, gpu);
	between(vgem, vgem);
}

/* Each import of a dma-buf shows its bytes, wherever a map begins or is cut. */
static void check_shown(struct hm_device *to, const char *name, int fd)
{
	struct hm_map_desc part = {
		.struct_size = sizeof(part),
		.access = HM_READ,
		.offset = 4 * PAGE,
		.length = 8 * PAGE,
	};
	AUTO(hm_buffer) *buffer = NULL;
	int r = hm_buffer_import(to, fd, NULL, &buffer);

	if (r) {
		/* virtio_gpu takes in its own only, up to Linux 6.13. */
		CHECK(r == -EOPNOTSUPP && says("its own dma-bufs only"));
		return;
	}
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK_OK(hm_map_protect(map, 3 * PAGE, 2 * PAGE, HM_READ));
	AUTO(hm_map) *later = rig_map(buffer, &part);
	CHECK_OK(hm_map_protect(later, PAGE, PAGE, HM_NONE));
	CHECK_OK(hm_map_protect(later, PAGE, PAGE, HM_READ));
	if (!pattern_holds(hm_map_address(map), 0, SIZE, 3))
		test_fail(__FILE__, __LINE__, "%s shows other bytes in a map that was cut",
			  name);
	if (!pattern_holds((char *)hm_map_address(later) - part.offset, part.offset, 12 * PAGE,
			   3))
		test_fail(__FILE__, __LINE__, "%s shows other bytes in a map of a part", name);
}

static void shown_by_all(struct hm_device *from)
{
	char vgem[80];
	const char *const names[] = {
		"host",  "heap:system",    "udmabuf",
		"sim:0", "drm:virtio_gpu", drm_vgem_name(vgem, sizeof(vgem)),
	};
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = make(from, SIZE, &map);
	struct hm_device *to;
	size_t i;
	int fd;

	pattern_write(hm_map_address(map), 0, SIZE, 3);
	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		/* Linux 6.1 lacks two of them. */
		if (hm_device_open(names[i], &to))
			continue;
		check_shown(to, names[i], fd);
		hm_device_unref(to);
	}
	close(fd);
}

static void same_bytes_everywhere(void)
{
	AUTO(hm_device) *gpu = rig_device("drm:virtio_gpu");
	AUTO(hm_device) *vgem = open_vgem();

	shown_by_all(gpu);
	shown_by_all(vgem);
}

/* ---- memory ---- */

static uint64_t shared_memory(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Shmem: %llu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib << 10;
}

/* A host may have to agree first. */
static bool falls_below(uint64_t limit)
{
	int tries;

	for (tries = 0; shared_memory() >= limit && tries < 200; tries++)
		usleep(50000);
	return tries < 200;
}

static void shrinking_frees(struct hm_device *device)
{
	const uint64_t size = 48ull << 20, most = 8ull << 20;
	uint64_t before = shared_memory();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = make(device, size, &map);

	pattern_write(hm_map_address(map), 0, size, 1);
	CHECK(shared_memory() - before > size - most);
	CHECK_OK(hm_buffer_resize(buffer, PAGE, 0));
	CHECK(falls_below(before + most));
	CHECK(pattern_holds(hm_map_address(map), 0, PAGE, 1));
}

static void shrinking_gives_back(void)
{
	AUTO(hm_device) *gpu = rig_device("drm:virtio_gpu");
	AUTO(hm_device) *vgem = open_vgem();
	uint64_t before = shared_memory();

	shrinking_frees(gpu);
	CHECK(falls_below(before + (1 << 20)));
	shrinking_frees(vgem);
}

static void check_too_large(struct hm_device *device, const char *driver, const char *remedy)
{
	struct hm_buffer *buffer = NULL;

	CHECK_ERROR(-ENOSPC, hm_buffer_create(device, DESC(hm_buffer_desc, .size = 5ull << 30),
					      &buffer));
	says("5368709120");
	says("/dev/dri/");
	says(driver);
	says("ENOSPC");
	says(remedy);
	CHECK(!buffer);
	hm_device_unref(device);
}

static void too_large(void)
{
	check_too_large(rig_device("drm:virtio_gpu"), "virtio_gpu",
			"more than a buffer without blobs");
	check_too_large(open_vgem(), "vgem", "HM_GROW_APPEND");
}

static void many_exports(void)
{
	AUTO(hm_device) *device = rig_device("drm:virtio_gpu");
	AUTO(hm_buffer) *buffer = make(device, SIZE, NULL);
	uint64_t before = shared_memory();
	int i, fd;

	for (i = 0; i < 1000; i++) {
		CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
		close(fd);
	}
	CHECK(shared_memory() <= before + (1 << 20));
}

/* ---- taken away ---- */

static void tell_driver(const char *what, const char *address)
{
	char path[80];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/virtio-pci/%s", what);
	file = fopen(path, "we");
	CHECK_FATAL(file);
	fputs(address, file);
	CHECK(!fclose(file));
}

struct writer {
	pthread_t thread;
	volatile char *bytes;
	_Atomic bool stop;
};

static void *keep_writing(void *user)
{
	struct writer *writer = user;
	uint64_t at = 0;

	while (!writer->stop) {
		writer->bytes[at] = (char)at;
		at = (at + 61) % SIZE;
	}
	return NULL;
}

/* Unbound from its driver, with live maps, an exported dma-buf and a writing thread. */
static void unbound(void)
{
	struct drm_found node = drm_find("virtio_gpu", false);
	struct hm_device *device = rig_device("drm:virtio_gpu"), *none = NULL;
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct writer writer = { 0 };
	struct hm_map *map, *second = NULL, *further = NULL;
	struct hm_buffer *buffer = make(device, SIZE, &map), *other;
	struct hm_pointer_info found;
	char name[80], *base = hm_map_address(map), *shared;
	int fd, exported, tries;
	struct peer peer;

	other = make(device, SIZE, &second);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &exported));
	pattern_write(base, 0, SIZE, 1);
	peer_start(&peer, SOCK_STREAM, "host");
	send_fd(peer.socket, exported);
	CHECK_EQUAL(peer_call(&peer, peer_import, 0, 0, 0), 0);
	writer.bytes = hm_map_address(second);
	CHECK_FATAL(!pthread_create(&writer.thread, NULL, keep_writing, &writer));
	tell_driver("unbind", node.address + 4);

	/* mmap() is the first to hear of it. */
	CHECK_ERROR(-ENODEV, hm_map_create(buffer, NULL, &further));
	CHECK(hm_map_address(map) == base);
	CHECK(is_zero(base, 0, SIZE));
	CHECK_EQUAL(hm_pointer_find(base, &found), 0);
	CHECK_EQUAL(found.generation, 1);
	CHECK_ERROR(-ENODEV, hm_map_protect(map, 0, PAGE, HM_READ));
	CHECK_ERROR(-ENODEV, hm_buffer_resize(buffer, 2 * SIZE, 0));
	CHECK_ERROR(-ENODEV, hm_buffer_resize(other, PAGE, 0));
	CHECK_ERROR(-ENODEV, hm_buffer_export(other, 0, &fd));
	CHECK_ERROR(-ENODEV, hm_device_query(device, &info));
	says("taken away");
	base[5] = 5; /* zeros of its own, which it may write */
	/* The memory is others', too: the dma-buf and its maps keep it. */
	CHECK_EQUAL(peer_call(&peer, peer_holds, 0, SIZE, 1), 1);
	CHECK_EQUAL(peer_call(&peer, peer_write, 0, SIZE, 2), 0);
	shared = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, exported, 0);
	CHECK_FATAL(shared != MAP_FAILED);
	CHECK(pattern_holds(shared, 0, SIZE, 2));
	munmap(shared, SIZE);
	writer.stop = true;
	pthread_join(writer.thread, NULL);
	snprintf(name, sizeof(name), "drm:%s", node.path);
	CHECK_ERROR(-ENODEV, hm_device_open(name, &none));
	CHECK(!none && !further);
	hm_device_unref(device);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_map_unref(second);
	hm_buffer_unref(other);
	close(exported);
	CHECK_EQUAL(peer_call(&peer, peer_holds, 0, SIZE, 2), 1);
	peer_stop(&peer);

	tell_driver("bind", node.address + 4);
	for (tries = 0; tries < 100 && hm_device_open("drm:virtio_gpu", &device); tries++)
		usleep(50000);
	CHECK_FATAL(tries < 100);
	chmod(drm_find("virtio_gpu", false).path, 0666); /* as tests/vm/init does it */
	hm_buffer_unref(make(device, SIZE, NULL));
	hm_device_unref(device);
}

/* The handler has nothing to do, and takes nothing for the end of a file. */
static void unbound_handled(void)
{
	struct hm_handler_info info = { .struct_size = sizeof(info) };
	AUTO(rig_handler) handler = rig_handler(0);

	unbound();
	CHECK_OK(hm_handler_query(&info));
	CHECK_EQUAL(info.guarded + info.repaired + info.forwarded, 0);
}

static void set_loss(struct hm_buffer *buffer, uint32_t policy, uint32_t flags)
{
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = policy,
						       .flags = flags)));
}

static void write_bracket(struct hm_map *map, uint32_t salt)
{
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_WRITE));
	pattern_write(hm_map_address(map), 0, SIZE, salt);
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_WRITE));
}

/* The driver goes and comes: the policies promise this for a device that was never ours. */
static void bound_again(void)
{
	struct drm_found node = drm_find("virtio_gpu", false);
	AUTO(hm_device) *device = rig_device("drm:virtio_gpu");
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_recover_info back = { .struct_size = sizeof(back) };
	AUTO(hm_map) *kept = NULL;
	AUTO(hm_map) *made = NULL;
	AUTO(hm_buffer) *shadowed = make(device, SIZE, &kept);
	AUTO(hm_buffer) *recreated = make(device, SIZE, &made);
	char *at = hm_map_address(kept), *other = hm_map_address(made);
	int tries, r;

	set_loss(shadowed, HM_LOSS_SHADOW, 0);
	set_loss(recreated, HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW);
	write_bracket(kept, 1);
	write_bracket(made, 2);
	tell_driver("unbind", node.address + 4);
	CHECK_ERROR(-ENODEV, hm_device_query(device, &info));
	CHECK_ERROR(-ENODEV, hm_device_recover(device, HM_RECOVER_SHADOWED, &back));
	CHECK(pattern_holds(at, 0, SIZE, 1));
	CHECK(pattern_holds(other, 0, SIZE, 2));

	tell_driver("bind", node.address + 4);
	for (tries = 0; tries < 100; tries++) {
		chmod(drm_find("virtio_gpu", false).path, 0666); /* as tests/vm/init does it */
		r = hm_device_recover(device, HM_RECOVER_SHADOWED, &back);
		if (!r)
			break;
		usleep(50000);
	}
	CHECK_FATAL(tries < 100);
	CHECK_EQUAL(back.buffers, 2);
	CHECK_EQUAL(back.buffers_back, 2);
	CHECK_EQUAL(back.maps_back, 2);
	CHECK_EQUAL(back.bytes_shadow, 2 * SIZE);
	CHECK_EQUAL(back.error, 0);
	CHECK(hm_map_address(kept) == at && hm_map_address(made) == other);
	CHECK(pattern_holds(at, 0, SIZE, 1));
	CHECK(pattern_holds(other, 0, SIZE, 2));
	/* The maps show the device's memory again. */
	write_bracket(kept, 3);
	CHECK_OK(hm_device_query(device, &info));
	CHECK_OK(hm_buffer_resize(shadowed, 2 * SIZE, 0));
	CHECK(pattern_holds(hm_map_address(kept), 0, SIZE, 3));
}

static const struct test tests[] = {
	{ "names", names, 0, 0 },
	{ "card_nodes", card_nodes, 0, 0 },
	{ "not_permitted", not_permitted, 0, 0 },
	{ "containers", containers, 0, 0 },
	{ "evil_twins", evil_twins, 0, 0 },
	{ "devices_share", devices_share, 0, 0 },
	{ "same_bytes_everywhere", same_bytes_everywhere, 0, 0 },
	{ "shrinking_gives_back", shrinking_gives_back, 0, 0 },
	{ "too_large", too_large, 0, 0 },
	{ "many_exports", many_exports, 0, 0 },
	{ "unbound", unbound, 60, 0 },
	{ "unbound_handled", unbound_handled, 60, 0 },
	{ "bound_again", bound_again, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "drm_nodes", tests)
