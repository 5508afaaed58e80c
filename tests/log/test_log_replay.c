// SPDX-License-Identifier: MIT
/*
 * Power failures of a log. The log runs on memory whose stores, write-backs and fences are
 * recorded. Before each fence, and at the end, every word of 8 bytes that is not known to last
 * may be any of its versions since: all combinations are built, or 2^16 of them by chance. A
 * processor permits fewer. Each image is opened as a log is after a failure: every acknowledged
 * record must be there, whole, no other bytes may be a record, and the root is the old one or
 * the new one. (A guest that is killed proves nothing: its caches are not lost.)
 *
 * HETMAP_LOG_DROP=N leaves the N-th write-back out of all tests here, which must fail then. The
 * last test does so for each write-back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/support.h"
#include "log_core.h"

#define SIZE 4096u
#define WORDS (SIZE / 8)
#define LINES (SIZE / LOG_LINE)
#define VERSIONS 8
#define MOST (1u << 16)  /* images of one moment */
#define OLD_EPOCH 0x777u /* epoch of the log below each test's log */
#define OLD_ROOT 202u

/* ---- memory that forgets ---- */

struct word {
	uint64_t version[VERSIONS]; /* the first lasts; the CPU sees the last */
	uint32_t n;
	uint32_t written_back; /* index of the version that the next fence makes last; 0: none */
};

static struct memory {
	_Alignas(64) char now[SIZE];
	struct word words[WORDS];
	unsigned int n_flush, drop;  /* drop: the write-back that is left out; 0: none */
	uint32_t drop_from, drop_to; /* its words */
	uint64_t images;
	uint64_t chance;
	bool sampled;
	uint64_t most; /* images of one moment */
	void (*before_fence)(void);
} memory;

static void store_word(uint32_t at)
{
	struct word *word = &memory.words[at];
	uint64_t value;

	memcpy(&value, &memory.now[at * 8], 8);
	if (word->version[word->n - 1] == value)
		return;
	/* The newest versions: the test may forget one that was overwritten twice in between. */
	if (word->n == VERSIONS)
		memmove(&word->version[1], &word->version[2],
			(--word->n - 1) * sizeof(word->version[0]));
	word->version[word->n++] = value;
}

static void store(void *user, void *to, const void *from, size_t length)
{
	uint32_t first = (uint32_t)((char *)to - memory.now), i;

	(void)user;
	memcpy(to, from, length);
	for (i = first / 8; i <= (first + length - 1) / 8; i++)
		store_word(i);
}

static int flush(void *user, const void *address, size_t length)
{
	uint32_t first = (uint32_t)((const char *)address - memory.now), i;
	uint32_t end = (uint32_t)((first + length + LOG_LINE - 1) / LOG_LINE * 8);

	(void)user;
	first = first / LOG_LINE * 8;
	if (++memory.n_flush == memory.drop) {
		memory.drop_from = first;
		memory.drop_to = end;
		return 0;
	}
	for (i = first; i < end; i++)
		memory.words[i].written_back = memory.words[i].n - 1;
	return 0;
}

static int fence(void *user)
{
	uint32_t i;

	(void)user;
	if (memory.before_fence)
		memory.before_fence();
	for (i = 0; i < WORDS; i++) {
		struct word *word = &memory.words[i];
		uint32_t n = word->written_back;

		memmove(word->version, word->version + n, (word->n - n) * sizeof(uint64_t));
		word->n -= n;
		word->written_back = 0;
	}
	return 0;
}

static const struct log_engine engine = { store, flush, fence };

static void memory_begin(unsigned int drop)
{
	const char *dropped = getenv("HETMAP_LOG_DROP");
	uint64_t seed = test_seed();
	uint32_t i;

	memset(&memory, 0, sizeof(memory));
	memory.drop = drop ? drop : dropped ? (unsigned int)atoi(dropped) : 0;
	memory.chance = seed;
	memory.most = test_is_slow() ? MOST / 32 : MOST;
	for (i = 0; i < WORDS; i++)
		memory.words[i].n = 1;
}

/* ---- the log, and the bytes that must be there ---- */

#define RECORDS_MAX 32

static struct expected {
	uint32_t n_acked, n_begun; /* records: the last one may be under way */
	uint32_t n_before;         /* records that a clear under way ends; 0: none is */
	uint32_t length[RECORDS_MAX];
	uint32_t root, next_root; /* salts: 0: none was set */
	bool made;                /* the log is there */
	unsigned int broken;      /* images that were wrong */
} expected;

static struct log_core log_core;

static void fill(unsigned char *bytes, uint32_t length, uint32_t salt)
{
	uint32_t i;

	for (i = 0; i < length; i++)
		bytes[i] = (unsigned char)(salt * 37 + i * 11 + 1);
}

static bool is_record(const void *bytes, uint64_t length, uint32_t i)
{
	unsigned char right[2048];

	if (i >= RECORDS_MAX || length != expected.length[i])
		return false;
	fill(right, expected.length[i], i + 1);
	return !memcmp(bytes, right, length);
}

