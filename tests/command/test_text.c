// SPDX-License-Identifier: MIT
/* Numbers as people read them. */
#include <string.h>

#include "../../tools/common/command.h"
#include "../../tools/common/text.h"
#include "lib/harness.h"

struct output output; /* where text_wrap() prints */

static void test_rate(void)
{
	static const struct {
		double bytes;
		const char *text;
	} rates[] = {
		{ 123.44e9, "123.4 GB/s" }, { 11.2e9, "11.2 GB/s" }, { 0.12e9, "0.1 GB/s" },
		{ 99.9e6, "99.9 MB/s" },    { 4.2e6, "4.2 MB/s" },   { 0.1e6, "0.1 MB/s" },
		{ 99e3, "99.0 kB/s" },      { 12, "0.0 kB/s" },      { 0, "0.0 kB/s" },
	};
	char text[TEXT_MAX];
	size_t i;

	for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (strcmp(text_rate(rates[i].bytes, text), rates[i].text))
			test_fail(__FILE__, __LINE__, "%g is '%s'", rates[i].bytes, text);
}

static const struct test tests[] = {
	{ .name = "rate", .run = test_rate },
	{ 0 },
};

TEST_MAIN(harness_main, "text", tests)
