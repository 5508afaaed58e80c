// SPDX-License-Identifier: MIT
/* A kernel that makes the n-th allocation or copy of a thread fail. */
#include "sim/fail_nth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/harness.h"

static void set_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		CHECK(write(fd, text, strlen(text)) > 0);
		close(fd);
	}
}

/* Allocations that may wait fail, too, and silently. */
static void set_attributes(void)
{
	set_text("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	set_text("/sys/kernel/debug/failslab/verbose", "0");
	set_text("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	set_text("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
	set_text("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	set_text("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	set_text("/sys/kernel/debug/fail_usercopy/verbose", "0");
}

int fail_nth_open(void)
{
	int file = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);

	if (file < 0)
		test_skip("kernel", "no /proc/self/fail-nth: this is no debug kernel");
	else
		set_attributes();
	return file;
}

static bool is_answer(int r)
{
	return !r || r == -ENOMEM || r == -EFAULT || r == -EAGAIN || r == -EINTR;
}

bool fail_nth_run(int nth_file, const char *name, unsigned int nth, int (*run)(void *user),
		  void *user)
{
	char text[16] = "";
	int length = snprintf(text, sizeof(text), "%u", nth), r;
	bool injected;
	ssize_t got;

	CHECK_EQUAL(pwrite(nth_file, text, (size_t)length, 0), length);
	r = run(user);
	/* If it is this call that fails, the step's were not so many. */
	got = pread(nth_file, text, sizeof(text) - 1, 0);
	if (pwrite(nth_file, "0", 1, 0) != 1)
		CHECK_EQUAL(pwrite(nth_file, "0", 1, 0), 1);
	injected = got > 0 && text[0] == '0';
	if (injected ? !is_answer(r) : r)
		test_fail(__FILE__, __LINE__, "%s: failure %u: %d", name, nth, r);
	return injected;
}

void fail_nth_enough(const char *name, unsigned int nth, unsigned int least)
{
	if (nth - 2 < least)
		test_fail(__FILE__, __LINE__, "%s: only %u failures were injected", name,
			  nth - 2);
	CHECK(nth < FAIL_NTH_MOST);
}
