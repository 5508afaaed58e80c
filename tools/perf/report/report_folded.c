// SPDX-License-Identifier: MIT
/*
 * Lines as flame graphs are made of: thread, functions from the outermost in, buffer, and
 * how many faults there were [flamegraph.pl, inferno].
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "perf/read/stacks.h"
#include "perf/read/symbols.h"
#include "report.h"

struct line {
	char *text;
	uint64_t faults;
};

/* ';' parts the frames, and a blank the count: neither may be in a name. */
static void put(FILE *out, const char *name)
{
	char *shown = text_escape(name), *at;

	for (at = shown; *at; at++)
		if (*at == ';' || *at == ' ')
			*at = '_';
	fputs(shown, out);
	free(shown);
}

/*
 * As perf has them: "[libc.so.6]" of a function without a name, "[unknown]" of addresses that
 * are no code. Code that was built without frame pointers leaves such in a chain.
 */
static void put_frame(FILE *out, struct symbols *symbols, uint32_t pid,
		      const struct place *place)
{
	const char *module = NULL, *function = NULL;
	char text[300];

	if (symbols)
		symbols_name(symbols, pid, place, &module, &function);
	snprintf(text, sizeof(text), "[%s]", module ? module : "unknown");
	fputc(';', out);
	put(out, function ? function : text);
}

/* Its own: threads of a process may have a name each. */
static void put_thread(FILE *out, const struct spaces *spaces, uint32_t tid)
{
	const char *name = spaces_thread_name(spaces, tid);
	char text[32];

	snprintf(text, sizeof(text), "thread %" PRIu32, tid);
	put(out, *name ? name : text);
}

/* A text has no chains. */
static void put_place(FILE *out, const struct stack *stack)
{
	const struct site site = { .function = stack->function, .module = stack->module };
	char *where = report_site(&site);

	fputc(';', out);
	put(out, where);
	free(where);
}

static char *line_of(const struct report *report, const struct stack *stack)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	uint32_t i = stack->n;

	if (!out)
		return NULL;
	put_thread(out, report->analysis.spaces, stack->tid);
	if (stack->function)
		put_place(out, stack);
	while (i--) {
		if (!i && report->symbols &&
		    symbols_top_is_caller(report->symbols, &stack->frame[0].place, &stack->top))
			put_frame(out, report->symbols, stack->pid, &stack->top);
		put_frame(out, report->symbols, stack->pid, &stack->frame[i].place);
	}
	fputc(';', out);
	put(out, stack->of->object->name);
	return fclose(out) ? NULL : text;
}

static int compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return strcmp(x->text, y->text);
}

/* Each once: processes that run the same program have other addresses. */
static void print(struct line *lines, uint32_t n, FILE *out)
{
	uint64_t faults = 0;
	uint32_t i;

	qsort(lines, n, sizeof(*lines), compare);
	for (i = 0; i < n; i++) {
		faults += lines[i].faults;
		if (i + 1 < n && !compare(&lines[i], &lines[i + 1]))
			continue;
		fprintf(out, "%s %" PRIu64 "\n", lines[i].text, faults);
		faults = 0;
	}
}

int report_folded(const struct report *report, FILE *out)
{
	const struct stacks *stacks = report->analysis.stacks;
	uint32_t i, most = stacks_count(stacks), n = 0;
	struct line *lines = calloc(most + 1, sizeof(*lines));
	int r = lines ? 0 : -ENOMEM;

	for (i = 0; i < most && !r; i++) {
		const struct stack *stack = stacks_at(stacks, i);

		lines[n].faults = stack->faults;
		if (!lines[n].faults)
			continue;
		lines[n].text = line_of(report, stack);
		if (!lines[n++].text)
			r = -ENOMEM;
	}
	if (!r)
		print(lines, n, out);
	while (n--)
		free(lines[n].text);
	free(lines);
	return r;
}
