// SPDX-License-Identifier: MIT
/*
 * hetmap top on a terminal: the alternate screen, keys, and the way back, which is taken on
 * every exit: also by signals, and when the process is stopped.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "top.h"

/* The alternate screen without a cursor; and back [ECMA-48, xterm]. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

#define FILTER_MOST 64

static struct {
	volatile sig_atomic_t entered;
	volatile sig_atomic_t resized;
	bool keys; /* standard input is a terminal */
	struct termios before;
	sigset_t mask; /* as it was: see wait_for() */
} screen;

static struct {
	int signal;
	struct sigaction before;
} handled[] = { { .signal = SIGINT },  { .signal = SIGTERM }, { .signal = SIGHUP },
		{ .signal = SIGQUIT }, { .signal = SIGABRT }, { .signal = SIGSEGV },
		{ .signal = SIGBUS },  { .signal = SIGFPE },  { .signal = SIGTSTP },
		{ .signal = SIGCONT }, { .signal = SIGWINCH } };

#define N_HANDLED (sizeof(handled) / sizeof(handled[0]))

/* ---- in and out, from handlers too: system calls alone ---- */

static void put(const char *text, size_t n)
{
	ssize_t written;

	while (n) {
		written = write(STDOUT_FILENO, text, n);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		text += written;
		n -= (size_t)written;
	}
}

static void enter(void)
{
	struct termios raw = screen.before;

	if (screen.keys) {
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 0;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	put(ENTER, sizeof(ENTER) - 1);
	screen.entered = 1;
}

static void leave(void)
{
	if (!screen.entered)
		return;
	screen.entered = 0;
	put(LEAVE, sizeof(LEAVE) - 1);
	if (screen.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

static void on_signal(int sig)
{
	int error = errno;

	switch (sig) {
	case SIGWINCH:
		screen.resized = 1;
		break;
	case SIGTSTP:
		leave();
		raise(SIGSTOP);
		break;
	case SIGCONT:
		if (!screen.entered)
			enter();
		screen.resized = 1;
		break;
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
	case SIGQUIT:
		leave();
		_exit(128 + sig);
	default:
		leave();
		signal(sig, SIG_DFL);
		raise(sig);
		break;
	}
	errno = error;
}

static void begin(void)
{
	static const int faults[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE };
	struct sigaction action = { .sa_handler = on_signal };
	size_t i;

	screen.keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &screen.before);
	/* One at a time: none comes while another has the terminal half way. */
	sigemptyset(&action.sa_mask);
	for (i = 0; i < N_HANDLED; i++)
		sigaddset(&action.sa_mask, handled[i].signal);
	for (i = 0; i < N_HANDLED; i++)
		sigaction(handled[i].signal, &action, &handled[i].before);
	/* All signals but those of the thread's own faults. */
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&action.sa_mask, faults[i]);
	sigprocmask(SIG_BLOCK, &action.sa_mask, &screen.mask);
	enter();
}

static void end(void)
{
	size_t i;

	leave();
	for (i = 0; i < N_HANDLED; i++)
		sigaction(handled[i].signal, &handled[i].before, NULL);
	sigprocmask(SIG_SETMASK, &screen.mask, NULL);
}

/* ---- drawing ---- */

struct view {
	size_t first; /* row on the screen's top */
	bool typing;  /* a filter */
	char filter[FILTER_MOST];
};

static void size_now(size_t *ret_lines, size_t *ret_columns)
{
	struct winsize size;

	*ret_lines = 24;
	*ret_columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	if (size.ws_row)
		*ret_lines = size.ws_row;
	if (size.ws_col)
		*ret_columns = size.ws_col;
}

/* A line of text, cut at the screen's edge, in a style of ECMA-48. */
static void put_line(FILE *out, const char *style, const char *text, size_t columns)
{
	const char *at = text;
	size_t n = 0;

	while (*at && n < columns) {
		at++;
		while (((unsigned char)*at & 0xc0) == 0x80)
			at++;
		n++;
	}
	/* Cleared first: behind a full line that would be its last character. */
	fprintf(out, "\033[K%s%.*s%s\r\n", output.colour ? style : "", (int)(at - text), text,
		output.colour && *style ? "\033[0m" : "");
}

/* @print's line, in a string: free() it. */
static char *line_of(void (*print)(const void *user, size_t width, FILE *out), const void *user,
		     size_t width)
{
	char *text = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);

	if (!memory)
		abort();
	print(user, width, memory);
	fclose(memory);
	return text;
}

