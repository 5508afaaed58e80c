// SPDX-License-Identifier: MIT
/*
 * A schedule as a picture: nodes from left to right in their order; lanes for the bytes that nodes
 * use, and for those that come and go; below, the arena, with a box for each stay of a range.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "picture.h"

#define LEFT 90.0
#define WIDTH 1080.0
#define COMPUTE_TOP 70.0
#define COMPUTE_HEIGHT 70.0
#define COPY_MIDDLE 235.0
#define COPY_HEIGHT 65.0
#define ARENA_TOP 335.0
#define ARENA_HEIGHT 420.0

static const char style[] =
	"<style>\n"
	"svg{background:#fff;font:13px system-ui,sans-serif;fill:#222}\n"
	".node{fill:#5b6b7b}.in{fill:#1f77b4}.out{fill:#d9731a}\n"
	".home{fill:#7fb2dd}.temporary{fill:#b7d8a8}\n"
	".box{stroke:#fff;stroke-width:.3}.line{stroke:#999;stroke-width:1;fill:none}\n"
	".title{font-size:16px;font-weight:600}.small{font-size:11px}.end{text-anchor:end}\n"
	"@media(prefers-color-scheme:dark){svg{background:#16191d;fill:#ddd}\n"
	".node{fill:#9fb0c0}.in{fill:#5aa9e6}.out{fill:#f0954a}.home{fill:#3f78a8}\n"
	".temporary{fill:#5d8a4c}.box{stroke:#16191d}.line{stroke:#666}}\n"
	"</style>\n";

/* One stay of a range at one place. */
struct stay {
	uint64_t offset; /* NOWHERE: none */
	uint32_t from, to;
};

static double x_of(const struct hm_schedule *schedule, uint32_t at)
{
	return LEFT + WIDTH * at / schedule->plan.n_node;
}

static void put_name(FILE *out, const char *name)
{
	for (; *name; name++) {
		if (*name == '<')
			fputs("&lt;", out);
		else if (*name == '&')
			fputs("&amp;", out);
		else
			fputc((unsigned char)*name < ' ' ? '?' : *name, out);
	}
}

static const char *text_of(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double n = (double)bytes;
	int i = 0;

	for (; n >= 1024 && i < 4; i++)
		n /= 1024;
	snprintf(text, 32, i && n < 100 ? "%.1f %s" : "%.0f %s", n, units[i]);
	return text;
}

/* ---- lanes ---- */

static void bar(FILE *out, const struct hm_schedule *schedule, const char *kind, uint32_t at,
		double top, double height)
{
	double width = WIDTH / schedule->plan.n_node;

	if (height > 0)
		fprintf(out,
			"<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
			"height=\"%.2f\"/>\n",
			kind, x_of(schedule, at), top, width < 1 ? 1 : width * 0.9, height);
}

/* Bytes of each position: of nodes' ranges, in and out. */
struct sums {
	uint64_t *node, *in, *out, most_node, most_copy;
};

static int add_up(const struct hm_schedule *schedule, struct sums *sums)
{
	const struct uses *uses = &schedule->uses;
	uint32_t n = schedule->plan.n_node, i, k;

	*sums = (struct sums){ calloc(n, sizeof(uint64_t)), calloc(n, sizeof(uint64_t)),
			       calloc(n, sizeof(uint64_t)), 1, 1 };
	if (!sums->node || !sums->in || !sums->out)
		return -ENOMEM;
	for (i = 0; i < schedule->steps.n_step; i++) {
		const struct step *step = &schedule->steps.step[i];
		uint64_t length = schedule->plan.range[step->range].length;

		if (step->kind == HM_PLAN_STEP_IN)
			sums->in[step->at] += length;
		else if (step->kind == HM_PLAN_STEP_OUT)
			sums->out[step->at] += length;
	}
	for (i = 0; i < n; i++) {
		for (k = uses->node_first[i]; k < uses->node_first[i + 1]; k++)
			sums->node[i] += schedule->plan.range[uses->node_root[k]].length;
		if (sums->node[i] > sums->most_node)
			sums->most_node = sums->node[i];
		if (sums->in[i] > sums->most_copy)
			sums->most_copy = sums->in[i];
		if (sums->out[i] > sums->most_copy)
			sums->most_copy = sums->out[i];
	}
	return 0;
}

static int draw_lanes(FILE *out, const struct hm_schedule *schedule)
{
	struct sums sums;
	char text[32];
	uint32_t i;
	int r = add_up(schedule, &sums);

	for (i = 0; !r && i < schedule->plan.n_node; i++) {
		double node = COMPUTE_HEIGHT * (double)sums.node[i] / (double)sums.most_node;
		double in = COPY_HEIGHT * (double)sums.in[i] / (double)sums.most_copy;
		double back = COPY_HEIGHT * (double)sums.out[i] / (double)sums.most_copy;

		bar(out, schedule, "node", i, COMPUTE_TOP + COMPUTE_HEIGHT - node, node);
		bar(out, schedule, "in", i, COPY_MIDDLE - in, in);
		bar(out, schedule, "out", i, COPY_MIDDLE, back);
	}
	if (!r) {
		fprintf(out, "<text x=\"82\" y=\"110\" class=\"end\">compute</text>\n");
		fprintf(out, "<text x=\"82\" y=\"126\" class=\"small end\">to %s</text>\n",
			text_of(sums.most_node, text));
		fprintf(out, "<text x=\"82\" y=\"215\" class=\"end\">in</text>\n");
		fprintf(out, "<text x=\"82\" y=\"231\" class=\"small end\">to %s</text>\n",
			text_of(sums.most_copy, text));
		fprintf(out, "<text x=\"82\" y=\"260\" class=\"end\">out</text>\n");
		fprintf(out, "<path class=\"line\" d=\"M%.0f %.0fh%.0f\"/>\n", LEFT,
			COPY_MIDDLE, WIDTH);
	}
	free(sums.node);
	free(sums.in);
	free(sums.out);
	return r;
}

