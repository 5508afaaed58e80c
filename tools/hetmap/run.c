// SPDX-License-Identifier: MIT
/* hetmap run: options of the jobs, and which job it is. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/extension.h"
#include "common/text.h"
#include "job.h"
#include "policy.h"
#include "run_pointer.h"
#include "run_tokens.h"
#include "subcommands.h"

#define HISTOGRAM (1u << 0)
#define SAXPY (1u << 1)
#define LOAD (1u << 2)
#define TOKENS (1u << 3)

/* Room for the names of extensions, and an end. */
#define EXTENSIONS_MOST 8

static const struct run_job {
	const char *name;
	unsigned int bit;
	int (*run)(const struct job_options *options);
	const char *needs; /* name of its file argument; NULL: it needs none */
	const char *example;
	unsigned int files; /* that it takes at most */
} jobs[] = {
	{ "histogram", HISTOGRAM, run_histogram, NULL, "hetmap run histogram -- FILE", 1 },
	{ "load", LOAD, run_load, "model", "hetmap run load model.safetensors", 1 },
	{ "saxpy", SAXPY, run_saxpy, NULL, "hetmap run saxpy --size 256M", 0 },
	{ "tokens", TOKENS, run_tokens, "file", "hetmap run tokens train.bin", UINT_MAX },
	{ 0 },
};

