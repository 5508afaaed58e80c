/* SPDX-License-Identifier: MIT */
/*
 * The checking mode, HETMAP_CHECK=1: reports stores of the CPU to bytes that belong to an
 * accelerator. Bytes that work only reads are summed up when it is submitted and again when it
 * is done. Slow, and blind for loads: good for finding a missing bracket, not for production.
 */
#ifndef HETMAP_CHECK_H
#define HETMAP_CHECK_H

#include "core/core.h"

/* Reads HETMAP_CHECK once. -EINVAL: the value is neither 0 nor 1. */
int check_read_environment(void);
bool check_enabled(void);

/* The caller of either holds no locks. @use is in its map's list. */
void check_begin(struct map_use *use);
void check_end(struct map_use *use);

#endif
