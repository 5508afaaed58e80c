// SPDX-License-Identifier: MIT
/* hetmap inspect: finds out of what kind a file is, and has that kind read it. */
#include "inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "input.h"
#include "run_tokens.h"
#include "text.h"

#define ROWS 20

enum { OPTION_JSON, OPTION_ROWS, OPTION_DTYPE, OPTION_QUIET, OPTION_HELP };

static const struct option_row rows[] = {
	[OPTION_JSON] = { 0, "json", NULL, "print all there is as JSON" },
	[OPTION_ROWS] = { 'n', "rows", "ROWS",
			  "rows of the list; 0: as many as there are (default: 20)" },
	[OPTION_DTYPE] = { 0, "dtype", "TYPE",
			   "what a file of raw tokens has, as uint16 or float32" },
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static const struct inspect_kind *const kinds[] = {
	&inspect_npy, /* by its first bytes; a folder is none */
	&inspect_safetensors,
	&inspect_tokens, /* any that is none of these, where its type is said */
};

#define N_KIND (sizeof(kinds) / sizeof(kinds[0]))

static void usage(void)
{
	size_t i;

	puts("Usage: hetmap inspect [OPTION]... FILE\n"
	     "\n"
	     "Says what a file of data has in it, how much of it is in RAM, how it is aligned,\n"
	     "and what an accelerator can take in place. Nothing of the data is read.\n"
	     "\n"
	     "Kinds of files:");
	for (i = 0; i < N_KIND; i++)
		printf("  %-13s%s\n", kinds[i]->name, kinds[i]->text);
	puts("\nOptions:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap inspect model.safetensors\n"
	     "  hetmap inspect model.safetensors.index.json -n 0\n"
	     "  hetmap inspect --dtype uint16 train.bin\n"
	     "  hetmap inspect --json model.safetensors | jq -r '.parts[].name'\n"
	     "\n"
	     "See also hetmap-inspect(1).");
}

static int refuse(const struct input *input)
{
	char *remedy = strdup("known are"), *longer;
	size_t i;

	for (i = 0; remedy && i < N_KIND; i++) {
		longer = text_format("%s%s %s (%s)", remedy, i ? "," : "", kinds[i]->name,
				     kinds[i]->text);
		free(remedy);
		remedy = longer;
	}
	fail(STATUS_USAGE, EINVAL, remedy, "'%s' is of no kind that inspect knows",
	     input->shown);
	free(remedy);
	return STATUS_USAGE;
}

static int inspect(const struct inspect_head *head, const struct input *input, uint64_t n_row)
{
	struct contents contents = { 0 };
	int status;
	size_t i;

	for (i = 0; i < N_KIND && !kinds[i]->is(head); i++)
		;
	if (i == N_KIND)
		return refuse(input);
	status = kinds[i]->read(head, &contents);
	if (!status)
		inspect_show(head, kinds[i], &contents, n_row);
	free(contents.file);
	free(contents.part);
	free(contents.note);
	if (contents.close)
		contents.close(contents.handle);
	return status;
}

static int inspect_path(const char *path, uint32_t dtype, uint64_t n_row)
{
	struct inspect_head head = { .path = path, .dtype = dtype };
	struct input input;
	struct stat st;
	ssize_t n;
	int status;

	/* A folder is of a kind, too; all else is refused as for other commands. */
	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		head.folder = true;
		return inspect(&head, &(struct input){ 0 }, n_row);
	}
	status = input_open(path, &input);
	if (status)
		return status;
	head.size = (uint64_t)input.stat.st_size;
	n = pread(input.fd, head.bytes, sizeof(head.bytes), 0);
	if (n < 0)
		status = fail(STATUS_ENVIRONMENT, errno, NULL, "cannot read '%s': %s",
			      input.shown, strerror(errno));
	head.n = n < 0 ? 0 : (uint32_t)n;
	if (!status)
		status = inspect(&head, &input, n_row);
	input_close(&input);
	return status;
}

int inspect_main(int argc, char **argv)
{
	struct option_state state = {
		.command = "inspect",
		.rows = rows,
		.argc = argc,
		.argv = argv,
	};
	const char *path = NULL;
	uint64_t n_row = ROWS;
	uint32_t dtype = TYPE_NOT_GIVEN;
	int option;

	while ((option = option_next(&state)) != OPTION_END) {
		switch (option) {
		case OPTION_JSON:
			output.json = true;
			break;
		case OPTION_ROWS:
			if (option_number(state.value, 0, UINT32_MAX, &n_row))
				return option_refuse(&state, option, "a number from 0 on");
			break;
		case OPTION_DTYPE:
			if (tokens_type(state.value, &dtype))
				return option_refuse(&state, option, TOKENS_TYPES);
			break;
		case OPTION_QUIET:
			output.quiet = true;
			break;
		case OPTION_HELP:
			usage();
			return STATUS_DONE;
		case OPTION_ARGUMENT:
			if (path)
				return fail(STATUS_USAGE, EINVAL,
					    "name one at a time, or the folder of a model",
					    "inspect: more than one file was named");
			path = state.value;
			break;
		default:
			return STATUS_USAGE;
		}
	}
	if (!path)
		return fail(STATUS_USAGE, EINVAL, "hetmap inspect FILE",
			    "inspect: no file was named");
	return inspect_path(path, dtype, n_row);
}