static bool root_is(const struct log_core *core, uint32_t salt)
{
	unsigned char right[HM_LOG_ROOT_MAX];

	if (!salt)
		return !core->root_length;
	fill(right, 40, salt);
	return core->root_length == 40 && !memcmp(core->root, right, 40);
}

/* Can a failure leave this image? */
static bool check_image(char *image)
{
	struct log_core core = { .base = image, .size = SIZE, .engine = &engine };
	uint64_t at = LOG_RECORDS, length;
	uint32_t version, i = 0;
	const void *bytes;
	int r = log_core_open(&core, &version);

	/* While it is made: the old log as it was, none at all, or the new one. */
	if (!expected.made && !r && core.epoch == OLD_EPOCH)
		return core.n_record == 2 && root_is(&core, OLD_ROOT);
	if (!expected.made)
		return !r ? !core.n_record : r == -ENODATA || r == -EMEDIUMTYPE;
	if (r || !(root_is(&core, expected.root) || root_is(&core, expected.next_root)))
		return false;
	while (!log_core_record(&core, at, i + 1, &bytes, &length, &at))
		if (!is_record(bytes, length, i++))
			return false;
	if (i != core.n_record)
		return false;
	if (expected.n_before)
		return !i || i == expected.n_before;
	return i >= expected.n_acked && i <= expected.n_begun;
}

/* The number of combinations, or more than MOST. */
static uint64_t count_images(void)
{
	uint64_t n = 1;
	uint32_t i;

	for (i = 0; i < WORDS && n <= MOST; i++)
		n *= memory.words[i].n;
	return n;
}

static void build_image(uint64_t turn, bool sampled, char *image)
{
	uint32_t i, at;

	memcpy(image, memory.now, SIZE);
	for (i = 0; i < WORDS; i++) {
		const struct word *word = &memory.words[i];

		if (word->n == 1)
			continue;
		at = (uint32_t)((sampled ? test_random(&memory.chance) >> 33 : turn) % word->n);
		turn /= word->n;
		memcpy(image + i * 8, &word->version[at], 8);
	}
}

/* Adds a word to an image: as it was once, or as the CPU sees it, if that many are not known. */
static void put_word(uint32_t i, uint32_t version, char *image)
{
	const struct word *word = &memory.words[i];

	memcpy(image + i * 8, &word->version[version < word->n ? version : word->n - 1], 8);
}

/*
 * An old state that comes back whole is one image of thousands. In these images the words of
 * the left-out write-back are old; of the others all are new, or just one.
 */
static void fail_without_dropped(void)
{
	_Alignas(64) char image[SIZE];
	uint32_t version, i, new_one;

	if (!memory.drop_to)
		return;
	for (version = 0; version < VERSIONS; version++) {
		memcpy(image, memory.now, SIZE);
		for (i = memory.drop_from; i < memory.drop_to; i++)
			put_word(i, version, image);
		expected.broken += !check_image(image);
	}
	for (new_one = 0; new_one < WORDS; new_one++) {
		if (memory.words[new_one].n == 1)
			continue;
		for (i = 0; i < WORDS; i++)
			put_word(i, i == new_one ? VERSIONS : 0, image);
		expected.broken += !check_image(image);
	}
}

static void fail_now(void)
{
	_Alignas(64) static char image[SIZE];
	uint64_t n = count_images(), turn;
	bool sampled = n > memory.most;

	fail_without_dropped();
	memory.sampled |= sampled;
	for (turn = 0; turn < (sampled ? memory.most : n); turn++) {
		build_image(turn, sampled, image);
		memory.images++;
		expected.broken += !check_image(image);
	}
}

/* ---- operations on a log ---- */

/* An old log, whose roots and records must never be taken for the new one's. */
static void make_old(void)
{
	unsigned char bytes[40];
	uint32_t salt;

	CHECK_OK(log_core_format(&log_core, OLD_EPOCH));
	for (salt = OLD_ROOT - 1; salt <= OLD_ROOT; salt++) {
		fill(bytes, sizeof(bytes), salt);
		CHECK_OK(log_core_append(&log_core, bytes, 8));
		CHECK_OK(log_core_root_set(&log_core, bytes, sizeof(bytes)));
	}
}

static void begin(unsigned int drop, uint64_t most)
{
	memory_begin(drop);
	if (most < memory.most)
		memory.most = most;
	drop = memory.drop;
	memory.drop = 0;
	memset(&expected, 0, sizeof(expected));
	log_core = (struct log_core){ .base = memory.now, .size = SIZE, .engine = &engine };
	make_old();
	memory.n_flush = 0;
	memory.drop = drop;
	memory.before_fence = fail_now;
	CHECK_OK(log_core_format(&log_core, 0x1234567));
	expected.made = true;
	fail_now();
}

