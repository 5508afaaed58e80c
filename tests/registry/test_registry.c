// SPDX-License-Identifier: MIT
/*
 * The registry against a naive model. It never touches the memory of a map, so
 * the addresses here are made up.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "lib/harness.h"
#include "base/sys.h"

#define TIB(n) ((uint64_t)(n) << 40)

/* Where no test of this file but one goes twice. */
#define AREA TIB(64)
#define AREA_SIZE TIB(4)

#define N_MAP 96

/* The right answer of the registry about one map. */
struct model {
	struct registry_slot *slot; /* NULL: not there */
	struct registry_entry entry;
	uint64_t span;
	struct rangemap *rights;
};

static struct hm_map fake_maps[N_MAP];

static void model_init(struct model *model, size_t i)
{
	*model = (struct model){ .entry.map = &fake_maps[i] };
	object_init(&fake_maps[i].object, OBJECT_MAP);
	model->entry.buffer = (struct hm_buffer *)(uintptr_t)(0x1000 + i);
	model->entry.device = (struct hm_device *)(uintptr_t)(0x2000 + i);
}

static const struct model *model_at(const struct model *models, uint64_t address)
{
	size_t i;

	for (i = 0; i < N_MAP; i++)
		if (models[i].slot && address >= models[i].entry.base &&
		    address - models[i].entry.base < models[i].entry.length)
			return &models[i];
	return NULL;
}

static void check_info(const struct model *model, uint64_t address,
		       const struct hm_pointer_info *info)
{
	const struct registry_entry *entry = &model->entry;
	const struct rangemap_run *run = rangemap_at(model->rights, address - entry->base);

	CHECK(info->map == entry->map);
	CHECK(info->buffer == entry->buffer);
	CHECK(info->device == entry->device);
	CHECK_EQUAL(info->map_offset, address - entry->base);
	CHECK_EQUAL(info->buffer_offset, entry->buffer_offset + (address - entry->base));
	CHECK_EQUAL((uintptr_t)info->base, entry->base);
	CHECK_EQUAL(info->length, entry->length);
	CHECK_EQUAL(info->generation, entry->generation);
	CHECK_EQUAL(info->access, run->value);
	CHECK_EQUAL(info->cache, run->cache);
	CHECK_EQUAL(info->reserved, 0);
}

static void check_find(const struct model *models, uint64_t address)
{
	const struct model *model = model_at(models, address);
	struct hm_pointer_info info, before;
	int r;

	memset(&info, 0xa5, sizeof(info));
	before = info;
	r = hm_pointer_find((void *)(uintptr_t)address, &info);
	CHECK_EQUAL(r, model ? 0 : -ENOENT);
	if (model && !r)
		check_info(model, address, &info);
	else
		CHECK(!memcmp(&info, &before, sizeof(info)));
}

static uint64_t distance(const struct registry_entry *entry, uint64_t address)
{
	if (address < entry->base)
		return entry->base - address;
	if (address < entry->base + entry->length)
		return 0;
	return address - (entry->base + entry->length) + 1;
}

static void check_nearest(const struct model *models, uint64_t address)
{
	struct registry_entry entry;
	uint64_t best = UINT64_MAX;
	bool found;
	size_t i;

	for (i = 0; i < N_MAP; i++)
		if (models[i].slot)
			best = min_u64(best, distance(&models[i].entry, address));
	found = registry_nearest((void *)(uintptr_t)address, &entry);
	CHECK_EQUAL(found, best != UINT64_MAX);
	if (found)
		CHECK_EQUAL(distance(&entry, address), best);
}

struct each {
	const struct model *models;
	uint64_t last;
	unsigned int n;
};

static int each_map(void *user, const struct registry_entry *entry)
{
	struct each *each = user;
	const struct model *model = model_at(each->models, entry->base);

	CHECK_FATAL(model);
	CHECK(!each->n || entry->base > each->last);
	CHECK(entry->map == model->entry.map);
	CHECK_EQUAL(entry->length, model->entry.length);
	CHECK_EQUAL(entry->buffer_offset, model->entry.buffer_offset);
	CHECK_EQUAL(entry->generation, model->entry.generation);
	each->last = entry->base;
	each->n++;
	return 0;
}

