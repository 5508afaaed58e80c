// SPDX-License-Identifier: MIT
/*
 * Drawings for the page: a case's samples on both sides, and the ratios of all cases. Colours
 * and fonts are the page's, by class; each has a text of its contents.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"

#define WIDTH 800

/* From @low to @high at x from @left to @right. */
struct axis {
	double low, high;
	int left, right;
	bool is_log;
};

static double place(const struct axis *axis, double value)
{
	double share = axis->is_log ? log(value / axis->low) / log(axis->high / axis->low) :
				      (value - axis->low) / (axis->high - axis->low);

	return axis->left + share * (axis->right - axis->left);
}

/* @low is less than @high afterwards, with room on both sides. */
static struct axis axis_for(double low, double high, int left, int right)
{
	struct axis axis = { .left = left,
			     .right = right,
			     .is_log = low > 0 && high > 8 * low };
	double room = (high - low) * 0.04;

	if (axis.is_log) {
		room = pow(high / low, 0.04);
		axis.low = low / room;
		axis.high = high * room;
		return axis;
	}
	if (room <= 0)
		room = fabs(high) * 0.05 + 1e-9;
	axis.low = low - room;
	axis.high = high + room;
	return axis;
}

static void tick(const struct axis *axis, double value, int top, int bottom, FILE *out)
{
	double x = place(axis, value);

	if (x < axis->left || x > axis->right)
		return;
	fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x,
		top, x, bottom);
	fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%.7g</text>\n", x, bottom + 14,
		value);
}

/* At 1, 2 and 5 times powers of ten; at the powers alone where there are many. */
static void ticks_log(const struct axis *axis, int top, int bottom, FILE *out)
{
	int first = (int)floor(log10(axis->low)), last = (int)ceil(log10(axis->high)), power;

	for (power = first; power <= last; power++) {
		double base = pow(10, power);

		tick(axis, base, top, bottom, out);
		if (last - first > 3)
			continue;
		tick(axis, 2 * base, top, bottom, out);
		tick(axis, 5 * base, top, bottom, out);
	}
}

static void ticks_linear(const struct axis *axis, int top, int bottom, FILE *out)
{
	double step = pow(10, floor(log10(axis->high - axis->low)));
	long n, last;

	if ((axis->high - axis->low) / step < 2)
		step /= 5;
	else if ((axis->high - axis->low) / step < 5)
		step /= 2;
	last = (long)floor(axis->high / step);
	for (n = (long)ceil(axis->low / step); n <= last; n++)
		tick(axis, (double)n * step, top, bottom, out);
}

static void ticks(const struct axis *axis, int top, int bottom, FILE *out)
{
	if (axis->is_log)
		ticks_log(axis, top, bottom, out);
	else
		ticks_linear(axis, top, bottom, out);
}

static void label(const char *class, double x, int y, const char *text, FILE *out)
{
	fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%d\">", class, x, y);
	bench_html_text(out, text);
	fprintf(out, "</text>\n");
}

/* ---- a case ---- */

#define LANE 40
#define LANES_TOP 18
#define LANES_BOTTOM (LANES_TOP + 2 * LANE)
#define LANES_LEFT 84
#define LANES_RIGHT (WIDTH - 116)

struct lane {
	const char *name, *class;
	const struct bench_dots *dots;
	const struct bench_interval *interval;
	double median;
};

/* Neighbours are far apart: by the golden section, as sunflowers have their seeds. */
static double height_of(unsigned int i, int top)
{
	double share = i * 0.6180339887;

	return top + 7 + (share - floor(share)) * (LANE - 14);
}

/* How many are off one end of the axis, and how far. */
static void draw_beyond(const char *class, double x, int y, unsigned int n, double most,
			const char *unit, FILE *out)
{
	char figure[TEXT_MAX], text[64];

	if (!n)
		return;
	snprintf(text, sizeof(text), "%u more,", n);
	label(class, x, y, text, out);
	snprintf(text, sizeof(text), "to %s", bench_figure(most, unit, figure));
	label(class, x, y + 13, text, out);
}

