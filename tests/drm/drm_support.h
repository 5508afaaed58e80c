/* SPDX-License-Identifier: MIT */
/*
 * Test programs that run over tests/fake_drm.so, and its nodes for them; nodes of real
 * kernels; buffers of either.
 */
#ifndef HETMAP_TESTS_DRM_SUPPORT_H
#define HETMAP_TESTS_DRM_SUPPORT_H

#include "backend/drm/drm.h"
#include "fake_drm/control.h"
#include "lib/support.h"

/*
 * Starts the program again with the fake preloaded, unless it is. Returns the fake's controls;
 * exits where there is no fake.
 */
const struct fake_drm_control *drm_under_fake(char **argv);

/* Goes on as @program of the same folder, under the fake. */
void drm_run_under_fake(const char *program, char **argv) __attribute__((noreturn));

/* The fake's trace of a node that is asked for its DRM_CAP_PRIME: whether it is still there. */
#define DRM_FAKE_ASKED "cap 5\n"

/* Opens the node, or abandons the test. */
struct drm_node *drm_open_fake(enum fake_drm_node node);
/* "/dev/dri/renderD180" */
const char *drm_fake_path(enum fake_drm_node node, char *path, size_t size);

/* The first node that there is of a driver; the test is abandoned without. */
struct drm_found drm_find(const char *driver, bool primary);
/* The first of them that this process may use; false without. */
bool drm_find_usable(const char *driver, bool primary, struct drm_found *ret_found);
/* "drm:/dev/dri/card0": dumb buffers are made on card nodes, named by their path. */
const char *drm_vgem_name(char *name, size_t size);
/* That of the running test, by the end of its name: "lost.vgem", ".heap". */
const char *drm_device_of_test(void);

/* A buffer with a map of all of it. */
int drm_try_make(struct hm_device *device, uint64_t size, struct rig *made);
struct rig drm_make(struct hm_device *device, uint64_t size); /* or abandons the test */

/*
 * The buffer's dma-buf, exported for reading by a call of the test's own: the library makes
 * none such.
 */
int drm_export_read_only(struct hm_buffer *buffer);

#endif
