// SPDX-License-Identifier: MIT
/* The data of a trace's picture: its faults, one by one, by when they began. */
#include <stdlib.h>
#include <sys/stat.h>

#include "../../tools/common/command.h"
#include "../../tools/perf/read/analysis.h"
#include "../../tools/perf/record/made_trace.h"
#include "lib/command.h"
#include "lib/support.h"

#define FAULTS 20000
#define MANY_FAULTS 500000

/*
 * One of two CPUs in a trace waits for storage now and then, for as long as a hundred faults of the
 * other one take: those begin later, and end before it does.
 */
static void by_time(void)
{
	char *folder = folder_make(), path[512];
	struct trace_folder trace;
	struct analysis analysis;
	uint64_t bytes;
	uint32_t i, n_cpu[2] = { 0 };

	output.quiet = true;
	snprintf(path, sizeof(path), "%s/trace", folder);
	CHECK_EQUAL(made_trace(path, FAULTS, &trace, &bytes), 0);
	CHECK_EQUAL(analysis_read(path, 0, NULL, &analysis), 0);
	CHECK_EQUAL(analysis.n_row, FAULTS);
	CHECK_EQUAL(analysis.each, 1);
	CHECK(analysis.major.n > 0);
	for (i = 0; i < analysis.n_row; i++) {
		CHECK_FATAL(analysis.rows[i].cpu < 2);
		n_cpu[analysis.rows[i].cpu]++;
		CHECK_FATAL(!i || analysis.rows[i].time_ns >= analysis.rows[i - 1].time_ns);
	}
	CHECK(n_cpu[0] > 0 && n_cpu[1] > 0);
	analysis_free(&analysis);
	trace_folder_close(&trace, false);
	folder_remove(folder);
}

/* A page of many faults is small enough for mail: it leaves out predictable data. */
static void page_is_small(void)
{
	char *folder = folder_make(), path[512], page[512];
	const struct command command = { .args = { "report", "-q", "--html", page, path } };
	struct trace_folder trace;
	AUTO(outcome) outcome = { 0 };
	uint64_t bytes;
	struct stat st;

	output.quiet = true;
	snprintf(path, sizeof(path), "%s/trace", folder);
	snprintf(page, sizeof(page), "%s/page", folder);
	CHECK_EQUAL(made_trace(path, MANY_FAULTS, &trace, &bytes), 0);
	CHECK_RUN(0, &outcome, &command);
	CHECK_EQUAL(stat(page, &st), 0);
	CHECK(st.st_size < 2000000);
	trace_folder_close(&trace, false);
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "by_time", by_time, 60, TEST_ONCE },
	{ "page_is_small", page_is_small, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_rows", tests)
