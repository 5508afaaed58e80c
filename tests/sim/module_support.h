/* SPDX-License-Identifier: MIT */
/*
 * Loading and unloading hetsim, for tests that have a machine of tests/vm for themselves: it
 * names the module in HETMAP_MODULE.
 */
#ifndef HETMAP_TESTS_MODULE_SUPPORT_H
#define HETMAP_TESTS_MODULE_SUPPORT_H

#include <stddef.h>

/* The module's file; -1: the test was skipped, as none is named. */
int module_open(void);
/* finit_module() and delete_module(): 0 or a negative errno. */
int module_load(int file, const char *parameters);
int module_unload(void);
/* Those that the loaded one has, for module_load(). */
void module_parameters(char *text, size_t size);
/* Fails the test, and names @what, if an unloaded module has left anything. */
void module_is_gone(const char *what);

#endif
