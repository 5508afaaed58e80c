// SPDX-License-Identifier: MIT
/*
 * Advice: a sentence for an object that has something to gain, with its figures.
 * The cost of a fault is the one that was measured on this machine without a trace: a traced
 * fault takes longer. Waits for storage are the trace's own, as the trace adds little to
 * them. An object that would gain less than a part of the whole gets no advice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/text.h"
#include "perf/read/pieces.h"
#include "report.h"

#define PAGE 4096.0
/* Share of the traced time, and the least gain at all. */
#define GAIN_LEAST_SHARE 0.02
#define GAIN_LEAST_NS 1e6
/* Fewer pages than that of 2 MiB are no use as one huge page. */
#define DENSE_LEAST 0.5
#define FAULT_AROUND 16
#define HUGE_PAGES 512
/* Fewer that waited, or a smaller part of them, may have waited for a CPU. */
#define WAITS_LEAST 16
#define WAITS_OF 100
/* Memory is written if more than one in so many of the faults that are known was a write. */
#define WRITES_OF 10
/* Less than 4 MiB is a cache's. */
#define NODE_PAGES_LEAST 1024

static uint64_t faults_of(const struct counted *counted)
{
	return counted->minor + counted->major;
}

/* Bytes from the first page touched to the end of the last one. */
static double reach_of(const struct counted *counted)
{
	return (double)(counted->highest - counted->lowest) + PAGE;
}

/* By a file, which may be one of memory; the library's own are not told of as such. */
static bool is_backed(const struct counted *counted)
{
	return counted->object->kind == OBJECT_FILE || counted->object->backed_by;
}

static bool is_memory(const struct counted *counted)
{
	enum object_kind kind = counted->object->kind;

	return kind == OBJECT_ANON || kind == OBJECT_HEAP ||
	       (kind == OBJECT_HETMAP && counted->object->page_size == 4096);
}

int advice_add(struct report *report, struct advice *advice)
{
	struct advice *more =
		realloc(report->advice, (report->n_advice + 1) * sizeof(*report->advice));

	if (!more) {
		free(advice->text);
		free(advice->evidence);
		return -ENOMEM;
	}
	report->advice = more;
	more[report->n_advice++] = *advice;
	return 0;
}

static int add(struct report *report, const struct counted *of, double gain, bool at_most,
	       char *text, char *evidence)
{
	struct advice advice = {
		.of = of->object,
		.faults = faults_of(of),
		.text = text,
		.evidence = evidence,
		.gain_ns = gain,
		.at_most = at_most,
	};

	return advice_add(report, &advice);
}

static const char *order_of(const struct counted *counted)
{
	switch (counted->pattern) {
	case PATTERN_SEQUENTIAL:
		return counted->stride < 0 ? "sequential, backwards" : "sequential";
	case PATTERN_STRIDED:
		return "strided";
	case PATTERN_RANDOM:
		return "in no order";
	default:
		return "few";
	}
}

/* ---- storage ---- */

/* Enough for it to be storage that they waited for, and not for a CPU. */
static bool waited_for_storage(const struct counted *counted)
{
	return counted->waits >= WAITS_LEAST && counted->waits > counted->minor / WAITS_OF;
}

/*
 * When reading and computing overlap, the longer of the two is left. Computing takes the time
 * that was not waiting; the storage's rate alone gives the time of reading.
 */
static double gain_of_reading_ahead(const struct counted *counted, double span, double work,
				    double rate)
{
	double reading = rate > 0 ? reach_of(counted) / rate : 0;

	return span - (reading > work ? reading : work);
}