/* ---- the arena ---- */

static void end_stay(FILE *out, const struct hm_schedule *schedule, uint32_t i,
		     struct stay *stay)
{
	const struct range *range = &schedule->plan.range[i];
	double peak = (double)schedule->steps.peak;
	double x = x_of(schedule, stay->from), end = x_of(schedule, stay->to + 1);
	char text[32];

	if (stay->offset == NOWHERE)
		return;
	fprintf(out,
		"<rect class=\"box %s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">"
		"<title>",
		range->home ? "home" : "temporary", x,
		ARENA_TOP + ARENA_HEIGHT * (double)stay->offset / peak, end - x,
		ARENA_HEIGHT * (double)schedule->size[i] / peak);
	put_name(out, range->name);
	fprintf(out, ", %s</title></rect>\n", text_of(range->length, text));
	stay->offset = NOWHERE;
}

static void begin_stay(FILE *out, const struct hm_schedule *schedule, uint32_t i,
		       struct stay *stay, uint64_t offset, uint32_t at)
{
	end_stay(out, schedule, i, stay);
	*stay = (struct stay){ offset, at, at };
}

static int draw_arena(FILE *out, const struct hm_schedule *schedule)
{
	const struct uses *uses = &schedule->uses;
	struct stay *stay = calloc(schedule->plan.n_range + 1, sizeof(*stay));
	uint32_t i, k;

	if (!stay)
		return -ENOMEM;
	for (i = 0; i < schedule->plan.n_range; i++)
		stay[i].offset = NOWHERE;
	for (i = 0; i < schedule->steps.n_step; i++) {
		const struct step *step = &schedule->steps.step[i];
		struct stay *own = &stay[step->range];

		if (step->kind == HM_PLAN_STEP_IN || step->kind == HM_PLAN_STEP_MOVE) {
			begin_stay(out, schedule, step->range, own, step->offset, step->at);
		} else if (step->kind == HM_PLAN_STEP_OUT) {
			own->to = step->at;
		} else {
			for (k = uses->node_first[step->at]; k < uses->node_first[step->at + 1];
			     k++) {
				uint32_t root = uses->node_root[k];
				uint64_t place =
					schedule->steps.place[step->place + k -
							      uses->node_first[step->at]];

				if (place != stay[root].offset)
					begin_stay(out, schedule, root, &stay[root], place,
						   step->at);
				stay[root].to = step->at;
			}
		}
	}
	for (i = 0; i < schedule->plan.n_range; i++)
		end_stay(out, schedule, i, &stay[i]);
	free(stay);
	return 0;
}

int picture_draw(FILE *out, const struct hm_schedule *schedule)
{
	const struct steps *steps = &schedule->steps;
	char in[32], back[32], peak[32];
	uint64_t together = 0;
	uint32_t i;
	int r;

	fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 800\" width=\"1200\" "
	      "height=\"800\">\n",
	      out);
	fputs("<!-- SPDX-License-Identifier: MIT -->\n", out);
	fputs(style, out);
	fprintf(out, "<text x=\"%.0f\" y=\"30\" class=\"title\">%u nodes</text>\n", LEFT,
		schedule->plan.n_node);
	fprintf(out,
		"<text x=\"%.0f\" y=\"50\">%s come in, %s go out; the arena has %s, and all ranges "
		"together",
		LEFT, text_of(steps->bytes_in, in), text_of(steps->bytes_out, back),
		text_of(steps->peak, peak));
	for (i = 0; i < schedule->plan.n_range; i++)
		together += schedule->size[i];
	fprintf(out, " %s</text>\n", text_of(together, in));
	r = draw_lanes(out, schedule);
	if (r)
		return r;
	fprintf(out, "<text x=\"82\" y=\"%.0f\" class=\"end\">memory</text>\n", ARENA_TOP + 20);
	fprintf(out, "<text x=\"82\" y=\"%.0f\" class=\"small end\">%s</text>\n",
		ARENA_TOP + 36, peak);
	fprintf(out,
		"<rect class=\"line\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\"/>\n",
		LEFT, ARENA_TOP, WIDTH, ARENA_HEIGHT);
	if (steps->peak)
		r = draw_arena(out, schedule);
	fputs("<rect class=\"home\" x=\"90\" y=\"770\" width=\"14\" height=\"14\"/>"
	      "<text x=\"110\" y=\"782\">with a home: inputs, outputs, weights</text>\n"
	      "<rect class=\"temporary\" x=\"380\" y=\"770\" width=\"14\" height=\"14\"/>"
	      "<text x=\"400\" y=\"782\">temporary</text>\n"
	      "<text x=\"1170\" y=\"782\" class=\"end\">nodes in their order</text>\n</svg>\n",
	      out);
	return r;
}
