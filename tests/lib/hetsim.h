/* SPDX-License-Identifier: MIT */
/*
 * The simulated device for its tests: open files, calls, maps, buffers. It is
 * /dev/hetsim0, whose open files are descriptors, or with hetsim_use_soft() its twin
 * in this process, soft:0, whose open files are numbers of these functions' own.
 */
#ifndef HETMAP_TESTS_HETSIM_H
#define HETMAP_TESTS_HETSIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uapi/hetsim.h>

#include "lib/harness.h"
#include "lib/hetsim_argument.h"
#include "lib/rig.h"

#define HETSIM_PATH "/dev/hetsim0"
#define HETSIM_SECOND "/dev/hetsim1" /* where there are two */

/* An open file after its handshake. Skips the test and returns -1 without device. */
int hetsim_open(int flags);
/* The same; without device the test ends there. For AUTO_HETSIM, which closes it. */
int hetsim_begin(int flags);
#define AUTO_HETSIM __attribute__((cleanup(hetsim_fd_auto), unused)) int
/* An open file without handshake. */
int hetsim_open_bare(int flags);
/* The same, or a negative errno: nothing is skipped, nothing fails. */
int hetsim_open_try(int flags);
void hetsim_close(int fd);
static inline void hetsim_fd_auto(const int *fd)
{
	hetsim_close(*fd);
}

/* ioctl(): 0 or a negative errno. */
int hetsim_call(int fd, unsigned long cmd, void *argument);

/* mmap(MAP_SHARED) of the device at @offset: 0 or a negative errno. */
int hetsim_mmap(int fd, uint64_t length, int prot, uint64_t offset, unsigned char **ret_bytes);
/* All of it. 0 or a negative errno. */
int hetsim_munmap(void *bytes, uint64_t length);
/* pread() and pwrite(): bytes or a negative errno. */
ssize_t hetsim_pread(int fd, void *to, uint64_t length, uint64_t offset);
ssize_t hetsim_pwrite(int fd, const void *from, uint64_t length, uint64_t offset);

/* A fresh device in the place of the one that was taken away. */
void hetsim_plug(void);

/* Fails unless the file from FENCE_FD is signalled, with that status if it reports one. */
void hetsim_fence_check(int fence, int status);

/*
 * main() of a program that runs two tables of tests, the other of which may be NULL: those
 * that fit the module's device (sim_tests.h).
 */
int hetsim_main(int argc, char **argv, const char *suite, const struct test *common,
		const struct test *own);

struct hetsim_query hetsim_query(int fd);
struct hetsim_counters hetsim_counters(int fd, uint32_t scope);

/*
 * A buffer with its map; a failure ends the test. One in VRAM that the CPU could not reach is made
 * where it can.
 */
struct hetsim_buffer {
	uint32_t handle;
	uint64_t length;
	uint64_t offset;
	unsigned char *bytes;
	int fd;
};

struct hetsim_buffer hetsim_buffer_make(int fd, uint64_t length, uint32_t place);
void hetsim_buffer_drop(int fd, struct hetsim_buffer *buffer);
static inline void hetsim_buffer_auto(struct hetsim_buffer *buffer)
{
	if (buffer->bytes)
		hetsim_buffer_drop(buffer->fd, buffer);
}
int hetsim_close_handle(int fd, uint32_t handle);

/* Binds the buffer where its map is. */
int hetsim_bind(int fd, const struct hetsim_buffer *buffer, uint32_t flags);
int hetsim_unbind(int fd, const struct hetsim_buffer *buffer);

/* A queue's number; a failure ends the test. */
uint32_t hetsim_queue_make(int fd, uint32_t type, uint32_t timeout_ms);
int hetsim_submit(int fd, uint32_t queue, const struct hetsim_command *commands, uint32_t n,
		  uint64_t *ret_seqno);
/* Waits up to @ms. 0, -ETIME, or another error of the call; the end of the work apart. */
int hetsim_wait(int fd, uint32_t queue, uint64_t seqno, uint64_t ms, int *ret_status,
		uint64_t *ret_address);

/* A thread that waits, from when start returns: fd, queue and seqno are set before. */
struct hetsim_waiter {
	int fd;
	uint32_t queue;
	uint64_t seqno;
	int r, status; /* after end */
	pthread_t thread;
	_Atomic int tid;
};

void hetsim_waiter_start(struct hetsim_waiter *waiter);
void hetsim_waiter_end(struct hetsim_waiter *waiter);
/* Submits one command and waits: how it ended. */
int hetsim_run(int fd, uint32_t queue, const struct hetsim_command *command);

/* hetsim_calls.c: all that there are, by row. */
struct hetsim_call_entry {
	const char *name;
	unsigned long cmd;
	uint32_t size; /* of its structure */
};

extern const struct hetsim_call_entry hetsim_calls[HETSIM_N_CALLS];

/* More calls; but for the first, 0 or a negative errno. */
struct hetsim_buffer_info hetsim_buffer_info(int fd, uint32_t handle);
/* Without a map. */
int hetsim_buffer_create(int fd, uint64_t length, uint32_t place, uint64_t capacity,
			 struct hetsim_buffer *ret_buffer);
int hetsim_buffer_resize(int fd, uint32_t handle, uint64_t length);
int hetsim_buffer_move(int fd, uint32_t handle, uint64_t offset, uint64_t length,
		       uint32_t place);
/* The descriptor, or a negative errno. */
int hetsim_export(int fd, uint32_t handle, uint32_t flags);
int hetsim_import(int fd, int dmabuf, struct hetsim_import *ret_import);

int hetsim_inject(int fd, uint32_t kind, uint32_t target, uint64_t value);
/* May this process take the device away? Skips the test if not. Resets the engine. */
bool hetsim_may_unplug(int fd);
/* An open file whose maps become zeros; -1: skipped, no device may be taken away here. */
int hetsim_open_zero(void);

/* Is the module to get blocks, and can the kernel mark their entries as special? */
bool hetsim_has_blocks(void);
/* Free memory of the machine, with the pages that each processor keeps for itself. */
uint64_t hetsim_free_bytes(void);

/* Objects of the device that are alive; -1 where debugfs is not to be read. */
int hetsim_objects(void);
/* The same of one of the module's, by its node. */
int hetsim_objects_of(const char *device);

/* From now on, and before anything is open: soft:0 instead of /dev/hetsim0. */
void hetsim_use_soft(void);

/* hetsim_soft.c: the same as the above for the twin. */
bool hetsim_soft_has(int fd);
int hetsim_soft_open(int flags);
void hetsim_soft_close(int fd);
int hetsim_soft_call(int fd, unsigned long cmd, void *argument);
int hetsim_soft_mmap(int fd, uint64_t length, int prot, uint64_t offset,
		     unsigned char **ret_bytes);
int hetsim_soft_munmap(void *bytes, uint64_t length);
ssize_t hetsim_soft_pread(int fd, void *to, uint64_t length, uint64_t offset);
ssize_t hetsim_soft_pwrite(int fd, const void *from, uint64_t length, uint64_t offset);

#endif
