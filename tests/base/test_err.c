// SPDX-License-Identifier: MIT
/* Error texts: a sentence is one line, whatever names are in it. */
#include <errno.h>
#include <string.h>

#include "lib/support.h"
#include "base/err.h"

static bool is_one_line(void)
{
	return !hm_errmsg()[strcspn(hm_errmsg(), "\n\r\t\033\177")];
}

static void sentences(void)
{
	CHECK_EQUAL(err_set(-EINVAL, "%s: %s", "a\nb", "c\033[1m"), -EINVAL);
	CHECK(!strcmp(hm_errmsg(), "a?b: c?[1m"));
	CHECK_EQUAL(err_prefix(-EIO, "%s", "d\re"), -EIO);
	CHECK(!strcmp(hm_errmsg(), "d?e: a?b: c?[1m"));
	err_set(-EIO, "%s", "\xe6\xb8\xa9\xe5\xba\xa6");
	CHECK(!strcmp(hm_errmsg(), "\xe6\xb8\xa9\xe5\xba\xa6"));
	/* The output of a compiler keeps its lines. */
	CHECK_EQUAL(err_append_lines(err_set(-ENOEXEC, "k"), "1\n2\n"), -ENOEXEC);
	CHECK(!strcmp(hm_errmsg(), "k:\n1\n2\n"));
	err_clear();
	CHECK(!*hm_errmsg());
	/* A prefix of no text does not bring back the last one. */
	CHECK_EQUAL(err_prefix(-EIO, "x"), -EIO);
	CHECK(!strcmp(hm_errmsg(), "x: "));
	err_begin();
}

static void warnings(void)
{
	static const char longest[] = "a sentence that is repeated until there is no room";
	size_t i;

	err_begin();
	err_set(-ENOMEM, "the first try failed");
	err_warn("less\n%d", 1);
	CHECK(!*hm_errmsg() && !strcmp(hm_warning(), "less?1"));
	err_set(-EIO, "a further try failed");
	err_survive();
	CHECK(!*hm_errmsg() && !strcmp(hm_warning(), "less?1; a further try failed"));
	err_survive();
	CHECK(!strcmp(hm_warning(), "less?1; a further try failed"));
	for (i = 0; i < 100; i++)
		err_warn("%s", longest);
	CHECK(strlen(hm_warning()) < ERR_WARNING_MAX);
	err_begin();
	CHECK(!*hm_warning());
}

/* Between err_hold() and err_release() the text of a failure stays. */
static void held(void)
{
	uint32_t count;

	err_begin();
	err_set(-EIO, "%s", "kept");
	err_hold();
	count = err_count();
	err_hold();
	CHECK_EQUAL(err_set(-ENOMEM, "undoing failed, too"), -ENOMEM);
	CHECK_EQUAL(err_prefix(-ENOMEM, "undoing"), -ENOMEM);
	CHECK_EQUAL(err_append_lines(-ENOMEM, "lines"), -ENOMEM);
	err_warn("less");
	err_clear();
	err_release();
	err_begin();
	CHECK(!err_said_since(count));
	CHECK(!strcmp(hm_errmsg(), "kept") && !*hm_warning());
	err_release();
	count = err_count();
	CHECK(!err_said_since(count));
	err_set(-EIO, "%s", "kept");
	CHECK(err_said_since(count));
	err_clear();
	CHECK(!err_said_since(count));
}

/* No name makes a line of its own in a log of texts. */
static void names(void)
{
	static const char name[] = "sofa\nhetmap: all is well";
	AUTO(hm_device) *device = NULL;
	struct hm_accel *accel = NULL;

	CHECK_ERROR(-ENODEV, hm_device_open(name, &device));
	CHECK(strstr(hm_errmsg(), "sofa?hetmap: all is well") && is_one_line());
	CHECK_ERROR(-ENODEV, hm_accel_open(name, NULL, &accel));
	CHECK(is_one_line());
	CHECK_OK_FATAL(hm_device_open("host", &device));
	AUTO(hm_buffer) *buffer =
		rig_buffer(device, DESC(hm_buffer_desc, .size = 4096, .name = name));
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(buffer, 8192, 0));
	CHECK(strstr(hm_errmsg(), "sofa?hetmap: all is well: ") && is_one_line());
}

static const struct test tests[] = {
	{ "sentences", sentences, 0, 0 },
	{ "warnings", warnings, 0, 0 },
	{ "held", held, 0, 0 },
	{ "names", names, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "err", tests)
