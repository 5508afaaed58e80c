/* SPDX-License-Identifier: MIT */
/* Files that the peers' tools write, by Python programs. */
#ifndef HETMAP_TESTS_PYTHON_SUPPORT_H
#define HETMAP_TESTS_PYTHON_SUPPORT_H

#include <stdbool.h>

/*
 * Runs a program of Debian's python3, with numpy, with @folder as its argument. False: numpy
 * is not there, and the test is skipped; or it is there and the program failed: so has the
 * test.
 */
bool numpy_wrote(const char *program, const char *folder);

/* The same by the python3 and the safetensors package of tests/format/test_safetensors_peer.sh. */
bool safetensors_wrote(const char *program, const char *folder);

#endif
