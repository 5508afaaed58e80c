/* SPDX-License-Identifier: MIT */
/* /dev/hetsim0 for its tests: open files, calls, buffers. */
#ifndef HETMAP_TESTS_HETSIM_H
#define HETMAP_TESTS_HETSIM_H

#include <stdbool.h>
#include <stdint.h>

#include <uapi/hetsim.h>

#define HETSIM_PATH "/dev/hetsim0"
#define HETSIM_PAGE 4096ull

/* An open file after its handshake. Skips the test and returns -1 without device. */
int hetsim_open(int flags);
/* An open file without handshake. */
int hetsim_open_bare(int flags);

/* ioctl(): 0 or a negative errno. */
int hetsim_call(int fd, unsigned long cmd, void *argument);

struct hetsim_query hetsim_query(int fd);
struct hetsim_counters hetsim_counters(int fd, uint32_t scope);

/*
 * A buffer with its map; what fails ends the test. One in VRAM that the CPU could
 * not reach is made where it can.
 */
struct hetsim_buffer {
	uint32_t handle;
	uint64_t length;
	uint64_t offset;
	unsigned char *bytes;
};

struct hetsim_buffer hetsim_buffer_make(int fd, uint64_t length, uint32_t place);
void hetsim_buffer_drop(int fd, struct hetsim_buffer *buffer);
int hetsim_close_handle(int fd, uint32_t handle);

/* Binds the buffer where its map is. */
int hetsim_bind(int fd, const struct hetsim_buffer *buffer, uint32_t flags);
int hetsim_unbind(int fd, const struct hetsim_buffer *buffer);

/* A queue's number; what fails ends the test. */
uint32_t hetsim_queue_make(int fd, uint32_t type, uint32_t timeout_ms);
int hetsim_submit(int fd, uint32_t queue, const struct hetsim_command *commands, uint32_t n,
		  uint64_t *ret_seqno);
/* Waits up to @ms. 0, -ETIME, or another error of the call; the end of the work apart. */
int hetsim_wait(int fd, uint32_t queue, uint64_t seqno, uint64_t ms, int *ret_status,
		uint64_t *ret_address);
/* Submits one command and waits: how it ended. */
int hetsim_run(int fd, uint32_t queue, const struct hetsim_command *command);

int hetsim_inject(int fd, uint32_t kind, uint32_t target, uint64_t value);

/* Objects that debugfs lists; -1 where it is not to be read. */
int hetsim_objects(void);

#endif
