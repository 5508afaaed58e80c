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

#include "../hetmap/text.h"
#include "report.h"
#include "stacks.h"
#include "symbols.h"

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
 * As perf has them: "[libc.so.6]" of a function without a name, "[unknown]" of what is no code.
 * Code that was built without frame pointers leaves such in a chain.
 */
static void put_frame(FILE *out, struct symbols *symbols, const struct frame *frame)
{
	const char *module = NULL, *function = NULL;
	char text[300];

	if (symbols)
		symbols_name(symbols, &frame->place, &module, &function);
	snprintf(text, sizeof(text), "[%s]", module ? module : "unknown");
	fputc(';', out);
	put(out, function ? function : text);
}

static void put_end(FILE *out, const struct counted *of)
{
	fputc(';', out);
	put(out, of->object->name);
}

static char *line_of_stack(const struct report *report, const struct stack *stack)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	uint32_t i = stack->n;

	if (!out)
		return NULL;
	put(out, spaces_thread_name(report->analysis.spaces, stack->pid));
	while (i--)
		put_frame(out, report->symbols, &stack->frame[i]);
	put_end(out, stack->of);
	return fclose(out) ? NULL : text;
}

/* Of a text, which has no chains. */
static char *line_of_site(const struct report *report, const struct site *site)
{
	char *text = NULL, *where = report_site(site);
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out) {
		put(out, spaces_thread_name(report->analysis.spaces, site->pid));
		fputc(';', out);
		put(out, where);
		put_end(out, site->of);
	}
	free(where);
	return out && !fclose(out) ? text : NULL;
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
	const struct analysis *analysis = &report->analysis;
	bool chains = analysis->stacks;
	uint32_t i, most = chains ? stacks_count(analysis->stacks) : analysis->n_site, n = 0;
	struct line *lines = calloc(most + 1, sizeof(*lines));
	int r = lines ? 0 : -ENOMEM;

	for (i = 0; i < most && !r; i++) {
		const struct stack *stack = chains ? stacks_at(analysis->stacks, i) : NULL;
		const struct site *site = chains ? NULL : analysis->sites[i];

		lines[n].faults = stack ? stack->faults : site->faults;
		if (!lines[n].faults)
			continue;
		lines[n].text = stack ? line_of_stack(report, stack) :
					line_of_site(report, site);
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