static void check_each(const struct model *models)
{
	struct each each = { .models = models };
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < N_MAP; i++)
		n += models[i].slot != NULL;
	CHECK_EQUAL(registry_each(0, each_map, &each), 0);
	CHECK_EQUAL(each.n, n);
}

static void check_acquire(const struct model *models, uint64_t address)
{
	const struct model *model = model_at(models, address);
	struct hm_pointer_info info;
	struct hm_map *map = registry_acquire((void *)(uintptr_t)address, &info);

	CHECK(map == (model ? model->entry.map : NULL));
	if (!map || !model)
		return;
	check_info(model, address, &info);
	CHECK_EQUAL(atomic_load(&map->object.refs), 2);
	object_put(&map->object);
}

/* 4 KiB to 1 TiB, each power of two as likely as any other. */
static uint64_t random_span(uint64_t *state)
{
	uint64_t span = PAGE << test_random(state) % 29;

	if (test_random(state) % 2)
		span = 1 + test_random(state) % span;
	return round_up(span, PAGE);
}

static uint64_t random_address(const struct model *models, uint64_t *state)
{
	const struct model *model = &models[test_random(state) % N_MAP];
	uint64_t kind = test_random(state) % 8;

	if (!kind || !model->slot)
		return AREA + test_random(state) % AREA_SIZE;
	switch (kind) {
	case 1:
		return model->entry.base;
	case 2:
		return model->entry.base - 1;
	case 3:
		return model->entry.base + model->entry.length;
	case 4:
		return model->entry.base + model->entry.length - 1;
	case 5:
		return model->entry.base + model->span;
	default:
		return model->entry.base + test_random(state) % model->span;
	}
}

static struct rangemap *random_rights(uint64_t *state, uint64_t span)
{
	struct rangemap *rights =
		rangemap_create(test_random(state) % 4, test_random(state) % 3);
	uint64_t runs = test_random(state) % 4 ? 0 : 1 + test_random(state) % 40;

	while (rights && runs--) {
		uint64_t offset = test_random(state) % span & ~(PAGE - 1);
		struct rangemap *next =
			rangemap_set(rights, offset, PAGE, test_random(state) % 4);

		free(rights);
		rights = next;
	}
	CHECK_FATAL(rights);
	return rights;
}

static void random_insert(struct model *models, struct model *model, uint64_t *state)
{
	uint64_t base, span = random_span(state);
	bool taken = false;
	size_t i;
	int r;

	base = random_address(models, state) & ~(PAGE - 1);
	/* A third of them aligned, so that they fill entries of upper levels. */
	if (!(test_random(state) % 3))
		base &= ~(GIB(1) - 1);
	for (i = 0; i < N_MAP; i++)
		taken |= models[i].slot &&
			 ranges_overlap(base, span, models[i].entry.base, models[i].span);
	model->rights = random_rights(state, span);
	model->entry.base = base;
	model->entry.length = test_random(state) % 2 ? span : 1 + test_random(state) % span;
	model->entry.buffer_offset = test_random(state) % 1000 * PAGE;
	model->entry.generation = (uint32_t)test_random(state);
	model->entry.access = model->rights;
	model->span = span;
	r = registry_insert(&model->entry, span, &model->slot);
	CHECK_EQUAL(r, taken ? -EEXIST : 0);
	if (r) {
		free(model->rights);
		model->slot = NULL;
	}
}

static void random_change(struct model *model, uint64_t *state)
{
	struct rangemap *rights = random_rights(state, model->span);
	struct registry_entry entry = model->entry;
	struct registry_descriptor *staged;

	entry.generation++;
	if (!(test_random(state) % 8)) {
		registry_set_generation(model->slot, entry.generation);
		free(rights);
		model->entry = entry;
		return;
	}
	entry.length = 1 + test_random(state) % model->span;
	entry.access = rights;
	CHECK_EQUAL(registry_stage(&entry, &staged), 0);
	if (!(test_random(state) % 8)) {
		rights->n = 1;
		registry_restage(&entry, staged);
	}
	if (test_random(state) % 4) {
		registry_commit(model->slot, staged);
		free(model->rights);
		model->rights = rights;
		model->entry = entry;
	} else {
		registry_abandon(staged);
		free(rights);
	}
}

