// SPDX-License-Identifier: MIT
/* Programs under the fake DRM drivers, nodes of real kernels, and buffers of either. */
#include "drm/drm_support.h"

#include <dlfcn.h>
#include <drm.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <hetmap/drm.h>

/* Says that the program has been started again. */
#define AGAIN "HETMAP_TEST_FAKE_DRM"

/* Files of the build are beside the program. */
static void beside(const char *name, char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		snprintf(slash + 1, size - (size_t)(slash + 1 - path), "%s", name);
}

static void add_option(const char *name, const char *option)
{
	const char *old = getenv(name);
	char text[1024];

	snprintf(text, sizeof(text), "%s%s%s", old ? old : "", old ? ":" : "", option);
	setenv(name, text, 1);
}

static void preload(char *path, size_t size)
{
	beside("fake_drm.so", path, size);
	setenv(AGAIN, "1", 1);
	setenv("LD_PRELOAD", path, 1);
	/* ASan's own functions follow the fake's by RTLD_NEXT. */
	add_option("ASAN_OPTIONS", "verify_asan_link_order=0");
}

const struct fake_drm_control *drm_under_fake(char **argv)
{
	const struct fake_drm_control *control = dlsym(RTLD_DEFAULT, FAKE_DRM_CONTROL);
	bool again = getenv(AGAIN);
	char path[PATH_MAX];

	if (control)
		return control;
	preload(path, sizeof(path));
	if (!again)
		execv("/proc/self/exe", argv);
	fprintf(stderr, "%s can't be preloaded\n", path);
	exit(1);
}

void drm_run_under_fake(const char *program, char **argv)
{
	char path[PATH_MAX];

	preload(path, sizeof(path));
	beside(program, path, sizeof(path));
	argv[0] = path;
	execv(path, argv);
	perror(path);
	exit(1);
}

const char *drm_fake_path(enum fake_drm_node node, char *path, size_t size)
{
	if (node == FAKE_CARD)
		snprintf(path, size, "/dev/dri/card%d", FAKE_DRM_CARD_MINOR);
	else
		snprintf(path, size, "/dev/dri/renderD%d", FAKE_DRM_MINOR + (int)node);
	return path;
}

struct drm_node *drm_open_fake(enum fake_drm_node node)
{
	struct drm_node *opened;
	char path[64];

	CHECK_OK_FATAL(drm_node_get(drm_fake_path(node, path, sizeof(path)), &opened));
	return opened;
}

static bool find(const char *driver, bool primary, bool usable, struct drm_found *ret_found)
{
	struct drm_found *found;
	bool there = false;
	uint32_t i, n;

	if (drm_discover(&found, &n))
		return false;
	for (i = 0; i < n && !there; i++) {
		there = !strcmp(found[i].driver, driver) && found[i].primary == primary &&
			!(usable && found[i].error);
		if (there)
			*ret_found = found[i];
	}
	free(found);
	return there;
}

struct drm_found drm_find(const char *driver, bool primary)
{
	struct drm_found found = { 0 };

	CHECK_FATAL(find(driver, primary, false, &found));
	return found;
}

bool drm_find_usable(const char *driver, bool primary, struct drm_found *ret_found)
{
	return find(driver, primary, true, ret_found);
}

const char *drm_vgem_name(char *name, size_t size)
{
	snprintf(name, size, "drm:%s", drm_find("vgem", true).path);
	return name;
}

const char *drm_device_of_test(void)
{
	static char name[80];
	const char *of = strrchr(test_current()->name, '.') + 1;

	if (!strcmp(of, "vgem"))
		return drm_vgem_name(name, sizeof(name));
	if (!strcmp(of, "virtio_gpu"))
		return "drm:virtio_gpu";
	return !strcmp(of, "heap") ? "heap:system" : of;
}

int drm_try_make(struct hm_device *device, uint64_t size, struct rig *made)
{
	int r;

	*made = (struct rig){ 0 };
	r = hm_buffer_create(device, DESC(hm_buffer_desc, .size = size), &made->buffer);
	if (r)
		return r;
	r = hm_map_create(made->buffer, NULL, &made->map);
	if (r)
		hm_buffer_unref(made->buffer);
	else
		made->bytes = hm_map_address(made->map);
	return r;
}

struct rig drm_make(struct hm_device *device, uint64_t size)
{
	struct rig made;

	CHECK_OK_FATAL(drm_try_make(device, size, &made));
	return made;
}

int drm_export_read_only(struct hm_buffer *buffer)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) };
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC };

	CHECK_OK_FATAL(hm_drm_buffer_handle(buffer, 0, &handle));
	prime.handle = handle.handle;
	CHECK_FATAL(!ioctl(handle.fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	return prime.fd;
}