static void print_head(const void *user, size_t width, FILE *out)
{
	(void)width;
	top_print_head(user, out);
}

static void print_columns(const void *user, size_t width, FILE *out)
{
	(void)width;
	top_print_columns(user, out);
}

struct line {
	const struct top *top;
	const struct top_row *row;
};

static void print_row(const void *user, size_t width, FILE *out)
{
	const struct line *line = user;

	top_print_row(line->top, line->row, width, out);
}

/* The last line: the filter that is being typed, or the first note. */
static char *foot_of(const struct top *top, const struct view *view, size_t below)
{
	char *notes[TOP_NOTES_MOST + 1], *foot;
	size_t i;

	if (view->typing) {
		char *shown = text_escape(view->filter);

		foot = text_format("filter: %s_  (Enter: keep, Esc: none)", shown);
		free(shown);
		return foot;
	}
	top_notes(top, notes);
	foot = text_format("q quit  s sort  r reverse  / filter%s%s%s",
			   below ? "  Down: more" : "", notes[0] ? "  " : "",
			   notes[0] ? notes[0] : "");
	for (i = 0; notes[i]; i++)
		free(notes[i]);
	return foot;
}

/* In one write, so that nothing flickers; the last line ends without a new one. */
static void draw(const struct top *top, struct view *view)
{
	size_t lines, columns, n, room, i;
	char *frame = NULL, *text;
	struct top_row *rows;
	size_t size = 0;
	FILE *out;

	screen.resized = 0;
	size_now(&lines, &columns);
	out = open_memstream(&frame, &size);
	if (!out)
		return;
	rows = top_rows(top, &n);
	room = lines > 3 ? lines - 3 : 0;
	if (view->first + room > n)
		view->first = n > room ? n - room : 0;
	fputs("\033[H", out);
	text = line_of(print_head, top, 0);
	put_line(out, "", text, columns);
	free(text);
	if (lines > 2) {
		text = line_of(print_columns, top, 0);
		put_line(out, "\033[7m", text, columns);
		free(text);
	}
	for (i = 0; i < room; i++) {
		const struct top_row *row = &rows[view->first + i];

		if (view->first + i >= n) {
			put_line(out, "", "", columns);
			continue;
		}
		text = line_of(print_row, &(struct line){ top, row }, columns);
		put_line(out, row->buffer || row->range ? "" : "\033[1m", text, columns);
		free(text);
	}
	if (lines > 1) {
		text = foot_of(top, view, n > view->first + room);
		put_line(out, "\033[2m", text, columns);
		free(text);
	}
	free(rows);
	if (fclose(out) == 0 && size > 2)
		put(frame, size - 2);
	free(frame);
}

/* ---- keys ---- */

static void type(struct top *top, struct view *view, char key)
{
	size_t n = strlen(view->filter);

	if (key == '\r' || key == '\n') {
		view->typing = false;
	} else if (key == '\033') {
		view->typing = false;
		view->filter[0] = '\0';
	} else if (key == 0x7f || key == '\b') {
		while (n && ((unsigned char)view->filter[--n] & 0xc0) == 0x80)
			;
		view->filter[n] = '\0';
	} else if ((unsigned char)key >= 0x20 && n + 1 < sizeof(view->filter)) {
		view->filter[n] = key;
		view->filter[n + 1] = '\0';
	}
	top->filter = view->filter;
	view->first = 0;
}

