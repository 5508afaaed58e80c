// SPDX-License-Identifier: MIT
/*
 * A run as one page that needs nothing else: no script, no font, no picture from
 * anywhere. It is well-formed XML as well, so that a parser can check it.
 */
#include <string.h>

#include "bench_run.h"

static const char style[] =
	":root { color-scheme: light dark; --back: #fff; --text: #1c1f23; --quiet: #595f69;\n"
	"  --grid: #dfe3e8; --card: #f6f7f9; --ours: #1560bd; --peer: #8a5a00;\n"
	"  --target: #b3123a; --good: #17692b; }\n"
	"@media (prefers-color-scheme: dark) {\n"
	"  :root { --back: #14171b; --text: #e6e8eb; --quiet: #a3abb6; --grid: #363c45;\n"
	"    --card: #1d2127; --ours: #6fb1ff; --peer: #eba94b; --target: #ff8098;\n"
	"    --good: #6fd089; } }\n"
	"body { margin: 0 auto; max-width: 60rem; padding: 1rem 1.25rem 4rem;\n"
	"  background: var(--back); color: var(--text);\n"
	"  font: 1rem/1.5 system-ui, sans-serif; }\n"
	"h1 { font-size: 1.7rem; margin: .5rem 0; }\n"
	"h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }\n"
	"h3 { font-size: 1.1rem; margin: 2rem 0 .25rem; }\n"
	"code { font-family: ui-monospace, monospace; }\n"
	"a { color: var(--ours); }\n"
	"dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem;\n"
	"  background: var(--card); padding: .75rem 1rem; border-radius: .5rem; }\n"
	"dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }\n"
	"figure { margin: .75rem 0 1.25rem; }\n"
	"figure div { overflow-x: auto; }\n"
	"figcaption { margin: 0 0 .25rem; }\n"
	"svg { display: block; width: 100%; min-width: 36rem; height: auto; }\n"
	"svg text { fill: var(--text); font: 12px system-ui, sans-serif; }\n"
	"svg .tick { fill: var(--quiet); text-anchor: middle; }\n"
	"svg .side { fill: var(--quiet); }\n"
	"svg .case, svg .end { text-anchor: end; }\n"
	"svg .beyond { fill: var(--quiet); font-size: 11px; }\n"
	"svg .grid { stroke: var(--grid); }\n"
	"svg .one { stroke: var(--quiet); }\n"
	"svg line.target { stroke: var(--target); stroke-width: 1.5; stroke-dasharray: 4 3; }\n"
	"svg .mark { stroke: var(--target); stroke-width: 1.5; }\n"
	"svg text.target { fill: var(--target); }\n"
	"svg .ours circle { fill: var(--ours); } svg .peer circle { fill: var(--peer); }\n"
	"svg .missed circle { fill: var(--target); }\n"
	"svg .ours .median { stroke: var(--ours); stroke-width: 2.5; }\n"
	"svg .peer .median { stroke: var(--peer); stroke-width: 2.5; }\n"
	"svg .ours .interval { fill: var(--ours); opacity: .25; }\n"
	"svg .peer .interval { fill: var(--peer); opacity: .25; }\n"
	"svg .ours circle, svg .peer circle { fill-opacity: .75; }\n"
	"svg .whisker { stroke-width: 2; }\n"
	"svg .ours .whisker { stroke: var(--ours); }\n"
	"svg .missed .whisker { stroke: var(--target); }\n"
	".met { color: var(--good); } .not-met { color: var(--target); font-weight: 600; }\n"
	".quiet { color: var(--quiet); }\n"
	".wide { overflow-x: auto; }\n"
	"table { border-collapse: collapse; font-size: .9rem; width: 100%; }\n"
	"caption { text-align: left; color: var(--quiet); padding-bottom: .5rem; }\n"
	"th, td { text-align: left; padding: .2rem .6rem; white-space: nowrap;\n"
	"  border-bottom: 1px solid var(--grid); }\n"
	"td.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
	"th.group { background: var(--card); white-space: normal; }\n";

void bench_html_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			putc(*text, out);
		}
	}
}

static void ratio_text(const struct bench_row *row, FILE *out)
{
	fprintf(out, "ratio %.2f", row->ratio);
	if (row->rounds && bench_interval_known(&row->ratio_95))
		fprintf(out, " (95%%: %.3f to %.3f)", row->ratio_95.low, row->ratio_95.high);
}

static void target_text(const struct bench_row *row, FILE *out)
{
	char target[2 * TEXT_MAX];

	if (row->kind == TARGET_NONE)
		return;
	bench_html_text(out, bench_target_text(row, target));
	fprintf(out, bench_row_met(row) ? " <span class=\"met\">met</span>" :
					  " <span class=\"not-met\">missed</span>");
}

static void machine(const struct bench_run *run, FILE *out)
{
	struct bench_fact facts[BENCH_FACTS];
	size_t i;

	bench_state_facts(run->machine, facts);
	fprintf(out, "<h2>The machine</h2>\n<dl>\n");
	for (i = 0; i < BENCH_FACTS; i++) {
		fprintf(out, "<dt>%s</dt><dd>", facts[i].label);
		bench_html_text(out, facts[i].text);
		fprintf(out, "</dd>\n");
	}
	fprintf(out, "</dl>\n");
}

/* ---- the cases ---- */

static void group(const struct bench_row *row, FILE *out)
{
	const char *summary = bench_summary(row->bench);

	fprintf(out, "<code>");
	bench_html_text(out, row->bench);
	fprintf(out, "</code>%s", summary ? ": " : "");
	bench_html_text(out, summary ? summary : "");
}

