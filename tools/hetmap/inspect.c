// SPDX-License-Identifier: MIT
/* hetmap inspect: finds the kind of a file, and lets that kind read it. */
#include "inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "input.h"
#include "text.h"

#define ROWS 20

enum {
	OPTION_JSON,
	OPTION_ROWS,
	OPTION_DTYPE,
	OPTION_OFFSET,
	OPTION_BYTE_ORDER,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_JSON] = { 0, "json", NULL, "print all of it as JSON" },
	[OPTION_ROWS] = { 'n', "rows", "ROWS", "rows of the list; 0: all (default: 20)" },
	[OPTION_DTYPE] = { 0, "dtype", "TYPE", "type of raw tokens, as uint16 or float32" },
	[OPTION_OFFSET] = { 0, "offset", "BYTES",
			    "length of the header of each file of raw tokens\n"
			    "(default: 0)" },
	[OPTION_BYTE_ORDER] = { 0, "byte-order", "ORDER",
				"byte order of raw tokens, little or big\n"
				"(default: this machine's)" },
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
	     "       hetmap inspect [OPTION]... FILE FILE...\n"
	     "\n"
	     "Describes a data file: its contents, bytes in RAM, alignment, and the parts that\n"
	     "an accelerator can take in place. Reads none of the data. Several files are one\n"
	     "array of tokens, raw or numpy's.\n"
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
	     "  hetmap inspect --dtype u4 --offset 1K --byte-order big 0.bin 1.bin\n"
	     "  hetmap inspect --json model.safetensors | jq -r '.parts[].name'\n"
	     "\n"
	     "See also hetmap-inspect(1).");
}

