/* SPDX-License-Identifier: MIT */
/*
 * Test harness over CUnit: every test runs in a forked child with a time
 * limit, twice, and must leave the process as it found it.
 */
#ifndef HETMAP_TESTS_HARNESS_H
#define HETMAP_TESTS_HARNESS_H

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/units.h"

struct test {
	const char *name;
	void (*run)(void);
	unsigned int seconds; /* time limit of both rounds, of a processor's own; 0: 20 */
	unsigned int flags;   /* TEST_* */
};

#define TEST_ONCE (1u << 0) /* no second round: the leak oracle is off */

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

/* Emulated, or under a sanitizer: tests that copy or compute much should do less. */
bool test_is_slow(void);

/*
 * Runs the @tests (up to an entry without a name) that the arguments select:
 *
 *     PROGRAM [-v] [--list] [PATTERN...]    patterns as in fnmatch(3)
 *
 * Prints a line for each and "N passed, N failed, N skipped" at the end.
 * Returns the exit status of main(): 0 when none failed.
 *
 * HETMAP_FAIL_ON_SKIP: "1" turns every skip but those of class sanitizer into
 * a failure; a list of classes ("vm,kernel") those that it names.
 * HETMAP_TIME_SCALE: multiplies the time limits (slow machines, emulation).
 * HETMAP_SEED: see test_seed(). HETMAP_EVERY: see test_every().
 */
int harness_main(int argc, char **argv, const char *suite, const struct test *tests);
/* All of them are TEST_ONCE: a process that only starts the command holds no resources. */
int harness_main_once(int argc, char **argv, const char *suite, const struct test *tests);

/* main() that only calls one of these, or one like them: TEST_MAIN(harness_main, "suite", tests) */
#define TEST_MAIN(call, ...)                          \
	int main(int argc, char **argv)               \
	{                                             \
		return call(argc, argv, __VA_ARGS__); \
	}

/*
 * Says that this test can't be done here; then return from it.
 * Classes: vm kernel opencl network sanitizer browser perf numa bpftrace numpy fuse video
 * table pmem cluster.
 */
void test_skip(const char *skip_class, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A failure with a text. Unlike CU_ASSERT, legal on any thread. */
void test_fail(const char *file, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Leaves the test at once, as a fatal assertion does. Main thread only. */
void test_abandon(void) __attribute__((noreturn));

/* The entry that is running: for suites that make their tables themselves. */
const struct test *test_current(void);

/* Seconds since some time before. */
double test_now(void);

/*
 * Runs @run in a child of the test; its failures are the test's.
 * Returns 0, the signal that ended it, or -status when it called exit().
 */
int test_fork(void (*run)(void *user), void *user);

/* Does touching *@address raise a signal? Returns it, or 0. The byte stays. */
int test_read_signal(const volatile void *address);
int test_write_signal(volatile void *address);

/* A field of /proc/self/status in bytes ("VmLck", "RssAnon"). */
uint64_t test_status_bytes(const char *field);

/* The figures of the leak oracle, for checks inside a test. */
struct test_holding {
	unsigned int fds;
	unsigned int mappings;
	uint64_t mapped; /* bytes, without slabs and heap; 0 under a sanitizer */
	uint64_t slabs;  /* bytes that the library maps once, and keeps */
	uint64_t locked;
	uint64_t objects; /* devices, buffers, maps, views */
};

struct test_holding test_holding_now(void);
/* Fails the test where descriptors, mappings or objects are not as many as then. */
void test_holding_same(const struct test_holding *before);

/* HETMAP_SEED, or a fresh one; the failure line of the test names it. */
uint64_t test_seed(void);
/*
 * Another machine makes the whole of a long walk: here a test makes one step in HETMAP_EVERY, or
 * all of them; *@ret_first is below it, by test_seed().
 */
unsigned int test_every(unsigned int *ret_first);
/* The next number of the sequence that *@state is in. */
uint64_t test_random(uint64_t *state);

/* A struct of hetsim for one call: SIZED(hetsim_inject, .kind = HETSIM_INJECT_UNPLUG). */
#define SIZED(type, ...) (&(struct type){ .size = sizeof(struct type), __VA_ARGS__ })

/* A pointer that is free()d at the end of its block: AUTO_FREE char *path = folder_path(...); */
#define AUTO_FREE __attribute__((cleanup(free_auto), unused))

static inline void free_auto(void *ref)
{
	void *pointer;

	memcpy(&pointer, ref, sizeof(pointer));
	free(pointer);
}

/* The bodies of the macros below. */
void test_forget_text(void);
bool test_check_ok(int r, const char *what, const char *file, unsigned int line);
bool test_check_error(int r, int expected, const char *what, const char *file,
		      unsigned int line);
bool test_check_equal(uint64_t a, uint64_t b, const char *what, const char *file,
		      unsigned int line);

/* @call returns 0; a failure shows its error and hm_errmsg(). */
#define CHECK_OK(call) ((void)test_check_ok((call), #call, __FILE__, __LINE__))
#define CHECK_OK_FATAL(call)                                           \
	do {                                                           \
		if (!test_check_ok((call), #call, __FILE__, __LINE__)) \
			test_abandon();                                \
	} while (0)

/* @call returns @expected, a negative errno, and hm_errmsg() is not empty. */
#define CHECK_ERROR(expected, call) \
	((void)(test_forget_text(), \
		test_check_error((call), (expected), #call, __FILE__, __LINE__)))

/* Integers; a failure shows both. */
#define CHECK_EQUAL(a, b) \
	((void)test_check_equal((uint64_t)(a), (uint64_t)(b), #a " == " #b, __FILE__, __LINE__))

#define CHECK(condition)                                                         \
	do {                                                                     \
		if (!(condition))                                                \
			test_fail(__FILE__, __LINE__, "not so: %s", #condition); \
	} while (0)

#define CHECK_FATAL(condition)                                                   \
	do {                                                                     \
		if (!(condition)) {                                              \
			test_fail(__FILE__, __LINE__, "not so: %s", #condition); \
			test_abandon();                                          \
		}                                                                \
	} while (0)

/* @text has @part in it; a failure shows both. */
#define CHECK_HAS(text, part)                                                            \
	do {                                                                             \
		const char *text_ = (text), *part_ = (part);                             \
		if (!strstr(text_, part_))                                               \
			test_fail(__FILE__, __LINE__, "no \"%s\" in: %s", part_, text_); \
	} while (0)

/* A test for which @have is false was skipped by it, and ends here. */
#define TEST_NEEDS(have)                \
	do {                            \
		if (!(have))            \
			test_abandon(); \
	} while (0)

#endif