static void draw_lane(const struct lane *lane, const struct axis *axis, const char *unit,
		      int top, FILE *out)
{
	const struct bench_dots *dots = lane->dots;
	unsigned int i, below = 0, above = 0;
	double x;

	label("side", 0, top + (dots->at[0] < axis->low ? 10 : LANE / 2 + 4), lane->name, out);
	fprintf(out, "<g class=\"%s\">\n", lane->class);
	if (bench_interval_known(lane->interval)) {
		double from = place(axis, lane->interval->low);

		fprintf(out,
			"<rect class=\"interval\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
			"height=\"%d\"/>\n",
			from, top + 3, fmax(place(axis, lane->interval->high) - from, 1),
			LANE - 6);
	}
	for (i = 0; i < dots->n; i++) {
		below += dots->at[i] < axis->low;
		above += dots->at[i] > axis->high;
		if (dots->at[i] < axis->low || dots->at[i] > axis->high)
			continue;
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\"/>\n",
			place(axis, dots->at[i]), height_of(i, top));
	}
	x = place(axis, lane->median);
	fprintf(out,
		"<line class=\"median\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n</g>\n",
		x, top + 2, x, top + LANE - 2);
	draw_beyond("beyond", 0, top + 22, below, dots->at[0], unit, out);
	draw_beyond("beyond", axis->right + 8, top + 16, above, dots->at[dots->n - 1], unit,
		    out);
}

/*
 * Makes room for a side: its interval, nine tenths of its dots, and half as much to each end,
 * as far as there are dots. A single outlier would leave no room for the other dots.
 */
static void widen(const struct lane *lane, double *low, double *high)
{
	const struct bench_dots *dots = lane->dots;
	unsigned int off = dots->n / 20;
	double first = dots->at[off], last = dots->at[dots->n - 1 - off];
	double more = (last - first) / 2;

	*low = fmin(*low, fmax(first - more, dots->at[0]));
	*high = fmax(*high, fmin(last + more, dots->at[dots->n - 1]));
	*low = fmin(*low, lane->median);
	*high = fmax(*high, lane->median);
	if (!bench_interval_known(lane->interval))
		return;
	*low = fmin(*low, lane->interval->low);
	*high = fmax(*high, lane->interval->high);
}

static void describe(const struct bench_row *row, FILE *out)
{
	char value[TEXT_MAX], p99[TEXT_MAX], peer[TEXT_MAX], peer_p99[TEXT_MAX];

	fprintf(out,
		"hetmap: median %s, 99th percentile %s; the peer: median %s, 99th "
		"percentile %s; %u rounds.",
		bench_figure(row->value, row->unit, value),
		bench_figure(row->p99, row->unit, p99),
		bench_figure(row->peer_value, row->unit, peer),
		bench_figure(row->peer_p99, row->unit, peer_p99), row->rounds);
}

void bench_svg_row(const struct bench_row *row, unsigned int id, FILE *out)
{
	const struct lane lanes[] = {
		{ "hetmap", "ours", &row->ours_dots, &row->value_95, row->value },
		{ "peer", "peer", &row->peer_dots, &row->peer_95, row->peer_value },
	};
	double target = row->kind == TARGET_RATIO ? row->target * row->peer_value : row->target;
	double low = row->value, high = row->value, x;
	struct axis axis;
	char text[64];
	size_t i;

	for (i = 0; i < 2; i++)
		widen(&lanes[i], &low, &high);
	if (row->kind != TARGET_NONE) {
		low = fmin(low, target);
		high = fmax(high, target);
	}
	axis = axis_for(low, high, LANES_LEFT, LANES_RIGHT);
	fprintf(out,
		"<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"t%u d%u\">\n"
		"<title id=\"t%u\">",
		WIDTH, LANES_BOTTOM + 20, id, id, id);
	bench_html_text(out, row->bench);
	fprintf(out, ", ");
	bench_html_text(out, row->name);
	fprintf(out, "</title>\n<desc id=\"d%u\">", id);
	describe(row, out);
	fprintf(out, "</desc>\n");
	ticks(&axis, LANES_TOP, LANES_BOTTOM, out);
	for (i = 0; i < 2; i++)
		draw_lane(&lanes[i], &axis, row->unit, LANES_TOP + (int)i * LANE, out);
	if (row->kind != TARGET_NONE) {
		x = place(&axis, target);
		fprintf(out,
			"<line class=\"target\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" "
			"y2=\"%d\"/>\n",
			x, LANES_TOP - 4, x, LANES_BOTTOM);
		if (row->kind == TARGET_RATIO)
			snprintf(text, sizeof(text), "target: %.2f x peer", row->target);
		else
			snprintf(text, sizeof(text), "target: %.4g %s", row->target, row->unit);
		label(x > WIDTH / 2.0 ? "target end" : "target", x, LANES_TOP - 7, text, out);
	}
	snprintf(text, sizeof(text), "%s%s", row->unit, axis.is_log ? ", log" : "");
	label("side", 0, LANES_BOTTOM + 14, text, out);
	fprintf(out, "</svg>\n");
}

