// SPDX-License-Identifier: MIT
/* hetmap explain: options, and which map or mapping of the process is meant. */
#include "perf/explain/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "perf/explain/explain_tiers.h"
#include "perf/record/calibrate.h"
#include "subcommands.h"

/* Named where something else was asked for. */
#define NAMES_SHOWN 8

enum { OPTION_PID, OPTION_ALL, OPTION_TIERS, OPTION_JSON, OPTION_QUIET, OPTION_HELP };

static const struct option_row rows[] = {
	[OPTION_PID] = { 'p', "pid", "PID", "the process; must be given" },
	[OPTION_ALL] = { 'a', "all", NULL, "explain every map of that name" },
	[OPTION_TIERS] = { 't', "tiers", "PID",
			   "what moves between tiers of memory would gain in that\n"
			   "process; nothing moves" },
	[OPTION_JSON] = OPTION_ROW_JSON("one JSON object"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct options {
	pid_t pid;
	bool all;
	bool tiers;
	const char *what;
};

static void usage(void)
{
	puts("Usage: hetmap explain [OPTION]... -p PID ADDRESS|BUFFER\n"
	     "       hetmap explain [OPTION]... --tiers PID\n"
	     "\n"
	     "Explains an address of a process, or a buffer of it by its name, and the causes\n"
	     "of slow accesses: a sentence for each, with the evidence, the remedy, and the\n"
	     "time it would save. PID may be any process; one that uses the library has the\n"
	     "names of its buffers.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap explain -p 1234 weights\n"
	     "  hetmap explain -p 1234 0x7f3a5c000000\n"
	     "  hetmap explain --all --json -p 1234 libc.so.6\n"
	     "\n"
	     "Exit status: 0; 2 usage, no such buffer or address, or several; 3 no such\n"
	     "process, or no permission. See also hetmap-explain(1).");
}

/* ---- the process ---- */

static int refuse(pid_t pid, int r)
{
	if (r == -ENOENT || r == -ESRCH)
		return fail(STATUS_ENVIRONMENT, ESRCH, NULL, "there is no process %d",
			    (int)pid);
	if (r == -EACCES || r == -EPERM)
		return fail(STATUS_ENVIRONMENT, r,
			    "run hetmap as the process's user, or with sudo",
			    "cannot look into process %d: %s", (int)pid, strerror(-r));
	return fail(STATUS_ENVIRONMENT, r, NULL, "looking into process %d: %s", (int)pid,
		    strerror(-r));
}

static void read_command(struct explained *explained)
{
	char path[32], *text;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)explained->pid);
	if (machine_read_all("", path, &text))
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(explained->command, sizeof(explained->command), "%s", text);
	free(text);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Facts that take a while: the costs take some 50 ms to measure. */
static void explained_measure(struct explained *explained)
{
	double began = now();
	int r = 0;

	if (explained->has_table)
		r = openers_look(explained->live.pid, &explained->openers_before);
	explained->costs = calibrate();
	/* Some of the openers would look as if the others had gone. */
	if (explained->has_table &&
	    (r || openers_look(explained->live.pid, &explained->openers)))
		openers_end(&explained->openers);
	explained->seconds = now() - began;
}

static void explained_end(struct explained *explained)
{
	openers_end(&explained->openers_before);
	openers_end(&explained->openers);
	if (explained->has_table)
		live_close(&explained->live);
	mappings_free(&explained->mappings);
	json_decref(explained->costs);
}

/* 0, or a status after the user was told. */
static int explained_begin(pid_t pid, struct explained *ret_explained)
{
	struct explained explained = { .pid = pid };
	int r = live_open(pid, &explained.live);

	/* The table first: more may be mapped by the time the mappings are read. */
	if (!r) {
		explained.has_table = true;
		r = live_look(&explained.live);
		if (r == -EPROTO) {
			remark("process %d publishes a table that makes no sense: it is "
			       "ignored",
			       (int)pid);
			live_close(&explained.live);
			explained.has_table = false;
			r = 0;
		}
	} else if (r == -ENOENT && (!kill(pid, 0) || errno == EPERM)) {
		r = 0;
	}
	if (!r)
		r = mappings_read(pid, &explained.mappings);
	/* Of a thread of the kernel's there is a file, and nothing in it. */
	if (r) {
		explained_end(&explained);
		return refuse(pid, r);
	}
	read_command(&explained);
	*ret_explained = explained;
	return 0;
}

/* ---- which of them is meant ---- */

struct subjects {
	struct subject *rows;
	size_t n;
};

static struct subject *add(struct subjects *subjects, const struct explained *of,
			   const struct live_map *map, uint64_t start, uint64_t end)
{
	struct subject *more =
		reallocarray(subjects->rows, subjects->n + 1, sizeof(*subjects->rows));

	if (!more)
		abort();
	subjects->rows = more;
	more += subjects->n++;
	*more = (struct subject){ .of = of, .map = map, .start = start, .end = end };
	return more;
}

static int find_address(const struct explained *explained, uint64_t address,
			struct subjects *subjects)
{
	const struct live_map *map = explained->has_table ? live_at(&explained->live, address) :
							    NULL;
	const struct mapping *mapping = mappings_at(&explained->mappings, address);
	struct subject *subject;

	if (map)
		subject = add(subjects, explained, map, map->entry.address, live_end(map));
	else if (mapping && mapping->smaps.start <= address)
		subject = add(subjects, explained, NULL, mapping->smaps.start,
			      mapping->smaps.end);
	else
		return fail(STATUS_USAGE, EINVAL, "/proc/PID/maps lists its mappings",
			    "nothing is mapped at 0x%" PRIx64 " in process %d", address,
			    (int)explained->pid);
	subject->asked = true;
	subject->address = address;
	return 0;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int name_unknown(const struct explained *explained, const char *name)
{
	char *shown = text_escape(name), *names = strdup(""), *more, *one, *remedy = NULL;
	size_t i, n = 0;

	for (i = 0; explained->has_table && i < explained->live.n && n < NAMES_SHOWN; i++) {
		one = text_escape(explained->live.maps[i].entry.name);
		more = text_format("%s%s%s", names, n++ ? ", " : "", one);
		free(one);
		free(names);
		names = more;
	}
	if (n)
		remedy = text_format("there %s %s%s; hetmap top -p %d lists all",
				     n == 1 ? "is" : "are", names,
				     explained->live.n > n ? " and others" : "",
				     (int)explained->pid);
	fail(STATUS_USAGE, ENOENT,
	     remedy ? remedy : "name an address: /proc/PID/maps lists its mappings",
	     explained->has_table ?
		     "process %d has no buffer or file '%s' mapped" :
		     "process %d has no file '%s' mapped, and publishes no table "
		     "of buffers",
	     (int)explained->pid, shown);
	free(remedy);
	free(names);
	free(shown);
	return STATUS_USAGE;
}

/* The first file of the name: all of its mappings, and no other's. */
static void find_file(const struct explained *explained, const char *name,
		      struct subjects *subjects)
{
	const char *path = NULL;
	size_t i;

	for (i = 0; i < explained->mappings.n; i++) {
		const struct mapping *row = &explained->mappings.rows[i];

		if (!*row->path || (path ? strcmp(row->path, path) != 0 :
					   strcmp(row->path, name) != 0 &&
						    strcmp(base_of(row->path), name) != 0))
			continue;
		path = row->path;
		add(subjects, explained, NULL, row->smaps.start, row->smaps.end);
	}
}

/* A buffer's name; or, of memory in no table, a file's, with or without its folders. */
static int find_name(const struct explained *explained, const char *name,
		     struct subjects *subjects)
{
	size_t i;

	for (i = 0; explained->has_table && i < explained->live.n; i++) {
		const struct live_map *map = &explained->live.maps[i];

		if (!strcmp(map->entry.name, name))
			add(subjects, explained, map, map->entry.address, live_end(map));
	}
	if (!subjects->n)
		find_file(explained, name, subjects);
	return subjects->n ? 0 : name_unknown(explained, name);
}

static int several(const struct explained *explained, const struct subjects *subjects,
		   const char *name)
{
	char *shown = text_escape(name), *list = strdup(""), *more, length[TEXT_MAX];
	size_t i;

	for (i = 0; i < subjects->n && i < NAMES_SHOWN; i++) {
		const struct subject *one = &subjects->rows[i];

		more = text_format("%s%s0x%" PRIx64 " (%s)", list, i ? ", " : "", one->start,
				   text_bytes(one->end - one->start, length));
		free(list);
		list = more;
	}
	more = text_format("name an address, or all of them with --all: %s%s", list,
			   subjects->n > NAMES_SHOWN ? " and others" : "");
	fail(STATUS_USAGE, ENOTUNIQ, more, "process %d has %zu maps of the name '%s'",
	     (int)explained->pid, subjects->n, shown);
	free(more);
	free(list);
	free(shown);
	return STATUS_USAGE;
}

/* 0; -EINVAL: it is no address, and so a name. */
static int parse_address(const char *text, uint64_t *ret_address)
{
	char *end;
	unsigned long long address;

	if (strncmp(text, "0x", 2) != 0 && strncmp(text, "0X", 2) != 0)
		return -EINVAL;
	errno = 0;
	address = strtoull(text + 2, &end, 16);
	if (end == text + 2 || *end || errno)
		return -EINVAL;
	*ret_address = address;
	return 0;
}

/* ---- the answer ---- */

static void tell(const struct explained *explained, struct subjects *subjects)
{
	char *command = text_escape(explained->command);
	json_t *object, *array;
	size_t i;

	for (i = 0; i < subjects->n; i++)
		explain_look(&subjects->rows[i]);
	if (output.json) {
		object = json_object();
		array = json_array();
		for (i = 0; i < subjects->n; i++)
			json_array_append_new(array, explain_json(&subjects->rows[i]));
		json_object_set_new(object, "pid", json_integer(explained->pid));
		json_object_set_new(object, "command", json_string(command));
		json_object_set_new(object, "table", json_boolean(explained->has_table));
		json_object_set_new(object, "subjects", array);
		output_object(object);
	} else {
		printf("process %d, %s%s\n", (int)explained->pid, command,
		       explained->has_table ? "" : ", which publishes no table of maps");
		for (i = 0; i < subjects->n; i++) {
			puts("");
			explain_print(&subjects->rows[i]);
		}
	}
	free(command);
}

static int explain(const struct options *options)
{
	struct subjects subjects = { .n = 0 };
	struct explained explained;
	uint64_t address;
	int status;

	status = fail_without_proc(STATUS_ENVIRONMENT);
	if (!status)
		status = explained_begin(options->pid, &explained);
	if (status)
		return status;
	if (!parse_address(options->what, &address))
		status = find_address(&explained, address, &subjects);
	else
		status = find_name(&explained, options->what, &subjects);
	if (!status && subjects.n > 1 && !options->all)
		status = several(&explained, &subjects, options->what);
	if (!status) {
		explained_measure(&explained);
		tell(&explained, &subjects);
	}
	free(subjects.rows);
	explained_end(&explained);
	return status;
}

static int take_option(const struct option_state *state, int option, void *user)
{
	struct options *options = user;
	uint64_t number;
	int status;

	if (option == OPTION_ALL) {
		options->all = true;
		return 0;
	}
	status = option_take_number(state, option, 1, INT32_MAX, "a process's number", &number);
	if (status)
		return status;
	options->pid = (pid_t)number;
	options->tiers |= option == OPTION_TIERS;
	return 0;
}

static int take_argument(const struct option_state *state, void *user)
{
	struct options *options = user;

	if (options->what)
		return fail(STATUS_USAGE, EINVAL,
			    "ask for one at a time, or for a name with --all",
			    "explain: one address or buffer, not two");
	options->what = state->value;
	return 0;
}

int explain_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "explain",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
	};
	struct options options = { .pid = 0 };
	int status;

	if (!option_walk(&table, argc, argv, &options, &status))
		return status;
	if (options.tiers && (options.what || options.all))
		return fail(STATUS_USAGE, EINVAL, "hetmap explain --tiers PID",
			    "explain: --tiers is about all of a process");
	if (options.tiers) {
		status = fail_without_proc(STATUS_ENVIRONMENT);
		return status ? status : explain_tiers(options.pid);
	}
	if (!options.what || !options.pid)
		return fail(STATUS_USAGE, EINVAL, "hetmap explain -p PID ADDRESS|BUFFER",
			    options.what ? "explain: no process was named" :
					   "explain: no address or buffer was named");
	return explain(&options);
}
