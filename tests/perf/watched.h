/* SPDX-License-Identifier: MIT */
/* Programs whose maps are known: the tests of hetmap top and explain look at them. */
#ifndef HETMAP_TESTS_WATCHED_H
#define HETMAP_TESTS_WATCHED_H

#include <stdint.h>
#include <sys/types.h>

#include "lib/rig.h"

#define WATCHED_PAGE UINT64_C(4096)
/* "large" and "one_large" have this: no smaller memory can have huge pages. */
#define WATCHED_LARGE (UINT64_C(8) << 20)
/* Buffers of "many". */
#define WATCHED_MANY 1000

struct watched {
	pid_t pid;
	int to; /* the program ends when this does */
	uint64_t address;
};

/*
 * For main(): "PROGRAM --watched NAME [PATH]" is one of these, and exits.
 *   buffers    on host: "whole" of 16 pages, all touched; "half" of 32 pages, 16 touched,
 *              and in two maps; "locked" of 8 pages, locked, with a bracket open; and
 *              "busy" of one page, which a launch is using
 *   large      "on_host" and "on_soft" (soft:0), of WATCHED_LARGE each, not touched
 *   many       WATCHED_MANY buffers of one page, of which one goes and comes
 *   faulting   "quiet", and "loud", whose pages come and go all the time
 *   one_large  WATCHED_LARGE of private memory without the library, all touched, with
 *              MADV_NOHUGEPAGE
 *   large_untouched  the same, without advice, and nothing of it touched
 *   remote     "far" of 16 pages on host, bound to the highest NUMA node, by a process that
 *              runs on the first one
 *   evicted    "stays" and "goes" on soft:0, whose pages make room and come back all the time
 *   lost       "gone" on soft:0, whose device was taken away
 *   file       maps PATH, whole, without the library
 *   file_beyond  the same, four times as long as it is
 *   plain      memory without the library: 4 pages, one touched
 *   lying      publishes a table of maps that make no sense, and of one that does: "liar"
 *   older      publishes two maps of two pages, "older", as an older library would
 *   broken     publishes a table that is none
 */
void watched_act(int argc, char **argv);

/* Starts one of them, and waits until it is as it says. */
struct watched watched_start(const char *name, const char *path);
void watched_end(struct watched *watched);
AUTO_END(watched, watched_end)

#endif
