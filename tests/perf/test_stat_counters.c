// SPDX-License-Identifier: MIT
/*
 * The counters of hetmap stat on machines that are not here: some that count in turns,
 * have no such counter, allow a part. perf_event_open(2) is this file's own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../tools/perf/stat/stat.h"
#include "lib/harness.h"

/* The answers of the test's kernel. */
static struct {
	int software, hardware; /* errno, or 0 */
	bool user_only;         /* EACCES if the kernel's side is asked for */
	uint64_t value, enabled, running;
	unsigned int asked;
} fake;

static int answer(const struct perf_event_attr *attr)
{
	const uint64_t reading[3] = { fake.value, fake.enabled, fake.running };
	int error = attr->type == PERF_TYPE_SOFTWARE ? fake.software : fake.hardware;
	int fd;

	fake.asked++;
	CHECK(attr->disabled && attr->enable_on_exec && attr->inherit);
	if (fake.user_only && !attr->exclude_kernel)
		error = EACCES;
	if (error) {
		errno = error;
		return -1;
	}
	fd = memfd_create("counter", MFD_CLOEXEC);
	CHECK_EQUAL(pwrite(fd, reading, sizeof(reading), 0), sizeof(reading));
	return fd;
}

/* In the place of the C library's. */
long syscall(long number, ...)
{
	long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_list args;
	long a[6];
	int i;

	va_start(args, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_perf_event_open)
		return answer((const struct perf_event_attr *)a[0]);
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void count(struct stat_result *result, uint64_t cpu_ns)
{
	struct stat_counters counters;
	int i;

	memset(result, 0, sizeof(*result));
	for (i = 0; i < N_STAT; i++)
		result->metrics[i].share = 1;
	fake.asked = 0;
	counters_open(result, 1, &counters);
	counters_close(result, &counters, cpu_ns);
}

/* A quarter of the time: four times the count, and so it is marked. */
static void test_scaled(void)
{
	struct stat_result result;

	memset(&fake, 0, sizeof(fake));
	fake.value = 1000;
	fake.enabled = 4000000;
	fake.running = 1000000;
	count(&result, 4000000);
	CHECK_EQUAL(fake.asked, N_STAT_COUNTER);
	CHECK(result.metrics[STAT_DTLB_LOAD].figure.mean == 4000);
	CHECK(result.metrics[STAT_DTLB_LOAD].share == 0.25);
	CHECK_EQUAL(result.metrics[STAT_DTLB_LOAD].source, SOURCE_PERF);
	CHECK(result.metrics[STAT_TASK_CLOCK].figure.mean == 4000 / 1e9);
	CHECK_EQUAL(result.refused, 0);
}

/* One that had no turn counted nothing: that is not 0. */
static void test_no_turn(void)
{
	struct stat_result result;

	memset(&fake, 0, sizeof(fake));
	fake.enabled = 4000000;
	count(&result, 4000000);
	CHECK_EQUAL(result.metrics[STAT_ITLB].figure.n, 0);
	CHECK(!strcmp(result.metrics[STAT_ITLB].why, "the counter never had its turn"));
}

static void test_no_counter(void)
{
	static const int errors[] = { ENOENT, ENODEV, EINVAL, EOPNOTSUPP };
	struct stat_result result;
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		memset(&fake, 0, sizeof(fake));
		fake.hardware = errors[i];
		fake.value = fake.enabled = fake.running = 3000000;
		count(&result, 3000000);
		CHECK_EQUAL(result.metrics[STAT_DTLB_STORE].figure.n, 0);
		CHECK(!strcmp(result.metrics[STAT_DTLB_STORE].why,
			      "this machine has no such counter"));
		CHECK_EQUAL(result.metrics[STAT_MINOR].figure.n, 1);
		CHECK_EQUAL(result.refused, 0);
	}
	memset(&fake, 0, sizeof(fake));
	fake.software = fake.hardware = EMFILE;
	count(&result, 3000000);
	CHECK(strstr(result.metrics[STAT_MINOR].why, "Too many open files") != NULL);
	CHECK_EQUAL(result.refused, 0);
}

/*
 * perf_event_paranoid 2: the kernel's side is not counted, so faults and switches are left to other
 * sources, and the rest is marked.
 */
static void test_user_only(void)
{
	struct stat_result result;

	memset(&fake, 0, sizeof(fake));
	fake.user_only = true;
	fake.value = fake.enabled = fake.running = 3000000;
	count(&result, 3000000);
	CHECK_EQUAL(result.refused, EACCES);
	CHECK(result.user_only);
	CHECK_EQUAL(result.metrics[STAT_DTLB_LOAD].source, SOURCE_PERF_USER);
	CHECK_EQUAL(result.metrics[STAT_TASK_CLOCK].source, SOURCE_PERF);
	CHECK_EQUAL(result.metrics[STAT_MINOR].figure.n, 0);
	CHECK_EQUAL(result.metrics[STAT_SWITCHES].figure.n, 0);
	CHECK(strstr(result.metrics[STAT_MIGRATIONS].why, "Permission denied") != NULL);
}

/* Counters that saw next to nothing of the time were taken away. */
static void test_taken_away(void)
{
	struct stat_result result;

	memset(&fake, 0, sizeof(fake));
	fake.enabled = fake.running = 50000;
	count(&result, 1000000);
	CHECK(result.taken);
	CHECK_EQUAL(result.metrics[STAT_MINOR].figure.n, 0);
	CHECK(strstr(result.metrics[STAT_MINOR].why, "took the counter away") != NULL);
	/* The end of the memory is not theirs, and may take its time. */
	fake.value = fake.enabled = fake.running = 400000;
	count(&result, 1000000);
	CHECK(!result.taken);
	CHECK_EQUAL(result.metrics[STAT_MINOR].figure.n, 1);
}

static void test_figure(void)
{
	static const double values[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
	struct stat_figure figure = { 0 };
	size_t i;

	CHECK(figure_deviation(&figure) == 0);
	for (i = 0; i < 8; i++)
		figure_add(&figure, values[i]);
	CHECK(figure.mean == 5 && figure.least == 2 && figure.most == 9);
	/* 32 / 7, of a sample. */
	CHECK(figure_deviation(&figure) > 2.1380 && figure_deviation(&figure) < 2.1381);
	/* Large numbers that differ little. */
	figure = (struct stat_figure){ 0 };
	for (i = 0; i < 3; i++)
		figure_add(&figure, 1e15 + (double)i);
	CHECK(figure_deviation(&figure) == 1);
}

static const struct test tests[] = {
	{ .name = "scaled", .run = test_scaled },
	{ .name = "no_turn", .run = test_no_turn },
	{ .name = "no_counter", .run = test_no_counter },
	{ .name = "user_only", .run = test_user_only },
	{ .name = "taken_away", .run = test_taken_away },
	{ .name = "figure", .run = test_figure },
	{ 0 },
};

TEST_MAIN(harness_main, "stat_counters", tests)