enum {
	OPTION_DEVICE,
	OPTION_ACCEL,
	OPTION_SIZE,
	OPTION_WINDOW,
	OPTION_AHEAD,
	OPTION_ROUNDS,
	OPTION_POINTER,
	OPTION_ADVISE,
	OPTION_PREFETCH,
	OPTION_UNPLUG,
	OPTION_DTYPE,
	OPTION_OFFSET,
	OPTION_BYTE_ORDER,
	OPTION_VOCAB,
	OPTION_TO,
	OPTION_ORDER,
	OPTION_BLOCK,
	OPTION_BATCH,
	OPTION_BATCHES,
	OPTION_SEED,
	OPTION_BUDGET,
	OPTION_READ,
	OPTION_RAMP,
	OPTION_DOCUMENTS,
	OPTION_POLICY,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_DEVICE] = OPTION_ROW_DEVICE("histogram: file, FILE itself; other jobs:\n"
					    "HETMAP_DEVICE, or host"),
	[OPTION_ACCEL] = OPTION_ROW_ACCEL("opencl:0, or cpu where there is none"),
	[OPTION_SIZE] = { 's', "size", "BYTES",
			  "saxpy: size of each of its two vectors (default 256M)" },
	[OPTION_WINDOW] = { 0, "window", "BYTES",
			    "longest range handed over at once\n"
			    "(default: the accelerator's limit)\n"
			    "load: bytes of MODEL in flight (default: 64M)" },
	[OPTION_AHEAD] = { 0, "ahead", "BYTES",
			   "histogram: read FILE this far ahead of the count\n"
			   "(default: the system decides)" },
	[OPTION_ROUNDS] = { 'r', "rounds", "N",
			    "measured rounds, 1 to 1000\n"
			    "(default: 1 to 101, by the time they take)" },
	[OPTION_POINTER] = { 0, "pointer", "KIND",
			     "saxpy: plain pointers, of malloc, stack, file or map;\n"
			     "--device names who computes then" },
	[OPTION_ADVISE] = { 0, "advise", "ADVICE",
			    "saxpy --pointer: measure again with an advice, as\n"
			    "accessed-by, read-mostly, granule-64K" },
	[OPTION_PREFETCH] = { 0, "prefetch", NULL,
			      "saxpy --pointer: measure again with a prefetch" },
	[OPTION_UNPLUG] = { 0, "unplug-at", "PERCENT",
			    "saxpy on soft or sim: take the device away after\n"
			    "PERCENT of the work, bring it back, and go on" },
	[OPTION_DTYPE] = { 0, "dtype", "TYPE",
			   "tokens: type of a raw FILE, uint16, float32, ...\n"
			   "(default: uint16; .npy files name their own)" },
	[OPTION_OFFSET] = { 0, "offset", "BYTES",
			    "tokens: length of the header of each raw FILE\n"
			    "(default: 0)" },
	[OPTION_BYTE_ORDER] = { 0, "byte-order", "ORDER",
				"tokens: byte order of a raw FILE, little or big\n"
				"(default: this machine's)" },
	[OPTION_VOCAB] = { 0, "vocab", "N",
			   "tokens: fail at a token of N or more, which a wrong\n"
			   "type makes, or a header that was not skipped" },
	[OPTION_TO] = { 0, "to", "TYPE",
			"tokens: type in the device (default: int64, or the\n"
			"files' own type if it is no integer)" },
	[OPTION_ORDER] = { 0, "order", "ORDER",
			   "tokens: random, shuffled or in-order\n(default: shuffled)" },
	[OPTION_BLOCK] = { 0, "block", "N", "tokens: length of a block (default: 1024)" },
	[OPTION_BATCH] = { 0, "batch", "N", "tokens: blocks of a batch (default: 64)" },
	[OPTION_BATCHES] = { 0, "batches", "N", "tokens: number of batches (default: 100)" },
	[OPTION_SEED] = { 0, "seed", "N", "tokens: seed of the order (default: 1)" },
	[OPTION_BUDGET] = { 0, "budget", "BYTES",
			    "tokens: memory for maps of the files, page tables\n"
			    "included (default: a quarter of the machine's)" },
	[OPTION_READ] = { 0, "read", NULL,
			  "tokens: read the files, by pread(2), and map none" },
	[OPTION_RAMP] = { 0, "ramp", NULL,
			  "tokens: batches grow from an eighth of --batch to it,\n"
			  "and shrink again, with the device's buffer" },
	[OPTION_DOCUMENTS] = { 0, "documents", NULL,
			       "tokens: keep each block within one document, as the\n"
			       "index of Megatron or datatrove has them" },
	[OPTION_POLICY] = { 0, "policy", "FILE",
			    "file of rules that allow and refuse operations, as\n"
			    "hetmap-run(1) describes them" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the result, or the failure, as JSON"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

/* The jobs that have an option which not all of them have. */
static const unsigned int jobs_of[] = {
	[OPTION_ACCEL] = HISTOGRAM | LOAD | SAXPY,
	[OPTION_SIZE] = SAXPY,
	[OPTION_WINDOW] = HISTOGRAM | LOAD | SAXPY,
	[OPTION_AHEAD] = HISTOGRAM,
	[OPTION_ROUNDS] = HISTOGRAM | SAXPY,
	[OPTION_POINTER] = SAXPY,
	[OPTION_ADVISE] = SAXPY,
	[OPTION_PREFETCH] = SAXPY,
	[OPTION_UNPLUG] = SAXPY,
	[OPTION_DTYPE] = TOKENS,
	[OPTION_OFFSET] = TOKENS,
	[OPTION_BYTE_ORDER] = TOKENS,
	[OPTION_VOCAB] = TOKENS,
	[OPTION_TO] = TOKENS,
	[OPTION_ORDER] = TOKENS,
	[OPTION_BLOCK] = TOKENS,
	[OPTION_BATCH] = TOKENS,
	[OPTION_BATCHES] = TOKENS,
	[OPTION_SEED] = TOKENS,
	[OPTION_BUDGET] = TOKENS,
	[OPTION_READ] = TOKENS,
	[OPTION_RAMP] = TOKENS,
	[OPTION_DOCUMENTS] = TOKENS,
};

static void usage(void)
{
	puts("Usage: hetmap run histogram [OPTION]... [--] [FILE]\n"
	     "       hetmap run graph [OPTION]... [--] MODEL\n"
	     "       hetmap run load [OPTION]... [--] MODEL\n"
	     "       hetmap run particles [OPTION]...\n"
	     "       hetmap run saxpy [OPTION]...\n"
	     "       hetmap run table [OPTION]... [--] FILE...\n"
	     "       hetmap run tokens [OPTION]... [--] FILE...\n"
	     "       hetmap run video [OPTION]... [--] INPUT\n"
	     "\n"
	     "Runs a job on data where it lies, checks the result on the CPU, and prints the\n"
	     "cost: bytes copied, time in place and with copies, page faults.\n"
	     "\n"
	     "  histogram  maps FILE, has the accelerator count its 256 byte values through\n"
	     "             the same pointer, and reads the counts through the CPU's.\n"
	     "             Without FILE: the largest of a few files that every Debian has.\n"
	     "  graph      runs the graph of MODEL, of ONNX, with its transfers planned ahead;\n"
	     "             an extension with options of its own: hetmap run graph --help\n"
	     "  load       brings the tensors of MODEL, a safetensors file, an index or a\n"
	     "             folder, into a device's memory, layer by layer, and has the\n"
	     "             accelerator compute checksums of each while the next ones come\n"
	     "  particles  moves particles that the ranks of an MPI job share; an extension\n"
	     "             with options of its own: hetmap run particles --help\n"
	     "  saxpy      y = a * x + y on two vectors of floats\n"
	     "  table      adds up columns of Arrow, Parquet and CSV files by groups; an\n"
	     "             extension with options of its own: hetmap run table --help\n"
	     "  tokens     takes batches of blocks out of FILEs of tokens, raw or numpy's,\n"
	     "             into a device's buffer; trains nothing, but checks every batch\n"
	     "  video      decodes INPUT into frames and converts them; an extension with\n"
	     "             options of its own: hetmap run video --help\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap run histogram\n"
	     "  hetmap run histogram --json -- 'my file'\n"
	     "  hetmap run histogram --device host --accel cpu /bin/sh\n"
	     "  hetmap run histogram --device soft --accel soft\n"
	     "  hetmap run histogram --ahead 64M weights.bin\n"
	     "  hetmap run load --device soft:0 model.safetensors\n"
	     "  hetmap run saxpy --size 256M --rounds 5\n"
	     "  hetmap run saxpy --device soft:0 --unplug-at 50%\n"
	     "  hetmap run saxpy --device soft:0 --pointer malloc --prefetch\n"
	     "  hetmap run tokens --device soft:0 --ramp train.bin\n"
	     "  hetmap run tokens --dtype u4 --offset 1K --byte-order big 0.bin 1.bin\n"
	     "  hetmap run tokens --documents corpus.idx\n"
	     "\n"
	     "Exit status: 0 done and verified; 1 wrong result, or data lost under way;\n"
	     "2 usage, missing file, directory or FIFO; 3 no permission, no such device,\n"
	     "a limit; 128 + n on signal n. See also hetmap-run(1).");
}

static const struct run_job *find_job(const char *name)
{
	const struct run_job *job;

	for (job = jobs; job->name; job++)
		if (!strcmp(job->name, name))
			return job;
	return NULL;
}

static int unknown_job(const char *name)
{
	const char *names[sizeof(jobs) / sizeof(jobs[0]) + EXTENSIONS_MOST] = { NULL };
	char *shown = text_escape(name);
	const char *nearest;
	char *remedy;
	size_t i, k;

	for (i = 0; jobs[i].name; i++)
		names[i] = jobs[i].name;
	for (k = 0; k + 1 < EXTENSIONS_MOST && extension_at(k); k++)
		names[i + k] = extension_at(k)->name;
	nearest = option_nearest(name, names);
	if (nearest)
		remedy = text_format("did you mean hetmap run %s?", nearest);
	else if (!access(name, F_OK))
		remedy = strdup("the job comes before the file: hetmap run histogram FILE");
	else
		remedy = strdup(
			"the jobs are graph, histogram, load, particles, saxpy, table, tokens and "
			"video");
	fail(STATUS_USAGE, EINVAL, remedy, "run: unknown job '%s'", shown);
	free(remedy);
	free(shown);
	return STATUS_USAGE;
}

/* "50%", or "50". */
static int take_percent(const char *value, uint64_t *ret_percent)
{
	size_t length = strlen(value);
	char number[8];

	if (length && value[length - 1] == '%')
		length--;
	if (length >= sizeof(number))
		return -EINVAL;
	memcpy(number, value, length);
	number[length] = '\0';
	return option_number(number, 0, 100, ret_percent);
}

static int take_order(const char *value, uint32_t *ret_order)
{
	static const char *const names[] = { "random", "shuffled", "in-order" };
	uint32_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(value, names[i])) {
			*ret_order = i;
			return 0;
		}
	return -EINVAL;
}

