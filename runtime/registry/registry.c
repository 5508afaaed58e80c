// SPDX-License-Identifier: MIT
/*
 * Registry: address -> map. radix.h finds the slot; this file fills it with a descriptor of the
 * map, in one cache line.
 *
 * A reader loads the sequence, then the fields, then the sequence again. If it is unchanged,
 * the fields belong together: a sequence is odd from the moment a descriptor is retired to the
 * moment it is full again. Slots, descriptors and arrays of runs keep their type for ever, so a
 * late reader loads only memory of the registry. The loads are acquire and the stores release
 * (free on x86, and known to TSan, which does not know fences): a reader that saw one new field
 * sees the sequence that went before it.
 *
 * A change never makes a reader wait, because the reader may be a signal handler on top of the
 * writer: one store sends readers from the slot to a descriptor that was filled beforehand, the
 * slot is filled anew meanwhile, and one more store calls the readers back.
 *
 * A stale slot does no harm: its map was removed after the reader's walk began. If another map
 * has the slot by now, the address is outside that map's range, and -ENOENT was the truth in
 * between.
 */
#include "registry/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/core.h"
#include "registry/descriptor.h"
#include "registry/radix.h"
#include "base/slab.h"

_Atomic uint64_t registry_n_special;

/* How often a lookup tries before it answers -EAGAIN. */
#define TRIES 16

/* An array has 8 bytes << class in all; vm.max_map_count needs no larger class. */
#define RUNS_CLASS_MIN 2
#define RUNS_HEADER 2
#define RUNS_CLASS_MAX 24

/* Protects the slabs, the tree, and every store to a slot or descriptor. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct slab slots = {
	.size = sizeof(struct registry_slot),
	.link = offsetof(struct registry_slot, descriptor.map),
	.chunk = KIB(8),
};

static struct slab descriptors = {
	.size = sizeof(struct registry_descriptor),
	.link = offsetof(struct registry_descriptor, map),
	.chunk = KIB(4),
};

static struct slab arrays[RUNS_CLASS_MAX + 1];

static _Atomic uint64_t retries;

/* ---- rights ---- */

static unsigned int runs_class(uint64_t n)
{
	unsigned int shift = RUNS_CLASS_MIN;

	while (n + RUNS_HEADER > 1ull << shift)
		shift++;
	return shift;
}

static struct slab *runs_slab(unsigned int class)
{
	struct slab *slab = &arrays[class];

	slab->size = 8u << class;
	slab->link = offsetof(struct runs, run[0]);
	slab->chunk = slab->size;
	return slab;
}

/* Rounds offsets up to pages, because the kernel keeps rights by page. */
static struct runs *runs_make(const struct rangemap *access, struct hm_device *device)
{
	unsigned int class = runs_class(access->n);
	struct runs *runs;
	uint32_t i, n;

	if (class > RUNS_CLASS_MAX)
		return NULL;
	runs = slab_take(runs_slab(class));
	if (!runs)
		return NULL;
	for (i = n = 0; i < access->n; i++) {
		const struct rangemap_run *run = &access->run[i];
		uint64_t offset = round_up(run->offset, KIB(4));

		if (i + 1 < access->n && round_up(run[1].offset, KIB(4)) == offset)
			continue; /* no whole page of the run is left */
		STORE(runs->run[n], offset | run->cache << RUN_CACHE_SHIFT | run->value);
		n++;
	}
	for (; n < access->n; n++)
		STORE(runs->run[n], UINT64_MAX); /* behind every offset */
	/* The full count, from which runs_put() finds the class again. */
	STORE(runs->n, access->n);
	STORE(runs->device, (uintptr_t)device);
	return runs;
}

static void runs_put(struct runs *runs)
{
	if (runs)
		slab_put(runs_slab(runs_class(LOAD(runs->n))), runs);
}

/* Finds the run that holds @offset. In an array that is being reused the result is any word. */
static uint64_t runs_at(const struct runs *runs, uint64_t offset)
{
	uint64_t low = 0;
	uint64_t high = LOAD(runs->n);

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (round_down(LOAD(runs->run[middle]), KIB(4)) <= offset)
			low = middle;
		else
			high = middle;
	}
	return LOAD(runs->run[low]);
}

/* ---- descriptors ---- */

static struct runs *descriptor_runs(const struct registry_descriptor *descriptor)
{
	if (!(tail_unpack(LOAD(descriptor->tail)).flags & DESCRIPTOR_RUNS))
		return NULL;
	return (struct runs *)(uintptr_t)LOAD(descriptor->device);
}

