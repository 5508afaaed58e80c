/* SPDX-License-Identifier: MIT */
/*
 * What most tests begin with: a device, a buffer, a map. A failure ends the test. Those that are
 * declared with AUTO() are released at the end of their block, the last one first.
 *
 *	AUTO(hm_device) *device = rig_device("host");
 *	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE));
 *	AUTO(hm_map) *map = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ));
 *
 * or all three, with all of the buffer mapped:
 *
 *	AUTO(rig) r = rig_make("host", DESC(hm_buffer_desc, .size = SIZE));
 */
#ifndef HETMAP_TESTS_RIG_H
#define HETMAP_TESTS_RIG_H

#include <hetmap/hetmap.h>

#include "lib/harness.h"

/* A versioned struct of the library for one call: DESC(hm_loss_desc, .policy = HM_LOSS_ZERO). */
#define DESC(type, ...) (&(struct type){ .struct_size = sizeof(struct type), __VA_ARGS__ })

/* A compiler may not count the end of the block as a use. */
#define AUTO(type) __attribute__((cleanup(type##_auto), unused)) struct type

#define AUTO_UNREF(type)                                                                \
	static inline __attribute__((unused)) void type##_auto(struct type *const *ref) \
	{                                                                               \
		type##_unref(*ref);                                                     \
	}

AUTO_UNREF(hm_device)
AUTO_UNREF(hm_buffer)
AUTO_UNREF(hm_map)
AUTO_UNREF(hm_view)
AUTO_UNREF(hm_fence)
AUTO_UNREF(hm_queue)
AUTO_UNREF(hm_kernel)
AUTO_UNREF(hm_accel)
AUTO_UNREF(hm_pool)
AUTO_UNREF(hm_ring)
AUTO_UNREF(hm_combine)
AUTO_UNREF(hm_tokens)
AUTO_UNREF(hm_batches)
AUTO_UNREF(hm_safetensors)
AUTO_UNREF(hm_tensor)
AUTO_UNREF(hm_gguf)
AUTO_UNREF(hm_load)
AUTO_UNREF(hm_pieces)
AUTO_UNREF(hm_frame)
AUTO_UNREF(hm_frame_pool)
AUTO_UNREF(hm_reader)
AUTO_UNREF(hm_tiering)

/* For AUTO() of a struct that has a function of its own to end it. */
#define AUTO_END(type, end)                                                     \
	static inline __attribute__((unused)) void type##_auto(struct type *it) \
	{                                                                       \
		end(it);                                                        \
	}

struct rig {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *bytes; /* the map's address */
};

struct hm_device *rig_device(const char *name);
struct hm_buffer *rig_buffer(struct hm_device *device, const struct hm_buffer_desc *desc);
/* NULL: all of the buffer, to read and to write. */
struct hm_map *rig_map(struct hm_buffer *buffer, const struct hm_map_desc *desc);
struct hm_kernel *rig_kernel(const struct hm_kernel_desc *desc);
struct hm_fence *rig_fence(int fd); /* imported */
struct hm_frame_pool *rig_frame_pool(struct hm_device *device,
				     const struct hm_frame_pool_desc *desc);

/* A buffer of a file, by its path or by its descriptor, and one of another buffer's descriptor. */
struct hm_buffer *rig_file(struct hm_device *device, const char *path, int fd,
			   const struct hm_buffer_desc *desc);
struct hm_buffer *rig_import(struct hm_device *device, int fd,
			     const struct hm_buffer_desc *desc);

struct hm_accel *rig_accel(const char *name, const struct hm_accel_desc *desc);
struct hm_queue *rig_queue(struct hm_accel *accel, uint32_t flags);

struct rig rig_make(const char *device, const struct hm_buffer_desc *desc);
/* Releases all three, and leaves none. */
void rig_drop(struct rig *rig);

static inline void rig_auto(struct rig *rig)
{
	rig_drop(rig);
}

/* The handler, installed until the end of the block. */
struct rig_handler {
	uint32_t flags;
};

struct rig_handler rig_handler(uint32_t flags);

static inline void rig_handler_auto(const struct rig_handler *handler)
{
	(void)handler;
	CHECK_OK(hm_handler_remove());
}

#endif