static void drawn_case(const struct bench_row *row, unsigned int id, FILE *out)
{
	char value[TEXT_MAX], peer[TEXT_MAX];

	if (row->skipped) {
		fprintf(out, "<p><strong>");
		bench_html_text(out, row->name);
		fprintf(out, "</strong> <span class=\"quiet\">skipped: ");
		bench_html_text(out, row->skipped);
		fprintf(out, "</span></p>\n");
		return;
	}
	fprintf(out, "<figure>\n<figcaption><strong>");
	bench_html_text(out, row->name);
	fprintf(out, "</strong> %s against %s, ", bench_figure(row->value, row->unit, value),
		bench_figure(row->peer_value, row->unit, peer));
	ratio_text(row, out);
	fprintf(out, "%s", row->kind == TARGET_NONE ? "" : ", target ");
	target_text(row, out);
	fprintf(out, "<br/><span class=\"quiet\">the peer: ");
	bench_html_text(out, row->peer);
	if (row->rounds)
		fprintf(out, "; %u rounds", row->rounds);
	fprintf(out, "</span></figcaption>\n");
	if (row->rounds) {
		fprintf(out, "<div>\n");
		bench_svg_row(row, id, out);
		fprintf(out, "</div>\n");
	}
	fprintf(out, "</figure>\n");
}

static void cases(const struct bench_run *run, FILE *out)
{
	const char *headed = "";
	size_t i;

	fprintf(out,
		"<h2>Cases</h2>\n"
		"<p>Dots are samples; of more than %d, that many evenly spaced from the "
		"least to the greatest. The line is the median, the band around it holds "
		"the true one with 95%%. What is far out is off the drawing, and counted "
		"at its end.</p>\n",
		BENCH_DOTS);
	for (i = 0; i < run->n; i++) {
		if (strcmp(headed, run->rows[i].bench) != 0) {
			fprintf(out, "<h3>");
			group(&run->rows[i], out);
			fprintf(out, "</h3>\n");
		}
		headed = run->rows[i].bench;
		drawn_case(&run->rows[i], (unsigned int)i, out);
	}
}

/* ---- the table ---- */

static void cell(double value, const char *unit, FILE *out)
{
	char text[TEXT_MAX];

	fprintf(out, "<td class=\"n\">");
	bench_html_text(out, bench_figure(value, unit, text));
	fprintf(out, "</td>");
}

static void table_row(const struct bench_row *row, FILE *out)
{
	fprintf(out, "<tr><th scope=\"row\">");
	bench_html_text(out, row->name);
	fprintf(out, "</th>");
	if (row->skipped) {
		fprintf(out, "<td colspan=\"6\" class=\"quiet\">skipped</td></tr>\n");
		return;
	}
	cell(row->value, row->unit, out);
	cell(row->p99, row->unit, out);
	cell(row->peer_value, row->unit, out);
	fprintf(out, "<td class=\"n\">%.2f</td><td class=\"n\">", row->ratio);
	if (row->rounds && bench_interval_known(&row->ratio_95))
		fprintf(out, "%.3f to %.3f", row->ratio_95.low, row->ratio_95.high);
	fprintf(out, "</td><td>");
	target_text(row, out);
	fprintf(out, "</td></tr>\n");
}

static void table(const struct bench_run *run, FILE *out)
{
	const char *headed = "";
	size_t i;

	fprintf(out, "<h2>Table</h2>\n<div class=\"wide\">\n<table>\n"
		     "<caption>The ratio is our time over the peer's for equal work: lower is "
		     "better.</caption>\n"
		     "<thead><tr><th scope=\"col\">case</th><th scope=\"col\">median</th>"
		     "<th scope=\"col\">p99</th><th scope=\"col\">peer</th>"
		     "<th scope=\"col\">ratio</th><th scope=\"col\">95%%</th>"
		     "<th scope=\"col\">target</th></tr></thead>\n");
	for (i = 0; i < run->n; i++) {
		const struct bench_row *row = &run->rows[i];

		if (strcmp(headed, row->bench) != 0) {
			fprintf(out,
				"%s<tbody>\n<tr><th class=\"group\" colspan=\"7\" "
				"scope=\"rowgroup\">",
				*headed ? "</tbody>\n" : "");
			group(row, out);
			fprintf(out, "</th></tr>\n");
		}
		headed = row->bench;
		table_row(row, out);
	}
	fprintf(out, "%s</table>\n</div>\n", *headed ? "</tbody>\n" : "");
}

void bench_html(const struct bench_run *run, FILE *out)
{
	fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
		     "<meta charset=\"utf-8\"/>\n<title>hetmap bench</title>\n"
		     "<meta name=\"viewport\" content=\"width=device-width, "
		     "initial-scale=1\"/>\n"
		     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
		     "'none'; style-src 'unsafe-inline'\"/>\n<style>\n");
	fputs(style, out);
	fprintf(out, "</style>\n</head>\n<body>\n<main>\n<h1>hetmap bench</h1>\n"
		     "<p>Each case in turns with a peer that does equal work by bare calls, in "
		     "one process.</p>\n");
	machine(run, out);
	fprintf(out, "<h2>Ratios to the peers</h2>\n<figure>\n<div>\n");
	bench_svg_ratios(run, out);
	fprintf(out, "</div>\n</figure>\n");
	cases(run, out);
	table(run, out);
	fprintf(out, "</main>\n</body>\n</html>\n");
}
