/* SPDX-License-Identifier: MIT */
/*
 * The published tables of a process that runs already, and of what it starts: what they
 * say is kept in the trace's folder before they forget it.
 */
#ifndef HETMAP_WATCH_H
#define HETMAP_WATCH_H

#include <sys/types.h>

struct watch;

/* Into @folder/maps. 0 or a negative errno. */
int watch_begin(pid_t pid, const char *folder, struct watch **ret_watch);
/* To be called every few milliseconds. */
void watch_look(struct watch *watch);
void watch_end(struct watch *watch);

#endif
