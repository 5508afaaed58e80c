/* SPDX-License-Identifier: MIT */
/*
 * Asks the access hook. Without a hook, an entry costs one relaxed load. Each function returns
 * 0 or the errno with which the hook refused, with the text set. The caller must hold no lock
 * of the library: public entries ask before they take their first lock.
 */
#ifndef HETMAP_HOOK_H
#define HETMAP_HOOK_H

#include <limits.h>

#include "core/core.h"

struct hook_slot;

/* NULL: there is no hook. For hook_hooked() only. */
extern _Atomic(struct hook_slot *) hook_current;

static inline bool hook_hooked(void)
{
	return unlikely(atomic_load_explicit(&hook_current, memory_order_relaxed) != NULL);
}

/*
 * Asks the hook, after filling in the process and thread. Clears the thread's error text if the
 * operation is allowed.
 */
int hook_ask(struct hm_access_request *request);

/*
 * Counts the hook's refusals in this thread. A caller that goes on after a failure uses the
 * count to tell the kernel's error from the hook's, which is final.
 */
uint64_t hook_refusals(void);

/* The kernel's path of @fd, for the hook. */
int hook_read_path(int fd, char path[PATH_MAX]);

/* The rights that the flags of a buffer's description ask for. */
static inline uint32_t access_of_flags(uint32_t flags)
{
	return flags & HM_BUFFER_READ_ONLY ? HM_READ : HM_READ | HM_WRITE;
}

/* Called by the functions below if there is a hook. */
int hook_ask_create(const struct hm_device *device, const struct hm_buffer_desc *desc);
int hook_ask_fd(uint32_t operation, const struct hm_device *device, int fd,
		const struct hm_buffer_desc *desc);
int hook_ask_file(int fd, uint64_t size, uint32_t access);
int hook_ask_new_file(const char *path, uint64_t size, uint32_t access);
int hook_ask_export(struct hm_buffer *buffer, uint32_t flags);
int hook_ask_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags);
int hook_ask_seal(struct hm_buffer *buffer, uint32_t flags);
int hook_ask_map(struct hm_buffer *buffer, const struct hm_map_desc *desc);
int hook_ask_range(uint32_t operation, struct hm_map *map, uint64_t offset, uint64_t length,
		   uint32_t access, uint32_t flags);
int hook_ask_send(struct hm_buffer *buffer, int socket, uint32_t flags);
int hook_ask_receive(const struct hm_device *device, int socket, int fd, uint64_t size,
		     uint32_t access, const struct hm_buffer_desc *desc);

static inline int hook_open(const char *device, const char *accel)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_OPEN,
		.device = device,
		.accel = accel,
	};

	return hook_hooked() ? hook_ask(&request) : 0;
}

static inline int hook_create(const struct hm_device *device, const struct hm_buffer_desc *desc)
{
	return hook_hooked() ? hook_ask_create(device, desc) : 0;
}

/* HM_ACCESS_FROM_FILE, HM_ACCESS_IMPORT: @fd stays the caller's. */
static inline int hook_fd(uint32_t operation, const struct hm_device *device, int fd,
			  const struct hm_buffer_desc *desc)
{
	return hook_hooked() ? hook_ask_fd(operation, device, fd, desc) : 0;
}

/* HM_ACCESS_FROM_FILE for a file that is read or written without a buffer. */
static inline int hook_file(int fd, uint64_t size, uint32_t access)
{
	return hook_hooked() ? hook_ask_file(fd, size, access) : 0;
}

/* As hook_file(), for a file that will be made at @path, or will replace the one there. */
static inline int hook_new_file(const char *path, uint64_t size, uint32_t access)
{
	return hook_hooked() ? hook_ask_new_file(path, size, access) : 0;
}

static inline int hook_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags)
{
	return hook_hooked() ? hook_ask_resize(buffer, new_size, flags) : 0;
}

static inline int hook_seal(struct hm_buffer *buffer, uint32_t flags)
{
	return hook_hooked() ? hook_ask_seal(buffer, flags) : 0;
}

static inline int hook_export(struct hm_buffer *buffer, uint32_t flags)
{
	return hook_hooked() ? hook_ask_export(buffer, flags) : 0;
}

static inline int hook_send(struct hm_buffer *buffer, int socket, uint32_t flags)
{
	return hook_hooked() ? hook_ask_send(buffer, socket, flags) : 0;
}

/* @fd came over @socket for a buffer that its owner may grow to @size bytes. */
static inline int hook_receive(const struct hm_device *device, int socket, int fd,
			       uint64_t size, uint32_t access,
			       const struct hm_buffer_desc *desc)
{
	return hook_hooked() ? hook_ask_receive(device, socket, fd, size, access, desc) : 0;
}

static inline int hook_map(struct hm_buffer *buffer, const struct hm_map_desc *desc)
{
	return hook_hooked() ? hook_ask_map(buffer, desc) : 0;
}

/* HM_ACCESS_PROTECT, HM_ACCESS_LOCK. */
static inline int hook_range(uint32_t operation, struct hm_map *map, uint64_t offset,
			     uint64_t length, uint32_t access, uint32_t flags)
{
	return hook_hooked() ? hook_ask_range(operation, map, offset, length, access, flags) :
			       0;
}

/*
 * Resets the counts in a fork child, to which calls of the parent's other threads never return.
 */
void hook_fork_child(void);

#endif
