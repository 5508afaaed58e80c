// SPDX-License-Identifier: MIT
/* What the command does on a terminal, and nowhere else: progress and colours. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "command.h"

#define TEXT_SIZE 65536

/*
 * Reads what comes out of the terminal until nobody has it open any more. When
 * @stop_at comes, it ends the command, which goes on for ever otherwise.
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

static int run_on_terminal(struct command *command, bool out, bool err, const char *stop_at,
			   char text[TEXT_SIZE], struct outcome *ret_outcome)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	int terminal, ours;
	pid_t pid;

	CHECK_FATAL(openpty(&terminal, &ours, NULL, NULL, &size) == 0);
	fcntl(terminal, F_SETFD, FD_CLOEXEC);
	fcntl(ours, F_SETFD, FD_CLOEXEC);
	command->out = out ? ours : 0;
	command->err = err ? ours : 0;
	pid = command_start(command);
	close(ours);
	read_all(terminal, text, stop_at, pid);
	close(terminal);
	command_wait(pid, ret_outcome);
	return ret_outcome->status;
}

/* It lasts for seconds at least: whoever starts it ends it. */
static struct command long_job(void)
{
	return (struct command){
		.args = { "run", "saxpy", "--size", "64M", "--accel", "cpu", "--rounds",
			  "1000" },
		.env = { "TERM=xterm-256color" },
	};
}

static void test_bar(void)
{
	struct command command = long_job();
	char text[TEXT_SIZE];
	struct outcome outcome;

	CHECK_EQUAL(run_on_terminal(&command, false, true, " left", text, &outcome),
		    128 + SIGTERM);
	CHECK(strstr(text, " % ") != NULL);
	CHECK(strstr(text, " GB/s ") != NULL);
	/* The last thing it does is to go away. */
	CHECK(strlen(text) > 4 && !strcmp(text + strlen(text) - 4, "\r\033[K"));
	CHECK_EQUAL(strlen(outcome.out), 0);
	outcome_free(&outcome);
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

static void test_no_bar(void)
{
	struct command command = long_job();
	struct outcome outcome;
	char byte;
	int terminal, ours;

	stop_later(command_start(&command), &outcome);
	CHECK_EQUAL(strlen(outcome.err), 0);
	outcome_free(&outcome);

	CHECK_FATAL(openpty(&terminal, &ours, NULL, NULL, NULL) == 0);
	fcntl(terminal, F_SETFD, FD_CLOEXEC);
	fcntl(terminal, F_SETFL, O_NONBLOCK);
	fcntl(ours, F_SETFD, FD_CLOEXEC);
	command.args[8] = "--quiet";
	command.err = ours;
	stop_later(command_start(&command), &outcome);
	CHECK(read(terminal, &byte, 1) < 0);
	outcome_free(&outcome);
	close(ours);
	close(terminal);
}

static void test_short_job(void)
{
	struct command command = {
		.args = { "run", "histogram", "--accel=cpu", "--rounds=1", "/etc/passwd" },
		.env = { "TERM=xterm" },
	};
	char text[TEXT_SIZE];
	struct outcome outcome;

	CHECK_EQUAL(run_on_terminal(&command, false, true, NULL, text, &outcome), 0);
	CHECK_EQUAL(strlen(text), 0);
	outcome_free(&outcome);
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
	char text[TEXT_SIZE];
	struct outcome outcome;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = {
			.args = { "run", "histogram", "--accel=cpu", "--rounds=1",
				  "/etc/passwd" },
			.env = { cases[i].env[0], cases[i].env[1] },
		};

		CHECK_EQUAL(run_on_terminal(&command, true, false, NULL, text, &outcome), 0);
		CHECK(strstr(text, "entropy") != NULL);
		CHECK_EQUAL(strstr(text, "\033[") != NULL, cases[i].coloured);
		outcome_free(&outcome);
	}
}

static const struct test tests[] = {
	{ .name = "bar", .run = test_bar, .seconds = 120 },
	{ .name = "no_bar", .run = test_no_bar, .seconds = 120 },
	{ .name = "short_job", .run = test_short_job },
	{ .name = "colours", .run = test_colours },
	{ 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "command_terminal", tests);
}