static int on_storage(struct report *report, const struct counted *counted,
		      const struct measures *measures)
{
	double span = (double)(counted->last_ns - counted->first_ns);
	double wait = (double)pattern_longest_wait(counted->streams), rate = 0, gain = -1;
	bool ordered = counted->pattern == PATTERN_SEQUENTIAL ||
		       counted->pattern == PATTERN_STRIDED;
	double work;
	char waits[TEXT_MAX], major[TEXT_MAX], each[TEXT_MAX], waited[TEXT_MAX];
	char between[TEXT_MAX], fast[TEXT_MAX], reads[TEXT_MAX + 40] = "";
	char *text, *evidence;

	/* Where it is not told when threads ran: others waited at the same time as this one. */
	if (report->analysis.has_stalls)
		wait = (double)counted->stalled_ns;
	work = span > wait ? span - wait : 0;
	if (!waited_for_storage(counted) || wait < GAIN_LEAST_NS ||
	    wait < GAIN_LEAST_SHARE * (double)report->duration_ns)
		return 0;
	if (ordered) {
		rate = measures->storage_rate(measures->user, counted->object);
		gain = gain_of_reading_ahead(counted, span, work, rate);
		/* Storage is the bottleneck, and reads all the time. */
		if (gain < GAIN_LEAST_NS ||
		    gain < GAIN_LEAST_SHARE * (double)report->duration_ns)
			return 0;
	}
	if (rate > 0)
		snprintf(reads, sizeof(reads), "; this storage reads %s, measured",
			 text_rate(rate * 1e9, fast));
	evidence = text_format(
		"%s faults, %s, waited for storage, %s each%s %s in all "
		"(major: %s; the others found reads under way); it computed for %s besides%s",
		text_count(counted->waits, waits), order_of(counted),
		text_seconds((double)counted->waits_ns / (double)counted->waits / 1e9, each),
		report->analysis.has_stalls ? ", and held the process up for" : " and a thread",
		text_seconds(wait / 1e9, waited), text_count(counted->major, major),
		text_seconds(work / 1e9, between), reads);
	text = ordered ?
		       text_format("read ahead of the use: hm_map_advise(HM_ADVICE_WILLNEED), "
				   "or madvise(MADV_WILLNEED) in steps of the device's "
				   "read-ahead, of a window of 16 to 64 MiB while the one "
				   "before it is worked on") :
		       text_format("announce the ranges of a batch, by hm_map_advise() or "
				   "madvise(MADV_WILLNEED) of each, before they are touched: "
				   "the reads are done at a time then");
	return add(report, counted, gain, rate <= 0, text, evidence);
}

/* ---- memory ---- */

/* Without a trace it can't have been more than with it. */
static double cost_of(const struct report *report, const struct counted *counted, double each)
{
	double cost = (double)counted->minor * each, traced = (double)counted->minor_ns;

	return report->analysis.has_latency && cost > traced ? traced : cost;
}

bool advice_is_gain(const struct report *report, double gain)
{
	return gain >= GAIN_LEAST_NS && gain >= GAIN_LEAST_SHARE * (double)report->duration_ns;
}

/*
 * Memory that is taken and given back faults anew each time: the cost of all but the first in
 * each place.
 */
static double gain_of_keeping(const struct report *report, const struct counted *pieces,
			      double *ret_now)
{
	const struct costs *costs = &report->costs;
	bool huge = llabs(pieces->stride) == HUGE_PAGES && costs->anon_huge > 0;

	*ret_now = cost_of(report, pieces,
			   huge ? HUGE_PAGES * costs->anon_huge : costs->anon_fault);
	return costs->anon_fault > 0 ?
		       *ret_now * (double)pieces->again / (double)pieces->taken :
		       0;
}

static int advise_keeping(struct report *report, const struct counted *of,
			  const struct counted *pieces)
{
	char taken[TEXT_MAX], again[TEXT_MAX], size[TEXT_MAX], minor[TEXT_MAX];
	char cost[TEXT_MAX], all[TEXT_MAX];
	double now, gain = gain_of_keeping(report, pieces, &now);

	return add(
		report, of, gain, false,
		of->object->kind == OBJECT_HETMAP ?
			text_format("keep the buffer and use it again, in place of a new one "
				    "each time") :
			text_format("keep the memory and use it again, in place of giving it "
				    "back each time; malloc(3) keeps it with mallopt(3), "
				    "M_MMAP_MAX 0 and M_TRIM_THRESHOLD above its size"),
		text_format("%s of %s pieces of %s, touched by the same code, were taken where "
			    "another one had been given back: of %s faults one costs %s here, "
			    "measured, which is %s in all",
			    text_count(pieces->again, again), text_count(pieces->taken, taken),
			    text_bytes(of->object->length, size),
			    text_count(pieces->minor, minor),
			    text_seconds(now / (double)pieces->minor / 1e9, cost),
			    text_seconds(now / 1e9, all)));
}

/* The cost of a page that comes with more; 0: it is not known, or of little use. */
static double cost_with_others(const struct report *report, const struct counted *counted,
			       bool *ret_huge)
{
	const struct costs *costs = &report->costs;
	double dense =
		(double)counted->minor * PAGE / (reach_of(counted) * (double)counted->taken);
	double best = costs->anon_populate;

	*ret_huge = false;
	/* A mapping is populated whole: of little use where little is touched. */
	if (counted->pattern == PATTERN_FEW || costs->anon_fault <= 0 || dense < DENSE_LEAST)
		return 0;
	/* The library asks for huge pages for its own memory already. */
	*ret_huge = counted->object->kind != OBJECT_HETMAP && reach_of(counted) >= 4 << 20 &&
		    costs->anon_huge > 0 && (best <= 0 || costs->anon_huge < best);
	return *ret_huge ? costs->anon_huge : best > 0 ? best : 0;
}

