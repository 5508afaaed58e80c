// SPDX-License-Identifier: MIT
/*
 * hetsim: its dma-bufs in a device that reads and writes memory by itself, as tests/vm/importer
 * drives it: behind an IOMMU, and where all its memory goes through bounce buffers. CPU accesses
 * of another driver. For tests/vm/importers, whose machine has these.
 */
#include <dirent.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/vgem_support.h"
#include "vm/importer/importer.h"

#define SOME 64 /* bytes */

/* Both devices, opened. */
struct devices {
	int fd, importer;
};

/* False: the test was skipped. */
static bool devices_open(struct devices *devices)
{
	devices->fd = hetsim_open(O_RDWR);
	if (devices->fd < 0)
		return false;
	devices->importer = open("/dev/importer", O_RDWR | O_CLOEXEC);
	if (devices->importer >= 0)
		return true;
	test_skip("kernel", "no /dev/importer: tests/vm/importers has a machine with one");
	close(devices->fd);
	return false;
}

static void devices_close(const struct devices *devices)
{
	close(devices->importer);
	close(devices->fd);
}

/* 0 or a negative errno, as for the functions below. */
static int take_in(int importer, int dmabuf)
{
	return ioctl(importer, IMPORTER_ATTACH, &dmabuf) ? -errno : 0;
}

static int let_go(int importer)
{
	return ioctl(importer, IMPORTER_DETACH) ? -errno : 0;
}

static int copy(int importer, unsigned long cmd, uint64_t offset, void *bytes)
{
	struct importer_copy argument = {
		.offset = offset,
		.bytes = (uintptr_t)bytes,
		.length = SOME,
	};

	return ioctl(importer, cmd, &argument) ? -errno : 0;
}

