/* SPDX-License-Identifier: MIT */
/*
 * The published tables of a process and its children that are no files of the trace's folder:
 * their contents are kept there before they forget them, or are gone.
 */
#ifndef HETMAP_WATCH_H
#define HETMAP_WATCH_H

#include <sys/types.h>

struct watch;

/* Into maps/ of the folder, by a thread of its own. 0 or a negative errno. */
int watch_begin(pid_t pid, int folder_fd, struct watch **ret_watch);
/* Looks once more, and never again. */
void watch_finish(struct watch *watch);
/* Tables that could not be copied, or not whole; once it has finished. */
unsigned int watch_lost(const struct watch *watch);
void watch_end(struct watch *watch);

#endif
