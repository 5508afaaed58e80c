// SPDX-License-Identifier: MIT
/* Messages: remarks and failures, for people or as a JSON object. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <langinfo.h>
#include <linux/magic.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "command.h"
#include "text.h"

struct output output;

/*
 * Takes descriptors 0 to 2 that the caller closed: else a buffer would get one of them, and
 * printed text would become its bytes. With O_PATH their use is still EBADF.
 */
static void hold_standard_descriptors(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/", O_PATH | O_CLOEXEC);
}

void output_init(void)
{
	const char *term = getenv("TERM");
	const char *no_colour = getenv("NO_COLOR");

	hold_standard_descriptors();
	setlocale(LC_CTYPE, "");
	output.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	output.colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && term && *term &&
			strcmp(term, "dumb") != 0;
}

void output_scan_json(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		output.json |= !strcmp(argv[i], "--json");
}

/* The errno of the first failure to write; the stream knows only that there was one. */
static int write_error;

bool output_flush(void)
{
	if (fflush(stdout) && !write_error)
		write_error = errno;
	return !ferror(stdout);
}

void output_failed(int error)
{
	if (!write_error)
		write_error = error < 0 ? -error : error;
}

/* For a pipe. */
static bool reader_is_gone(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && out.revents & POLLERR;
}

/*
 * A write that failed in the middle of a stream has left no errno; one further byte to the
 * broken stream meets the same error.
 */
static int ask_error(void)
{
	if (reader_is_gone())
		return EPIPE;
	return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

int output_finish(int status)
{
	int error;

	if (output_flush())
		return status;
	error = write_error ? write_error : ask_error();
	/* The reader has seen enough. SIGPIPE would mean the same. */
	if (error == EPIPE)
		return 128 + SIGPIPE;
	fprintf(stderr, "hetmap: cannot write the result: %s\n", strerror(error));
	return STATUS_ENVIRONMENT;
}

/* Nine digits are as many as can be read; of seconds since 1970 they would be tens of seconds. */
static size_t digits(const json_t *value)
{
	return JSON_REAL_PRECISION(json_real_value(value) < 1e9 ? 9 : 13);
}

/*
 * Text before the first member, before each further one, and after the last. The member @exact has
 * all digits; NULL: none has.
 */
static void print_members(json_t *object, size_t flags, const char *exact, const char *first,
			  const char *next, const char *last)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		printf("%s\"%s\":%s", first, key, flags & JSON_COMPACT ? "" : " ");
		json_dumpf(value, stdout,
			   JSON_ENCODE_ANY | flags |
				   (exact && !strcmp(key, exact) ? JSON_REAL_PRECISION(17) :
								   digits(value)));
		first = next;
	}
	puts(last);
	json_decref(object);
}

void output_object(json_t *object)
{
	output_exact(object, NULL);
}

void output_exact(json_t *object, const char *exact)
{
	print_members(object, 0, exact, "{\n  ", ",\n  ", "\n}");
}

void output_line(json_t *object)
{
	print_members(object, JSON_COMPACT, NULL, "{", ",", "}");
}

static void fail_json(int error, const char *text, const char *remedy)
{
	char *shown = text_escape_json(text);
	json_t *object = json_object();

	json_object_set_new(object, "error", json_string(shown));
	json_object_set_new(object, "errno", error ? json_integer(error) : json_null());
	json_object_set_new(object, "remedy", remedy ? json_string(remedy) : json_null());
	output_object(object);
	free(shown);
}

static void print_message(const char *text, const char *remedy)
{
	char *shown = text_message(text), *advised = text_message(remedy ? remedy : "");

	fprintf(stderr, "hetmap: %s\n", shown);
	if (remedy)
		fprintf(stderr, "        %s\n", advised);
	free(shown);
	free(advised);
}

int fail(int status, int error, const char *remedy, const char *format, ...)
{
	va_list args;
	char *text;

	progress_end();
	if (error < 0)
		error = -error;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	if (output.json) {
		fail_json(error, text, remedy);
	} else {
		output_flush();
		print_message(text, remedy);
	}
	free(text);
	return status;
}

int fail_without_proc(int status)
{
	struct statfs fs;

	if (!statfs("/proc", &fs) && fs.f_type == PROC_SUPER_MAGIC)
		return 0;
	return fail(status, ENOENT, "mount -t proc proc /proc",
		    "/proc is not mounted: hetmap reads processes there");
}

int fail_library(int status, int r, const char *remedy, const char *what)
{
	char *text = strdup(hm_errmsg());

	if (!text)
		abort();
	/* A compiler's log ends its last line; fail() does that, too. */
	while (*text && text[strlen(text) - 1] == '\n')
		text[strlen(text) - 1] = '\0';
	/* Whatever it was for, nothing else helps. */
	if (atomic_load(&output.refused)) {
		status = STATUS_ENVIRONMENT;
		remedy = "change the policy, or run it without --policy";
	}
	fail(status, r, remedy, "%s: %s", what, *text ? text : strerror(-r));
	free(text);
	return status;
}

void remark(const char *format, ...)
{
	va_list args;
	char *text;

	if (output.quiet)
		return;
	progress_end();
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	print_message(text, NULL);
	free(text);
}
