// SPDX-License-Identifier: MIT
/* The command's output on a terminal, and nowhere else: progress and colours. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "format/safetensors_support.h"
#include "format/tokens_support.h"

#define TEXT_SIZE 65536
#define BAR_SECONDS 0.5 /* before which there is none */

/* The outputs of a command on the terminal, and the events meanwhile. */
struct screen {
	bool out, err;
	const char *stop_at;
	unsigned int holds;
};

/*
 * A job may be done within the time after which a bar is drawn. While it prints nothing it is held
 * for longer than that, again and again: its next step draws the bar.
 */
static void hold(int terminal, pid_t pid, unsigned int times)
{
	struct pollfd poll_it = { .fd = terminal, .events = POLLIN };

	if (times)
		command_await(pid, SIGTERM, NULL);
	while (times-- && !poll(&poll_it, 1, 20)) {
		kill(pid, SIGSTOP);
		usleep(600000);
		kill(pid, SIGCONT);
	}
}

/*
 * Reads the terminal's output until no process has it open any more. When @stop_at comes, it ends
 * the command, which goes on for ever otherwise.
 */
static void read_all(int terminal, char text[TEXT_SIZE], const char *stop_at, pid_t pid)
{
	size_t n = 0;
	ssize_t got;

	text[0] = '\0';
	do {
		got = read(terminal, text + n, TEXT_SIZE - 1 - n);
		if (got > 0)
			n += (size_t)got;
		text[n] = '\0';
		if (stop_at && strstr(text, stop_at)) {
			kill(pid, SIGTERM);
			stop_at = NULL;
		}
	} while ((got > 0 && n < TEXT_SIZE - 1) || (got < 0 && errno == EINTR));
}

static int run_on_terminal(struct command *command, const struct screen *screen,
			   char text[TEXT_SIZE], struct outcome *ret_outcome)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	int terminal, ours;
	pid_t pid;

	CHECK_FATAL(openpty(&terminal, &ours, NULL, NULL, &size) == 0);
	fcntl(terminal, F_SETFD, FD_CLOEXEC);
	fcntl(ours, F_SETFD, FD_CLOEXEC);
	command->out = screen->out ? ours : 0;
	command->err = screen->err ? ours : 0;
	pid = command_start(command);
	close(ours);
	hold(terminal, pid, screen->holds);
	read_all(terminal, text, screen->stop_at, pid);
	close(terminal);
	command_wait(pid, ret_outcome);
	return ret_outcome->status;
}

/* The job lasts for seconds at least: its caller ends it. */
static struct command long_job(void)
{
	return (struct command){
		.args = { "run", "saxpy", "--size", "64M", "--accel", "cpu", "--rounds",
			  "1000" },
		.env = { "TERM=xterm-256color" },
	};
}

/* Likewise, of the file FOLDER/t. */
static struct command long_feeding(const char *folder)
{
	char *path = tokens_file(folder, "t", 0, 20000);

	return (struct command){
		.args = { "run", "tokens", "--device", "host", "--block", "256", "--batch",
			  "64", "--batches", "1000000", path },
		.env = { "TERM=xterm-256color" },
	};
}

/* This one ends by itself, after thousands of steps: FOLDER/m is 64 MiB, a hole. */
static struct command load_job(const char *folder)
{
	static const char header[] = "{\"layers.0\":{\"dtype\":\"U8\",\"shape\":[67108864],"
				     "\"data_offsets\":[0,67108864]}}";

	return (struct command){
		.args = { "run", "load", "--device", "soft:0", "--accel", "cpu", "--window",
			  "4K",
			  tensors_odd_file(folder, "m", header, strlen(header),
					   8 + strlen(header) + 67108864) },
		.env = { "TERM=xterm-256color" },
	};
}

static void check_bar(struct command *command, const char *what, unsigned int holds)
{
	const struct screen screen = { .err = true, .stop_at = " left", .holds = holds };
	char text[TEXT_SIZE];
	AUTO(outcome) outcome = { 0 };

	run_on_terminal(command, &screen, text, &outcome);
	/* One that is held may be through, once it goes on, before it can be ended. */
	if (!holds || outcome.status) {
		CHECK_EQUAL(outcome.status, 128 + SIGTERM);
		CHECK_EQUAL(strlen(outcome.out), 0);
	}
	CHECK(strstr(text, " left") != NULL);
	CHECK(strstr(text, what) != NULL);
	CHECK(strstr(text, " % ") != NULL);
	CHECK(strstr(text, "B/s ") != NULL);
	/* The last thing it does is to go away. */
	CHECK(strlen(text) > 4 && !strcmp(text + strlen(text) - 4, "\r\033[K"));
}

static void test_bar(void)
{
	struct command command = long_job();

	check_bar(&command, "", 0);
}

static void test_bar_tokens(void)
{
	AUTO_TEXT *folder = folder_make();
	struct command command = long_feeding(folder);

	check_bar(&command, "feeding", 0);
	free((char *)command.args[10]);
}