/* A buffer with a dma-buf, whose descriptor the function returns. */
static int export_new(int fd, uint64_t length, uint32_t place, struct hetsim_buffer *ret_buffer)
{
	int dmabuf;

	*ret_buffer = hetsim_buffer_make(fd, length, place);
	dmabuf = hetsim_export(fd, ret_buffer->handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	return dmabuf;
}

/* ---- the kernel's ways with the device's DMA ---- */

/* The device's name on its bus: "0000:00:05.0". */
static void find_device(char *name, size_t size)
{
	DIR *devices = opendir("/sys/bus/pci/drivers/importer");
	struct dirent *entry;

	name[0] = 0;
	CHECK_FATAL(devices);
	while ((entry = readdir(devices))) {
		if (strchr(entry->d_name, ':') && strlen(entry->d_name) < size)
			strcpy(name, entry->d_name);
	}
	closedir(devices);
	CHECK_FATAL(name[0]);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (!done)
		test_fail(__FILE__, __LINE__, "%s: \"%s\": %s", path, text, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/*
 * "DMA": the IOMMU maps only memory for the device, "identity": all memory in its place, as without
 * an IOMMU. With /dev/importer closed.
 */
static void set_domain(const char *type)
{
	char name[64], path[160];

	find_device(name, sizeof(name));
	put("/sys/bus/pci/drivers/importer/unbind", name);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group/type", name);
	put(path, type);
	put("/sys/bus/pci/drivers/importer/bind", name);
}

static void devices_change(struct devices *devices, const char *type)
{
	close(devices->importer);
	set_domain(type);
	devices->importer = open("/dev/importer", O_RDWR | O_CLOEXEC);
	CHECK_FATAL(devices->importer >= 0);
}

/* ---- behind an IOMMU ---- */

/* The device and CPUs see each other's stores to the dma-buf, at its ends. */
static void use(const struct devices *devices, struct hetsim_buffer *buffer,
		unsigned char value)
{
	const uint64_t offsets[] = { 0, buffer->length - SOME };
	unsigned char bytes[SOME], seen[SOME];
	size_t i;

	for (i = 0; i < 2; i++) {
		memset(bytes, value + (int)i, SOME);
		memcpy(buffer->bytes + offsets[i], bytes, SOME);
		CHECK_EQUAL(copy(devices->importer, IMPORTER_READ, offsets[i], seen), 0);
		CHECK(!memcmp(seen, bytes, SOME));
		memset(bytes, value + 2 + (int)i, SOME);
		CHECK_EQUAL(copy(devices->importer, IMPORTER_WRITE, offsets[i], bytes), 0);
		CHECK(!memcmp(buffer->bytes + offsets[i], bytes, SOME));
	}
}

/*
 * An IOMMU maps the pages themselves. The kernel would have them synchronised all the same: 6.1
 * for every device behind one, later kernels for a device of which anything was bounced.
 */
static void test_iommu(void)
{
	struct hetsim_buffer buffer;
	struct devices devices;
	int dmabuf;

	TEST_NEEDS(devices_open(&devices));
	dmabuf = export_new(devices.fd, MIB(1), HETSIM_PLACE_SYSTEM, &buffer);
	CHECK_EQUAL(take_in(devices.importer, dmabuf), 0);
	use(&devices, &buffer, 10);
	CHECK_EQUAL(hetsim_buffer_move(devices.fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EBUSY);
	CHECK_EQUAL(let_go(devices.importer), 0);
	CHECK_EQUAL(hetsim_buffer_move(devices.fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    0);

	CHECK_FATAL(!ioctl(devices.importer, IMPORTER_BOUNCE));
	CHECK_EQUAL(take_in(devices.importer, dmabuf), 0);
	use(&devices, &buffer, 20);
	CHECK_EQUAL(let_go(devices.importer), 0);
	close(dmabuf);
	hetsim_buffer_drop(devices.fd, &buffer);
	devices_close(&devices);
}

/* ---- bounce buffers ---- */

/* An exporter that refuses nothing: the device sees the bytes as they were then. */
static void check_stale(const struct devices *devices)
{
	unsigned char *bytes, seen[SOME];
	int vgem = vgem_open(), dmabuf;

	CHECK_FATAL(vgem >= 0);
	dmabuf = vgem_make(vgem, MIB(1), DRM_RDWR);
	CHECK_FATAL(!hetsim_mmap(dmabuf, MIB(1), PROT_READ | PROT_WRITE, 0, &bytes));
	CHECK_EQUAL(take_in(devices->importer, dmabuf), 0);
	memset(bytes, 0x5a, SOME);
	CHECK_EQUAL(copy(devices->importer, IMPORTER_READ, 0, seen), 0);
	CHECK(memcmp(seen, bytes, SOME));
	CHECK_EQUAL(let_go(devices->importer), 0);
	hetsim_munmap(bytes, MIB(1));
	close(dmabuf);
	close(vgem);
}

struct counting {
	volatile uint64_t *number;
	uint64_t lost; /* stores that another value took the place of */
	bool stop;
};

static void *count(void *argument)
{
	struct counting *counting = argument;
	uint64_t n = 0;

	while (!__atomic_load_n(&counting->stop, __ATOMIC_RELAXED)) {
		counting->lost += *counting->number != n;
		*counting->number = ++n;
	}
	return NULL;
}

/*
 * A device that would have copies of the bytes is refused, each time; the pages may move then, and
 * CPUs' stores meanwhile stay.
 */
static void test_bounced(void)
{
	struct counting counting = { 0 };
	struct hetsim_buffer buffer;
	struct devices devices;
	pthread_t thread;
	int dmabuf, i, r = -EOPNOTSUPP;

	TEST_NEEDS(devices_open(&devices));
	devices_change(&devices, "identity");
	check_stale(&devices);
	dmabuf = export_new(devices.fd, MIB(1), HETSIM_PLACE_SYSTEM, &buffer);
	counting.number = (volatile uint64_t *)buffer.bytes;
	CHECK_FATAL(!pthread_create(&thread, NULL, count, &counting));
	for (i = 0; i < 100 && r == -EOPNOTSUPP; i++)
		r = take_in(devices.importer, dmabuf);
	CHECK_EQUAL(r, -EOPNOTSUPP);
	__atomic_store_n(&counting.stop, true, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(counting.lost, 0);
	CHECK_EQUAL(hetsim_buffer_move(devices.fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    0);
	CHECK_EQUAL(let_go(devices.importer), -EINVAL);
	close(dmabuf);
	hetsim_buffer_drop(devices.fd, &buffer);
	devices_change(&devices, "DMA");
	devices_close(&devices);
}

/* No IOMMU knows hetsim's own device: it would have copies of another device's memory. */
static void test_taken_in_bounced(void)
{
	struct hetsim_import import;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int vgem, dmabuf;

	if (access("/dev/importer", F_OK)) {
		test_skip("kernel", "a machine of tests/vm/importers has bounce buffers");
		return;
	}
	vgem = vgem_open();
	CHECK_FATAL(vgem >= 0);
	dmabuf = vgem_make(vgem, MIB(1), DRM_RDWR);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), -EOPNOTSUPP);
	close(dmabuf);
	close(vgem);
}

/* ---- CPU accesses of another driver ---- */

/*
 * These can't be refused, and pin pages. Pages beyond an opener's limit for pinned VRAM go to
 * system memory first: another opener can then use all of VRAM.
 */
static void test_vmap(void)
{
	struct hetsim_buffer buffer = { 0 }, large = { 0 };
	struct hetsim_buffer_info info;
	struct devices devices;
	uint64_t vram;
	int dmabuf, other;

	TEST_NEEDS(devices_open(&devices));
	vram = hetsim_query(devices.fd).vram_bytes;
	CHECK_FATAL(!hetsim_buffer_create(devices.fd, vram / 2, HETSIM_PLACE_VRAM, 0, &buffer));
	dmabuf = hetsim_export(devices.fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	CHECK_FATAL(!ioctl(devices.importer, IMPORTER_VMAP, &dmabuf));
	info = hetsim_buffer_info(devices.fd, buffer.handle);
	CHECK(info.vram_bytes <= vram / 4);
	CHECK_EQUAL(info.vram_bytes + info.system_bytes, vram / 2);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_EQUAL(hetsim_buffer_create(other, vram / 4 * 3, HETSIM_PLACE_VRAM, 0, &large), 0);
	close(other);
	CHECK_EQUAL(ioctl(devices.importer, IMPORTER_VUNMAP), 0);
	/* Pages that may be pinned stay where they are. */
	CHECK_EQUAL(hetsim_close_handle(devices.fd, buffer.handle), 0);
	close(dmabuf);
	CHECK_FATAL(!hetsim_buffer_create(devices.fd, vram / 8, HETSIM_PLACE_VRAM, 0, &buffer));
	dmabuf = hetsim_export(devices.fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(!ioctl(devices.importer, IMPORTER_VMAP, &dmabuf));
	CHECK_EQUAL(hetsim_buffer_info(devices.fd, buffer.handle).vram_bytes, vram / 8);
	CHECK_EQUAL(hetsim_buffer_move(devices.fd, buffer.handle, 0, vram / 8,
				       HETSIM_PLACE_SYSTEM),
		    -EBUSY);
	CHECK_EQUAL(ioctl(devices.importer, IMPORTER_VUNMAP), 0);
	CHECK_EQUAL(hetsim_buffer_move(devices.fd, buffer.handle, 0, vram / 8,
				       HETSIM_PLACE_SYSTEM),
		    0);
	close(dmabuf);
	devices_close(&devices);
}

/* ---- the exporter is taken away ---- */

static uint32_t notices(int importer)
{
	uint32_t n = UINT32_MAX;

	CHECK_EQUAL(ioctl(importer, IMPORTER_NOTICES, &n), 0);
	return n;
}

/* A driver with a dynamic attachment hears of it, at once and once; its mapping ends as others. */
static void test_revoked(void)
{
	struct hetsim_buffer buffer;
	unsigned char seen[SOME];
	struct devices devices;
	int dmabuf;

	TEST_NEEDS(devices_open(&devices));
	TEST_NEEDS(hetsim_may_unplug(devices.fd));
	dmabuf = export_new(devices.fd, MIB(1), HETSIM_PLACE_SYSTEM, &buffer);
	CHECK_FATAL(!ioctl(devices.importer, IMPORTER_ATTACH_DYNAMIC, &dmabuf));
	use(&devices, &buffer, 30);
	CHECK_EQUAL(hetsim_buffer_move(devices.fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EBUSY);
	CHECK_EQUAL(notices(devices.importer), 0);
	CHECK_EQUAL(hetsim_inject(devices.fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK_EQUAL(notices(devices.importer), 1);
	CHECK_EQUAL(copy(devices.importer, IMPORTER_READ, 0, seen), -ENODEV);
	CHECK_EQUAL(let_go(devices.importer), 0);
	CHECK_EQUAL(take_in(devices.importer, dmabuf), -ENODEV);
	hetsim_plug();
	CHECK_EQUAL(hetsim_objects(), 0);
	hetsim_munmap(buffer.bytes, MIB(1));
	close(dmabuf);
	devices_close(&devices);
}

static const struct test tests[] = {
	{ "revoked", test_revoked, 60, 0 },
	{ "iommu", test_iommu, 60, 0 },
	{ "bounced", test_bounced, 120, 0 },
	{ "taken_in_bounced", test_taken_in_bounced, 0, 0 },
	{ "vmap", test_vmap, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_importers", tests)
