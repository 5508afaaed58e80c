// SPDX-License-Identifier: MIT
/*
 * hm_combine: against a model, with random writes; each line is written once, by the fewest
 * stores; a bracket's end writes out; maps that are cut, lost or read only are errors.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy/copy.h"
#include "copy/copy_support.h"
#include "fault/guard_support.h"
#include "lib/inject.h"
#include "lib/minimal_backend.h"

#define LINE 64u
#define SIZE (1u << 20)

static struct hm_combine *combine_make(struct hm_map *map, uint64_t lines)
{
	struct hm_combine *combine;

	CHECK_OK_FATAL(hm_combine_create(map, DESC(hm_combine_desc, .lines = lines), &combine));
	return combine;
}

/* ---- against a model ---- */

struct model {
	struct rig to;
	struct hm_combine *combine;
	unsigned char *now;  /* the map's bytes */
	unsigned char *then; /* its bytes after a flush */
	uint64_t random;
};

/* Most are small, some are of many lines; addresses come again. */
static uint64_t any_length(struct model *model)
{
	uint64_t random = test_random(&model->random);

	switch (random & 7) {
	case 0:
		return 1 + (random >> 8) % 1000;
	case 1:
		return 64;
	default:
		return 1 + (random >> 8) % 16;
	}
}

static void write_one(struct model *model)
{
	uint64_t length = any_length(model);
	uint64_t offset = test_random(&model->random) % (SIZE - length);
	unsigned char bytes[1000];
	uint64_t i;

	if (test_random(&model->random) & 1)
		offset %= 4096;
	for (i = 0; i < length; i++)
		bytes[i] = (unsigned char)test_random(&model->random);
	CHECK_OK_FATAL(hm_combine_write(model->combine, offset, bytes, length));
	memcpy(model->then + offset, bytes, length);
}

static void check_flushed(struct model *model)
{
	CHECK_EQUAL(combine_info(model->combine).pending, 0);
	CHECK_FATAL(!memcmp(model->to.bytes, model->then, SIZE));
	memcpy(model->now, model->then, SIZE);
}

static void flush_some_way(struct model *model)
{
	switch (test_random(&model->random) % 3) {
	case 0:
		CHECK_OK(hm_combine_flush(model->combine, NULL));
		break;
	case 1:
		CHECK_OK(hm_map_begin_cpu(model->to.map, 0, 1, HM_WRITE));
		CHECK_OK(hm_map_end_cpu(model->to.map, 0, 1, HM_WRITE));
		break;
	default:
		CHECK_OK(hm_map_sync(model->to.map, 0, 4096, 0));
		break;
	}
	check_flushed(model);
}

static void run_model(const char *name, uint32_t cache, uint64_t lines)
{
	struct model model = { .random = test_seed() };
	unsigned int i, n = test_is_slow() ? 2000 : 20000;

	if (name)
		model.to = device_map_open(name, SIZE);
	else
		model.to = mode_open(cache, SIZE);
	model.combine = combine_make(model.to.map, lines);
	model.now = calloc(1, SIZE);
	model.then = calloc(1, SIZE);
	for (i = 0; i < n; i++) {
		write_one(&model);
		/* Nothing is seen while lines are left. */
		if (lines > SIZE / LINE && !(i % 500))
			CHECK(!memcmp(model.to.bytes, model.now, SIZE));
		if (!(test_random(&model.random) % 997))
			flush_some_way(&model);
	}
	flush_some_way(&model);
	write_one(&model);
	hm_combine_unref(model.combine);
	CHECK(!memcmp(model.to.bytes, model.then, SIZE));
	free(model.now);
	free(model.then);
	rig_drop(&model.to);
}

static void model_host(void)
{
	run_model("host", 0, 20000);
	run_model("host", 0, 1);
	run_model("host", 0, 100);
}

static void model_soft(void)
{
	run_model("soft:0", 0, 20000);
	run_model("soft:0", 0, 16);
	/* In a machine with the module. */
	if (device_is_there("sim:0"))
		run_model("sim:0", 0, 1000);
}

