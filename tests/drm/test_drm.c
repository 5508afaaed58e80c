// SPDX-License-Identifier: MIT
/* Names of backend "drm", with or without DRM nodes on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <hetmap/drm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/drm/drm.h"
#include "lib/support.h"

static void refused(int expected, const char *name, const char *text)
{
	struct hm_device *device = (void *)16;

	CHECK_ERROR(expected, hm_device_open(name, &device));
	CHECK(device == (void *)16);
	if (!strstr(hm_errmsg(), text))
		test_fail(__FILE__, __LINE__, "%s: \"%s\" lacks \"%s\"", name, hm_errmsg(),
			  text);
}

static void bad_names(void)
{
	static const char *const malformed[] = {
		"drm:virtio_gpu#",
		"drm:virtio_gpu#-1",
		"drm:virtio_gpu#01",
		"drm:virtio_gpu#1x",
		"drm:#",
		"drm:virtio_gpu#65536",
		"drm:virtio_gpu# 1",
		"drm:a_driver_whose_name_is_much_too_long",
	};
	size_t i;

	for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
		refused(-ENODEV, malformed[i], "/dev/dri/renderD128");
	refused(-ENODEV, "drm:no_such_driver", "no_such_driver");
	refused(-ENODEV, "drm:pci-ffff:ff:1f.7", "pci-ffff:ff:1f.7");
	refused(-ENODEV, "drm:no_such_driver#3", "hetmap devices");
}

/* Nothing that is no node is opened: a FIFO without a writer would hang. */
static void other_files(void)
{
	char folder[] = "/tmp/hetmap-drm-XXXXXX", fifo[64], name[80];

	refused(-EOPNOTSUPP, "drm:/dev/null", "/dev/dri");
	refused(-EOPNOTSUPP, "drm:/", "/dev/dri");
	refused(-EOPNOTSUPP, "drm:/proc/self/exe", "no DRM node");
	refused(-ENODEV, "drm:/dev/dri/renderD191", "--device /dev/dri/renderD191");
	CHECK_FATAL(mkdtemp(folder));
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	CHECK(!mkfifo(fifo, 0600));
	snprintf(name, sizeof(name), "drm:%s", fifo);
	refused(-EOPNOTSUPP, name, "no DRM node");
	unlink(fifo);
	rmdir(folder);
}

/* Each node found opens, or says why not. */
static void discovery(void)
{
	struct drm_found *found;
	struct hm_device *device;
	char name[80];
	uint32_t i, n;
	int r;

	CHECK_OK_FATAL(drm_discover(&found, &n));
	for (i = 0; i < n; i++) {
		CHECK(!strncmp(found[i].path, "/dev/dri/", 9));
		CHECK(!i || found[i].primary >= found[i - 1].primary);
		CHECK(!found[i].error == !*found[i].remedy);
		snprintf(name, sizeof(name), "drm:%s", found[i].path);
		if (found[i].primary)
			continue;
		r = hm_device_open(name, &device);
		if (!r)
			hm_device_unref(device);
		if (found[i].error)
			CHECK_EQUAL(r, found[i].error);
	}
	free(found);
}

/* The list's capabilities of a closed node equal those of its open device. */
static void check_caps(const struct hm_drm_node *node)
{
	const uint64_t dumb = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT;
	const uint64_t told = dumb | HM_CAP_PLACE;
	AUTO(hm_device) *device = NULL;
	char name[80];

	CHECK_EQUAL(node->caps & ~told, 0);
	/* Made on card nodes only, which stay closed here. */
	if (!strcmp(node->driver, "vgem"))
		CHECK_EQUAL(node->caps, node->primary ? dumb : 0);
	snprintf(name, sizeof(name), "drm:%.75s", node->path);
	if (node->primary || hm_device_open(name, &device))
		return;
	CHECK_EQUAL(node->caps, device_info(device).caps & told);
}

#define NODES_MAX 32

/* The public list has the nodes found, in their order, in strides of the caller's. */
static void list(void)
{
	struct hm_drm_node nodes[NODES_MAX], first = { .struct_size = sizeof(first) };
	struct drm_found *found;
	uint32_t i, n, n_all = 77;

	CHECK_ERROR(-EINVAL, hm_drm_list(NULL, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_drm_list(NULL, 1, &n_all));
	nodes[0].struct_size = 0;
	CHECK_ERROR(-EINVAL, hm_drm_list(nodes, NODES_MAX, &n_all));
	CHECK_EQUAL(n_all, 77);
	CHECK_OK_FATAL(drm_discover(&found, &n));
	CHECK_OK(hm_drm_list(NULL, 0, &n_all));
	CHECK_EQUAL(n_all, n);
	nodes[0].struct_size = sizeof(nodes[0]);
	CHECK_OK(hm_drm_list(nodes, NODES_MAX, &n_all));
	for (i = 0; i < n && i < NODES_MAX; i++) {
		CHECK(!strcmp(nodes[i].path, found[i].path));
		CHECK(!strcmp(nodes[i].driver, found[i].driver));
		CHECK(!strcmp(nodes[i].remedy, found[i].remedy));
		CHECK_EQUAL(nodes[i].primary, found[i].primary);
		CHECK_EQUAL(nodes[i].error, found[i].error);
		check_caps(&nodes[i]);
	}
	/* One entry is filled, all are counted. */
	CHECK_OK(hm_drm_list(&first, 1, &n_all));
	CHECK_EQUAL(n_all, n);
	CHECK(!n || !strcmp(first.path, found[0].path));
	free(found);
}

static const struct test tests[] = {
	{ "bad_names", bad_names, 0, 0 },
	{ "other_files", other_files, 0, 0 },
	{ "discovery", discovery, 0, 0 },
	{ "list", list, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "drm", tests)