/* Those of tokens. OPTION_END: it is none of them. */
static int take_tokens(const struct option_state *state, int option,
		       struct job_options *options)
{
	const char *value = state->value;
	uint64_t *number = NULL, most = UINT32_MAX, least = 1;
	char range[64];

	switch (option) {
	case OPTION_TO:
		return tokens_type(value, &options->to) ?
			       option_refuse(state, option, TOKENS_TYPES) :
			       0;
	case OPTION_ORDER:
		return take_order(value, &options->order) ?
			       option_refuse(state, option, "random, shuffled or in-order") :
			       0;
	case OPTION_VOCAB:
		number = &options->vocab;
		break;
	case OPTION_BLOCK:
		number = &options->block;
		break;
	case OPTION_BATCH:
		number = &options->batch;
		most = 1 << 20;
		break;
	case OPTION_BATCHES:
		number = &options->batches;
		most = 10000000;
		break;
	case OPTION_SEED:
		number = &options->seed;
		most = INT64_MAX;
		least = 0;
		break;
	case OPTION_BUDGET:
		if (option_bytes(value, &options->budget) || !options->budget)
			return option_refuse(state, option, "bytes, as in 64M, 1.5G");
		return 0;
	case OPTION_READ:
		options->read = true;
		return 0;
	case OPTION_RAMP:
		options->ramp = true;
		return 0;
	case OPTION_DOCUMENTS:
		options->documents = true;
		return 0;
	default:
		return OPTION_END;
	}
	if (option_number(value, least, most, number)) {
		snprintf(range, sizeof(range), "a number from %" PRIu64 " to %" PRIu64, least,
			 most);
		return option_refuse(state, option, range);
	}
	return 0;
}

