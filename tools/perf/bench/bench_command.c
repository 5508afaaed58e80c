// SPDX-License-Identifier: MIT
/* hetmap bench: options, a run of the wanted cases, and its output. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_list.h"
#include "bench_options.h"
#include "bench_report.h"
#include "common/command.h"
#include "common/extension.h"
#include "common/machine.h"
#include "common/text.h"
#include "peer.h"

enum {
	OPTION_JSON,
	OPTION_VERBOSE,
	OPTION_LIST,
	OPTION_SHOW_PEER,
	OPTION_ROUNDS,
	OPTION_SHORT,
	OPTION_SEED,
	OPTION_WITH,
	OPTION_COMPARE,
	OPTION_HTML,
	OPTION_CLAIMS,
	OPTION_MARKDOWN,
	OPTION_FAULT_READ,
	OPTION_FAULT_WRITE,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_JSON] = OPTION_ROW_JSON("one JSON object a line"),
	[OPTION_VERBOSE] = { 'v', "verbose", NULL, "95% intervals, and the peer's p99" },
	[OPTION_LIST] = { 0, "list", NULL, "list the cases, measure nothing" },
	[OPTION_SHOW_PEER] = { 0, "show-peer", NULL,
			       "print the code compared with, measure nothing" },
	[OPTION_ROUNDS] = { 0, "rounds", "N", "samples of each side (default: by case)" },
	[OPTION_SHORT] = { 0, "short", NULL,
			   "only check that the cases work: figures mean nothing" },
	[OPTION_SEED] = { 0, "seed", "N", "seed of the intervals of ratios (default: 1)" },
	[OPTION_WITH] = { 0, "with", "FILE",
			  "measure nothing: take the results of --json in FILE" },
	[OPTION_COMPARE] = { 0, "compare", "FILE",
			     "show cases that are faster or slower than in FILE" },
	[OPTION_HTML] = { 0, "html", "FILE", "write a page with plots to FILE" },
	[OPTION_CLAIMS] = { 0, "claims", NULL,
			    "show published figures beside those of this machine" },
	[OPTION_MARKDOWN] = { 0, "markdown", NULL,
			      "print a page of Markdown instead of a table" },
	[OPTION_FAULT_READ] = { 0, "fault-read", "BYTES",
				"no case: read new memory, a page at a time, and print\n"
				"the ns that took; trace_overhead traces this" },
	[OPTION_FAULT_WRITE] = { 0, "fault-write", "BYTES", "the same, written" },
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct bench_options bench_options = { .seed = 1 };

/* Cases of bench_list. */
static bool selected[BENCH_MOST];

static void usage(void)
{
	puts("Usage: hetmap bench [OPTION]... [CASE]...\n"
	     "\n"
	     "Measures the library against bare system calls and bare OpenCL, in turns in one\n"
	     "process. The ratio is our time over the peer's: lower is better. A target that\n"
	     "is missed is no failure of the command; other load on the machine shows.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap bench                     all cases, a quarter of an hour\n"
	     "  hetmap bench map_cycle --json\n"
	     "  hetmap bench --show-peer pointer_find\n"
	     "  hetmap bench --json >old.json    and after a change:\n"
	     "  hetmap bench --compare old.json\n"
	     "  hetmap bench --with old.json --html old.html\n"
	     "\n"
	     "See also hetmap-bench(1).");
}

/* ---- measuring ---- */

static bool is_selected(const char *name)
{
	const struct bench *bench = bench_find(name);

	return bench && selected[bench - bench_list];
}

/* The package that has the program of an extension. */
static const char *package_of(const char *extension)
{
	size_t i;

	for (i = 0; extension_at(i); i++)
		if (!strcmp(extension_at(i)->name, extension))
			return extension_at(i)->package;
	return extension;
}

static void list_elsewhere(void)
{
	const struct bench_elsewhere *other;
	const char *headed = "";
	size_t i;

	for (i = 0; (other = bench_elsewhere_at(i)); i++) {
		if (bench_find(other->name))
			continue;
		if (strcmp(headed, other->extension) != 0)
			printf("\nOf the package %s, by their names only:\n",
			       package_of(other->extension));
		headed = other->extension;
		printf("%-17s%s\n", other->name, other->summary);
	}
}

/* Lists, or shows peers: measures nothing. @all: also names the cases of extensions. */
static int show(bool list, bool peers, bool all)
{
	size_t i;

	for (i = 0; i < bench_list_n; i++) {
		if (selected[i] && list)
			printf("%-17s%s\n", bench_list[i].name, bench_list[i].summary);
		if (selected[i] && peers)
			bench_show_peer(&bench_list[i]);
	}
	if (list && all)
		list_elsewhere();
	return STATUS_DONE;
}