/* @counted has the numbers of all pieces that are like those of the row @of. */
static int on_memory(struct report *report, const struct counted *of,
		     const struct counted *counted)
{
	double n = (double)counted->minor;
	double now = cost_of(report, counted, report->costs.anon_fault);
	char minor[TEXT_MAX], cost[TEXT_MAX], all[TEXT_MAX], other[TEXT_MAX];
	char pieces[TEXT_MAX], several[96] = "";
	bool huge;
	double best = cost_with_others(report, counted, &huge), kept_now;
	double gain = best > 0 ? now - n * best : 0;
	double kept = gain_of_keeping(report, counted, &kept_now);

	if (!advice_is_gain(report, kept > gain ? kept : gain))
		return 0;
	if (kept >= gain)
		return advise_keeping(report, of, counted);
	if (counted->taken > 1)
		snprintf(several, sizeof(several), "%s such pieces, touched by the same code: ",
			 text_count(counted->taken, pieces));
	return add(
		report, of, gain, false,
		huge ? text_format(
			       "use pages of 2 MiB: madvise(MADV_HUGEPAGE) on memory that is "
			       "aligned to them; where they can't be had, bring it in by one "
			       "call, madvise(MADV_POPULATE_WRITE)") :
		       text_format("bring it in by one call: hm_map_prefetch(), or "
				   "madvise(MADV_POPULATE_WRITE)"),
		text_format("%s%s faults of 4 KiB, %s: one costs %s here, measured, which is "
			    "%s in all; a page costs %s %s",
			    several, text_count(counted->minor, minor), order_of(counted),
			    text_seconds(now / n / 1e9, cost), text_seconds(now / 1e9, all),
			    text_seconds(best / 1e9, other),
			    huge ? "as a part of a huge one" : "where one call brings it"));
}

/* ---- a file whose pages are in memory ---- */

/*
 * Mapping present pages in does not help writes: private memory gets copies, a new file in
 * memory has no pages yet, and a page with a hole behind it must be made. If most faults have
 * no direction, the memory's rights decide.
 */
static bool is_written(const struct counted *counted)
{
	uint64_t known = counted->reads + counted->writes;

	if (known && known >= faults_of(counted) / 2)
		return counted->writes > known / WRITES_OF;
	return counted->object->writable;
}

static int on_file(struct report *report, const struct counted *counted)
{
	const struct costs *costs = &report->costs;
	double n = (double)counted->minor, now = cost_of(report, counted, costs->file_fault);
	double pages = n * (counted->pattern == PATTERN_SEQUENTIAL ? FAULT_AROUND : 1);
	char minor[TEXT_MAX], cost[TEXT_MAX], all[TEXT_MAX], other[TEXT_MAX];
	double gain;

	if (counted->pattern != PATTERN_SEQUENTIAL || is_written(counted) ||
	    costs->file_fault <= 0 || costs->file_populate <= 0)
		return 0;
	if (pages > reach_of(counted) / PAGE)
		pages = reach_of(counted) / PAGE;
	gain = now - pages * costs->file_populate;
	if (!advice_is_gain(report, gain))
		return 0;
	return add(report, counted, gain, false,
		   text_format("map it in by one call: hm_map_prefetch(), HM_MAP_POPULATE, or "
			       "madvise(MADV_POPULATE_READ), a window at a time"),
		   text_format("%s faults on pages that were in memory, %s: one costs %s here, "
			       "measured, which is %s in all; a page costs %s where one call "
			       "maps it",
			       text_count(counted->minor, minor), order_of(counted),
			       text_seconds(now / n / 1e9, cost), text_seconds(now / 1e9, all),
			       text_seconds(costs->file_populate / 1e9, other)));
}

/* ---- another node's memory ---- */

/*
 * The cost counts one pass: the trace can't tell how often memory is read after its faults.
 * Pages of files stay on the node of their first reader.
 */
