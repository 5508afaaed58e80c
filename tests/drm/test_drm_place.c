// SPDX-License-Identifier: MIT
/*
 * hm_buffer_desc.place over the fake drivers: the call for each place, the error where there is no
 * such place, and memory that is mapped only as a whole.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drm/drm_support.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (64 * 1024ull)

static const struct fake_drm_control *fake;

/* The driver's call; for a refusal, part of the sentence. */
static const struct expected {
	const char *sent[HM_PLACE_SYSTEM + 1];
	uint32_t by_default; /* enum hm_place */
	bool no_device;      /* DEVICE is refused */
	bool no_choice;      /* and so is SYSTEM, where all of its buffers are */
} expected[FAKE_DRM_NODES] = {
	/* VRAM that CPUs reach, cleared; GTT. */
	[FAKE_AMDGPU] = { { "create 65536 domains 4 flags 9 ",
			    "create 65536 domains 4 flags 9 ",
			    "create 65536 domains 2 flags 0 " },
			  HM_PLACE_DEVICE,
			  false,
			  false },
	/* Both regions, or it could not be seen; the system's. */
	[FAKE_I915] = { { "create 65536 flags 1 regions 3\n",
			  "create 65536 flags 1 regions 3\n",
			  "create 65536 flags 0 regions 1\n" },
			HM_PLACE_DEVICE,
			false,
			false },
	/* Before 6.0 the window is as large as the memory, and any flag is refused. */
	[FAKE_I915_OLD] = { { "create 65536 flags 0 regions 3\n",
			      "create 65536 flags 0 regions 3\n",
			      "create 65536 flags 0 regions 1\n" },
			    HM_PLACE_DEVICE,
			    false,
			    false },
	[FAKE_XE] = { { "flags 4 caching 2\n", "flags 4 caching 2\n", "flags 0 caching 1\n" },
		      HM_PLACE_DEVICE,
		      false,
		      false },
	[FAKE_NOUVEAU] = { { "new 65536 domain 4 ", "pass HM_PLACE_DEFAULT",
			     "pass HM_PLACE_DEFAULT" },
			   HM_PLACE_SYSTEM,
			   true,
			   true },
	[FAKE_I915_INTEGRATED] = { { "create 65536 flags 0 regions 1\n", "no memory of its own",
				     "create 65536 flags 0 regions 1\n" },
				   HM_PLACE_SYSTEM,
				   true,
				   false },
	[FAKE_VIRTIO] = { { "create 65536: 1x1", "blob=on", "create 65536: 1x1" },
			  HM_PLACE_SYSTEM,
			  true,
			  false },
	[FAKE_VIRTIO_HOST] = { { "blob 65536 memory 1 flags 7 ", "blob 65536 memory 2 flags 1 ",
				 "blob 65536 memory 1 flags 7 " },
			       HM_PLACE_SYSTEM,
			       false,
			       false },
};

static struct hm_device *open_node(unsigned int at)
{
	char path[64], name[80];

	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(at, path, sizeof(path)));
	return rig_device(name);
}

static int make(struct hm_device *device, uint64_t size, uint32_t place,
		struct hm_buffer **ret_buffer)
{
	return hm_buffer_create(device, DESC(hm_buffer_desc, .size = size, .place = place),
				ret_buffer);
}

static bool sent(const char *part)
{
	if (strstr(fake->trace(), part))
		return true;
	test_fail(__FILE__, __LINE__, "no \"%s\" in: %s", part, fake->trace());
	return false;
}

static void check_node(struct hm_device *device, const struct expected *one, uint32_t place)
{
	struct hm_buffer *buffer = (void *)16;

	fake->trace_clear();
	if ((one->no_device && place == HM_PLACE_DEVICE) ||
	    (one->no_choice && place != HM_PLACE_DEFAULT)) {
		CHECK_ERROR(-EOPNOTSUPP, make(device, SIZE, place, &buffer));
		CHECK(strstr(hm_errmsg(), one->sent[place]));
		CHECK(buffer == (void *)16);
		return;
	}
	CHECK_OK_FATAL(make(device, SIZE, place, &buffer));
	CHECK(sent(one->sent[place]));
	CHECK_EQUAL(buffer_info(buffer).place, place ? place : one->by_default);
	/* New objects are made in the same place. */
	CHECK_OK(hm_buffer_resize(buffer, SIZE / 2, HM_GROW_REPLACE));
	CHECK_OK(hm_buffer_resize(buffer, SIZE, HM_GROW_REPLACE));
	CHECK_EQUAL(buffer_info(buffer).place, place ? place : one->by_default);
	hm_buffer_unref(buffer);
}

