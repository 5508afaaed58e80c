/* SPDX-License-Identifier: MIT */
/*
 * Asking the access hook. Without one, an entry pays for one relaxed load. Each
 * function returns 0 or what the hook refused with, the text set; the caller holds no
 * lock of his own making. Public entries ask before they take their first lock.
 */
#ifndef HETMAP_RUNTIME_ACCESS_H
#define HETMAP_RUNTIME_ACCESS_H

#include <limits.h>

#include "core/core.h"

struct access_slot;

/* NULL: nobody is asked. For access_hooked() only. */
extern _Atomic(struct access_slot *) access_current;

static inline bool access_hooked(void)
{
	return unlikely(atomic_load_explicit(&access_current, memory_order_relaxed) != NULL);
}

/* Fills in who asks. The thread's error text is cleared where it is allowed. */
int access_ask(struct hm_access_request *request);

/*
 * How often a hook has refused this thread, so that a caller who goes on without what has
 * failed can tell the kernel's error from the hook's, which is an answer.
 */
uint64_t access_refusals(void);

/* For the hook: what the kernel calls @fd. */
int access_read_path(int fd, char path[PATH_MAX]);

/* What @flags of a buffer's description ask for. */
static inline uint32_t access_of_flags(uint32_t flags)
{
	return flags & HM_BUFFER_READ_ONLY ? HM_READ : HM_READ | HM_WRITE;
}

/* The halves of the functions below for when there is a hook. */
int access_ask_create(const struct hm_device *device, const struct hm_buffer_desc *desc);
int access_ask_fd(uint32_t operation, const struct hm_device *device, int fd,
		  const struct hm_buffer_desc *desc);
int access_ask_file(int fd, uint64_t size, uint32_t access);
int access_ask_new_file(const char *path, uint64_t size, uint32_t access);
int access_ask_export(struct hm_buffer *buffer, uint32_t flags);
int access_ask_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags);
int access_ask_seal(struct hm_buffer *buffer, uint32_t flags);
int access_ask_map(struct hm_buffer *buffer, const struct hm_map_desc *desc);
int access_ask_range(uint32_t operation, struct hm_map *map, uint64_t offset, uint64_t length,
		     uint32_t access, uint32_t flags);
int access_ask_send(struct hm_buffer *buffer, int socket, uint32_t flags);
int access_ask_receive(const struct hm_device *device, int socket, int fd, uint64_t size,
		       uint32_t access, const struct hm_buffer_desc *desc);

static inline int access_open(const char *device, const char *accel)
{
	struct hm_access_request request = {
		.operation = HM_ACCESS_OPEN,
		.device = device,
		.accel = accel,
	};

	return access_hooked() ? access_ask(&request) : 0;
}

static inline int access_create(const struct hm_device *device,
				const struct hm_buffer_desc *desc)
{
	return access_hooked() ? access_ask_create(device, desc) : 0;
}

/* HM_ACCESS_FROM_FILE, HM_ACCESS_IMPORT: @fd stays the caller's. */
static inline int access_fd(uint32_t operation, const struct hm_device *device, int fd,
			    const struct hm_buffer_desc *desc)
{
	return access_hooked() ? access_ask_fd(operation, device, fd, desc) : 0;
}

/* HM_ACCESS_FROM_FILE of a file that is opened to be read or written, not for a buffer. */
static inline int access_file(int fd, uint64_t size, uint32_t access)
{
	return access_hooked() ? access_ask_file(fd, size, access) : 0;
}

/* Likewise, of one that is to be made as @path, or to take its place. */
static inline int access_new_file(const char *path, uint64_t size, uint32_t access)
{
	return access_hooked() ? access_ask_new_file(path, size, access) : 0;
}

static inline int access_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags)
{
	return access_hooked() ? access_ask_resize(buffer, new_size, flags) : 0;
}

static inline int access_seal(struct hm_buffer *buffer, uint32_t flags)
{
	return access_hooked() ? access_ask_seal(buffer, flags) : 0;
}

static inline int access_export(struct hm_buffer *buffer, uint32_t flags)
{
	return access_hooked() ? access_ask_export(buffer, flags) : 0;
}

static inline int access_send(struct hm_buffer *buffer, int socket, uint32_t flags)
{
	return access_hooked() ? access_ask_send(buffer, socket, flags) : 0;
}

/* @fd came over @socket for a buffer that its owner may make @size bytes long. */
static inline int access_receive(const struct hm_device *device, int socket, int fd,
				 uint64_t size, uint32_t access,
				 const struct hm_buffer_desc *desc)
{
	return access_hooked() ? access_ask_receive(device, socket, fd, size, access, desc) : 0;
}

static inline int access_map(struct hm_buffer *buffer, const struct hm_map_desc *desc)
{
	return access_hooked() ? access_ask_map(buffer, desc) : 0;
}

/* HM_ACCESS_PROTECT, HM_ACCESS_LOCK. */
static inline int access_range(uint32_t operation, struct hm_map *map, uint64_t offset,
			       uint64_t length, uint32_t access, uint32_t flags)
{
	return access_hooked() ?
		       access_ask_range(operation, map, offset, length, access, flags) :
		       0;
}

/* In a fork child: calls of the parent's other threads don't return here. */
void access_fork_child(void);

#endif