static void model_modes(void)
{
	uint32_t cache;

	for (cache = 0; cache < 4; cache++)
		run_model(NULL, cache, 1 + 333 * cache);
}

static void model_sets(void)
{
	const struct copy_set *const *set;
	AUTO(rig_handler) handler = rig_handler(0);

	for (set = copy_sets; *set; set++)
		if (copy_force((*set)->name, NULL, NULL))
			run_model("host", 0, 50);
	CHECK(copy_force(NULL, NULL, NULL));
}

/* ---- counts ---- */

/* Every line of 1 MiB is written 16 times, shuffled, and goes out once. */
static void lines_once(void)
{
	const uint64_t n = SIZE / LINE;
	struct hm_combine_info info;
	uint64_t i, at;
	char bytes[LINE];
	AUTO(rig) to = mode_open(HM_CACHE_WRITE_COMBINING, SIZE);
	AUTO(hm_combine) *combine = combine_make(to.map, n);

	for (i = 0; i < 16 * n; i++) {
		/* An odd factor goes through all lines. */
		at = i * 7919 % n * LINE;
		memset(bytes, (int)(i / n), LINE);
		CHECK_OK_FATAL(hm_combine_write(combine, at, bytes, LINE));
	}
	info = combine_info(combine);
	CHECK_EQUAL(info.lines, n);
	CHECK_EQUAL(info.pending, n);
	CHECK_EQUAL(info.writes, 16 * n);
	CHECK_EQUAL(info.bytes, 16 * n * LINE);
	CHECK_EQUAL(info.alone, 16 * n * copy_cpu()->lines->line_stores);
	CHECK_EQUAL(info.flushes, 0);
	CHECK(is_zero(to.bytes, 0, SIZE));
	CHECK_OK(hm_combine_flush(combine, NULL));
	info = combine_info(combine);
	CHECK_EQUAL(info.lines_written, n);
	CHECK_EQUAL(info.transfers, n * copy_cpu()->lines->line_stores);
	CHECK_EQUAL(info.flushes, 1);
	CHECK(to.bytes[0] == 15 && to.bytes[SIZE - 1] == 15);
	CHECK_OK(hm_combine_flush(combine, NULL));
	CHECK_EQUAL(combine_info(combine).flushes, 1);
}

static void fewest_stores(void)
{
	static const struct {
		uint64_t offset, length;
		uint32_t stores;
	} rows[] = {
		{ 0, 1, 1 },  { 1, 1, 1 },   { 0, 4, 1 },   { 4, 8, 2 },  { 8, 8, 1 },
		{ 0, 16, 1 }, { 8, 16, 2 },  { 1, 15, 4 },  { 0, 63, 7 }, { 1, 63, 7 },
		{ 0, 32, 2 }, { 48, 16, 1 }, { 48, 32, 2 },
	};
	struct hm_combine_info before, info;
	char bytes[LINE] = { 1 };
	unsigned int i;
	AUTO(rig) to = device_map_open("host", 4096);
	AUTO(hm_combine) *combine = combine_make(to.map, 0);

	CHECK_EQUAL(combine_info(combine).lines, 1024);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		before = combine_info(combine);
		CHECK_OK(hm_combine_write(combine, rows[i].offset, bytes, rows[i].length));
		CHECK_OK(hm_combine_flush(combine, NULL));
		info = combine_info(combine);
		CHECK_EQUAL(info.transfers - before.transfers, rows[i].stores);
		CHECK_EQUAL(info.alone - before.alone, rows[i].stores);
	}
	/* Holes stay holes: eight single bytes in a line. */
	memset(to.bytes, 0x77, 4096);
	for (i = 0; i < LINE; i += 8)
		CHECK_OK(hm_combine_write(combine, i, bytes, 1));
	before = combine_info(combine);
	CHECK_OK(hm_combine_flush(combine, NULL));
	info = combine_info(combine);
	CHECK_EQUAL(info.transfers - before.transfers, 8);
	CHECK_EQUAL(info.lines_written - before.lines_written, 1);
	for (i = 0; i < 4096; i++)
		CHECK(to.bytes[i] == (i < LINE && !(i % 8) ? 1 : 0x77));
}