/* ---- all ratios ---- */

#define RATIO_LEFT 330
#define RATIO_RIGHT (WIDTH - 16)
#define RATIO_TOP 22
#define RATIO_ROW 17

static bool has_ratio(const struct bench_row *row)
{
	return !row->skipped && row->ratio > 0;
}

/* Where those of the table are; 1 is always among them. */
static unsigned int ratio_bounds(const struct bench_run *run, double *ret_low, double *ret_high)
{
	double low = 0.9, high = 1.2;
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < run->n; i++) {
		const struct bench_row *row = &run->rows[i];

		if (!has_ratio(row))
			continue;
		n++;
		low = fmin(low, row->ratio);
		high = fmax(high, row->ratio);
		if (row->kind == TARGET_RATIO)
			high = fmax(high, row->target);
	}
	*ret_low = low;
	*ret_high = high;
	return n;
}

static void draw_ratio(const struct bench_row *row, const struct axis *axis, int y, FILE *out)
{
	const char *class = row->kind == TARGET_NONE || bench_row_met(row) ? "ours" : "missed";
	char *name = text_format("%s: %s", row->bench, row->name);
	double x = place(axis, row->ratio);

	label("case", RATIO_LEFT - 8, y + 4, name, out);
	free(name);
	fprintf(out, "<g class=\"%s\">\n", class);
	if (row->rounds && bench_interval_known(&row->ratio_95) && row->ratio_95.low > 0)
		fprintf(out,
			"<line class=\"whisker\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" "
			"y2=\"%d\"/>\n",
			fmax(place(axis, row->ratio_95.low), RATIO_LEFT), y,
			fmin(place(axis, row->ratio_95.high), RATIO_RIGHT), y);
	fprintf(out, "<circle cx=\"%.1f\" cy=\"%d\" r=\"3.6\"/>\n</g>\n", x, y);
	if (row->kind != TARGET_RATIO || row->target <= 0)
		return;
	x = place(axis, row->target);
	fprintf(out, "<line class=\"target\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n",
		x, y - 7, x, y + 7);
}

void bench_svg_ratios(const struct bench_run *run, FILE *out)
{
	double low, high;
	unsigned int n = ratio_bounds(run, &low, &high);
	int bottom = RATIO_TOP + (int)n * RATIO_ROW + 4, y = RATIO_TOP + RATIO_ROW / 2;
	struct axis axis = axis_for(low, high, RATIO_LEFT, RATIO_RIGHT);
	double one = place(&axis, 1);
	size_t i;

	fprintf(out,
		"<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"tr dr\">\n"
		"<title id=\"tr\">Ratios of hetmap to the peers</title>\n"
		"<desc id=\"dr\">One row for each case: its ratio as a dot, 95%% of it as a line, "
		"its target as an upright mark. The same numbers are in the table below."
		"</desc>\n",
		WIDTH, bottom + 20);
	ticks(&axis, RATIO_TOP, bottom, out);
	fprintf(out, "<line class=\"one\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", one,
		RATIO_TOP - 4, one, bottom);
	label("tick", one, RATIO_TOP - 8, "as the peer", out);
	for (i = 0; i < run->n; i++) {
		if (!has_ratio(&run->rows[i]))
			continue;
		draw_ratio(&run->rows[i], &axis, y, out);
		y += RATIO_ROW;
	}
	label("side", 0, bottom + 14, axis.is_log ? "ratio, log" : "ratio", out);
	fprintf(out, "</svg>\n");
}