static void model_remove(struct model *model)
{
	registry_remove(model->slot);
	model->slot = NULL;
	free(model->rights);
}

static void test_random_operations(void)
{
	static struct model models[N_MAP];
	uint64_t state = test_seed();
	int rounds = TEST_TSAN || TEST_ASAN ? 20000 : 100000;
	size_t i;

	for (i = 0; i < N_MAP; i++)
		model_init(&models[i], i);
	while (rounds--) {
		struct model *model = &models[test_random(&state) % N_MAP];

		if (!model->slot)
			random_insert(models, model, &state);
		else if (test_random(&state) % 3)
			random_change(model, &state);
		else
			model_remove(model);
		check_find(models, random_address(models, &state));
		check_find(models, random_address(models, &state));
		check_acquire(models, random_address(models, &state));
		if (!(rounds % 8))
			check_nearest(models, random_address(models, &state));
		if (!(rounds % 64))
			check_each(models);
	}
	for (i = 0; i < N_MAP; i++) {
		if (models[i].slot)
			model_remove(&models[i]);
		check_find(models, models[i].entry.base);
	}
	check_each(models);
	check_nearest(models, AREA);
}

static void test_bad_input(void)
{
	AUTO_FREE struct rangemap *rights = rangemap_create(HM_READ, 0);
	struct registry_entry entry = { .base = AREA, .length = PAGE, .access = rights };
	struct registry_slot *slot = NULL;
	struct hm_pointer_info info;

	CHECK_FATAL(rights);
	CHECK_EQUAL(registry_insert(&entry, 0, &slot), -EINVAL);
	CHECK_EQUAL(registry_insert(&entry, PAGE + 1, &slot), -EINVAL);
	entry.length = PAGE + 1;
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), -EINVAL);
	entry.length = PAGE;
	entry.base = AREA + 1;
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), -EINVAL);
	entry.base = TIB(256) - PAGE;
	CHECK_EQUAL(registry_insert(&entry, 2 * PAGE, &slot), -EINVAL);
	entry.base = TIB(256);
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), -EINVAL);
	CHECK(!slot);
	/* The last page there is. */
	entry.base = TIB(256) - PAGE;
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), 0);
	CHECK_EQUAL(hm_pointer_find((void *)(TIB(256) - 1), &info), 0);
	CHECK_EQUAL(hm_pointer_find((void *)TIB(256), &info), -ENOENT);
	CHECK_EQUAL(hm_pointer_find((void *)UINTPTR_MAX, &info), -ENOENT);
	CHECK_EQUAL(hm_pointer_find(NULL, &info), -ENOENT);
	CHECK_EQUAL(hm_pointer_find((void *)(TIB(256) - 1), NULL), -EINVAL);
	CHECK(registry_nearest((void *)UINTPTR_MAX, &entry));
	CHECK_EQUAL(entry.base, TIB(256) - PAGE);
	registry_remove(slot);
}

/* A map of any length costs the nodes on its two edges. */
static void test_long_map(void)
{
	AUTO_FREE struct rangemap *rights = rangemap_create(HM_READ, 0);
	struct registry_entry entry = {
		.base = TIB(80) + GIB(300) + MIB(3) + PAGE,
		.length = TIB(1),
		.access = rights,
	};
	uint64_t before = registry_slab_bytes();
	struct hm_pointer_info info;
	struct registry_slot *slot;

	CHECK_FATAL(rights);
	CHECK_EQUAL(registry_insert(&entry, TIB(1), &slot), 0);
	CHECK(registry_slab_bytes() - before <= KIB(64));
	CHECK_EQUAL(hm_pointer_find((void *)entry.base, &info), 0);
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base + GIB(512)), &info), 0);
	CHECK_EQUAL(info.map_offset, GIB(512));
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base + TIB(1) - 1), &info), 0);
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base + TIB(1)), &info), -ENOENT);
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base - 1), &info), -ENOENT);
	registry_remove(slot);
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base + GIB(512)), &info), -ENOENT);
	/* Once more at the same place: no further memory. */
	before = registry_slab_bytes();
	CHECK_EQUAL(registry_insert(&entry, TIB(1), &slot), 0);
	CHECK_EQUAL(registry_slab_bytes(), before);
	registry_remove(slot);
}

/* ---- no memory ---- */

