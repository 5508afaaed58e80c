// SPDX-License-Identifier: MIT
/*
 * Signals: SIGINT and SIGTERM end a job between two launches; SIGBUS means that the file under
 * a map was truncated during a read.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include <hetmap/hetmap.h>

#include "command.h"
#include "text.h"

/* How long the second may take that is the first once more. */
#define TWICE_NS INT64_C(1000000000)

static volatile sig_atomic_t pending;
static volatile sig_atomic_t twice; /* one more is let pass, until @pending_at + TWICE_NS */
static volatile sig_atomic_t at_once;
static struct timespec pending_at; /* written before @pending is */

static bool is_the_same(void)
{
	struct timespec now;

	if (!twice)
		return false;
	twice = false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - pending_at.tv_sec) * INT64_C(1000000000) + now.tv_nsec -
		       pending_at.tv_nsec <
	       TWICE_NS;
}

static void put(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(fd, text, length);

		if (n <= 0)
			return;
		text += n;
		length -= (size_t)n;
	}
}

/* A bar of progress would stay where the shell goes on. */
static void clear_line(void)
{
	if (isatty(STDERR_FILENO))
		put(STDERR_FILENO, "\r\033[K", 4);
}

static void end_by(int sig)
{
	clear_line();
	_exit(128 + sig);
}

static void on_stop(int sig)
{
	int error = errno;

	if (at_once || (pending && !is_the_same()))
		end_by(sig);
	if (!pending) {
		clock_gettime(CLOCK_MONOTONIC, &pending_at);
		pending = sig;
	}
	errno = error;
}

/* Changed dispositions, and the old ones. */
static struct {
	int signal;
	struct sigaction before;
} changed[] = { { .signal = SIGINT },
		{ .signal = SIGTERM },
		{ .signal = SIGPIPE },
		{ .signal = SIGXFSZ } };

#define N_CHANGED (sizeof(changed) / sizeof(changed[0]))

void signals_init(void)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	size_t i;

	for (i = 0; i < N_CHANGED; i++)
		sigaction(changed[i].signal, NULL, &changed[i].before);
	/* One at a time: on_stop() is not interrupted by the other one. */
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGINT);
	sigaddset(&action.sa_mask, SIGTERM);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* write() says EPIPE instead, which output_finish() sees. */
	signal(SIGPIPE, SIG_IGN);
	/* Drivers that write a cache beyond RLIMIT_FSIZE then get EFBIG. */
	signal(SIGXFSZ, SIG_IGN);
}

void signals_restore(void)
{
	size_t i;

	for (i = 0; i < N_CHANGED; i++)
		sigaction(changed[i].signal, &changed[i].before, NULL);
}

void signals_expect_twice(void)
{
	twice = true;
}

void signals_end_at_once(bool yes)
{
	at_once = yes;
	if (yes && pending)
		end_by(pending);
}

int signals_pending(void)
{
	return pending;
}

/* Made beforehand: a handler can neither allocate nor format. */
static struct {
	int fd;
	struct sigaction before;
	char head[8192]; /* up to the offset */
	char tail[512];  /* after the offset */
	uintptr_t page;  /* bytes of one */
} lost = { .fd = -1 };

static void on_bus(int sig, siginfo_t *info, void *context)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	struct hm_pointer_info where;
	char digits[24];
	size_t at = sizeof(digits);
	uint64_t offset;

	(void)context;
	if (hm_pointer_find(info->si_addr, &where) < 0) {
		/* Not ours: the access repeats and meets the previous handler. */
		sigaction(sig, &lost.before, NULL);
		return;
	}
	/* Other threads may be here as well: one of them tells it, and ends all. */
	while (atomic_flag_test_and_set(&told))
		pause();
	/* A page is there, or it is not: whatever of it was touched first. */
	offset = where.buffer_offset - (uintptr_t)info->si_addr % lost.page;
	do {
		digits[--at] = (char)('0' + offset % 10);
		offset /= 10;
	} while (offset);
	clear_line();
	put(output.json ? STDOUT_FILENO : STDERR_FILENO, lost.head, strlen(lost.head));
	put(output.json ? STDOUT_FILENO : STDERR_FILENO, digits + at, sizeof(digits) - at);
	put(output.json ? STDOUT_FILENO : STDERR_FILENO, lost.tail, strlen(lost.tail));
	_exit(STATUS_WRONG);
}

/* The sentence as fail() would write it, cut in two where the offset goes. */
static void prepare(const char *name)
{
	static const char remedy[] = "run it again when no program writes to the file";
	char *shown = output.json ? text_escape_json(name) : text_escape(name);
	char *line = text_format("'%s' was truncated or could not be read while it was in use: "
				 "its bytes from offset ",
				 shown);

	if (output.json) {
		json_t *json = json_string(line);
		char *quoted = json_dumps(json, JSON_ENCODE_ANY);

		if (!quoted)
			quoted = strdup(
				"\"the file was truncated while it was in use, offset \"");
		/* Without the closing quote. */
		quoted[strlen(quoted) - 1] = '\0';
		snprintf(lost.head, sizeof(lost.head), "{\n  \"error\": %s", quoted);
		snprintf(lost.tail, sizeof(lost.tail),
			 " on are lost\",\n  \"errno\": %d,\n  \"remedy\": \"%s\"\n}\n",
			 ENODATA, remedy);
		free(quoted);
		json_decref(json);
	} else {
		snprintf(lost.head, sizeof(lost.head), "hetmap: %s", line);
		snprintf(lost.tail, sizeof(lost.tail), " on are lost\n        %s\n", remedy);
	}
	free(line);
	free(shown);
}

void lost_watch(int fd, const char *name)
{
	struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

	if (fd < 0) {
		if (lost.fd >= 0)
			sigaction(SIGBUS, &lost.before, NULL);
		lost.fd = -1;
		return;
	}
	prepare(name);
	lost.page = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&action.sa_mask);
	if (!sigaction(SIGBUS, &action, &lost.before))
		lost.fd = fd;
}