static void test_bar_load(void)
{
	AUTO_TEXT *folder = folder_make();
	struct command command = load_job(folder);

	check_bar(&command, "loading", 20);
}

static void stop_later(pid_t pid, struct outcome *ret_outcome)
{
	command_await(pid, SIGTERM, NULL);
	/* Twice the time after which a terminal would see the bar. */
	sleep(1);
	CHECK_EQUAL(kill(pid, SIGTERM), 0);
	command_wait(pid, ret_outcome);
	CHECK_EQUAL(ret_outcome->status, 128 + SIGTERM);
}

static void add_quiet(struct command *command)
{
	const char **arg = command->args;

	while (*arg)
		arg++;
	*arg = "--quiet";
}

static void check_no_bar(struct command *command)
{
	AUTO(outcome) outcome = { 0 };
	char byte;
	int terminal, ours;

	stop_later(command_start(command), &outcome);
	CHECK_EQUAL(strlen(outcome.err), 0);

	CHECK_FATAL(openpty(&terminal, &ours, NULL, NULL, NULL) == 0);
	fcntl(terminal, F_SETFD, FD_CLOEXEC);
	fcntl(terminal, F_SETFL, O_NONBLOCK);
	fcntl(ours, F_SETFD, FD_CLOEXEC);
	add_quiet(command);
	command->err = ours;
	stop_later(command_start(command), &outcome);
	CHECK(read(terminal, &byte, 1) < 0);
	close(ours);
	close(terminal);
}

static void test_no_bar(void)
{
	struct command command = long_job();

	check_no_bar(&command);
}

static void test_no_bar_tokens(void)
{
	AUTO_TEXT *folder = folder_make();
	struct command command = long_feeding(folder);

	check_no_bar(&command);
	free((char *)command.args[10]);
}

static void test_no_bar_load(void)
{
	static const struct screen out = { .out = true, .holds = 5 },
				   err = { .err = true, .holds = 5 };
	char *folder = folder_make(), text[TEXT_SIZE];
	struct command command = load_job(folder);
	AUTO(outcome) outcome = { 0 };

	CHECK_EQUAL(run_on_terminal(&command, &out, text, &outcome), 0);
	CHECK(strstr(text, "verified") != NULL);
	CHECK_EQUAL(strlen(outcome.err), 0);
	add_quiet(&command);
	CHECK_EQUAL(run_on_terminal(&command, &err, text, &outcome), 0);
	CHECK_EQUAL(strlen(text), 0);
	folder_remove(folder);
}

static void test_short_job(void)
{
	struct command command = {
		.args = { "run", "histogram", "--accel=cpu", "--rounds=1", "/etc/passwd" },
		.env = { "TERM=xterm" },
	};
	const struct screen screen = { .err = true };
	char text[TEXT_SIZE];
	AUTO(outcome) outcome = { 0 };
	double begin, took;
	int tries = 0;

	/* On a busy machine it may last for long enough to have a bar: then it is no short one. */
	do {
		begin = test_now();
		CHECK_EQUAL(run_on_terminal(&command, &screen, text, &outcome), 0);
		took = test_now() - begin;
	} while (strlen(text) && took >= BAR_SECONDS && ++tries < 5);
	if (strlen(text) && took < BAR_SECONDS)
		test_fail(__FILE__, __LINE__, "a bar after %f s", took);
}

static void test_colours(void)
{
	static const struct {
		const char *env[2];
		bool coloured;
	} cases[] = {
		{ { "TERM=xterm-256color", "NO_COLOR" }, true },
		{ { "TERM=xterm-256color", "NO_COLOR=1" }, false },
		{ { "TERM=xterm-256color", "NO_COLOR=" }, true },
		{ { "TERM=dumb", "NO_COLOR" }, false },
	};
	const struct screen screen = { .out = true };
	char text[TEXT_SIZE];
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = {
			.args = { "run", "histogram", "--accel=cpu", "--rounds=1",
				  "/etc/passwd" },
			.env = { cases[i].env[0], cases[i].env[1] },
		};

		CHECK_EQUAL(run_on_terminal(&command, &screen, text, &outcome), 0);
		CHECK(strstr(text, "entropy") != NULL);
		CHECK_EQUAL(strstr(text, "\033[") != NULL, cases[i].coloured);
	}
}

static const struct test tests[] = {
	{ .name = "bar", .run = test_bar, .seconds = 120 },
	{ .name = "bar_tokens", .run = test_bar_tokens, .seconds = 120 },
	{ .name = "bar_load", .run = test_bar_load, .seconds = 120 },
	{ .name = "no_bar", .run = test_no_bar, .seconds = 120 },
	{ .name = "no_bar_tokens", .run = test_no_bar_tokens, .seconds = 120 },
	{ .name = "no_bar_load", .run = test_no_bar_load, .seconds = 120 },
	{ .name = "short_job", .run = test_short_job },
	{ .name = "colours", .run = test_colours },
	{ 0 },
};

TEST_MAIN(harness_main_once, "command_terminal", tests)
