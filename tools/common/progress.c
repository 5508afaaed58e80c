// SPDX-License-Identifier: MIT
/* A progress bar on standard error, on terminals and for long work only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "text.h"

#define SILENT_SECONDS 0.5 /* before the first drawing */
#define REDRAW_SECONDS 0.1

static struct {
	const char *what;
	uint64_t total;
	uint64_t done;
	double begin;
	double drawn; /* when, last; 0: not on the screen */
} bar;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
		return 80;
	return size.ws_col > 80 ? 80 : size.ws_col;
}

static void draw(double time)
{
	const char *full = output.utf8 ? "\u2588" : "#";
	const char *empty = output.utf8 ? "\u2591" : ".";
	double part = (double)bar.done / (double)bar.total;
	double elapsed = time - bar.begin;
	char left[TEXT_MAX], rate[TEXT_MAX], right[96];
	int width, filled, i;

	if (part > 1)
		part = 1;
	text_seconds(part > 0 ? elapsed * (1 - part) / part : 0, left);
	snprintf(right, sizeof(right), "%3.0f %%  %s  %s left", part * 100,
		 text_rate((double)bar.done / elapsed, rate), left);
	width = columns() - 1 - (int)strlen(bar.what) - 34;
	fprintf(stderr, "\r%s  ", bar.what);
	filled = width > 0 ? (int)(part * width) : 0;
	for (i = 0; i < width; i++)
		fputs(i < filled ? full : empty, stderr);
	fprintf(stderr, "  %s\033[K", right);
	fflush(stderr);
	bar.drawn = time;
}

void progress_begin(const char *what, uint64_t total)
{
	const char *term = getenv("TERM");

	progress_end();
	if (output.quiet || !total || !isatty(STDERR_FILENO) || (term && !strcmp(term, "dumb")))
		return;
	bar.what = what;
	bar.total = total;
	bar.done = 0;
	bar.begin = now();
	bar.drawn = 0;
}

void progress_add(uint64_t bytes)
{
	double time;

	if (!bar.total)
		return;
	bar.done += bytes;
	time = now();
	if (time - bar.begin >= SILENT_SECONDS && time - bar.drawn >= REDRAW_SECONDS)
		draw(time);
}

void progress_end(void)
{
	if (bar.drawn > 0) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	bar.total = 0;
	bar.drawn = 0;
}
