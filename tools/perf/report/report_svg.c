// SPDX-License-Identifier: MIT
/* A report as a picture: addresses of one buffer over time, darker where more faults are. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/text.h"
#include "report.h"

#define LEFT 90
#define TOP 46
#define COLUMNS 120
#define ROWS 60
#define CELL_WIDTH 6
#define CELL_HEIGHT 5

struct cell {
	uint32_t minor, major;
};

static void text_at(FILE *out, int x, int y, const char *anchor, const char *text)
{
	char *shown = text_escape(text), *at;

	fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor);
	for (at = shown; *at; at++) {
		if (*at == '<')
			fputs("&lt;", out);
		else if (*at == '&')
			fputs("&amp;", out);
		else
			putc(*at, out);
	}
	fputs("</text>\n", out);
	free(shown);
}

static void fill(const struct analysis *analysis, const struct counted *counted,
		 uint64_t duration, struct cell *cells)
{
	uint64_t first = counted->lowest >> 12, pages = (counted->highest >> 12) - first + 1;
	uint32_t i;

	for (i = 0; i < analysis->n_row; i++) {
		const struct event_row *row = &analysis->rows[i];
		uint64_t at = row->time_ns - analysis->begin_ns, x, y;

		if (row->object != counted->object->index || row->page < first)
			continue;
		x = (uint64_t)((double)at / (double)duration * COLUMNS);
		y = (uint64_t)((double)(row->page - first) / (double)pages * ROWS);
		if (x >= COLUMNS)
			x = COLUMNS - 1;
		if (y >= ROWS)
			y = ROWS - 1;
		if (row->major)
			cells[y * COLUMNS + x].major++;
		else
			cells[y * COLUMNS + x].minor++;
	}
}

static void draw(FILE *out, const struct cell *cells)
{
	uint32_t i, most = 1;

	for (i = 0; i < COLUMNS * ROWS; i++)
		if (cells[i].minor + cells[i].major > most)
			most = cells[i].minor + cells[i].major;
	for (i = 0; i < COLUMNS * ROWS; i++) {
		uint32_t n = cells[i].minor + cells[i].major;

		if (!n)
			continue;
		fprintf(out,
			"<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
			"fill-opacity=\"%.2f\"/>\n",
			cells[i].major ? "j" : "n", LEFT + (int)(i % COLUMNS) * CELL_WIDTH,
			TOP + (ROWS - 1 - (int)(i / COLUMNS)) * CELL_HEIGHT, CELL_WIDTH,
			CELL_HEIGHT, 0.25 + 0.75 * log1p((double)n) / log1p((double)most));
	}
}

static const struct counted *with_most_faults(const struct analysis *analysis)
{
	const struct counted *most = NULL, *counted;
	uint32_t i;

	for (i = 0; i < analysis->n_counted; i++) {
		counted = analysis->counted[i];
		if (!most || counted->minor + counted->major > most->minor + most->major)
			most = counted;
	}
	return most;
}

void report_svg(const struct report *report, FILE *out)
{
	const struct analysis *analysis = &report->analysis;
	int width = LEFT + COLUMNS * CELL_WIDTH + 20, height = TOP + ROWS * CELL_HEIGHT + 50;
	struct cell *cells = calloc(COLUMNS * ROWS, sizeof(*cells));
	const struct counted *counted = with_most_faults(analysis);
	char text[TEXT_MAX], other[TEXT_MAX], *line;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<style>svg{background:#fff}text{fill:#222}.n{fill:#0072b2}.j{fill:#d55e00}"
		".f{fill:none;stroke:#888}@media(prefers-color-scheme:dark){svg{background:"
		"#16181c}text{fill:#ddd}.n{fill:#56b4e9}.j{fill:#e69f00}}</style>\n",
		width, height, width, height);
	if (!counted || !cells) {
		text_at(out, 20, 30, "start", "no page faults");
		goto end;
	}
	fill(analysis, counted, report->duration_ns ? report->duration_ns : 1, cells);
	line = text_format("%s: %s page faults, %s", counted->object->name,
			   text_count(counted->minor + counted->major, text),
			   analysis->share == RECORDED_EACH ? report_pattern(counted->pattern) :
			   analysis->share == RECORDED_SAMPLES ? "foretold from samples" :
								 "perhaps samples");
	text_at(out, LEFT, 24, "start", line);
	free(line);
	draw(out, cells);
	fprintf(out, "<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
		TOP, COLUMNS * CELL_WIDTH, ROWS * CELL_HEIGHT);
	text_at(out, LEFT - 8, TOP + 10, "end", text_bytes(counted->highest + 4096, other));
	text_at(out, LEFT - 8, TOP + ROWS * CELL_HEIGHT, "end",
		text_bytes(counted->lowest, other));
	text_at(out, LEFT, height - 30, "start", "0 s");
	text_at(out, LEFT + COLUMNS * CELL_WIDTH, height - 30, "end",
		text_seconds((double)report->duration_ns / 1e9, other));
	text_at(out, LEFT, height - 10, "start",
		"byte of the buffer over time; blue: faults, orange: with reads of storage");
end:
	fputs("</svg>\n", out);
	free(cells);
}
