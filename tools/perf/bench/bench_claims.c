// SPDX-License-Identifier: MIT
/* Published figures on mapping against copying, beside figures of this run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "common/command.h"

/* Each claim has the cases that do the same work; a case that nearly does is none. */
static const struct bench_claim claims[] = {
	{
		.published = "37% less time",
		.what = "1 GB brought to a device through a map instead of by copies",
		.cases = { { "transfer_1g", NULL }, { "zero_copy", "against copies" } },
	},
	{
		.published = "10 ns",
		.what = "page tables of CPU and device kept in step",
		.kind = CLAIM_TIME,
		.cases = { { "dev_tlb", "sim:0, a page shot down" } },
	},
	{
		.published = "18% more frames",
		.what = "with prefetch instead of without",
		.kind = CLAIM_RATE,
		.cases = { { "prefetch_gain", "sequential frames" } },
	},
	{
		.published = "23% less transfer time",
		.what = "the transfer alone",
		.cases = { { "graph_transfer", "against all up front" } },
	},
	{
		.published = "under 5 ms",
		.what = "a 4K frame on its way to the device",
		.kind = CLAIM_TIME,
		.cases = { { "frame_path", "3840x2160 NV12 to XRGB, cpu" } },
	},
	{
		.published = "17% to 6%",
		.what = "the share of communication in an application's time",
		.kind = CLAIM_SHARE,
		.cases = { { "particles", "share of communication, 4 ranks, shared pages" } },
	},
};

#define N_CLAIM (sizeof(claims) / sizeof(claims[0]))

const struct bench_claim *bench_claim(size_t n)
{
	return n < N_CLAIM ? &claims[n] : NULL;
}

bool bench_claimed(const char *bench)
{
	size_t n, i;

	for (n = 0; n < N_CLAIM; n++)
		for (i = 0; i < BENCH_CLAIM_CASES && claims[n].cases[i].bench; i++)
			if (!strcmp(claims[n].cases[i].bench, bench))
				return true;
	return false;
}

static const struct bench_row *row_for(const struct bench_run *run,
				       const struct bench_claim *claim, size_t i)
{
	const char *bench = claim->cases[i].bench, *name = claim->cases[i].name;
	const struct bench_row *skipped = NULL;
	size_t at;

	for (at = 0; at < run->n; at++) {
		const struct bench_row *row = &run->rows[at];

		if (strcmp(row->bench, bench) != 0)
			continue;
		if (row->skipped)
			skipped = row;
		else if (!name || !strcmp(row->name, name))
			return row;
	}
	return skipped;
}

/* "53% less time", for a ratio of 0.47; "25% more frames" for one of 0.80. */
static void share_text(const struct bench_claim *claim, double ratio, char *text, size_t size)
{
	if (claim->kind == CLAIM_RATE)
		snprintf(text, size, "%.0f%% %s frames", fabs(1 / ratio - 1) * 100,
			 ratio <= 1 ? "more" : "fewer");
	else
		snprintf(text, size, "%.0f%% %s time", fabs(1 - ratio) * 100,
			 ratio <= 1 ? "less" : "more");
}

void bench_claim_text(const struct bench_run *run, const struct bench_claim *claim, size_t i,
		      char *text, size_t size)
{
	const struct bench_row *row = row_for(run, claim, i);
	char share[TEXT_MAX];

	if (!row || row->skipped) {
		snprintf(text, size, "not measured in this run: %s",
			 row ? row->skipped : "it was not among the cases");
		return;
	}
	if (claim->kind == CLAIM_TIME)
		bench_figure(row->value, row->unit, share);
	else if (claim->kind == CLAIM_SHARE)
		snprintf(share, sizeof(share), "%.1f%% to %.1f%%", row->peer_value, row->value);
	else
		share_text(claim, row->ratio, share, sizeof(share));
	if (bench_interval_known(&row->ratio_95))
		snprintf(text, size, "%s (ratio %.3f, 95%%: %.3f to %.3f): %s, %s", share,
			 row->ratio, row->ratio_95.low, row->ratio_95.high, row->bench,
			 row->name);
	else
		snprintf(text, size, "%s (ratio %.3f): %s, %s", share, row->ratio, row->bench,
			 row->name);
}

/* ---- showing ---- */

static void print_json(const struct bench_run *run, const struct bench_claim *claim)
{
	json_t *line =
		json_pack("{s:s, s:s}", "claim", claim->what, "published", claim->published);
	json_t *measured = json_array();
	size_t i;

	for (i = 0; i < BENCH_CLAIM_CASES && claim->cases[i].bench; i++) {
		const struct bench_row *row = row_for(run, claim, i);

		if (row && !row->skipped)
			json_array_append_new(measured, json_pack("{s:s, s:s, s:f}", "bench",
								  row->bench, "case", row->name,
								  "ratio", row->ratio));
	}
	if (!json_array_size(measured))
		json_object_set_new(line, "not_measured", json_string("not in this run"));
	json_object_set_new(line, "measured", measured);
	bench_print_json(line);
}

static void print_text(const char *text)
{
	char *shown = text_escape(text);

	printf("    ");
	text_wrap(shown, 4, 6, 80);
	free(shown);
}

static void print(const struct bench_run *run, const struct bench_claim *claim)
{
	char text[512];
	size_t i;

	printf("  %s: ", claim->published);
	text_wrap(claim->what, strlen(claim->published) + 4, 4, 80);
	for (i = 0; i < BENCH_CLAIM_CASES && claim->cases[i].bench; i++) {
		bench_claim_text(run, claim, i, text, sizeof(text));
		print_text(text);
	}
}

void bench_claims_print(const struct bench_run *run)
{
	size_t n;

	if (!output.json)
		puts("\nPublished of mapping against copying, on other machines; measured "
		     "here:");
	for (n = 0; n < N_CLAIM; n++) {
		if (output.json)
			print_json(run, &claims[n]);
		else
			print(run, &claims[n]);
	}
}