/* Fills a new or retired descriptor. Readers trust it from descriptor_publish() on. */
static int descriptor_fill(struct registry_descriptor *descriptor,
			   const struct registry_entry *entry)
{
	struct tail tail = {
		.generation = entry->generation,
		.access = (uint8_t)entry->access->run[0].value,
		.cache = (uint8_t)entry->access->run[0].cache,
		.flags = entry->not_inherited ? DESCRIPTOR_NOT_INHERITED : 0,
	};
	uint64_t device = (uintptr_t)entry->device;

	if (entry->access->n > 1) {
		device = (uintptr_t)runs_make(entry->access, entry->device);
		if (!device)
			return -ENOMEM;
		tail.flags |= DESCRIPTOR_RUNS;
	}
	STORE(descriptor->seq, (uint32_t)LOAD(descriptor->seq) | SEQ_ODD);
	STORE(descriptor->base, entry->base);
	STORE(descriptor->length, entry->length);
	STORE(descriptor->buffer_offset, entry->buffer_offset);
	STORE(descriptor->map, (uintptr_t)entry->map);
	STORE(descriptor->buffer, (uintptr_t)entry->buffer);
	STORE(descriptor->device, device);
	STORE(descriptor->tail, tail_pack(tail));
	return 0;
}

/* Counts the lower half up to an even number; the upper half takes no carry. */
static uint64_t seq_next(uint64_t generation, uint64_t seq)
{
	return generation << 32 | (((uint32_t)seq | 1) + 1u);
}

static void descriptor_publish(struct registry_descriptor *descriptor)
{
	STORE(descriptor->seq, seq_next(fork_generation, LOAD(descriptor->seq)));
}

/* Must come before the descriptor's runs, or the word of its link, are reused. */
static void descriptor_retire(struct registry_descriptor *descriptor)
{
	STORE(descriptor->seq, LOAD(descriptor->seq) | SEQ_ODD);
}

/* The cases that find_once() leaves: flags, or a change in progress. */
static __attribute__((noinline)) int find_flagged(const struct registry_slot *slot,
						  uint64_t address,
						  struct hm_pointer_info *ret_info)
{
	const struct registry_descriptor *descriptor = &slot->descriptor;
	uint64_t at = LOAD(slot->descriptor.seq);
	struct hm_pointer_info info;
	uint64_t seq, word, base;
	struct tail tail;

	if (at & SEQ_FORWARD)
		descriptor = (const void *)(uintptr_t)(at & ~SEQ_FORWARD);
	else if (at & SEQ_ODD)
		return -ENOENT;
	seq = at & SEQ_FORWARD ? LOAD(descriptor->seq) : at;
	word = LOAD(descriptor->tail);
	base = LOAD(descriptor->base);
	tail = tail_unpack(word);
	info = (struct hm_pointer_info){
		.map = (struct hm_map *)(uintptr_t)LOAD(descriptor->map),
		.buffer = (struct hm_buffer *)(uintptr_t)LOAD(descriptor->buffer),
		.device = (struct hm_device *)(uintptr_t)LOAD(descriptor->device),
		.map_offset = address - base,
		.buffer_offset = LOAD(descriptor->buffer_offset) + (address - base),
		.base = (void *)(uintptr_t)base,
		.length = LOAD(descriptor->length),
		.generation = tail.generation,
		.access = tail.access,
		.cache = tail.cache,
	};

	if (tail.flags & DESCRIPTOR_RUNS) {
		const struct runs *runs = (const struct runs *)info.device;
		uint64_t run;

		/* A changed descriptor may have another kind of pointer in this word. */
		if ((seq & SEQ_ODD) || LOAD(descriptor->seq) != seq)
			return -EAGAIN;
		run = runs_at(runs, info.map_offset);
		info.access = run & RUN_FIELD_MASK;
		info.cache = run >> RUN_CACHE_SHIFT & RUN_FIELD_MASK;
		info.device = (struct hm_device *)(uintptr_t)LOAD(runs->device);
	}
	if ((seq & SEQ_ODD) || LOAD(slot->descriptor.seq) != at || LOAD(descriptor->seq) != seq)
		return -EAGAIN;
	if (info.map_offset >= info.length || is_left(seq, word))
		return -ENOENT;
	*ret_info = info;
	return 0;
}

