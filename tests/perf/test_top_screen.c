// SPDX-License-Identifier: MIT
/*
 * hetmap top on a terminal: its screen, keys, sizes and signals. This program is those of
 * watched.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "lib/command.h"
#include "perf/watched.h"

#define ENTER "\033[?1049h"
#define LEAVE "\033[?1049l"
#define TEXT_SIZE ((size_t)1 << 20)

static int keyboard = -1; /* the terminal, used after the fork */

static void give_keyboard(void)
{
	setsid();
	ioctl(keyboard, TIOCSCTTY, 0);
	dup2(keyboard, STDIN_FILENO);
}

struct terminal {
	int fd;
	pid_t pid;
	struct termios before;
	int other; /* kept open, so that its settings stay */
	char *text;
	size_t n;
	size_t seen; /* bytes of text, up to the end of the last match */
};

static struct terminal terminal_start(const char *const args[6], unsigned short columns)
{
	struct winsize size = { .ws_row = 12, .ws_col = columns };
	struct terminal terminal = { .fd = -1 };
	struct command command = { .args = { "top" },
				   .env = { "TERM=xterm-256color", "NO_COLOR" },
				   .prepare = give_keyboard };
	int i;

	CHECK_FATAL(!openpty(&terminal.fd, &terminal.other, NULL, NULL, &size));
	fcntl(terminal.fd, F_SETFD, FD_CLOEXEC);
	fcntl(terminal.other, F_SETFD, FD_CLOEXEC);
	CHECK_FATAL(!tcgetattr(terminal.other, &terminal.before));
	terminal.text = calloc(1, TEXT_SIZE);
	CHECK_FATAL(terminal.text != NULL);
	for (i = 0; i < 6 && args[i]; i++)
		command.args[1 + i] = args[i];
	command.out = command.err = keyboard = terminal.other;
	terminal.pid = command_start(&command);
	return terminal;
}

