// SPDX-License-Identifier: MIT
/*
 * hm_copy: each instruction set that the CPU has copies right at every length and alignment, and
 * touches no other byte; and each kind of memory gets the way that suits it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "copy/copy.h"
#include "copy/copy_support.h"

#define LINE 64u
#define LENGTHS 300u
#define ROOM 512u /* for an alignment, a length and bytes on both sides */

/* ---- every instruction set ---- */

static void fill(unsigned char *bytes, size_t n, unsigned int salt)
{
	size_t i;

	for (i = 0; i < n; i++)
		bytes[i] = (unsigned char)(i * 167 + salt);
}

static bool check_one(copy_function *way, unsigned char *to, const unsigned char *from,
		      unsigned int to_at, unsigned int from_at, size_t length)
{
	unsigned char expected[ROOM];

	memset(to, 0xa5, ROOM);
	memset(expected, 0xa5, ROOM);
	memcpy(expected + to_at, from + from_at, length);
	way(to + to_at, from + from_at, length);
	return !memcmp(to, expected, ROOM);
}

static void every_place(const char *set, copy_function *way)
{
	unsigned char *to = aligned_alloc(LINE, ROOM), *from = aligned_alloc(LINE, ROOM);
	unsigned int first, every = test_every(&first), to_at, from_at;
	size_t length;

	if (test_is_slow() && every == 1)
		every = 7;
	fill(from, ROOM, 3);
	for (length = first; length <= LENGTHS; length += every)
		for (to_at = 0; to_at < LINE; to_at++)
			for (from_at = 0; from_at < LINE; from_at++)
				if (!check_one(way, to, from, LINE + to_at, LINE + from_at,
					       length)) {
					test_fail(__FILE__, __LINE__,
						  "%s: %zu bytes, from %u to %u", set, length,
						  from_at, to_at);
					goto out;
				}
out:
	free(to);
	free(from);
}

static void each_set(void (*test)(const char *set, copy_function *way))
{
	const struct copy_set *const *set;

	for (set = copy_sets; *set; set++) {
		if (!(*set)->is_here())
			continue;
		if ((*set)->stores)
			test((*set)->name, (*set)->stores);
		if ((*set)->loads)
			test((*set)->name, (*set)->loads);
	}
}

static void sets_everywhere(void)
{
	each_set(every_place);
}

static void long_copies(const char *set, copy_function *way)
{
	static const size_t lengths[] = { 1023,  1024,       1025,           2047, 2048,
					  2049,  4095,       4096,           4097, 65535,
					  65537, (1u << 20), (1u << 20) + 63 };
	const size_t room = (1u << 20) + 4096;
	AUTO_FREE unsigned char *to = aligned_alloc(LINE, room);
	AUTO_FREE unsigned char *from = aligned_alloc(LINE, room);
	size_t i, at;

	fill(from, room, 5);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (at = 0; at < 3 * LINE; at += 37) {
			memset(to, 0, room);
			way(to + LINE + at, from + 2 * LINE - at % LINE, lengths[i]);
			if (memcmp(to + LINE + at, from + 2 * LINE - at % LINE, lengths[i]) ||
			    !is_zero(to, 0, LINE + at) ||
			    !is_zero(to, LINE + at + lengths[i], room))
				test_fail(__FILE__, __LINE__, "%s: %zu bytes at %zu", set,
					  lengths[i], at);
		}
}

static void sets_long(void)
{
	each_set(long_copies);
}

static void lines(void)
{
	char to[3 * LINE] __attribute__((aligned(64))), from[2 * LINE];
	const struct copy_set *const *set;
	unsigned int at;

	fill((unsigned char *)from, sizeof(from), 9);
	for (set = copy_sets; *set; set++)
		for (at = 0; at < LINE && (*set)->is_here(); at++) {
			memset(to, 0, sizeof(to));
			(*set)->line(to + LINE, from + at);
			copy_fence();
			CHECK(!memcmp(to + LINE, from + at, LINE));
			CHECK(is_zero(to, 0, LINE) && is_zero(to, 2 * LINE, 3 * LINE));
			CHECK((*set)->line_stores >= 1 && (*set)->line_stores <= 8);
		}
}

/* ---- every kind of memory ---- */

#define SIZE 65536u

static void between(struct rig *to, struct rig *from, uint32_t flags)
{
	const uint64_t lengths[] = { 0,    1,    2,    3,    7,    15,   16,   17,   63,
				     64,   65,   127,  128,  129,  300,  1983, 1984, 1985,
				     2047, 2048, 2049, 4095, 4096, 4097, 10000 };
	unsigned int i, at;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (at = 0; at < LINE; at += 5) {
			char *out = to->bytes + 4096 + at, *in = from->bytes + 8192 + 63 - at;

			memset(to->bytes, 0, 20000);
			pattern_write(in, 0, lengths[i], i);
			CHECK_OK_FATAL(hm_copy(out, in, lengths[i], flags));
			CHECK_FATAL(!memcmp(out, in, lengths[i]));
			CHECK_FATAL(is_zero(to->bytes, 0, 4096 + at));
			CHECK_FATAL(is_zero(to->bytes, 4096 + at + lengths[i], 20000));
		}
}