static int take_value(const struct option_state *state, int option, struct job_options *options)
{
	const char *value = state->value;

	switch (option) {
	case OPTION_DEVICE:
		options->device = value;
		break;
	case OPTION_ACCEL:
		options->accel = value;
		break;
	case OPTION_SIZE:
		if (option_bytes(value, &options->size) || options->size < sizeof(float) ||
		    options->size % sizeof(float))
			return option_refuse(
				state, option,
				"bytes, a multiple of 4, as in 4096, 64K, 256M, 1.5G");
		break;
	case OPTION_WINDOW:
		if (option_bytes(value, &options->window) || !options->window ||
		    options->window % (uint64_t)sysconf(_SC_PAGESIZE))
			return option_refuse(
				state, option,
				"bytes, a multiple of the page size, as in 64K, 256M");
		break;
	case OPTION_AHEAD:
		if (option_bytes(value, &options->ahead) || !options->ahead ||
		    options->ahead % (uint64_t)sysconf(_SC_PAGESIZE))
			return option_refuse(
				state, option,
				"bytes, a multiple of the page size, as in 16M, 64M");
		break;
	case OPTION_ROUNDS:
		if (option_number(value, 1, 1000, &options->rounds))
			return option_refuse(state, option, "a number from 1 to 1000");
		break;
	case OPTION_POINTER:
		if (!pointer_kind_known(value))
			return option_refuse(state, option, POINTER_KINDS);
		options->pointer = value;
		break;
	case OPTION_ADVISE:
		if (!pointer_advice_known(value))
			return option_refuse(state, option, POINTER_ADVICES);
		options->advise = value;
		break;
	case OPTION_PREFETCH:
		options->prefetch = true;
		break;
	case OPTION_UNPLUG:
		if (take_percent(value, &options->unplug_at))
			return option_refuse(state, option,
					     "a percentage, as in 0%, 50%, 100%");
		options->unplug = true;
		break;
	case OPTION_POLICY:
		options->policy = value;
		break;
	default:
		break;
	}
	return 0;
}

/* "histogram, load and saxpy" */
static const char *names_of(unsigned int bits, char *text, size_t size)
{
	const struct run_job *job;
	size_t n = 0;

	text[0] = '\0';
	for (job = jobs; job->name; job++) {
		if (!(bits & job->bit))
			continue;
		bits &= ~job->bit;
		n += (size_t)snprintf(text + n, n < size ? size - n : 0, "%s%s",
				      !n   ? "" :
				      bits ? ", " :
					     " and ",
				      job->name);
	}
	return text;
}