/* ---- brackets ---- */

static void brackets(void)
{
	struct hm_combine *one, *two;
	AUTO(rig) to = device_map_open("host", SIZE);

	one = combine_make(to.map, 0);
	two = combine_make(to.map, 4);
	CHECK_OK(hm_combine_write(one, 100, "abc", 3));
	CHECK_OK(hm_combine_write(two, 200, "def", 3));
	/* Reading writes nothing out. */
	CHECK_OK(hm_map_begin_cpu(to.map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_end_cpu(to.map, 0, SIZE, HM_READ));
	CHECK(!to.bytes[100] && !to.bytes[200]);
	CHECK_OK(hm_map_begin_cpu(to.map, 4096, 4096, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(to.map, 4096, 4096, HM_WRITE));
	CHECK(!memcmp(to.bytes + 100, "abc", 3) && !memcmp(to.bytes + 200, "def", 3));
	CHECK_OK(hm_combine_write(two, 200, "ghi", 3));
	CHECK_OK(hm_combine_discard(two));
	CHECK_EQUAL(combine_info(two).pending, 0);
	hm_combine_unref(one);
	CHECK_OK(hm_map_begin_cpu(to.map, 0, 1, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(to.map, 0, 1, HM_WRITE));
	CHECK(!memcmp(to.bytes + 200, "def", 3));
	CHECK_OK(hm_combine_write(hm_combine_ref(two), 200, "jkl", 3));
	hm_combine_unref(two);
	CHECK(!memcmp(to.bytes + 200, "def", 3));
	hm_combine_unref(two);
	CHECK(!memcmp(to.bytes + 200, "jkl", 3));
	/* None is left: the end is the usual one. */
	CHECK_OK(hm_map_begin_cpu(to.map, 0, 1, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(to.map, 0, 1, HM_WRITE));
}

/* ---- errors ---- */

static void arguments(void)
{
	struct hm_combine_desc desc = { .struct_size = sizeof(desc) };
	struct hm_combine_info info = { .struct_size = sizeof(info) + 8 };
	struct hm_fault fault = { .struct_size = sizeof(fault) + 8 };
	struct hm_combine *combine = NULL;
	struct hm_map *map;
	AUTO(rig) to = device_map_open("host", 4096);

	CHECK_ERROR(-EINVAL, hm_combine_create(NULL, NULL, &combine));
	CHECK_ERROR(-EINVAL, hm_combine_create(to.map, NULL, NULL));
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_combine_create(to.map, &desc, &combine));
	desc.flags = 0;
	desc.lines = (1u << 20) + 1;
	CHECK_ERROR(-EINVAL, hm_combine_create(to.map, &desc, &combine));
	CHECK_OK_FATAL(hm_map_create(to.buffer, DESC(hm_map_desc, .access = HM_READ), &map));
	CHECK_ERROR(-EACCES, hm_combine_create(map, NULL, &combine));
	hm_map_unref(map);
	CHECK(!combine);
	CHECK_OK_FATAL(hm_combine_create(to.map, NULL, &combine));
	CHECK_ERROR(-EINVAL, hm_combine_write(combine, 0, NULL, 1));
	CHECK_ERROR(-EINVAL, hm_combine_write(combine, 0, "a", 0));
	CHECK_ERROR(-ERANGE, hm_combine_write(combine, 4095, "ab", 2));
	CHECK_ERROR(-ERANGE, hm_combine_write(combine, UINT64_MAX, "ab", 2));
	CHECK_ERROR(-EINVAL, hm_combine_write(NULL, 0, "ab", 2));
	CHECK_ERROR(-EINVAL, hm_combine_flush(NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_combine_discard(NULL));
	CHECK_ERROR(-E2BIG, hm_combine_flush(combine, &fault));
	CHECK_ERROR(-E2BIG, hm_combine_query(combine, &info));
	CHECK_ERROR(-EINVAL, hm_combine_query(combine, NULL));
	CHECK_OK(hm_combine_write(combine, 4095, "z", 1));
	hm_combine_unref(combine);
	CHECK_EQUAL(to.bytes[4095], 'z');
	CHECK(!hm_combine_ref(NULL));
	hm_combine_unref(NULL);
}

/* A map that became shorter: bytes behind its end stay pending, and the others are written. */
static void cut(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = 4 * (2u << 20),
					     .max_size = 4 * (2u << 20) };
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	AUTO(rig) to = rig_make("host", &desc);
	AUTO(hm_combine) *combine = combine_make(to.map, 0);

	CHECK_OK(hm_combine_write(combine, 7u << 20, "far", 3));
	CHECK_OK(hm_combine_write(combine, 1u << 20, "near", 4));
	CHECK_OK_FATAL(hm_buffer_resize(to.buffer, 4u << 20, 0));
	CHECK_ERROR(-ERANGE, hm_combine_flush(combine, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK(!memcmp(to.bytes + (1u << 20), "near", 4));
	CHECK_EQUAL(combine_info(combine).pending, 1);
	CHECK_OK(hm_map_begin_cpu(to.map, 0, 1, HM_WRITE));
	CHECK_ERROR(-ERANGE, hm_map_end_cpu(to.map, 0, 1, HM_WRITE));
	CHECK_EQUAL(map_info(to.map, 0).brackets, 0);
	/* The map can be written again, and found, while other bytes wait. */
	CHECK_OK(hm_combine_write(combine, 64, "more", 4));
	CHECK_ERROR(-ERANGE, hm_combine_flush(combine, NULL));
	CHECK(!memcmp(to.bytes + 64, "more", 4));
	CHECK_OK_FATAL(hm_buffer_resize(to.buffer, desc.size, 0));
	CHECK_OK(hm_combine_flush(combine, NULL));
	CHECK(!memcmp(to.bytes + (7u << 20), "far", 3));
}

/* A file that is cut off under the map: an error in a guard, or a signal without one. */
static void cut_file(void)
{
	struct hm_fault fault = no_fault();
	AUTO(rig_handler) handler = rig_handler(HM_HANDLER_NO_REPAIR);
	AUTO(file_map) file = open_file_map(65536);
	AUTO(hm_combine) *combine = combine_make(file.map, 0);

	CHECK_OK(hm_combine_write(combine, 5, "first", 5));
	CHECK_OK(hm_combine_write(combine, 60000, "last", 4));
	CHECK(!ftruncate(file.fd, 4096));
	CHECK_ERROR(-ERANGE, hm_combine_flush(combine, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK_EQUAL(fault.signal, SIGBUS);
	CHECK_EQUAL(combine_info(combine).pending, 2);
	CHECK(!ftruncate(file.fd, 65536));
	CHECK_OK(hm_combine_flush(combine, NULL));
	CHECK(!memcmp(file.base + 5, "first", 5) && !memcmp(file.base + 60000, "last", 4));
}

/* A device that is gone: its bytes stay until the combine is dropped. */
static void lost(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	int r = hm_backend_register(&fleeting_backend);
	struct hm_combine *combine, *late = NULL;
	struct rig to;

	CHECK(!r || r == -EEXIST);
	to = device_map_open("fleeting", 65536);
	combine = combine_make(to.map, 0);
	CHECK_OK(hm_combine_write(combine, 100, "lost", 4));
	fleeting_go();
	CHECK_ERROR(-ENODEV, hm_combine_flush(combine, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_LOST);
	CHECK_EQUAL(combine_info(combine).pending, 1);
	CHECK_ERROR(-ENODEV, hm_combine_flush(combine, NULL));
	CHECK_ERROR(-ENODEV, hm_combine_create(to.map, NULL, &late));
	CHECK(!late);
	CHECK_OK(hm_combine_discard(combine));
	CHECK_OK(hm_combine_flush(combine, NULL));
	hm_combine_unref(combine);
	rig_drop(&to);
	fleeting_come();
}

/* Each allocation of its making fails in turn. */
static void no_memory(void)
{
	struct hm_combine *combine = NULL;
	unsigned int n;
	int r;
	AUTO(rig) to = device_map_open("host", 4096);

	inject_install();
	for (n = 1; n < 100; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_combine_create(to.map, NULL, &combine);
		if (!inject_disarm())
			break;
		CHECK_EQUAL(r, -ENOMEM);
		CHECK(!combine && strstr(hm_errmsg(), "memory"));
	}
	CHECK_EQUAL(r, 0);
	CHECK(n > 5);
	CHECK_OK(hm_combine_write(combine, 1, "x", 1));
	hm_combine_unref(combine);
	CHECK_EQUAL(to.bytes[1], 'x');
}

static void in_child(void *user)
{
	AUTO(hm_combine) *combine = user;

	CHECK_ERROR(-EOWNERDEAD, hm_combine_write(combine, 0, "a", 1));
	CHECK_ERROR(-EOWNERDEAD, hm_combine_flush(combine, NULL));
}

static void forked(void)
{
	AUTO(rig) to = device_map_open("host", 4096);
	struct hm_combine *combine = combine_make(to.map, 0);

	CHECK_OK(hm_combine_write(combine, 9, "parent", 6));
	CHECK_EQUAL(test_fork(in_child, combine), 0);
	CHECK(is_zero(to.bytes, 0, 4096));
	hm_combine_unref(combine);
	CHECK(!memcmp(to.bytes + 9, "parent", 6));
}

/* ---- threads ---- */

#define THREADS 4u
#define PART (SIZE / THREADS)

struct work {
	struct rig *to;
	struct hm_combine *combine; /* shared */
	unsigned int number;
};

static void *write_part(void *user)
{
	struct work *work = user;
	AUTO(hm_combine) *own = combine_make(work->to->map, 64);
	char byte = (char)(work->number + 1);
	unsigned int i, at;

	for (i = 0; i < PART; i++) {
		at = work->number * PART + i * 7919u % PART;
		if (hm_combine_write(i & 1 ? own : work->combine, at, &byte, 1))
			test_fail(__FILE__, __LINE__, "%s", hm_errmsg());
		if (!(i % 4096) && (hm_map_begin_cpu(work->to->map, 0, SIZE, HM_WRITE) ||
				    hm_map_end_cpu(work->to->map, 0, SIZE, HM_WRITE)))
			test_fail(__FILE__, __LINE__, "%s", hm_errmsg());
	}
	return NULL;
}

static void threads(void)
{
	struct work work[THREADS];
	pthread_t thread[THREADS];
	unsigned int i;
	AUTO(rig) to = device_map_open("host", SIZE);
	struct hm_combine *combine = combine_make(to.map, 100);

	for (i = 0; i < THREADS; i++) {
		work[i] = (struct work){ &to, combine, i };
		CHECK_FATAL(!pthread_create(&thread[i], NULL, write_part, &work[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	hm_combine_unref(combine);
	for (i = 0; i < SIZE; i++)
		CHECK_FATAL(to.bytes[i] == (char)(i / PART + 1));
}

static const struct test tests[] = {
	{ .name = "model_host", .run = model_host, .seconds = 60 },
	{ .name = "model_soft", .run = model_soft, .seconds = 60 },
	{ .name = "model_modes", .run = model_modes, .seconds = 60 },
	{ .name = "model_sets", .run = model_sets, .seconds = 60 },
	{ .name = "lines_once", .run = lines_once },
	{ .name = "fewest_stores", .run = fewest_stores },
	{ .name = "brackets", .run = brackets },
	{ .name = "arguments", .run = arguments },
	{ .name = "cut", .run = cut },
	{ .name = "cut_file", .run = cut_file },
	{ .name = "lost", .run = lost },
	{ .name = "no_memory", .run = no_memory },
	{ .name = "forked", .run = forked },
	{ .name = "threads", .run = threads, .seconds = 60 },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "combine", tests)
