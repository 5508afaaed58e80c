/* SPDX-License-Identifier: MIT */
/* A file system of the tests' own, whose files fail on request. */
#ifndef HETMAP_TESTS_FUSE_SUPPORT_H
#define HETMAP_TESTS_FUSE_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "lib/command.h"
#include "reader/serve/faults.h"
#include "lib/support.h"

/*
 * SOURCE is an ordinary folder; MOUNT shows its files by FUSE. Both are in FOLDER. The mount
 * is in a mount namespace of the test's: whatever becomes of the test, nothing stays.
 */
struct fuse_scene {
	char *folder, *source, *mount;
	struct serve_faults *faults;
	pid_t server;
};

/*
 * The file @name fails as scene->faults says: in the beginning not at all. False: no such
 * file system can be had, which is a skip, and there is nothing to end.
 */
bool fuse_begin(struct fuse_scene *scene, const char *name);
/* Unmounts it, and waits for its server. */
void fuse_end(struct fuse_scene *scene);
/* The server is killed: whatever is asked of it from now on fails. */
void fuse_kill(struct fuse_scene *scene);

/* From now on reads that touch [from, to) fail with @error; 0: no more. */
void fuse_fail_reads(struct fuse_scene *scene, int error, uint64_t from, uint64_t to);
/* Drops the file from the page cache: clean pages that no map has. */
void fuse_forget(const char *path);

/* A thread that reads another file of the same mount, all the time, out of a map. */
struct fuse_bystander {
	char *path;
	pthread_t thread;
	_Atomic bool over;
	_Atomic uint64_t rounds;
};

void fuse_bystander_begin(const struct fuse_scene *scene, struct fuse_bystander *bystander);
/* Waits for some more rounds, and checks that each one was right. */
void fuse_bystander_end(struct fuse_bystander *bystander);

#endif
