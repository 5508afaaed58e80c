/* SPDX-License-Identifier: MIT */
/* Test programs that run over tests/fake_drm.so, and its nodes for them. */
#ifndef HETMAP_TESTS_DRM_SUPPORT_H
#define HETMAP_TESTS_DRM_SUPPORT_H

#include "drm/drm.h"
#include "fake_drm/control.h"
#include "harness.h"

/*
 * Starts the program again with the fake preloaded, unless it is. Returns what to
 * ask of it; exits where it can't be had.
 */
const struct fake_drm_control *drm_under_fake(char **argv);

/* Goes on as @program of the same folder, under the fake. */
void drm_run_under_fake(const char *program, char **argv) __attribute__((noreturn));

/* Opens the node, or abandons the test. */
struct drm_node *drm_open_fake(enum fake_drm_node node);
/* "/dev/dri/renderD180" */
const char *drm_fake_path(enum fake_drm_node node, char *path, size_t size);

#endif