static void asked(void)
{
	struct hm_device *device;
	unsigned int at;
	uint32_t place;

	for (at = 0; at < FAKE_DRM_NODES; at++) {
		device = open_node(at);
		CHECK_EQUAL(!(device_info(device).caps & HM_CAP_PLACE), expected[at].no_choice);
		for (place = HM_PLACE_DEFAULT; place <= HM_PLACE_SYSTEM; place++)
			check_node(device, &expected[at], place);
		hm_device_unref(device);
		CHECK_EQUAL(fake->handles(), 0);
	}
}

/* Full VRAM becomes GTT without a word [amdgpu_gem_create_ioctl()]: the buffer says so. */
static void full(void)
{
	AUTO(hm_device) *device = open_node(FAKE_AMDGPU);
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_OK_FATAL(make(device, MIB(512), HM_PLACE_DEVICE, &buffer));
	CHECK_EQUAL(buffer_info(buffer).place, HM_PLACE_SYSTEM);
}

/* An import stays in its place: the driver is asked, where it tells. */
static void brought_in(void)
{
	struct hm_device *device = open_node(FAKE_VIRTIO_HOST);
	struct hm_buffer *buffer;
	int fd;

	CHECK_OK_FATAL(make(device, SIZE, HM_PLACE_DEVICE, &buffer));
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	hm_buffer_unref(buffer);
	AUTO(hm_buffer) *came = rig_import(device, fd, NULL);
	CHECK_EQUAL(buffer_info(came).place, HM_PLACE_DEVICE);
	CHECK_ERROR(-EINVAL,
		    hm_buffer_import(device, fd, DESC(hm_buffer_desc, .place = HM_PLACE_SYSTEM),
				     &buffer));
	hm_buffer_unref(came);
	hm_device_unref(device);
	/* Another card's memory: of amdgpu it is in GTT, and i915 does not tell. */
	AUTO(hm_device) *other = open_node(FAKE_AMDGPU);
	CHECK_OK_FATAL(hm_buffer_import(other, fd, NULL, &came));
	CHECK_EQUAL(buffer_info(came).place, HM_PLACE_SYSTEM);
	hm_buffer_unref(came);
	hm_device_unref(other);
	other = open_node(FAKE_I915);
	CHECK_OK_FATAL(hm_buffer_import(other, fd, NULL, &came));
	CHECK_EQUAL(buffer_info(came).place, HM_PLACE_DEFAULT);
	close(fd);
}

/* The kernel maps a host blob as a whole or not at all [virtio_gpu_vram_mmap()]. */
static void whole(void)
{
	AUTO(hm_device) *device = open_node(FAKE_VIRTIO_HOST);
	struct hm_map_desc part = {
		.struct_size = sizeof(part),
		.offset = 4 * PAGE,
		.length = 2 * PAGE,
		.access = HM_READ,
	};
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_OK_FATAL(make(device, SIZE, HM_PLACE_DEVICE, &buffer));
	CHECK(!(buffer_info(buffer).caps & HM_CAP_APPEND));
	AUTO(hm_map) *all = rig_map(buffer, NULL);
	AUTO(hm_map) *middle = rig_map(buffer, &part);
	pattern_write(hm_map_address(all), 0, SIZE, 1);
	CHECK(!memcmp(hm_map_address(middle), (char *)hm_map_address(all) + 4 * PAGE,
		      2 * PAGE));
	hm_map_unref(middle);
	part.offset = 0;
	CHECK_OK_FATAL(hm_map_create(buffer, &part, &middle));
	CHECK(pattern_holds(hm_map_address(middle), 0, 2 * PAGE, 1));
	/* Nothing is cut off it, as a further object would; past its room it moves. */
	CHECK_ERROR(-EOPNOTSUPP,
		    hm_buffer_resize(buffer, 2 * SIZE, HM_MAY_MOVE | HM_GROW_APPEND));
}

static const struct test tests[] = {
	{ "asked", asked, .seconds = 0 },
	{ "full", full, .seconds = 0 },
	{ "brought_in", brought_in, .seconds = 0 },
	{ "whole", whole, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_place", tests);
}