/* -EAGAIN: the map was changed meanwhile. */
static inline __attribute__((always_inline)) int
find_once(const struct registry_slot *slot, uint64_t address, struct hm_pointer_info *ret_info)
{
	const struct registry_descriptor *descriptor = &slot->descriptor;
	uint64_t seq = LOAD(descriptor->seq);
	uint64_t base = LOAD(descriptor->base);
	uint64_t length = LOAD(descriptor->length);
	uint64_t buffer_offset = LOAD(descriptor->buffer_offset);
	uint64_t map = LOAD(descriptor->map);
	uint64_t buffer = LOAD(descriptor->buffer);
	uint64_t device = LOAD(descriptor->device);
	uint64_t tail = LOAD(descriptor->tail);

	if (unlikely(seq & (SEQ_FORWARD | SEQ_ODD)) || unlikely(tail_unpack(tail).flags))
		return find_flagged(slot, address, ret_info);
	if (unlikely(LOAD(descriptor->seq) != seq))
		return -EAGAIN;
	if (unlikely(address - base >= length))
		return -ENOENT;
	ret_info->map = (struct hm_map *)(uintptr_t)map;
	ret_info->buffer = (struct hm_buffer *)(uintptr_t)buffer;
	ret_info->device = (struct hm_device *)(uintptr_t)device;
	ret_info->map_offset = address - base;
	ret_info->buffer_offset = buffer_offset + (address - base);
	ret_info->base = (void *)(uintptr_t)base;
	ret_info->length = length;
	ret_info->pool = NULL;
	memcpy((char *)ret_info + INFO_TAIL, &tail, sizeof(tail));
	return 0;
}

/* Kept apart from the lookups that succeed at the first try. */
static __attribute__((noinline, cold)) int
find_again(const struct registry_slot *slot, uint64_t address, struct hm_pointer_info *ret_info)
{
	int tries, r = -EAGAIN;

	for (tries = 1; tries < TRIES && r == -EAGAIN; tries++) {
		atomic_fetch_add_explicit(&retries, 1, memory_order_relaxed);
		r = find_once(slot, address, ret_info);
	}
	return r;
}

int registry_find(const void *pointer, struct hm_pointer_info *ret_info)
{
	uint64_t address = (uintptr_t)pointer;
	const struct registry_slot *slot = radix_find(address);
	int r;

	if (unlikely(!slot))
		return -ENOENT;
	r = find_once(slot, address, ret_info);
	return unlikely(r == -EAGAIN) ? find_again(slot, address, ret_info) : r;
}

/* Looks up the map's first byte, which is always within its length. */
int registry_find_reserved(const void *pointer, struct hm_pointer_info *ret_info)
{
	uint64_t address = (uintptr_t)pointer, base;
	const struct registry_slot *slot;
	struct hm_pointer_info info;
	int r;

	r = registry_find(pointer, ret_info);
	if (r != -ENOENT)
		return r;
	slot = radix_find(address);
	if (!slot)
		return -ENOENT;
	base = LOAD(slot->descriptor.base);
	r = registry_find((const void *)(uintptr_t)base, &info);
	if (r || address < base)
		return r ? r : -ENOENT;
	/* The slot may be another map's by now, one that does not own the address. */
	if (radix_find(address) != slot || (uintptr_t)info.base != base)
		return -EAGAIN;
	info.map_offset += address - base;
	info.buffer_offset += address - base;
	*ret_info = info;
	return 0;
}

struct hm_map *registry_acquire(const void *pointer, struct hm_pointer_info *ret_info)
{
	struct hm_pointer_info info;
	struct hm_map *map = NULL;

	pthread_mutex_lock(&mutex);
	if (!registry_find(pointer, &info) && object_try_ref(&info.map->object)) {
		map = info.map;
		*ret_info = info;
	}
	pthread_mutex_unlock(&mutex);
	return map;
}

/* ---- writers ---- */

/*
 * Fills all fields except access. False: the slot has no map in this process. The caller holds
 * the mutex, so no slot is in the middle of a change.
 */
static bool slot_describe(const struct registry_slot *slot, struct registry_entry *ret_entry)
{
	const struct registry_descriptor *descriptor = &slot->descriptor;
	const struct runs *runs;
	struct tail tail;

	if ((LOAD(descriptor->seq) & SEQ_ODD) ||
	    is_left(LOAD(descriptor->seq), LOAD(descriptor->tail)))
		return false;
	tail = tail_unpack(LOAD(descriptor->tail));
	runs = descriptor_runs(descriptor);
	*ret_entry = (struct registry_entry){
		.base = LOAD(descriptor->base),
		.length = LOAD(descriptor->length),
		.buffer_offset = LOAD(descriptor->buffer_offset),
		.map = (struct hm_map *)(uintptr_t)LOAD(descriptor->map),
		.buffer = (struct hm_buffer *)(uintptr_t)LOAD(descriptor->buffer),
		.device = (struct hm_device *)(uintptr_t)(runs ? LOAD(runs->device) :
								 LOAD(descriptor->device)),
		.generation = tail.generation,
		.not_inherited = tail.flags & DESCRIPTOR_NOT_INHERITED,
	};
	return true;
}

