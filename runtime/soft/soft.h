/* SPDX-License-Identifier: MIT */
/*
 * soft:N, the twin of /dev/hetsimN in this process: no module, no privileges. It
 * takes the calls of include/uapi/hetsim.h, with the same structures, limits and
 * errnos. What it can't do like the module is not among its features.
 *
 * A buffer's pages are a memfd of its present length. It is not sealed: when the
 * device is taken away the file is truncated, under every map of every process.
 * Moving pages moves them in the accounts only; they stay where they are.
 *
 * A hook is called, with none of the twin's locks held, when something has changed (reach.h).
 *
 * What differs for that reason: the device learns of no map and no bracket, so that
 * BUFFER_INFO's maps and the counters of faults are 0. An exported descriptor does
 * not keep the buffer: when its last handle and binding are gone, it can be imported
 * no more, and the bytes stay with who has it, whatever becomes of the device. As
 * nobody tells when such a descriptor is closed, a buffer that was exported does not
 * shrink any more (-EBUSY). An export is a memfd, and no dma-buf. FENCE_FD gives an eventfd,
 * which has no status: sync_files are the kernel's to make. No map is write-combining: page
 * attributes are the kernel's, too. What CPUs
 * can't reach, in VRAM outside of the window or hurt on request, is hidden by the hooks,
 * in maps made through the device's open files: who maps an exported descriptor, here
 * or in another process, reaches all of it.
 *
 * Which pages CPUs use is read from page tables: START and READ take entries away, and
 * what has one at the next READ was used. Maps that are locked can't lose theirs
 * (-EBUSY). A load brings entries of up to 64 KiB around it, unless the process may use
 * userfaultfd(2), with which that is switched off; a store never does. What the kernel
 * has taken out of memory again since is not counted.
 *
 * A child of fork() has devices of its own; none of its parent's files are for it.
 *
 * Settings come from the environment when the first device opens, as the module's
 * parameters do when it is loaded: HETMAP_SOFT="devices=2 vram_mb=64 system_mb=64
 * bar_mb=16 opener_mb=96 kind=fpga test=1", in any order, separated by blanks or commas.
 */
#ifndef HETMAP_RUNTIME_SOFT_H
#define HETMAP_RUNTIME_SOFT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uapi/hetsim.h>

/* An open file of a soft device: what an open /dev/hetsimN is. */
struct soft_file;

/* Bytes [@offset, @offset + @length) of a buffer are mapped at @address. */
typedef int soft_visit(void *context, char *address, uint64_t offset, uint64_t length);

/*
 * The twin does not know who has mapped its files: whoever maps them does. Called
 * with none of the twin's locks held, from a thread that makes a call. They are about
 * all maps made through the open file that these hooks came with.
 */
struct soft_hooks {
	/*
	 * Those of the buffer @handle may show otherwise than what soft_hidden() says
	 * now. Whoever can't change a map now has others do it, and does not wait for a
	 * thread that may be making a call.
	 */
	void (*pages)(void *user, uint32_t handle);
	/*
	 * The device was taken away, and the handshake asked for it: they become zeros,
	 * each map's own.
	 */
	void (*lost)(void *user);
	/*
	 * Calls @visit(@context) for what each has of the buffer @handle, which stays as it
	 * is meanwhile, and of one map once at a time, until a call fails: its result.
	 */
	int (*maps)(void *user, uint32_t handle, soft_visit *visit, void *context);
};

/*
 * How many devices there are; they are 0 to that less 1. Where HETMAP_SOFT has a
 * mistake it is 1, for soft_open to tell of it.
 */
uint32_t soft_count(void);

/*
 * @flags: O_RDWR or O_RDONLY. -ENODEV: no such device, or it was taken away and
 * not plugged in again; -ENOMEM; -EINVAL: HETMAP_SOFT has a mistake.
 */
int soft_open(uint32_t index, int flags, const struct soft_hooks *hooks, void *user,
	      struct soft_file **ret_file);
/*
 * Ends everything of it, as close(2) does. No other call of it may be under way. It
 * waits for hooks of the device that are: the caller holds nothing that they need.
 */
void soft_close(struct soft_file *file);

/* ioctl(2), with a negative errno for errno. @argument must be memory. */
int soft_call(struct soft_file *file, unsigned long cmd, void *argument);
/* HETSIM_SUBMIT of who knows his commands to be there: it is not asked whether they are. */
int soft_submit_own(struct soft_file *file, struct hetsim_submit *submit);

/*
 * What mmap(2) takes for the byte @offset of the device's space of offsets: a
 * descriptor that stays open as long as the buffer's handle, and an offset in it.
 * -ENOENT, -ENODEV, -EPROTO; -ERANGE: beyond the buffer's capacity.
 */
int soft_map_fd(struct soft_file *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset);

/*
 * Whether CPUs find a SIGBUS at byte @offset of the buffer @handle, though its file
 * has bytes there; *@ret_length: of how many bytes, of @length at most, that is so.
 * Asked once a map can be found by the hooks, so that none of two changes is missed.
 */
bool soft_hidden(struct soft_file *file, uint32_t handle, uint64_t offset, uint64_t length,
		 uint64_t *ret_length);

/* Calls answer -ENODEV, and no map shows zeros before. Takes no lock. */
bool soft_is_gone(const struct soft_file *file);

/* HETSIM_BUFFER_INFO.evictions, where it is counted, while the handle is open; NULL: no handle. */
const uint64_t *soft_evictions(struct soft_file *file, uint32_t handle);

/* pread(2) and pwrite(2) on the device. */
ssize_t soft_read(struct soft_file *file, void *to, uint64_t length, uint64_t offset);
ssize_t soft_write(struct soft_file *file, const void *from, uint64_t length, uint64_t offset);

/* A fresh device in the place of one that was taken away. -EEXIST, -EINVAL. */
int soft_plug(uint32_t index);

/* fork(2): the table of devices, held across it; a child has none (runtime/base/fork.c). */
void soft_fork_prepare(void);
void soft_fork_parent(void);
void soft_fork_child(void);

/* Buffers and queues of a device that are alive, for tests: no leak is 0. */
uint32_t soft_objects(uint32_t index);

#endif
