// SPDX-License-Identifier: MIT
/* Reads the output of `hetmap bench --json`, of now or long ago, as untrusted data. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "common/command.h"

/* A case's line has 2 KiB or so. */
#define LINE_MOST (1 << 20)
#define CASES_MOST 10000

struct reader {
	const char *shown; /* the file's name */
	FILE *file;
	char *line; /* LINE_MOST + 2 */
	unsigned int n;
};

static int refuse(const struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(const struct reader *reader, const char *format, ...)
{
	char why[512], *shown;
	va_list list;
	int status;

	va_start(list, format);
	vsnprintf(why, sizeof(why), format, list);
	va_end(list);
	shown = text_escape(why);
	status = fail(STATUS_USAGE, EINVAL, "such a file is made by: hetmap bench --json >FILE",
		      "bench: '%s', line %u: %s", reader->shown, reader->n, shown);
	free(shown);
	return status;
}

/* STATUS_DONE with a line, or with NULL at the end. */
static int next(struct reader *reader, const char **ret_line)
{
	size_t length;

	if (!fgets(reader->line, LINE_MOST + 2, reader->file)) {
		*ret_line = NULL;
		if (!ferror(reader->file))
			return STATUS_DONE;
		return fail(STATUS_USAGE, errno, NULL, "bench: cannot read '%s': %s",
			    reader->shown, strerror(errno));
	}
	reader->n++;
	length = strlen(reader->line);
	if (!length || (reader->line[length - 1] != '\n' && !feof(reader->file)))
		return refuse(reader, "it has a byte 0, or more than %d bytes", LINE_MOST);
	*ret_line = reader->line;
	return STATUS_DONE;
}

static int machine_take(const struct reader *reader, const json_t *machine,
			struct bench_run *run)
{
	if (run->machine)
		return refuse(reader, "a second machine: one run a file");
	if (!json_is_string(json_object_get(machine, "cpu")) ||
	    !json_is_string(json_object_get(machine, "kernel")))
		return refuse(reader, "\"machine\" has no \"cpu\" or no \"kernel\"");
	run->machine = json_deep_copy(machine);
	if (!run->machine)
		abort();
	return STATUS_DONE;
}

static int row_take(const struct reader *reader, json_t *object, struct bench_run *run)
{
	struct bench_row *row;
	char why[256];
	int r;

	if (!run->machine)
		return refuse(reader, "no \"machine\": not of this command, or of a version "
				      "that did not tell it");
	if (run->n == CASES_MOST)
		return refuse(reader, "more than %d cases", CASES_MOST);
	row = bench_run_add(run);
	r = bench_row_parse(object, row, why, sizeof(why));
	if (r)
		return refuse(reader, "%s", why);
	if (bench_run_find(run, row->bench, row->name) != row)
		return refuse(reader, "%s, %s is there already", row->bench, row->name);
	return STATUS_DONE;
}

static int line_take(const struct reader *reader, const char *line, struct bench_run *run)
{
	json_error_t error;
	json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error), *machine;
	int status = STATUS_DONE;

	if (!json_is_object(object)) {
		status = refuse(reader, "no object of JSON: %s",
				object ? "another value" : error.text);
		json_decref(object);
		return status;
	}
	machine = json_object_get(object, "machine");
	if (machine)
		status = machine_take(reader, machine, run);
	else if (!json_object_get(object, "claim") && !json_object_get(object, "compared"))
		status = row_take(reader, object, run);
	json_decref(object);
	return status;
}

static int read_all(struct reader *reader, struct bench_run *run)
{
	const char *line = NULL;
	int status;

	do {
		status = next(reader, &line);
		if (status == STATUS_DONE && line)
			status = line_take(reader, line, run);
	} while (status == STATUS_DONE && line);
	if (status != STATUS_DONE || run->machine)
		return status;
	return refuse(reader, "it ends before there is anything");
}

int bench_load(const char *path, struct bench_run *ret_run)
{
	struct bench_run run = { 0 };
	struct reader reader = { 0 };
	char *shown = text_escape(path);
	int status;

	reader.shown = shown;
	reader.line = malloc(LINE_MOST + 2);
	if (!reader.line)
		abort();
	reader.file = fopen(path, "re");
	if (!reader.file) {
		status = errno == EACCES ? STATUS_ENVIRONMENT : STATUS_USAGE;
		fail(status, errno, NULL, "bench: cannot open '%s': %s", shown,
		     strerror(errno));
		goto out;
	}
	status = read_all(&reader, &run);
	fclose(reader.file);
	if (status == STATUS_DONE)
		*ret_run = run;
	else
		bench_run_free(&run);
out:
	free(reader.line);
	free(shown);
	return status;
}
