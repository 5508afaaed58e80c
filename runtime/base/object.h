/* SPDX-License-Identifier: MIT */
/*
 * Common head of all objects: a reference count, a kind that catches foreign and freed pointers,
 * and the fork generation of the process that made the object.
 */
#ifndef HETMAP_OBJECT_H
#define HETMAP_OBJECT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fork.h"
#include "base/util.h"

/* Every kind: its name in the code, a number unlike data, its name in messages. */
#define OBJECT_KINDS(X)                              \
	X(DEVICE, 0x686d6456, "device")              \
	X(BUFFER, 0x686d6242, "buffer")              \
	X(MAP, 0x686d6d50, "map")                    \
	X(VIEW, 0x686d7657, "view")                  \
	X(DRM_VIEW, 0x686d4456, "DRM view")          \
	X(ACCEL, 0x686d6143, "accelerator")          \
	X(KERNEL, 0x686d6b4c, "kernel")              \
	X(QUEUE, 0x686d7155, "queue")                \
	X(FENCE, 0x686d664e, "fence")                \
	X(SCOPE, 0x686d7343, "protection scope")     \
	X(PIECES, 0x686d5069, "hm_pieces")           \
	X(SAFETENSORS, 0x686d5366, "hm_safetensors") \
	X(GGUF, 0x686d4767, "hm_gguf")               \
	X(TENSOR, 0x686d5465, "tensor")              \
	X(READER, 0x686d5264, "hm_reader")           \
	X(TOKENS, 0x686d546b, "hm_tokens")           \
	X(BATCHES, 0x686d4261, "hm_batches")         \
	X(LOAD, 0x686d4c6f, "load")                  \
	X(RING, 0x686d5267, "ring")                  \
	X(POOL, 0x686d506f, "pool")                  \
	X(COMBINE, 0x686d436d, "combine")            \
	X(FRAME, 0x686d4672, "frame")                \
	X(FRAME_POOL, 0x686d4670, "frame pool")      \
	X(TIERING, 0x686d5469, "tiering")

enum object_kind {
	OBJECT_FREED = 0,
#define OBJECT_ENUM(kind, number, name) OBJECT_##kind = number,
	OBJECT_KINDS(OBJECT_ENUM)
#undef OBJECT_ENUM
};

struct hm_object {
	_Atomic uint32_t refs;
	uint32_t kind;     /* enum object_kind */
	uint32_t fork_gen; /* of the process that made it */
};

static inline void object_init(struct hm_object *object, enum object_kind kind)
{
	atomic_init(&object->refs, 1);
	object->kind = kind;
	object->fork_gen = fork_generation;
}

/* Cold half of object_check: sets the text. */
int object_refuse(const struct hm_object *object, enum object_kind kind);

/* 0, -EINVAL (NULL, freed, of another kind) or -EOWNERDEAD (the parent's). */
static inline int object_check(const struct hm_object *object, enum object_kind kind)
{
	if (likely(object && object->kind == (uint32_t)kind &&
		   object->fork_gen == fork_generation))
		return 0;
	return object_refuse(object, kind);
}

static inline void object_ref(struct hm_object *object)
{
	atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

/* Takes a reference unless the last one is already gone. */
static inline bool object_try_ref(struct hm_object *object)
{
	uint32_t refs = atomic_load_explicit(&object->refs, memory_order_relaxed);

	while (refs)
		if (atomic_compare_exchange_weak(&object->refs, &refs, refs + 1))
			return true;
	return false;
}

/*
 * Drops a reference; true when it was the last and the caller must destroy the object. Never
 * true for a parent's object in a fork child: the parent owns the memory and the files behind
 * it, and another thread may have held its locks at the fork.
 */
static inline bool object_put(struct hm_object *object)
{
	if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1)
		return false;
	return object->fork_gen == fork_generation;
}

#endif
