// SPDX-License-Identifier: MIT
/* Nodes by the names of their drivers and their addresses, on fake nodes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "base/util.h"
#include "drm/drm_support.h"
#include "lib/command.h"
#include "lib/support.h"

static const struct fake_drm_control *fake;

/* Nodes by driver's name, number and address: libdrm and sysfs find them. */
static void names(void)
{
	static const struct {
		const char *name;
		enum fake_drm_node node;
	} known[] = {
		{ "amdgpu", FAKE_AMDGPU },           { "xe", FAKE_XE },
		{ "nouveau", FAKE_NOUVEAU },         { "i915", FAKE_I915 },
		{ "i915#1", FAKE_I915_INTEGRATED },  { "i915#2", FAKE_I915_OLD },
		{ "pci-0000:05:00.0", FAKE_AMDGPU }, { "pci-0000:08:00.0", FAKE_NOUVEAU },
	};
	struct drm_node *node;
	char path[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		CHECK_OK_FATAL(drm_node_get(known[i].name, &node));
		drm_fake_path(known[i].node, path, sizeof(path));
		if (strcmp(node->path, path) != 0)
			test_fail(__FILE__, __LINE__, "%s is %s", known[i].name, node->path);
		drm_node_put(node);
	}
	CHECK_ERROR(-ENODEV, drm_node_get("i915#3", &node));
}

/* A driver of dumb buffers has a card node only, and its name means that node. */
static void card_by_name(void)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device = NULL;
	char path[64], name[80];
	void *bytes;

	fake->plug_card();
	CHECK_OK_FATAL(hm_device_open("drm:mgag200", &device));
	CHECK_OK(hm_device_query(device, &info));
	snprintf(name, sizeof(name), "drm:%s", drm_fake_path(FAKE_CARD, path, sizeof(path)));
	CHECK(!strcmp(info.name, name));
	CHECK_OK_FATAL(hm_alloc(device, 4096, HM_READ | HM_WRITE, &bytes));
	CHECK_OK(hm_free(bytes));
	hm_device_unref(device);
	device = NULL;
	CHECK_ERROR(-ENODEV, hm_device_open("drm:mgag200#1", &device));
	CHECK(strstr(hm_errmsg(), "see hetmap devices") != NULL);
	CHECK(!device);
}

/* The command says of each device and node whether its driver never ran on hardware. */
static void experimental(void)
{
	static const struct command as_json = { .args = { "devices", "--json" } };
	static const struct command as_text = { .args = { "devices" } };
	size_t i, k, n_node = 0, n_device = 0;
	struct outcome outcome = { 0 };
	json_t *json, *one;
	const char *driver;
	bool told;

	command_run(&as_json, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	json_array_foreach(json_object_get(json, "drm_nodes"), i, one)
	{
		driver = string_of(one, "driver");
		told = false;
		for (k = 0; k < json_array_size(json_object_get(one, "features")); k++)
			told |= !strcmp(json_string_value(json_array_get(
						json_object_get(one, "features"), k)),
					"experimental");
		CHECK_EQUAL(told, strcmp(driver, "virtio_gpu") && strcmp(driver, "mgag200"));
		n_node += told;
	}
	json_array_foreach(json_object_get(json, "devices"), i, one)
		n_device += strstr(string_of(one, "description"), "(experimental)") != NULL;
	CHECK(n_node >= 4);
	CHECK_EQUAL(n_device, n_node);
	json_decref(json);
	outcome_free(&outcome);
	command_run(&as_text, &outcome);
	CHECK(strstr(outcome.out, "DRM driver amdgpu (experimental), render node") != NULL);
	CHECK(strstr(outcome.out, "experimental: never run on hardware") != NULL);
	outcome_free(&outcome);
}

static const struct test tests[] = {
	{ "names", names, .seconds = 0 },
	{ "experimental", experimental, .seconds = 60 },
	{ "card_by_name", card_by_name, .seconds = 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_names", tests);
}