/* Prints a run that was read, as measuring it would have. */
static void tell_again(const struct bench_run *run)
{
	size_t i;

	bench_tell_machine(run);
	for (i = 0; i < run->n; i++)
		bench_tell_row(&run->rows[i]);
}

/* ---- output of a run ---- */

struct work {
	struct bench_run old; /* the run of --compare */
	struct bench_run run;
	FILE *html;
	bool rewritten; /* it is a file, which can have the cases so far */
	char *html_shown;
};

/* Tries everything that may fail before minutes of measuring: reads and opens files. */
static int prepare(struct work *work, bool any)
{
	const struct bench_options *o = &bench_options;
	int status = STATUS_DONE, error;
	struct stat st;

	if (o->compare)
		status = bench_load(o->compare, &work->old);
	if (!status && o->with)
		status = bench_load(o->with, &work->run);
	if (status)
		return status;
	if (any) {
		bench_run_select(&work->old, is_selected);
		bench_run_select(&work->run, is_selected);
	}
	if (!o->html)
		return STATUS_DONE;
	work->html_shown = text_escape(o->html);
	work->html = fopen(o->html, "we");
	if (work->html) {
		work->rewritten = !fstat(fileno(work->html), &st) && S_ISREG(st.st_mode);
		return STATUS_DONE;
	}
	error = errno;
	status = error == EACCES || error == EROFS ? STATUS_ENVIRONMENT : STATUS_USAGE;
	return fail(status, error, NULL, "bench: cannot write '%s': %s", work->html_shown,
		    strerror(error));
}

/* Replaces the page that is there. */
static int write_html(const struct work *work)
{
	int fd = fileno(work->html);

	if (work->rewritten)
		rewind(work->html);
	bench_html(&work->run, work->html);
	if (!fflush(work->html) && !ferror(work->html) &&
	    (!work->rewritten || !ftruncate(fd, lseek(fd, 0, SEEK_CUR))))
		return STATUS_DONE;
	return fail(STATUS_ENVIRONMENT, errno, NULL, "bench: cannot write '%s': %s",
		    work->html_shown, strerror(errno));
}

/*
 * A case ends at once by Ctrl-C: one sample of some takes ten seconds. The output and the page
 * have the cases up to then, and keepers undo its changes.
 */
static int measure(struct work *work)
{
	struct bench_run *run = &work->run;
	int status = STATUS_DONE, r;
	size_t i;

	run->machine = machine_json();
	bench_tell_machine(run);
	for (i = 0; i < bench_list_n; i++) {
		if (!selected[i])
			continue;
		if (work->rewritten && write_html(work))
			return STATUS_ENVIRONMENT;
		bench_report_begin(run, bench_list[i].name);
		signals_end_at_once(true);
		r = bench_list[i].run();
		signals_end_at_once(false);
		if (r)
			status = STATUS_ENVIRONMENT;
		if (signals_pending())
			return 128 + signals_pending();
		/* Nobody reads on: minutes of measuring would be for nothing. */
		if (!output_flush())
			break;
	}
	return status;
}

/* The run is there, or its cases are measured; then all that was asked for is made. */
static int make(struct work *work)
{
	const struct bench_options *o = &bench_options;
	int status = STATUS_DONE, r;

	if (!o->with)
		status = measure(work);
	else if (!o->compare && !o->html && !o->claims && !o->markdown)
		tell_again(&work->run);
	if (work->html) {
		r = write_html(work);
		status = status ? status : r;
	}
	if (status >= 128)
		return status;
	if (o->compare)
		bench_compare_runs(&work->old, &work->run, o->compare);
	if (o->markdown)
		bench_markdown(&work->run, o->with);
	else if (o->claims)
		bench_claims_print(&work->run);
	return status;
}

static int run(bool any)
{
	struct work work = { 0 };
	int status = prepare(&work, any);

	if (!status)
		status = make(&work);
	if (work.html)
		fclose(work.html);
	free(work.html_shown);
	bench_run_free(&work.old);
	bench_run_free(&work.run);
	return status;
}

/* The options beside bench_options. */
struct wish {
	char **argv;
	bool any; /* a case was named */
	bool list, peers;
	int faulting; /* the option with @bytes; OPTION_END: none */
	const char *bytes;
};