static void append(uint32_t length)
{
	unsigned char bytes[2048];
	uint32_t i = expected.n_acked;

	expected.length[i] = length;
	expected.n_begun = i + 1;
	fill(bytes, length, i + 1);
	CHECK_OK(log_core_append(&log_core, bytes, length));
	expected.n_acked = expected.n_begun;
}

static void set_root(uint32_t salt)
{
	unsigned char bytes[40];

	fill(bytes, sizeof(bytes), salt);
	expected.next_root = salt;
	CHECK_OK(log_core_root_set(&log_core, bytes, sizeof(bytes)));
	expected.root = salt;
}

static void clear(void)
{
	expected.n_before = expected.n_acked;
	CHECK_OK(log_core_clear(&log_core));
	expected.n_before = expected.n_acked = expected.n_begun = 0;
}

static void end(void)
{
	fail_now();
	memory.before_fence = NULL;
}

/* Records of one word to several lines: up to 13 words are all built. */
static void work_append(void)
{
	static const uint32_t lengths[] = { 8, 1, 32, 64, 33, 72, 100, 31, 96, 200 };
	uint32_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		append(lengths[i]);
}

static void work_root(void)
{
	uint32_t i;

	for (i = 1; i < 6; i++) {
		append(16);
		set_root(i);
	}
}

/* After a clear, records lie over old ones, whole and in parts. */
static void work_clear(void)
{
	append(48);
	append(20);
	append(90);
	clear();
	append(20);
	append(48);
	clear();
	clear();
	append(150);
}

struct work {
	const char *name;
	void (*run)(void);
};

static const struct work works[] = {
	{ "append", work_append },
	{ "root", work_root },
	{ "clear", work_clear },
};

static void check_work(const struct work *work)
{
	begin(0, MOST);
	work->run();
	end();
	printf("    %s: %u write-backs, %llu images%s\n", work->name, memory.n_flush,
	       (unsigned long long)memory.images,
	       memory.sampled ? ", some by chance (the seed is HETMAP_SEED's)" : "");
	CHECK(memory.images > 1000);
	CHECK_EQUAL(expected.broken, 0);
}

static void test_append(void)
{
	check_work(&works[0]);
}

static void test_root(void)
{
	check_work(&works[1]);
}

static void test_clear(void)
{
	check_work(&works[2]);
}

static void store_plainly(void *user, void *to, const void *from, size_t length)
{
	(void)user;
	memcpy(to, from, length);
}

static int do_nothing(void *user, const void *address, size_t length)
{
	(void)user, (void)address, (void)length;
	return 0;
}

static int fence_nothing(void *user)
{
	(void)user;
	return 0;
}

static const struct log_engine plain = { store_plainly, do_nothing, fence_nothing };

/* A record appended after a failure lies over the failure's bytes, and is whole again. */
static void test_goes_on(void)
{
	_Alignas(64) static char image[SIZE];
	struct log_core core = { .base = image, .engine = &plain };
	uint32_t version, n, turn;
	unsigned char bytes[100];

	begin(0, 1);
	append(40);
	append(64);
	memory.before_fence = NULL;
	memory.drop = memory.n_flush + 1;
	fill(bytes, sizeof(bytes), 3);
	CHECK_OK(log_core_append(&log_core, bytes, sizeof(bytes)));
	for (turn = 0; turn < 4096; turn++) {
		build_image(0, true, image);
		core.size = SIZE;
		CHECK_OK(log_core_open(&core, &version));
		n = (uint32_t)core.n_record;
		CHECK(n == 2 || n == 3);
		expected.length[n] = 24;
		fill(bytes, sizeof(bytes), n + 1);
		CHECK_OK(log_core_append(&core, bytes, 24));
		expected.n_acked = expected.n_begun = n + 1;
		expected.length[2] = n == 2 ? 24 : 100;
		if (!check_image(image))
			test_fail(__FILE__, __LINE__, "image %u is wrong after an append",
				  turn);
	}
}

/* Each write-back is needed: without it some image is wrong. */
static void test_each_is_needed(void)
{
	unsigned int n_format, n, drop, i;

	begin(0, 1);
	n_format = memory.n_flush;
	for (i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		begin(0, 1);
		works[i].run();
		n = memory.n_flush;
		/* Those of the format are the same for all. */
		for (drop = i ? n_format + 1 : 1; drop <= n; drop++) {
			begin(drop, 512);
			works[i].run();
			end();
			if (!expected.broken)
				test_fail(__FILE__, __LINE__,
					  "%s: write-back %u of %u may be left out",
					  works[i].name, drop, n);
		}
	}
}

static const struct test tests[] = {
	{ .name = "append", .run = test_append, .seconds = 120 },
	{ .name = "root", .run = test_root, .seconds = 120 },
	{ .name = "clear", .run = test_clear, .seconds = 120 },
	{ .name = "goes_on", .run = test_goes_on },
	{ .name = "each_is_needed", .run = test_each_is_needed, .seconds = 600 },
	{ 0 },
};

TEST_MAIN(harness_main_once, "log_replay", tests)