/* Options and files that the job does not have. @given: a bit for each option. */
static int check_job(const struct run_job *job, const struct job_options *options,
		     uint64_t given)
{
	char names[64];
	size_t i;

	if (!job)
		return fail(STATUS_USAGE, EINVAL,
			    "hetmap run histogram FILE; hetmap run --help has the jobs",
			    "run: no job was named");
	if (options->n_files && !job->files)
		return fail(STATUS_USAGE, EINVAL, job->example, "run: %s takes no file",
			    job->name);
	if (options->n_files > job->files)
		return fail(STATUS_USAGE, EINVAL, job->example,
			    "run: %s takes one file at a time", job->name);
	if ((options->advise || options->prefetch) && !options->pointer)
		return fail(STATUS_USAGE, EINVAL,
			    "hetmap run saxpy --pointer malloc --prefetch",
			    "run: --advise and --prefetch go with --pointer");
	if (options->pointer && options->unplug)
		return fail(STATUS_USAGE, EINVAL, "leave one of them out",
			    "run: --pointer and --unplug-at exclude each other");
	if (!options->n_files && job->needs)
		return fail(STATUS_USAGE, EINVAL, job->example, "run: %s needs a %s", job->name,
			    job->needs);
	for (i = 0; i < sizeof(jobs_of) / sizeof(jobs_of[0]); i++)
		if (given & 1ull << i && jobs_of[i] && !(jobs_of[i] & job->bit))
			return fail(STATUS_USAGE, EINVAL, "hetmap run --help",
				    "run: --%s is an option of %s, not of %s", rows[i].name,
				    names_of(jobs_of[i], names, sizeof(names)), job->name);
	return 0;
}

/* An extension has options of its own, which hetmap does not know. */
static int refuse_early(const char *name)
{
	char *remedy = text_format("hetmap run %s --json INPUT", name);

	fail(STATUS_USAGE, EINVAL, remedy, "run: options of %s come behind its name", name);
	free(remedy);
	return STATUS_USAGE;
}

/* The options and arguments so far. */
struct given {
	struct job_options options;
	const char **files;
	const struct run_job *job; /* NULL: none yet */
	uint64_t bits;             /* a bit for each option */
};

static int take_option(const struct option_state *state, int option, void *user)
{
	struct given *given = user;
	int status = raw_tokens_take(state, option, &given->options.raw);

	given->bits |= 1ull << option;
	if (status == OPTION_END)
		status = take_tokens(state, option, &given->options);
	if (status == OPTION_END)
		status = take_value(state, option, &given->options);
	return status;
}

static int take_argument(const struct option_state *state, void *user)
{
	struct given *given = user;

	if (given->job) {
		given->files[given->options.n_files++] = state->value;
		return 0;
	}
	if (extension_has_job(state->value))
		return refuse_early(state->value);
	given->job = find_job(state->value);
	return given->job ? 0 : unknown_job(state->value);
}

static int run_chosen(int argc, char **argv, const char **files)
{
	static const struct option_table table = {
		.command = "run",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
	};
	struct given given = {
		.options = {
			.files = files,
			.raw = { .dtype = TYPE_NOT_GIVEN },
			.to = TYPE_NOT_GIVEN,
			.order = HM_BATCHES_SHUFFLED,
			.block = 1024,
			.batch = 64,
			.batches = 100,
			.seed = 1,
		},
		.files = files,
	};
	struct job_options *options = &given.options;
	int status;

	if (!option_walk(&table, argc, argv, &given, &status))
		return status;
	options->file = files[0];
	status = check_job(given.job, options, given.bits);
	if (!status && options->policy)
		status = policy_load(options->policy);
	if (!status)
		status = given.job->run(options);
	policy_drop();
	return status;
}

static int run_extension(char **argv)
{
	char *what = text_format("run: %s", argv[0]);
	int status = extension_run(argv[0], what, argv);

	free(what);
	return status;
}

int run_main(int argc, char **argv)
{
	const char **files;
	int status;

	if (argc > 1 && extension_has_job(argv[1]))
		return run_extension(argv + 1);
	files = calloc((size_t)argc + 1, sizeof(*files));
	if (!files)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	status = run_chosen(argc, argv, files);
	free(files);
	return status;
}