/* The program of trace_overhead. */
static int fault(const struct wish *wish)
{
	const struct option_state state = { .command = "bench",
					    .rows = rows,
					    .value = wish->bytes };
	const int option = wish->faulting;
	static const char fewer[] = "name fewer bytes, as in --fault-write 1G";
	char size[TEXT_MAX];
	uint64_t bytes;
	double ns;
	int r;

	if (option_bytes(wish->bytes, &bytes) || !bytes)
		return option_refuse(&state, option, "a number of bytes");
	/* Reads all map the one page of zeros: they take page tables only. */
	r = machine_check_memory(option == OPTION_FAULT_WRITE ? bytes : bytes / KIB(4) * 8,
				 fewer);
	if (r)
		return r;
	r = peer_fault(bytes, option == OPTION_FAULT_WRITE, &ns);
	if (r == -EINTR)
		return 128 + signals_pending();
	if (r)
		return fail(STATUS_ENVIRONMENT, r, fewer,
			    "bench: no address space for %s to fault on: %s",
			    text_bytes(bytes, size), strerror(-r));
	printf("%.0f\n", ns);
	return STATUS_DONE;
}

/* ---- options ---- */

static int take_option(const struct option_state *state, int option, void *user)
{
	struct bench_options *o = &bench_options;
	struct wish *wish = user;
	uint64_t number;
	int status = 0;

	switch (option) {
	case OPTION_VERBOSE:
		o->verbose = true;
		break;
	case OPTION_LIST:
		wish->list = true;
		break;
	case OPTION_SHOW_PEER:
		wish->peers = true;
		break;
	case OPTION_ROUNDS:
		status = option_take_number(state, option, 1, 1000000,
					    "a number from 1 to 1000000", &number);
		if (!status)
			o->rounds = (unsigned int)number;
		break;
	case OPTION_SHORT:
		o->small = true;
		break;
	case OPTION_SEED:
		status = option_take_number(state, option, 0, UINT32_MAX,
					    "a number from 0 to 4294967295", &o->seed);
		break;
	case OPTION_WITH:
		o->with = state->value;
		break;
	case OPTION_COMPARE:
		o->compare = state->value;
		break;
	case OPTION_HTML:
		o->html = state->value;
		break;
	case OPTION_CLAIMS:
		o->claims = true;
		break;
	case OPTION_MARKDOWN:
		o->markdown = true;
		break;
	default:
		wish->faulting = option;
		wish->bytes = state->value;
		break;
	}
	return status;
}

/* Cases of an extension: its program has the same options, and measures those alone. */
static int run_elsewhere(const struct bench_elsewhere *other, const struct wish *wish)
{
	char *what;
	int status;

	if (wish->any)
		return fail(STATUS_USAGE, EINVAL, "name one kind of cases at a time",
			    "bench: %s is a case of %s, which has none of the others",
			    other->name, package_of(other->extension));
	what = text_format("bench: the case %s", other->name);
	status = extension_run(other->extension, what, wish->argv);
	free(what);
	return status;
}

static int take_case(const struct option_state *state, void *user)
{
	const struct bench_elsewhere *other = bench_elsewhere_find(state->value);
	const struct bench *bench = bench_find(state->value);
	struct wish *wish = user;

	if (other)
		return run_elsewhere(other, wish);
	if (!bench)
		return bench_refuse(state->value);
	selected[bench - bench_list] = wish->any = true;
	return 0;
}

/* For claims without named cases: the cases that measure the claims. */
static void select_cases(bool any)
{
	bool claimed = bench_options.claims && !bench_options.html && !bench_options.compare &&
		       !bench_options.markdown;
	size_t i;

	for (i = 0; i < bench_list_n && !any; i++)
		selected[i] = !claimed || bench_claimed(bench_list[i].name);
}

int bench_main_of(const struct bench *own, size_t n, int argc, char **argv)
{
	static const struct option_table table = {
		.command = "bench",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_case,
	};
	struct wish wish = { .argv = argv, .faulting = OPTION_END };
	int status;

	bench_list = own;
	bench_list_n = n;
	/*
	 * One case takes the device away, one brings 2 GiB into it; the user's own settings go
	 * first.
	 */
	setenv("HETMAP_SOFT", "test=1 vram_mb=3072", 0);
	if (!option_walk(&table, argc, argv, &wish, &status))
		return status;
	if (wish.faulting != OPTION_END) {
		if (wish.any || wish.list || wish.peers || output.json)
			return fail(STATUS_USAGE, EINVAL, NULL,
				    "bench: --%s goes with no case, no list and no --json",
				    rows[wish.faulting].name);
		return fault(&wish);
	}
	if (output.json && bench_options.markdown)
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "bench: --json and --markdown: one of them");
	if (output.json && (wish.list || wish.peers))
		return fail(STATUS_USAGE, EINVAL, NULL, "bench: a list is no JSON");
	select_cases(wish.any);
	return wish.list || wish.peers ? show(wish.list, wish.peers, !wish.any) : run(wish.any);
}
