/* SPDX-License-Identifier: MIT */
/*
 * soft:N, the twin of /dev/hetsimN in this process: no module, no privileges. It takes the calls
 * of include/uapi/hetsim.h, with the same structures, limits and errnos. Abilities of the module
 * that the twin lacks are not among its features.
 *
 * A buffer's pages are a memfd of its present length. It is not sealed: when the device is
 * unplugged the file is truncated, under every map of every process. A move of pages changes the
 * accounts only; the pages stay where they are.
 *
 * Hooks are called after a change, with none of the twin's locks held (reach.h).
 *
 * Differences to the module:
 * - The device learns of no map and no bracket: BUFFER_INFO's maps and the counters of faults
 *   are 0.
 * - An exported descriptor does not keep the buffer: when its last handle and binding are gone,
 *   it can't be imported any more, and the descriptor's holder keeps the bytes, whatever happens
 *   to the device. The twin does not learn when such a descriptor is closed: a buffer that was
 *   exported does not shrink any more (-EBUSY).
 * - An export is a memfd, and no dma-buf. The fences of a buffer (struct hetsim_use) are on no
 *   descriptor of it: submissions of this process wait for them, those to the same device.
 * - FENCE_FD gives an eventfd, which has no status: only the kernel makes sync_files. Submissions
 *   wait for eventfds, too, and give such instead of sync_files.
 * - A timeline is a memfd. Points that submissions of a process were to signal never come if the
 *   process ends before them.
 * - No map is write-combining: only the kernel sets page attributes.
 * - Bytes that CPUs can't reach, in VRAM outside of the window or harmed on request, are hidden
 *   by the hooks, in maps made through the device's open files: a map of an exported descriptor,
 *   here or in another process, reaches all of them.
 *
 * BUFFER_SAMPLE reads the use of pages by CPUs from page tables: START and READ take entries
 * away, and a page with an entry at the next READ was used. Locked maps can't lose theirs
 * (-EBUSY). A load maps up to 64 KiB around it, unless the process may use userfaultfd(2), which
 * switches that off; a store never does. Pages that the kernel has reclaimed since are not
 * counted.
 *
 * The mirror is user space's (soft/mirror.h): the kernel copies each access with the CPU's rights,
 * and takes no entries away. Stale ones go when an access or RANGE_QUERY finds them; an entry stays
 * where other memory with pages has come to its address. Pages never move. Memory of devices is
 * used as any other. MIRROR_EVENTS keeps the first events of those that are not read, and leaves
 * out the next ones.
 *
 * A child of fork() has devices of its own; it can't use its parent's files.
 *
 * Settings come from the environment when the first device opens, as the module's parameters do
 * when it is loaded: HETMAP_SOFT="devices=2 vram_mb=64 system_mb=64 bar_mb=16 opener_mb=96
 * kind=fpga fault_us=100 test=1", in any order, separated by blanks or commas.
 */
#ifndef HETMAP_RUNTIME_SOFT_H
#define HETMAP_RUNTIME_SOFT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uapi/hetsim.h>

/* An open file of a soft device, like an open /dev/hetsimN. */
struct soft_file;

/* Bytes [@offset, @offset + @length) of a buffer are mapped at @address. */
typedef int soft_visit(void *context, char *address, uint64_t offset, uint64_t length);

/*
 * Functions of the opener, which maps the files and so knows the maps that the twin does not.
 * Called with none of the twin's locks held, from a thread that makes a call. They must act on
 * all maps made through the open file that these hooks came with.
 */
struct soft_hooks {
	/*
	 * Maps of the buffer @handle may differ from the present answers of soft_hidden():
	 * corrects them. A hook that can't change a map now must leave it to another thread, and
	 * must not wait for a thread that may be making a call.
	 */
	void (*pages)(void *user, uint32_t handle);
	/*
	 * The device was unplugged, and the handshake asked for zeros: replaces each map by
	 * zeros of its own.
	 */
	void (*lost)(void *user);
	/*
	 * Calls @visit(@context) for each map's part of the buffer @handle, one call for a map
	 * at a time, until a call fails; returns its result. A map must not change during the
	 * visit.
	 */
	int (*maps)(void *user, uint32_t handle, soft_visit *visit, void *context);
};

/*
 * Number of devices; they are 0 to that less 1. Returns 1 where HETMAP_SOFT has a mistake, so
 * that soft_open can tell of it.
 */
uint32_t soft_count(void);

/*
 * @flags: O_RDWR or O_RDONLY.
 * Errors:
 *   -ENODEV no such device, or it was unplugged and not plugged in again
 *   -ENOMEM
 *   -EINVAL HETMAP_SOFT has a mistake
 */
int soft_open(uint32_t index, int flags, const struct soft_hooks *hooks, void *user,
	      struct soft_file **ret_file);
/*
 * Ends everything of the file, like close(2). No other call on it may be under way. Waits for
 * running hooks of the device: the caller must hold nothing that they need.
 */
void soft_close(struct soft_file *file);

/* ioctl(2), with a negative errno as result. @argument must be memory. */
int soft_call(struct soft_file *file, unsigned long cmd, void *argument);
/* HETSIM_SUBMIT without the check that the commands are mapped: the caller knows. */
int soft_submit_own(struct soft_file *file, struct hetsim_submit *submit);

/*
 * Arguments of mmap(2) for the byte @offset of the device's space of offsets: a descriptor that
 * stays open as long as the buffer's handle, and an offset in it.
 * Errors:
 *   -ENOENT, -ENODEV, -EPROTO
 *   -ERANGE beyond the buffer's capacity
 */
int soft_map_fd(struct soft_file *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset);

/*
 * Must CPUs find a SIGBUS at byte @offset of the buffer @handle, though its file has bytes
 * there? *@ret_length: number of bytes, of @length at most, with the same answer. The caller
 * must ask after the hooks can find the map, so that no change is missed.
 */
bool soft_hidden(struct soft_file *file, uint32_t handle, uint64_t offset, uint64_t length,
		 uint64_t *ret_length);

/* Calls answer -ENODEV then; no map shows zeros earlier. Takes no lock. */
bool soft_is_gone(const struct soft_file *file);

/*
 * Address of the count behind HETSIM_BUFFER_INFO.evictions, valid while the handle is open;
 * NULL: no handle.
 */
const uint64_t *soft_evictions(struct soft_file *file, uint32_t handle);

/* pread(2) and pwrite(2) on the device. */
ssize_t soft_read(struct soft_file *file, void *to, uint64_t length, uint64_t offset);
ssize_t soft_write(struct soft_file *file, const void *from, uint64_t length, uint64_t offset);

/* Plugs a fresh device in the place of one that was unplugged. -EEXIST, -EINVAL. */
int soft_plug(uint32_t index);

/*
 * fork(2): the lock of the device table is held across it; a child has no devices
 * (runtime/base/fork.c).
 */
void soft_fork_prepare(void);
void soft_fork_parent(void);
void soft_fork_child(void);

/* Number of live buffers and queues of a device, for tests: 0 means no leak. */
uint32_t soft_objects(uint32_t index);

#endif
