/* SPDX-License-Identifier: MIT */
/*
 * The checking mode, HETMAP_CHECK=1: reports stores of the CPU to bytes that
 * belong to an accelerator. What work only reads is summed up when it is
 * submitted and again when it is done. Slow, and blind for loads: for finding
 * a missing bracket, not for running with.
 */
#ifndef HETMAP_CHECK_H
#define HETMAP_CHECK_H

#include "core/core.h"

/* HETMAP_CHECK is read once. -EINVAL: it says neither. */
int check_read_environment(void);
bool check_enabled(void);

/* Both without locks held. @use is in its map's list. */
void check_begin(struct map_use *use);
void check_end(struct map_use *use);

#endif