static int on_node(struct report *report, const struct counted *counted,
		   const struct measures *measures)
{
	const struct analysis *analysis = &report->analysis;
	char most[TEXT_MAX], all[TEXT_MAX], far[TEXT_MAX], near[TEXT_MAX], costs[96] = "";
	double remote, local;
	struct node_use use;

	report_node_use(analysis, counted, &use);
	if (!is_memory(counted) || use.most < NODE_PAGES_LEAST || use.remote < use.local ||
	    !nodes_has_memory(&analysis->nodes, use.cpu_node))
		return 0;
	remote = measures->node_cost(measures->user, use.cpu_node, use.memory_node);
	local = measures->node_cost(measures->user, use.cpu_node, use.cpu_node);
	if (remote > 0 && local > 0)
		snprintf(costs, sizeof(costs),
			 "; 4 KiB cost %s there and %s of its own here, measured",
			 text_seconds(remote / 1e9, far), text_seconds(local / 1e9, near));
	return add(report, counted, -1, false,
		   text_format("let those threads touch it first that use it, or place it: "
			       "hm_buffer_desc.numa_nodes, mbind(2), or numactl "
			       "--membind=%" PRIu32,
			       use.cpu_node),
		   text_format("%s of %s pages are memory of NUMA node %" PRIu32
			       ", touched by CPUs of node %" PRIu32 "%s",
			       text_count(use.most, most),
			       text_count(use.local + use.remote, all), use.memory_node,
			       use.cpu_node, costs));
}

static int by_gain(const void *a, const void *b)
{
	const struct advice *x = a, *y = b;

	if (x->gain_ns != y->gain_ns)
		return x->gain_ns < y->gain_ns ? 1 : -1;
	return x->faults < y->faults ? 1 : -1;
}

static void sort(struct report *report)
{
	if (report->n_advice)
		qsort(report->advice, report->n_advice, sizeof(*report->advice), by_gain);
}

const char *advice_unknown(const struct report *report)
{
	bool costs = report->costs.anon_fault > 0, latency = report->analysis.has_latency;

	if (!report->analysis.faults)
		return "There is no advice: the trace has no page faults.";
	if (report->analysis.share == RECORDED_SAMPLES)
		return "Gains are not known, as not each fault was recorded: hetmap trace "
		       "records each, and perf record -c 1.";
	if (report->analysis.share == RECORDED_UNTOLD)
		return "Gains are not known, as the text does not tell whether each fault was "
		       "recorded: perf script -F with period does.";
	if (costs && latency)
		return NULL;
	if (costs)
		return "The gain of reading ahead is not known, as the duration of faults was "
		       "not recorded: hetmap trace without --no-latency records it.";
	return latency ? "The gain of fewer faults is not known, as their cost on that "
			 "machine was not measured: hetmap trace measures it." :
			 "Gains are not known, as neither the duration of faults nor their "
			 "cost on that machine was recorded: hetmap trace records both.";
}

/* The sums of each kind of pieces, by its number. NULL: no memory. */
static struct counted *sum_pieces(const struct analysis *analysis)
{
	struct counted *kinds = calloc(analysis->n_kind + 1, sizeof(*kinds));
	uint32_t i;

	for (i = 0; kinds && i < analysis->n_counted; i++) {
		const struct counted *counted = analysis->counted[i];
		struct counted *sum = &kinds[counted->piece_kind];

		if (!counted->piece_kind)
			continue;
		if (sum->object)
			pieces_sum(sum, counted);
		else
			*sum = *counted;
	}
	return kinds;
}

/* Pieces of one kind are advised together, where the first of them is met: it has most. */
static int on_memory_or_pieces(struct report *report, const struct counted *counted,
			       struct counted *kinds)
{
	struct counted *sum = &kinds[counted->piece_kind];
	int r;

	if (!counted->piece_kind)
		return on_memory(report, counted, counted);
	if (!sum->object)
		return 0;
	r = on_memory(report, counted, sum);
	sum->object = NULL;
	return r;
}

int advice_find(struct report *report, const struct measures *measures)
{
	const struct counted *counted;
	struct counted *kinds;
	uint32_t i, before;
	int r = 0;

	/* Ranges are counted by the library, however the faults were recorded. */
	r = advice_on_ranges(report, measures);
	if (r)
		return r;
	/* The rest needs the number and the order of all faults. */
	kinds = report->analysis.share == RECORDED_EACH ? sum_pieces(&report->analysis) : NULL;
	if (!kinds) {
		sort(report);
		return report->analysis.share == RECORDED_EACH ? -ENOMEM : 0;
	}
	for (i = 0; i < report->analysis.n_counted && !r; i++) {
		counted = report->analysis.counted[i];
		r = on_node(report, counted, measures);
		if (r)
			break;
		before = report->n_advice;
		r = on_storage(report, counted, measures);
		if (r || report->n_advice != before)
			continue;
		if (is_backed(counted))
			r = on_file(report, counted);
		else if (is_memory(counted))
			r = on_memory_or_pieces(report, counted, kinds);
	}
	free(kinds);
	sort(report);
	return r;
}
