// SPDX-License-Identifier: MIT
/* A schedule as JSON, and as a page: the picture, the sums, and each step with its reason. */
#include <inttypes.h>
#include <stdio.h>

#include "explain.h"
#include "picture.h"

static void put_json(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ')
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
	}
	putc('"', out);
}

static void put_html(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else
			putc(*text, out);
	}
}

/* The text of tell(), as a string in JSON or as text of HTML. */
static int put_told(FILE *out, void (*put)(FILE *out, const char *text),
		    void (*tell)(FILE *out, const struct hm_schedule *schedule,
				 const struct step *step),
		    const struct hm_schedule *schedule, const struct step *step)
{
	char *text = NULL;
	size_t length;
	FILE *told = open_memstream(&text, &length);
	int r;

	if (!told)
		return -1;
	tell(told, schedule, step);
	r = fclose(told);
	if (!r)
		put(out, text);
	free(text);
	return r;
}

static const char *const kinds[] = { "in", "out", "move", "node" };
static const char *const lanes[] = { "compute", "in", "out" };

/* ---- JSON ---- */

static void json_ranges(FILE *out, const struct hm_schedule *schedule)
{
	const struct hm_plan *plan = &schedule->plan;
	uint32_t i;

	for (i = 0; i < plan->n_range; i++) {
		const struct range *range = &plan->range[i];

		fputs(i ? ",\n{\"name\":" : "{\"name\":", out);
		put_json(out, range->name);
		fprintf(out, ",\"length\":%" PRIu64 ",\"root\":%" PRIu32 ",\"offset\":%" PRIu64,
			range->length, range->root + 1, range->offset);
		fprintf(out, ",\"input\":%s,\"output\":%s,\"in_place\":%s}",
			range->flags & HM_PLAN_INPUT ? "true" : "false",
			range->flags & HM_PLAN_OUTPUT ? "true" : "false",
			range->root == i && range->home && !schedule->size[i] ? "true" :
										"false");
	}
}

static int json_step(FILE *out, const struct hm_schedule *schedule, const struct step *step)
{
	fprintf(out, "{\"kind\":\"%s\",\"lane\":\"%s\",\"node\":", kinds[step->kind],
		lanes[step->lane]);
	put_json(out, schedule->plan.node[schedule->order[step->at]].name);
	if (step->kind != HM_PLAN_STEP_NODE) {
		fputs(",\"range\":", out);
		put_json(out, schedule->plan.range[step->range].name);
		fprintf(out, ",\"offset\":%" PRIu64 ",\"length\":%" PRIu64, step->offset,
			schedule->plan.range[step->range].length);
	}
	if (step->kind == HM_PLAN_STEP_MOVE)
		fprintf(out, ",\"from\":%" PRIu64, step->from);
	fprintf(out,
		",\"after\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "],\"reason\":", step->after[0],
		step->after[1], step->after[2]);
	if (put_told(out, put_json, tell_reason, schedule, step))
		return -1;
	putc('}', out);
	return 0;
}

int plan_explain_json(FILE *out, const struct hm_schedule *schedule)
{
	const struct steps *steps = &schedule->steps;
	uint32_t i;

	fprintf(out,
		"{\"policy\":%" PRIu32 ",\"nodes\":%" PRIu32 ",\"bytes_in\":%" PRIu64
		",\"bytes_out\":%" PRIu64 ",\"bytes_moved\":%" PRIu64 ",\"peak\":%" PRIu64
		",\"smallest\":%" PRIu64 ",\"budget\":%" PRIu64 ",\"evictions\":%" PRIu64
		",\n\"ranges\":[\n",
		schedule->policy, schedule->plan.n_node, steps->bytes_in, steps->bytes_out,
		steps->bytes_moved, steps->peak, schedule->smallest, schedule->budget,
		steps->evictions);
	json_ranges(out, schedule);
	fputs("],\n\"steps\":[\n", out);
	for (i = 0; i < steps->n_step; i++) {
		if (i)
			fputs(",\n", out);
		if (json_step(out, schedule, &steps->step[i]))
			return -1;
	}
	fputs("]}\n", out);
	return 0;
}

/* ---- a page ---- */

static const char head[] =
	"<!doctype html>\n"
	"<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Plan</title>\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<style>\n"
	"body{font:14px system-ui,sans-serif;margin:1.5em auto;max-width:1200px;color:#222}\n"
	"svg{width:100%;height:auto}table{border-collapse:collapse}\n"
	"td,th{padding:.15em .8em;text-align:left;border-bottom:1px solid #ddd}\n"
	"td.number{text-align:right;font-variant-numeric:tabular-nums}\n"
	"@media(prefers-color-scheme:dark){body{background:#16191d;color:#ddd}\n"
	"td,th{border-color:#444}}\n"
	"</style></head><body>\n";

static int html_step(FILE *out, const struct hm_schedule *schedule, const struct step *step)
{
	bool node = step->kind == HM_PLAN_STEP_NODE;

	fprintf(out, "<tr><td>%s</td><td>%s</td><td>", lanes[step->lane], kinds[step->kind]);
	put_html(out, node ? schedule->plan.node[schedule->order[step->at]].name :
			     schedule->plan.range[step->range].name);
	fputs("</td><td class=\"number\">", out);
	if (!node)
		fprintf(out, "%" PRIu64 "</td><td class=\"number\">%" PRIu64, step->offset,
			schedule->plan.range[step->range].length);
	else
		fputs("</td><td>", out);
	fputs("</td><td>", out);
	if (put_told(out, put_html, tell_reason, schedule, step))
		return -1;
	fputs("</td></tr>\n", out);
	return 0;
}

static void tell_head(FILE *out, const struct hm_schedule *schedule, const struct step *step)
{
	(void)step;
	tell_sums(out, schedule);
}

int plan_explain_html(FILE *out, const struct hm_schedule *schedule)
{
	uint32_t i;
	int r;

	fputs(head, out);
	r = picture_draw(out, schedule);
	if (r)
		return r;
	fputs("<pre>", out);
	if (put_told(out, put_html, tell_head, schedule, NULL))
		return -1;
	fputs("</pre>\n<table><tr><th>lane</th><th>step</th><th>of</th><th>place</th>"
	      "<th>bytes</th><th>reason</th></tr>\n",
	      out);
	for (i = 0; i < schedule->steps.n_step; i++)
		if (html_step(out, schedule, &schedule->steps.step[i]))
			return -1;
	fputs("</table></body></html>\n", out);
	return 0;
}
