// SPDX-License-Identifier: MIT
/* The kernel's messages while a program of tests runs. */
#include "lib/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"

#define RECORD_MAX 8192 /* of /dev/kmsg */

/*
 * Messages about the machine, which may be emulated and slow; and about the module that open_disk()
 * of test_hetsim_isolation loads, or can't, as where busybox finds it compressed.
 */
static const char *const expected[] = {
	"clocksource: ",           "hogged CPU for ",
	"tsc: Marking TSC",        "TSC found unstable",
	"sched_clock: Marking",    "sched: RT throttling",
	"hrtimer: interrupt took", "perf: interrupt took too long",
	"brd: module loaded",      "Invalid ELF header magic",
};

static int log_file = -1;

void kernel_log_begin(void)
{
	log_file = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log_file >= 0)
		lseek(log_file, 0, SEEK_END);
}

static bool is_expected(const char *text)
{
	size_t i;

	for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (strstr(text, expected[i]))
			return true;
	return false;
}

/* "PRIORITY,NUMBER,TIME,FLAGS;TEXT", and lines of keys. */
static void check_record(char *record)
{
	unsigned long priority = strtoul(record, NULL, 10);
	char *text = strchr(record, ';');

	CHECK_FATAL(text != NULL);
	text[strcspn(text, "\n")] = '\0';
	/* Lines that processes have written have a facility. */
	if (priority >> 3 == 0 && !is_expected(text))
		test_fail(__FILE__, __LINE__, "the kernel said: %s", text + 1);
}

void kernel_log_test(void)
{
	char record[RECORD_MAX + 1];
	int fd = hetsim_open(O_RDWR);
	ssize_t n;

	if (fd < 0)
		return;
	hetsim_close(fd);
	if (log_file < 0) {
		test_skip("kernel", "/dev/kmsg is not to be read");
		return;
	}
	while ((n = read(log_file, record, RECORD_MAX)) > 0) {
		record[n] = '\0';
		check_record(record);
	}
	/* Not EPIPE: more than it can keep. */
	CHECK_EQUAL(n < 0 ? errno : 0, EAGAIN);
}