static int refuse(const struct input *input, const struct raw_tokens *raw)
{
	char *remedy, *longer;
	int status;
	size_t i;

	if (!input->stat.st_size)
		return fail(STATUS_WRONG, ENODATA, FILE_CUT, "'%s' is empty", input->shown);
	status = raw_tokens_check_kind(input->path);
	if (status)
		return status;
	if (raw->offset_given || raw->byte_order)
		return fail(STATUS_USAGE, EINVAL, "give the --dtype of its tokens, too",
			    "'%s' is of no kind that inspect knows", input->shown);
	remedy = strdup("known are");
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

static const struct inspect_kind *kind_of(const struct inspect_head *head)
{
	size_t i;

	for (i = 0; i < N_KIND; i++)
		if (kinds[i]->is(head))
			return kinds[i];
	return NULL;
}

static int inspect(const struct inspect_head *head, const struct inspect_kind *kind,
		   uint64_t n_row)
{
	struct contents contents = { 0 };
	int status;

	status = kind->read(head, &contents);
	if (!status)
		inspect_show(head, kind, &contents, n_row);
	free(contents.file);
	free(contents.part);
	free(contents.note);
	if (contents.close)
		contents.close(contents.handle);
	return status;
}

/*
 * Finds the kind of a file. Refuses paths that are no file, and files of no kind or of another
 * one. NULL: the file is empty, one of several.
 */
static int look_at(const char *path, struct inspect_head *head,
		   const struct inspect_kind **ret_kind)
{
	struct input input;
	int status;
	ssize_t n;

	head->path = path;
	status = input_open(path, &input);
	if (status)
		return status;
	head->size = (uint64_t)input.stat.st_size;
	n = pread(input.fd, head->bytes, sizeof(head->bytes), 0);
	head->n = n < 0 ? 0 : (uint32_t)n;
	head->n_npy += raw_tokens_are_npy(head->bytes, head->n);
	*ret_kind = kind_of(head);
	if (n < 0)
		status = fail(STATUS_ENVIRONMENT, errno, NULL, "cannot read '%s': %s",
			      input.shown, strerror(errno));
	else if (!*ret_kind && (head->n_path == 1 || head->size))
		status = refuse(&input, head->raw);
	else if (*ret_kind == &inspect_tokens)
		status = raw_tokens_check(head->raw, "inspect", &input);
	input_close(&input);
	return status;
}

static int inspect_path(const char *path, const struct raw_tokens *raw, uint64_t n_row)
{
	struct inspect_head head = { .path = path, .paths = &path, .n_path = 1, .raw = raw };
	const struct inspect_kind *kind = &inspect_safetensors;
	struct stat st;
	int status = 0;

	/* A folder is of a kind, too; all else is refused as for other commands. */
	head.folder = !stat(path, &st) && S_ISDIR(st.st_mode);
	if (!head.folder)
		status = look_at(path, &head, &kind);
	if (!status && kind == &inspect_safetensors)
		status = raw_tokens_check_other(raw, "inspect", path, NULL);
	return status ? status : inspect(&head, kind, n_row);
}

/* Refuses a shard that has tensors, or that is named as numpy's and is not; takes an empty one. */
static int check_shard(const struct inspect_head *head, const struct inspect_kind *kind)
{
	bool tensors = kind == &inspect_safetensors;
	char *shown;
	int status;

	if (!head->size || (!tensors && (raw_tokens_are_npy(head->bytes, head->n) ||
					 head->raw->dtype != TYPE_NOT_GIVEN)))
		return 0;
	shown = text_escape(head->path);
	if (tensors)
		status = fail(STATUS_USAGE, EINVAL,
			      "name one at a time, or the folder of a model",
			      "inspect: several files are one array of tokens, and '%s' has "
			      "tensors",
			      shown);
	else
		status = fail(STATUS_WRONG, EBADMSG, "--dtype gives the type of a raw file",
			      "inspect: '%s' does not begin as a .npy file does", shown);
	free(shown);
	return status;
}

/* Shards: each is raw, or numpy's. */
static int inspect_shards(const char *const *paths, uint32_t n_path,
			  const struct raw_tokens *raw, uint64_t n_row)
{
	struct inspect_head head = { .raw = raw, .n_path = n_path };
	const struct inspect_kind *kind;
	int status = 0;
	uint32_t i;

	for (i = 0; i < n_path && !status; i++) {
		status = look_at(paths[i], &head, &kind);
		if (!status)
			status = check_shard(&head, kind);
	}
	head.path = paths[0];
	head.paths = paths;
	return status ? status : inspect(&head, &inspect_tokens, n_row);
}

static int inspect_chosen(int argc, char **argv, const char **paths)
{
	struct option_state state = {
		.command = "inspect",
		.rows = rows,
		.argc = argc,
		.argv = argv,
	};
	struct raw_tokens raw = { .dtype = TYPE_NOT_GIVEN };
	uint64_t n_row = ROWS;
	uint32_t n_path = 0;
	int option, status;

	while ((option = option_next(&state)) != OPTION_END) {
		status = raw_tokens_take(&state, option, &raw);
		if (status != OPTION_END) {
			if (status)
				return status;
			continue;
		}
		switch (option) {
		case OPTION_JSON:
			output.json = true;
			break;
		case OPTION_ROWS:
			if (option_number(state.value, 0, UINT32_MAX, &n_row))
				return option_refuse(&state, option, "a number from 0 on");
			break;
		case OPTION_QUIET:
			output.quiet = true;
			break;
		case OPTION_HELP:
			usage();
			return STATUS_DONE;
		case OPTION_ARGUMENT:
			paths[n_path++] = state.value;
			break;
		default:
			return STATUS_USAGE;
		}
	}
	if (!n_path)
		return fail(STATUS_USAGE, EINVAL, "hetmap inspect FILE",
			    "inspect: no file was named");
	if (n_path == 1)
		return inspect_path(paths[0], &raw, n_row);
	return inspect_shards(paths, n_path, &raw, n_row);
}

int inspect_main(int argc, char **argv)
{
	const char **paths = calloc((size_t)argc + 1, sizeof(*paths));
	int status;

	if (!paths)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	status = inspect_chosen(argc, argv, paths);
	free(paths);
	return status;
}
