/* SPDX-License-Identifier: MIT */
/*
 * The published tables of a process, and of what it starts, that are no files of the trace's
 * folder: what they say is kept there before they forget it, or are gone.
 */
#ifndef HETMAP_WATCH_H
#define HETMAP_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

struct watch;

/* Into @folder/maps. 0 or a negative errno. */
int watch_begin(pid_t pid, const char *folder, struct watch **ret_watch);
/* To be called every few milliseconds while it has any, else ten times a second. */
void watch_look(struct watch *watch);
bool watch_has_any(const struct watch *watch);
/* Tables that could not be copied, or not whole. */
unsigned int watch_lost(const struct watch *watch);
void watch_end(struct watch *watch);

#endif
