/* SPDX-License-Identifier: MIT */
/* The file that records go to: its head, and the sections around them. */
#ifndef HETMAP_RECORD_FILE_H
#define HETMAP_RECORD_FILE_H

#include <stdint.h>
#include <sys/types.h>

struct recorder;

/*
 * Of @pid: writes the head as it stands until the end comes, with the events opened so far, so
 * that records can be read from now on. 0 or a negative errno.
 */
int record_begin_file(struct recorder *recorder, pid_t pid);
/* More events were opened: the same again, if there is room for it before the records. */
int record_more_ids(struct recorder *recorder);
/* All records are there. 0 or a negative errno. */
int record_end_file(struct recorder *recorder);

/* All of it. 0 or a negative errno. */
int write_at(int fd, const void *from, uint64_t length, uint64_t offset);

#endif