/* The names are those of a pair of kinds, and of the sets that the CPU has. */
static void check_names(uint32_t to, uint32_t from, const struct hm_copy_info *info)
{
	bool stores = to == HM_CACHE_WRITE_COMBINING || to == HM_CACHE_UNCACHED;
	bool loads = from == HM_CACHE_WRITE_COMBINING || from == HM_CACHE_UNCACHED ||
		     (from == HM_CACHE_UNKNOWN && copy_cpu()->loads->passes_caches);
	const char *way = stores && loads ? "loads and stores" :
			  stores          ? "stores" :
			  loads           ? "loads" :
					    "memcpy";

	CHECK_EQUAL(info->to_kind, to);
	CHECK_EQUAL(info->from_kind, from);
	CHECK(!strcmp(info->way, way));
	CHECK(!strcmp(info->stores, stores ? copy_cpu()->lines->name : ""));
	CHECK(!strcmp(info->loads, loads ? copy_cpu()->loads->name : ""));
	CHECK(strlen(info->reason) > 20);
	CHECK_EQUAL(strstr(info->reason, "both ends are write-back") != NULL, !to && !from);
}

static void kinds_of_one_set(void)
{
	struct rig to[4], from[4];
	uint32_t a, b;

	for (a = 0; a < 4; a++) {
		to[a] = mode_open(a, SIZE);
		from[a] = mode_open(a, SIZE);
	}
	for (a = 0; a < 4; a++)
		for (b = 0; b < 4; b++) {
			struct hm_copy_info info =
				copy_info(to[a].bytes, from[b].bytes, 4096, 0);

			check_names(a, b, &info);
			between(&to[a], &from[b], 0);
			between(&to[a], &from[b], HM_COPY_STREAM);
		}
	for (a = 0; a < 4; a++) {
		rig_drop(&to[a]);
		rig_drop(&from[a]);
	}
}

static void kinds(void)
{
	const struct copy_set *const *set;

	kinds_of_one_set();
	for (set = copy_sets; *set; set++)
		if ((*set)->is_here()) {
			CHECK(copy_force((*set)->name, (*set)->loads ? (*set)->name : NULL,
					 (*set)->loads ? (*set)->name : NULL));
			kinds_of_one_set();
		}
	CHECK(!copy_force("none", NULL, NULL));
	CHECK(copy_force(NULL, NULL, NULL));
}

static void on_device(const char *name)
{
	AUTO(rig) to = device_map_open(name, SIZE);
	AUTO(rig) from = device_map_open(name, SIZE);

	CHECK(!strcmp(copy_info(to.bytes, from.bytes, SIZE, 0).way, "memcpy"));
	between(&to, &from, 0);
	between(&to, &from, HM_COPY_STREAM);
}

static void devices(void)
{
	on_device("host");
	on_device("soft:0");
	/* In a machine with the module. */
	if (device_is_there("sim:0"))
		on_device("sim:0");
}

/* ---- HM_COPY_STREAM ---- */

static void streams(void)
{
	const struct copy_cpu *cpu = copy_cpu();
	struct hm_copy_info info;
	uint64_t least, length;

	CHECK(cpu->second_cache >= 65536 && cpu->last_cache > 0);
	info = copy_info("a", "b", 1, HM_COPY_STREAM);
	CHECK_EQUAL(info.second_cache, cpu->second_cache);
	CHECK_EQUAL(info.last_cache, cpu->last_cache);
	CHECK_EQUAL(info.stream_least, cpu->stream_least);
	if (cpu->stream_least == UINT64_MAX)
		return;
	least = info.stream_least;
	CHECK_EQUAL(least, cpu->second_cache / 4);
	AUTO_FREE char *to = malloc(2 * least);
	AUTO_FREE char *from = malloc(2 * least);
	for (length = least - 65; length < least + 130; length++) {
		pattern_write(from, 0, length, (uint32_t)length);
		memset(to + length, 0x11, 64);
		CHECK_OK_FATAL(hm_copy(to, from, length, HM_COPY_STREAM));
		CHECK_FATAL(!memcmp(to, from, length));
		CHECK_FATAL(to[length] == 0x11 && to[length + 63] == 0x11);
		info = copy_info(to, from, length, HM_COPY_STREAM);
		CHECK(!strcmp(info.way, length < least ? "memcpy" : "stores"));
		CHECK(!strcmp(info.stores, length < least ? "" : cpu->streams->name));
		CHECK(!strcmp(copy_info(to, from, length, 0).way, "memcpy"));
	}
}

/* ---- arguments ---- */

