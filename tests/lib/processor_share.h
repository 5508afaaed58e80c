/* SPDX-License-Identifier: MIT */
#ifndef HETMAP_TEST_PROCESSOR_SHARE_H
#define HETMAP_TEST_PROCESSOR_SHARE_H

/* The part of a processor that each thread has that wants one now: 1 where there are enough. */
double processor_share(void);

#endif