static void *(*mmap_before)(void *, size_t, int, int, int, off_t);
static int mmap_calls_left;

static void *mmap_failing(void *address, size_t length, int prot, int flags, int fd,
			  off_t offset)
{
	if (!mmap_calls_left) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	mmap_calls_left--;
	return mmap_before(address, length, prot, flags, fd, offset);
}

static int count_map(void *user, const struct registry_entry *entry)
{
	(void)entry;
	++*(unsigned int *)user;
	return 0;
}

/* Inserts with @rights, far from all used addresses. Returns 0, or registry_insert()'s error. */
static int insert_with_calls(int calls, uint64_t base, const struct rangemap *rights,
			     struct registry_slot **ret_slot)
{
	struct registry_entry entry = { .base = base, .length = GIB(2), .access = rights };
	int r;

	mmap_calls_left = calls;
	sys_table.mmap = mmap_failing;
	r = registry_insert(&entry, GIB(2), ret_slot);
	sys_table.mmap = mmap_before;
	return r;
}

/* As many as it takes to use up a chunk of each kind of slab. */
#define FILLERS 600

static void test_no_memory(void)
{
	static struct registry_slot *filler[FILLERS];
	struct registry_descriptor *staged[40], *kept;
	struct registry_entry entry = { .base = TIB(90) + PAGE, .length = PAGE };
	struct hm_pointer_info info;
	unsigned int n, i, failures = 0;
	struct rangemap *rights;
	uint64_t base = entry.base;
	int calls;

	mmap_before = sys_table.mmap;
	AUTO_FREE struct rangemap *one_run = rangemap_create(HM_READ, 0);
	CHECK_FATAL(one_run);
	rights = rangemap_create(HM_READ, 0);
	for (i = 0; i < 20 && rights; i++) {
		struct rangemap *next = rangemap_set(rights, 2 * i * PAGE, PAGE, HM_NONE);

		free(rights);
		rights = next;
	}
	CHECK_FATAL(rights);
	/*
	 * Nodes, descriptors, arrays and slots run out at different insertions;
	 * each of these makes one of them fail after the other.
	 */
	for (i = 0; i < FILLERS; i++, base += GIB(3)) {
		for (calls = 0; calls < 16; calls++) {
			int r = insert_with_calls(calls, base, rights, &filler[i]);

			if (!r)
				break;
			CHECK_EQUAL(r, -ENOMEM);
			failures++;
			CHECK_EQUAL(hm_pointer_find((void *)(base + GIB(1)), &info), -ENOENT);
		}
		CHECK_FATAL(filler[i]);
		n = 0;
		if (!(i % 50))
			registry_each(0, count_map, &n);
		CHECK_EQUAL(n, i % 50 ? 0 : i + 1);
	}
	CHECK(failures > FILLERS);
	/* A change that can't be staged leaves the old state. */
	entry.access = rights;
	CHECK_EQUAL(registry_stage(&entry, &kept), 0);
	mmap_calls_left = 0;
	sys_table.mmap = mmap_failing;
	for (n = 0; n < ARRAY_SIZE(staged); n++)
		if (registry_stage(&entry, &staged[n]))
			break;
	sys_table.mmap = mmap_before;
	CHECK(n < ARRAY_SIZE(staged));
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base + GIB(1)), &info), 0);
	/* A change of one run of bytes, or a staged single run, needs no memory. */
	registry_set_generation(filler[0], info.generation + 7);
	CHECK_EQUAL(hm_pointer_find((void *)(entry.base + GIB(1)), &info), 0);
	CHECK_EQUAL(info.generation, entry.generation + 7);
	entry.access = one_run;
	entry.base = TIB(90) + PAGE;
	sys_table.mmap = mmap_failing;
	registry_restage(&entry, kept);
	registry_commit(filler[0], kept);
	sys_table.mmap = mmap_before;
	CHECK_EQUAL(hm_pointer_find((void *)entry.base, &info), 0);
	CHECK_EQUAL(info.access, HM_READ);
	while (n)
		registry_abandon(staged[--n]);
	for (i = 0; i < FILLERS; i++)
		registry_remove(filler[i]);
	n = 0;
	registry_each(0, count_map, &n);
	CHECK_EQUAL(n, 0);
	free(rights);
}