static void arguments(void)
{
	struct hm_copy_info info = { .struct_size = sizeof(info) };
	char bytes[64] = "abc";

	CHECK_OK(hm_copy(NULL, NULL, 0, 0));
	CHECK_OK(hm_copy(bytes, bytes, 0, 0));
	CHECK_ERROR(-EINVAL, hm_copy(NULL, bytes, 1, 0));
	CHECK_ERROR(-EINVAL, hm_copy(bytes, NULL, 1, 0));
	CHECK_ERROR(-EINVAL, hm_copy(bytes, bytes + 32, 32, 2));
	CHECK_ERROR(-EINVAL, hm_copy(bytes, bytes + 32, 33, 0));
	CHECK_ERROR(-EINVAL, hm_copy(bytes + 32, bytes, 33, 0));
	CHECK_ERROR(-EINVAL, hm_copy(bytes, bytes, 1, 0));
	CHECK(!strcmp(bytes, "abc"));
	CHECK_OK(hm_copy(bytes, bytes + 32, 32, 0));
	CHECK_OK(hm_copy(bytes + 32, bytes, 32, 0));
	CHECK_ERROR(-EINVAL, hm_copy_query(bytes, bytes, 1, &info));
	CHECK_ERROR(-EINVAL, hm_copy_query(bytes, bytes + 32, 1, NULL));
	info.flags = 2;
	CHECK_ERROR(-EINVAL, hm_copy_query(bytes, bytes + 32, 1, &info));
	info.struct_size = sizeof(info) + 8;
	CHECK_ERROR(-E2BIG, hm_copy_query(bytes, bytes + 32, 1, &info));
	info = (struct hm_copy_info){ .struct_size = offsetof(struct hm_copy_info, way),
				      .way = "kept" };
	CHECK_OK(hm_copy_query(bytes, bytes + 32, 1, &info));
	CHECK(!strcmp(info.way, "kept"));
}

/* ---- guards ---- */

/* Copies with errors choose the same ways: the bytes are right, and so are the errors. */
static void guarded(void)
{
	struct rig maps[4];
	AUTO_FREE char *bytes = malloc(SIZE);
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	uint32_t a, b;
	AUTO(rig_handler) handler = rig_handler(0);

	for (a = 0; a < 4; a++)
		maps[a] = mode_open(a, SIZE);
	for (a = 0; a < 4; a++) {
		pattern_write(bytes, 0, SIZE, a);
		CHECK_OK(hm_copy_in(maps[a].bytes + 3, bytes, SIZE - 3, NULL));
		CHECK(!memcmp(maps[a].bytes + 3, bytes, SIZE - 3));
		memset(bytes, 0, SIZE);
		CHECK_OK(hm_copy_out(bytes, maps[a].bytes + 3, SIZE - 3, NULL));
		CHECK(!memcmp(maps[a].bytes + 3, bytes, SIZE - 3));
		CHECK_ERROR(-ERANGE, hm_copy_in(maps[a].bytes + 3, bytes, SIZE, &fault));
		for (b = 0; b < 4; b++) {
			if (a == b)
				continue;
			pattern_write(maps[b].bytes, 0, SIZE, 7 + b);
			CHECK_OK(hm_copy_in(maps[a].bytes, maps[b].bytes, SIZE, NULL));
			CHECK(pattern_holds(maps[a].bytes, 0, SIZE, 7 + b));
		}
	}
	for (a = 0; a < 4; a++)
		rig_drop(&maps[a]);
}

/* ---- threads ---- */

static void *copy_and_check(void *user)
{
	struct rig *to = user;
	unsigned char own[1000], back[1000];
	unsigned int i, at;

	fill(own, sizeof(own), (unsigned int)(uintptr_t)pthread_self());
	for (i = 0; i < 2000; i++) {
		at = i % LINE;
		if (hm_copy(to->bytes + at, own, 500 + i % 500, 0) ||
		    hm_copy(back, to->bytes + at, 500 + i % 500, HM_COPY_STREAM) ||
		    memcmp(back, own, 500 + i % 500)) {
			test_fail(__FILE__, __LINE__, "other bytes came back");
			break;
		}
	}
	return NULL;
}

static void threads(void)
{
	struct rig maps[4];
	pthread_t thread[4];
	unsigned int i;

	for (i = 0; i < 4; i++)
		maps[i] = mode_open(i, SIZE);
	for (i = 0; i < 4; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, copy_and_check, &maps[i]));
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < 4; i++)
		rig_drop(&maps[i]);
}

static const struct test tests[] = {
	{ .name = "sets_everywhere", .run = sets_everywhere, .seconds = 60 },
	{ .name = "sets_long", .run = sets_long, .seconds = 60 },
	{ .name = "lines", .run = lines },
	{ .name = "kinds", .run = kinds, .seconds = 60 },
	{ .name = "devices", .run = devices },
	{ .name = "streams", .run = streams },
	{ .name = "arguments", .run = arguments },
	{ .name = "guarded", .run = guarded },
	{ .name = "threads", .run = threads },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "copy", tests)