/* The keys behind "\033[": arrows, pages, home. Returns their bytes. */
static size_t move(struct view *view, const char *keys, size_t n)
{
	size_t lines, columns, page, used = 0;

	size_now(&lines, &columns);
	page = lines > 4 ? lines - 4 : 1;
	while (used < n && (keys[used] < '@' || keys[used] > '~'))
		used++;
	if (used == n)
		return n;
	if (keys[used] == 'A')
		view->first -= view->first > 0;
	else if (keys[used] == 'B')
		view->first++;
	else if (keys[used] == 'H')
		view->first = 0;
	else if (keys[used] == '~' && keys[0] == '5')
		view->first -= view->first > page ? page : view->first;
	else if (keys[used] == '~' && keys[0] == '6')
		view->first += page;
	return used + 1;
}

enum answer { WAIT_ON, DRAW, LOOK, QUIT };

static enum answer press(struct top *top, struct view *view, char key)
{
	switch (key) {
	case 'q':
		return QUIT;
	case 's':
		top->key = (top->key + 1) % N_TOP_KEY;
		return DRAW;
	case 'r':
		top->reverse = !top->reverse;
		return DRAW;
	case '/':
		view->typing = true;
		return DRAW;
	case 'k':
		view->first -= view->first > 0;
		return DRAW;
	case 'j':
		view->first++;
		return DRAW;
	case ' ':
		return LOOK;
	default:
		return WAIT_ON;
	}
}

static enum answer read_keys(struct top *top, struct view *view)
{
	enum answer answer = WAIT_ON, one;
	ssize_t n, i;
	char keys[64];

	n = read(STDIN_FILENO, keys, sizeof(keys));
	/* The terminal is gone, or this process is in its background. */
	if (n <= 0)
		return n < 0 && errno == EINTR ? WAIT_ON : QUIT;
	for (i = 0; i < n && answer != QUIT; i++) {
		if (keys[i] == '\033' && i + 2 < n && keys[i + 1] == '[') {
			i += 1 + (ssize_t)move(view, &keys[i + 2], (size_t)(n - i - 2));
			one = DRAW;
		} else if (view->typing) {
			type(top, view, keys[i]);
			one = DRAW;
		} else {
			one = press(top, view, keys[i]);
		}
		if (one > answer)
			answer = one;
	}
	return answer;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/*
 * Until the next look: LOOK, or QUIT. Here alone signals come: one that came just before the
 * waiting would be seen after it, which may be an hour later.
 */
static enum answer wait_for(struct top *top, struct view *view, double until)
{
	struct pollfd polled = { .fd = screen.keys ? STDIN_FILENO : -1, .events = POLLIN };
	enum answer answer;
	struct timespec time;
	double left;

	while ((left = until - now()) > 0) {
		answer = WAIT_ON;
		time.tv_sec = (time_t)left;
		time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
		if (ppoll(&polled, 1, &time, &screen.mask) > 0)
			answer = read_keys(top, view);
		if (answer >= LOOK)
			return answer;
		if (answer == DRAW || screen.resized)
			draw(top, view);
	}
	return LOOK;
}

/* ---- all of it ---- */

int top_screen(struct top *top, uint64_t iterations)
{
	struct view view = { .first = 0 };
	enum answer answer = LOOK;
	uint64_t i = 0;
	int r;

	if (top->filter)
		snprintf(view.filter, sizeof(view.filter), "%s", top->filter);
	r = top_look(top);
	if (r)
		return top_refuse(top, r);
	begin();
	/* Rates are there from the second look on, which comes soon. */
	draw(top, &view);
	while (answer != QUIT) {
		answer = wait_for(top, &view, now() + (i ? top->delay : 0.1));
		if (answer == QUIT || (iterations && i == iterations))
			break;
		r = top_look(top);
		if (r)
			break;
		draw(top, &view);
		i++;
	}
	end();
	if (r == -ESRCH || r == -ENOENT)
		remark("process %d has ended", (int)top->pid);
	else if (r)
		return top_refuse(top, r);
	return STATUS_DONE;
}