/* ---- a change under way ---- */

static void test_retries_are_bounded(void)
{
	/* A descriptor that is never full. */
	static _Alignas(64) _Atomic uint64_t changing[8] = { 1 };
	AUTO_FREE struct rangemap *rights = rangemap_create(HM_READ, 0);
	struct registry_entry entry = { .base = AREA, .length = PAGE, .access = rights };
	uint64_t before = registry_find_retries();
	struct hm_pointer_info info;
	struct registry_slot *slot;
	_Atomic uint64_t *seq;
	uint64_t kept;

	CHECK_FATAL(rights);
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), 0);
	/* From the inside: a slot's sequence comes first, and may forward to another. */
	seq = (_Atomic uint64_t *)slot;
	kept = atomic_exchange(seq, (uintptr_t)changing | 1ull << 63);
	CHECK_EQUAL(hm_pointer_find((void *)AREA, &info), -EAGAIN);
	CHECK(registry_find_retries() > before);
	CHECK(registry_find_retries() - before < 100);
	atomic_store(seq, kept);
	CHECK_EQUAL(hm_pointer_find((void *)AREA, &info), 0);
	registry_remove(slot);
}

/* ---- fork ---- */

struct generations {
	struct rangemap *rights;
	uint64_t inherited, left;
};

static void in_grandchild(void *user)
{
	const struct generations *maps = user;
	struct hm_pointer_info info;

	/* The child's own map was not inherited either. */
	CHECK_EQUAL(hm_pointer_find((void *)maps->left, &info), -ENOENT);
	CHECK_EQUAL(hm_pointer_find((void *)maps->inherited, &info), 0);
}

static void in_child(void *user)
{
	const struct generations *maps = user;
	struct registry_entry entry;
	struct hm_pointer_info info;
	struct registry_slot *slot;
	unsigned int n = 0;

	CHECK_EQUAL(hm_pointer_find((void *)maps->inherited, &info), 0);
	CHECK_EQUAL(hm_pointer_find((void *)maps->left, &info), -ENOENT);
	CHECK_EQUAL(registry_each(0, count_map, &n), 0);
	CHECK_EQUAL(n, 1);
	CHECK(registry_nearest((void *)(maps->left + PAGE), &entry));
	CHECK_EQUAL(entry.base, maps->inherited);
	/* The addresses are free in the child: the kernel may give them again. */
	entry = (struct registry_entry){
		.base = maps->left,
		.length = PAGE,
		.access = maps->rights,
		.generation = 7,
		.not_inherited = true,
	};
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), 0);
	CHECK_EQUAL(hm_pointer_find((void *)maps->left, &info), 0);
	CHECK_EQUAL(info.generation, 7);
	entry.base = maps->inherited;
	CHECK_EQUAL(registry_insert(&entry, PAGE, &slot), -EEXIST);
	CHECK_EQUAL(test_fork(in_grandchild, user), 0);
}

static void test_fork_generations(void)
{
	struct generations maps = {
		.rights = rangemap_create(HM_READ, 0),
		.inherited = AREA,
		.left = AREA + GIB(5),
	};
	struct registry_entry entry = { .base = maps.inherited, .length = GIB(2) };
	struct registry_slot *inherited, *left;
	struct hm_pointer_info info;

	CHECK_FATAL(maps.rights);
	entry.access = maps.rights;
	CHECK_EQUAL(registry_insert(&entry, GIB(2), &inherited), 0);
	entry.base = maps.left;
	entry.not_inherited = true;
	CHECK_EQUAL(registry_insert(&entry, GIB(2), &left), 0);
	CHECK_EQUAL(test_fork(in_child, &maps), 0);
	CHECK_EQUAL(hm_pointer_find((void *)maps.left, &info), 0);
	registry_remove(left);
	registry_remove(inherited);
	free(maps.rights);
}

static const struct test tests[] = {
	{ "random_operations", test_random_operations, 300, 0 },
	{ "bad_input", test_bad_input, 0, 0 },
	{ "long_map", test_long_map, 0, TEST_ONCE },
	{ "no_memory", test_no_memory, 60, TEST_ONCE },
	{ "retries_are_bounded", test_retries_are_bounded, 0, 0 },
	{ "fork_generations", test_fork_generations, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "registry", tests)