int registry_check_left(const void *pointer)
{
	const struct registry_descriptor *descriptor;
	const struct registry_slot *slot;
	bool left = false;

	pthread_mutex_lock(&mutex);
	slot = radix_find((uintptr_t)pointer);
	if (slot) {
		descriptor = &slot->descriptor;
		left = is_left(LOAD(descriptor->seq), LOAD(descriptor->tail)) &&
		       (uintptr_t)pointer - LOAD(descriptor->base) < LOAD(descriptor->length);
	}
	pthread_mutex_unlock(&mutex);
	if (likely(!left))
		return 0;
	return err_set(-EOWNERDEAD,
		       "%p is in a map of the parent process, which was not inherited: after "
		       "fork() the child makes its own",
		       pointer);
}

static void slot_clear(struct registry_slot *slot)
{
	struct registry_descriptor *descriptor = &slot->descriptor;

	/* This store removes all of the map at once. */
	descriptor_retire(descriptor);
	radix_clear(LOAD(descriptor->base) >> PAGE_SHIFT, slot);
	runs_put(descriptor_runs(descriptor));
}

/*
 * Clears the entries of maps that this fork child did not inherit: the kernel may give their
 * addresses to new maps. Their slots are not reused, since objects of the parent point to them.
 */
static bool evict_left(void)
{
	struct registry_slot *slot;
	bool evicted = false;
	uint64_t page = 0;

	while ((slot = radix_next(page, &page))) {
		struct registry_entry entry;

		if (slot_describe(slot, &entry))
			continue;
		slot_clear(slot);
		evicted = true;
	}
	return evicted;
}

int registry_insert(const struct registry_entry *entry, uint64_t span,
		    struct registry_slot **ret_slot)
{
	uint64_t end = 1ull << RADIX_ADDRESS_BITS;
	uint64_t first = entry->base >> PAGE_SHIFT;
	uint64_t last = first + (span >> PAGE_SHIFT) - 1;
	struct registry_slot *slot;
	int r;

	if (!is_aligned(entry->base | span, 1u << PAGE_SHIFT) || !span ||
	    entry->length > span || entry->base >= end || span > end - entry->base)
		return -EINVAL;
	fork_init();
	pthread_mutex_lock(&mutex);
	r = radix_prepare(first, last);
	if (r == -EEXIST && fork_generation && evict_left())
		r = radix_prepare(first, last);
	if (r)
		goto unlock;
	slot = slab_take(&slots);
	if (!slot) {
		r = -ENOMEM;
		goto unlock;
	}
	r = descriptor_fill(&slot->descriptor, entry);
	if (r)
		goto put_slot;
	radix_enter(first, last, slot);
	/* This store makes all of the map visible at once. */
	descriptor_publish(&slot->descriptor);
	pthread_mutex_unlock(&mutex);
	*ret_slot = slot;
	return 0;

put_slot:
	slab_put(&slots, slot);
unlock:
	pthread_mutex_unlock(&mutex);
	return r;
}

int registry_stage(const struct registry_entry *entry, struct registry_descriptor **ret_staged)
{
	struct registry_descriptor *staged;
	int r = -ENOMEM;

	pthread_mutex_lock(&mutex);
	staged = slab_take(&descriptors);
	if (!staged)
		goto unlock;
	r = descriptor_fill(staged, entry);
	if (r)
		goto put_staged;
	descriptor_publish(staged);
	pthread_mutex_unlock(&mutex);
	*ret_staged = staged;
	return 0;

put_staged:
	slab_put(&descriptors, staged);
unlock:
	pthread_mutex_unlock(&mutex);
	return r;
}

void registry_restage(const struct registry_entry *entry, struct registry_descriptor *staged)
{
	pthread_mutex_lock(&mutex);
	descriptor_retire(staged);
	runs_put(descriptor_runs(staged));
	descriptor_fill(staged, entry);
	descriptor_publish(staged);
	pthread_mutex_unlock(&mutex);
}