/* Reads until @wanted has come behind the last match, or the terminal ends. */
static bool await(struct terminal *terminal, const char *wanted)
{
	const char *found;
	ssize_t got;

	while (!(found = strstr(terminal->text + terminal->seen, wanted)) &&
	       terminal->n < TEXT_SIZE - 1) {
		got = read(terminal->fd, terminal->text + terminal->n,
			   TEXT_SIZE - 1 - terminal->n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		terminal->n += (size_t)got;
	}
	if (found) {
		terminal->seen = (size_t)(found - terminal->text) + strlen(wanted);
		return true;
	}
	test_fail(__FILE__, __LINE__, "'%s' did not come, but: %.300s", wanted,
		  terminal->text + terminal->seen);
	return false;
}

static void press(const struct terminal *terminal, const char *keys)
{
	CHECK_EQUAL(write(terminal->fd, keys, strlen(keys)), strlen(keys));
}

/* The command ends with @status, and the terminal is as before. */
static void check_end(struct terminal *terminal, int status)
{
	AUTO(outcome) outcome = { 0 };
	struct termios now;
	const char *last, *shown;

	await(terminal, LEAVE);
	command_wait(terminal->pid, &outcome);
	CHECK_EQUAL(outcome.status, status);
	CHECK(!tcgetattr(terminal->other, &now));
	CHECK_EQUAL(now.c_lflag, terminal->before.c_lflag);
	last = strstr(terminal->text, LEAVE);
	shown = strstr(terminal->text, "\033[?25h");
	CHECK(strstr(terminal->text, ENTER) != NULL && shown && last && shown < last);
	close(terminal->fd);
	close(terminal->other);
	free(terminal->text);
}

static void test_screen(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	char pid[16];
	const char *const args[6] = { "-p", pid, "-d", "3600" };
	struct terminal terminal;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	terminal = terminal_start(args, 120);
	await(&terminal, "by mapped");
	press(&terminal, "s");
	await(&terminal, "by resident");
	press(&terminal, "r");
	await(&terminal, "upside down");
	press(&terminal, "/hal");
	await(&terminal, "of 'hal'");
	await(&terminal, "filter: hal_");
	press(&terminal, "\r");
	await(&terminal, " (host, 2 maps)");
	await(&terminal, "/ filter");
	press(&terminal, " ");
	await(&terminal, "of 'hal'");
	press(&terminal, "q");
	check_end(&terminal, 0);
}

/* Fewer columns than it takes, and then more. */
static void test_resized(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	struct winsize wide = { .ws_row = 30, .ws_col = 120 };
	/* A name and an address are 21 of them behind the figures. */
	struct winsize less = { .ws_row = 30, .ws_col = 74 };
	struct winsize small = { .ws_row = 2, .ws_col = 12 };
	char pid[16];
	const char *const args[6] = { "-p", pid, "-d", "3600" };
	struct terminal terminal;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	terminal = terminal_start(args, 58);
	await(&terminal, " FENCE  N");
	CHECK(!ioctl(terminal.other, TIOCSWINSZ, &wide));
	await(&terminal, " NAME");
	await(&terminal, "  half 0x");
	CHECK(!ioctl(terminal.other, TIOCSWINSZ, &less));
	await(&terminal, "  half (host, 2");
	CHECK(!ioctl(terminal.other, TIOCSWINSZ, &small));
	await(&terminal, "\033[Khetmap top -\r\r\n\033[K\033[2mq quit  s so\033");
	press(&terminal, "q");
	check_end(&terminal, 0);
}

static void test_scroll(void)
{
	AUTO(watched) watched = watched_start("many", NULL);
	char pid[16];
	const char *const args[6] = { "-p", pid, "-d", "3600", "-s", "name" };
	struct terminal terminal;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	terminal = terminal_start(args, 80);
	/* 12 lines: a head, the columns, the process, eight buffers, and the keys. */
	await(&terminal, "m0007");
	press(&terminal, "\033[6~");
	await(&terminal, "m0015");
	press(&terminal, "\033[B");
	await(&terminal, "m0016");
	press(&terminal, "\033[H");
	await(&terminal, "m0000");
	press(&terminal, "q");
	check_end(&terminal, 0);
}

static void test_signals(void)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	AUTO(watched) watched = watched_start("buffers", NULL);
	char pid[16];
	const char *const args[6] = { "-p", pid, "-d", "3600" };
	struct terminal terminal;
	size_t i;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		terminal = terminal_start(args, 80);
		await(&terminal, "by mapped");
		CHECK_EQUAL(kill(terminal.pid, signals[i]), 0);
		check_end(&terminal, 128 + signals[i]);
	}
	/* Stopped, the terminal is as it was; and continued, the screen is there again. */
	terminal = terminal_start(args, 80);
	await(&terminal, "by mapped");
	CHECK_EQUAL(kill(terminal.pid, SIGTSTP), 0);
	await(&terminal, LEAVE);
	CHECK_EQUAL(waitpid(terminal.pid, NULL, WUNTRACED), terminal.pid);
	CHECK_EQUAL(kill(terminal.pid, SIGCONT), 0);
	await(&terminal, ENTER);
	await(&terminal, "by mapped");
	press(&terminal, "q");
	check_end(&terminal, 0);
}

static void test_screen_ends(void)
{
	struct watched watched = watched_start("buffers", NULL);
	char pid[16];
	const char *const counted[6] = { "-p", pid, "-d", "0.1", "-n", "2" };
	const char *const until[6] = { "-p", pid, "-d", "0.1" };
	struct terminal terminal;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	terminal = terminal_start(counted, 80);
	check_end(&terminal, 0);
	terminal = terminal_start(until, 80);
	await(&terminal, "by mapped");
	watched_end(&watched);
	check_end(&terminal, 0);
}

static const struct test tests[] = {
	{ "screen", test_screen, 60, TEST_ONCE },
	{ "resized", test_resized, 60, TEST_ONCE },
	{ "scroll", test_scroll, 60, TEST_ONCE },
	{ "signals", test_signals, 90, TEST_ONCE },
	{ "screen_ends", test_screen_ends, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	watched_act(argc, argv);
	return harness_main(argc, argv, "top_screen", tests);
}
