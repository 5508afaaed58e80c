/* SPDX-License-Identifier: MIT */
/*
 * Measure: the frame path, from a picture that its decoder handed over to its result, in place
 * and with the copies that a program makes whose decoder and accelerator have memory of their
 * own (--bench).
 */
#ifndef HETMAP_VIDEO_MEASURE_H
#define HETMAP_VIDEO_MEASURE_H

#include "pipeline.h"

/*
 * Reads all pictures of the first decoder of @pipeline, which is open, and prints the result. An
 * exit status; a failure is reported. A target that is missed is no failure.
 */
int measure_run(struct pipeline *pipeline);

#endif