void registry_set_generation(struct registry_slot *slot, uint32_t generation)
{
	struct tail tail;

	pthread_mutex_lock(&mutex);
	tail = tail_unpack(LOAD(slot->descriptor.tail));
	tail.generation = generation;
	STORE(slot->descriptor.tail, tail_pack(tail));
	pthread_mutex_unlock(&mutex);
}

void registry_commit(struct registry_slot *slot, struct registry_descriptor *staged)
{
	struct registry_descriptor *descriptor = &slot->descriptor;
	struct runs *runs;
	uint64_t seq;

	pthread_mutex_lock(&mutex);
	runs = descriptor_runs(descriptor);
	seq = LOAD(descriptor->seq);
	/* This store is the moment of the change. */
	STORE(descriptor->seq, (uintptr_t)staged | SEQ_FORWARD);
	STORE(descriptor->base, LOAD(staged->base));
	STORE(descriptor->length, LOAD(staged->length));
	STORE(descriptor->buffer_offset, LOAD(staged->buffer_offset));
	STORE(descriptor->map, LOAD(staged->map));
	STORE(descriptor->buffer, LOAD(staged->buffer));
	STORE(descriptor->device, LOAD(staged->device));
	STORE(descriptor->tail, LOAD(staged->tail));
	STORE(descriptor->seq, seq_next(LOAD(staged->seq) >> 32, seq));
	/* The array of @staged belongs to the slot by now. */
	runs_put(runs);
	descriptor_retire(staged);
	slab_put(&descriptors, staged);
	pthread_mutex_unlock(&mutex);
}

void registry_abandon(struct registry_descriptor *staged)
{
	pthread_mutex_lock(&mutex);
	descriptor_retire(staged);
	runs_put(descriptor_runs(staged));
	slab_put(&descriptors, staged);
	pthread_mutex_unlock(&mutex);
}

void registry_remove(struct registry_slot *slot)
{
	pthread_mutex_lock(&mutex);
	slot_clear(slot);
	slab_put(&slots, slot);
	pthread_mutex_unlock(&mutex);
}

/* ---- the rest ---- */

/* Bytes between @address and the map's range; 0 inside. */
static uint64_t distance(const struct registry_entry *entry, uint64_t address)
{
	if (address < entry->base)
		return entry->base - address;
	if (address - entry->base < entry->length)
		return 0;
	return address - entry->base - entry->length + 1;
}

bool registry_nearest(const void *pointer, struct registry_entry *ret_entry)
{
	uint64_t address = (uintptr_t)pointer;
	uint64_t page = min_u64(address >> PAGE_SHIFT, RADIX_PAGES - 1);
	struct registry_entry below, above;
	bool has_below = false, has_above = false;
	struct registry_slot *slot;
	uint64_t at;

	pthread_mutex_lock(&mutex);
	/* Page RADIX_PAGES is behind the last page, page -1 before the first. */
	for (at = page; at < RADIX_PAGES && !has_below; at--) {
		slot = radix_previous(at, &at);
		if (!slot)
			break;
		has_below = slot_describe(slot, &below);
	}
	/* A map around @address counts as below, even if @address is past its length. */
	for (at = page; !has_above && (slot = radix_next(at, &at));)
		has_above = slot_describe(slot, &above) && above.base > address;
	pthread_mutex_unlock(&mutex);
	if (has_below && has_above && distance(&above, address) < distance(&below, address))
		has_below = false;
	if (has_below || has_above)
		*ret_entry = has_below ? below : above;
	return has_below || has_above;
}

int registry_each(uint64_t from, int (*each)(void *user, const struct registry_entry *entry),
		  void *user)
{
	struct registry_slot *slot, *before = NULL;
	struct registry_entry entry;
	uint64_t page = from >> PAGE_SHIFT;
	int r = 0;

	pthread_mutex_lock(&mutex);
	while (!r && (slot = radix_next(page, &page))) {
		if (slot != before && slot_describe(slot, &entry))
			r = each(user, &entry);
		before = slot;
	}
	pthread_mutex_unlock(&mutex);
	return r;
}

uint64_t registry_slab_bytes(void)
{
	return slab_total();
}

uint64_t registry_find_retries(void)
{
	return atomic_load_explicit(&retries, memory_order_relaxed);
}

void registry_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void registry_fork_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

/* The new fork_generation already marks the maps that were not inherited. */
void registry_fork_child(void)
{
	pthread_mutex_unlock(&mutex);
}
