// SPDX-License-Identifier: MIT
/* hetmap inspect: finds the format of a file, and shows the pieces in it. */
#include "inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/command.h"
#include "common/extension.h"
#include "common/input.h"
#include "common/text.h"
#include "raw_tokens.h"
#include "subcommands.h"
#include "table_file.h"

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
	[OPTION_JSON] = OPTION_ROW_JSON("print all of it as JSON"),
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

static void usage(void)
{
	struct hm_format_info format = { .struct_size = sizeof(format) };
	uint32_t i;

	puts("Usage: hetmap inspect [OPTION]... FILE\n"
	     "       hetmap inspect [OPTION]... FILE FILE...\n"
	     "\n"
	     "Describes a data file: its contents, bytes in RAM, alignment, and the parts that\n"
	     "an accelerator can take in place. Reads none of the data. Several files are one\n"
	     "array of tokens, raw or numpy's.\n"
	     "\n"
	     "Kinds of files:");
	for (i = 0; !hm_pieces_format(i, &format); i++)
		printf("  %-13s%s\n", format.name, format.text);
	printf("  %-13s%s\n", "table",
	       "columns of Arrow, Feather, Parquet and CSV (package hetmap-table)");
	puts("\nOptions:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap inspect model.safetensors\n"
	     "  hetmap inspect model.safetensors.index.json -n 0\n"
	     "  hetmap inspect model-00001-of-00003.gguf\n"
	     "  hetmap inspect table.parquet\n"
	     "  hetmap inspect --dtype uint16 train.bin\n"
	     "  hetmap inspect --dtype u4 --offset 1K --byte-order big 0.bin 1.bin\n"
	     "  hetmap inspect --json model.safetensors | jq -r '.parts[].name'\n"
	     "\n"
	     "See also hetmap-inspect(1).");
}

/* ---- before the file is opened ---- */

/* Facts of the files that are known before they are opened. */
struct inspected {
	const char *const *paths;
	uint32_t n_path, n_npy; /* n_npy: paths of files that name their own type */
	const struct raw_tokens *raw;
	struct hm_format_info format; /* of the path that was looked at last; name NULL: empty */
	uint64_t size;                /* likewise */
	bool npy;                     /* likewise */
};

/* The library's description, by the options for raw files; @tokens must live as long. */
static struct hm_pieces_desc desc_of(const struct inspected *files,
				     struct hm_tokens_desc *tokens)
{
	*tokens = raw_tokens_desc(files->raw);
	return (struct hm_pieces_desc){
		.struct_size = sizeof(struct hm_pieces_desc),
		.raw = files->raw->dtype == TYPE_NOT_GIVEN ? NULL : tokens,
	};
}

static int refuse(const struct input *input, const struct raw_tokens *raw, int r)
{
	if (!input->stat.st_size)
		return fail(STATUS_WRONG, ENODATA, FILE_CUT, "'%s' is empty", input->shown);
	if (r == -EINVAL && (raw->offset_given || raw->byte_order))
		return fail(STATUS_USAGE, EINVAL, "give the --dtype of its tokens, too",
			    "'%s' is of no kind that inspect knows", input->shown);
	return fail_library(r == -EINVAL || r == -EOPNOTSUPP ? STATUS_USAGE :
							       STATUS_ENVIRONMENT,
			    r, r == -EINVAL ? "if it has raw tokens, give their --dtype" : NULL,
			    "cannot take it");
}

static bool is_tokens(const struct inspected *files)
{
	return !strcmp(files->format.name, "tokens");
}

/*
 * Finds the format of a file. Refuses paths that are no file, and files of no format or of a
 * foreign one; takes an empty file, if it is one of several.
 */
static int look_at(const char *path, struct inspected *files)
{
	struct hm_tokens_desc tokens;
	const struct hm_pieces_desc desc = desc_of(files, &tokens);
	struct input input;
	char begin[8];
	int r, status;
	ssize_t n;

	status = input_open(path, &input);
	if (status)
		return status;
	n = pread(input.fd, begin, sizeof(begin), 0);
	files->size = (uint64_t)input.stat.st_size;
	files->npy = (n > 0 && raw_tokens_are_npy(begin, (size_t)n)) ||
		     raw_tokens_have_index(path);
	files->n_npy += files->npy;
	files->format = (struct hm_format_info){ .struct_size = sizeof(files->format) };
	r = hm_pieces_probe(path, &desc, &files->format);
	if (r && (r != -ENODATA || files->n_path == 1))
		status = refuse(&input, files->raw, r);
	else if (!r && is_tokens(files) && !files->npy)
		status = raw_tokens_check(files->raw, "inspect", &input);
	input_close(&input);
	return status;
}

/*
 * Refuses options for raw files of a file that names its own types. Where it has one array, the
 * option must name the array's type, which is checked once it is known.
 */
static int check_options(const struct inspected *files)
{
	if (!strcmp(files->format.word, "array"))
		return 0;
	return raw_tokens_check_other(files->raw, "inspect", files->paths[0], NULL);
}

/* Refuses a shard that is no array, or that is named as numpy's and is not. */
static int check_shard(const struct inspected *files, const char *path)
{
	bool other = files->format.name && strcmp(files->format.word, "array") != 0;
	char *shown;
	int status;

	if (!files->size || (!other && (files->npy || files->raw->dtype != TYPE_NOT_GIVEN)))
		return 0;
	shown = text_escape(path);
	if (other)
		status = fail(STATUS_USAGE, EINVAL,
			      "name one at a time, or the folder of a model",
			      "inspect: several files are one array of tokens, and '%s' has "
			      "%ss",
			      shown, files->format.word);
	else
		status = fail(STATUS_WRONG, EBADMSG, "--dtype gives the type of a raw file",
			      "inspect: '%s' does not begin as a .npy file does", shown);
	free(shown);
	return status;
}

/* ---- its contents ---- */

static void contents_free(struct contents *contents)
{
	free(contents->file);
	free(contents->part);
	free(contents->note);
}

static int contents_read(struct hm_pieces *pieces, struct contents *ret_contents)
{
	struct contents contents = { .info.struct_size = sizeof(contents.info) };
	uint64_t i;
	int r;

	r = hm_pieces_query(pieces, &contents.info);
	contents.file = calloc(contents.info.files + 1, sizeof(*contents.file));
	contents.part = calloc(contents.info.pieces + 1, sizeof(*contents.part));
	contents.note = calloc(contents.info.metadata + 1, sizeof(*contents.note));
	*ret_contents = contents;
	if (!contents.file || !contents.part || !contents.note)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	for (i = 0; !r && i < contents.info.files; i++) {
		contents.file[i].struct_size = sizeof(*contents.file);
		r = hm_pieces_file(pieces, (uint32_t)i, &contents.file[i]);
	}
	for (i = 0; !r && i < contents.info.pieces; i++) {
		contents.part[i].struct_size = sizeof(*contents.part);
		r = hm_pieces_at(pieces, i, &contents.part[i]);
	}
	for (i = 0; !r && i < contents.info.metadata; i++)
		r = hm_pieces_metadata(pieces, i, &contents.note[i]);
	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list it") : 0;
}

static int open_pieces(const struct inspected *files, struct hm_pieces **ret_pieces)
{
	struct hm_tokens_desc tokens;
	struct hm_pieces_desc desc = desc_of(files, &tokens);
	int r;

	desc.more = files->paths + 1;
	desc.n_more = files->n_path - 1;
	/* A type may be named for arrays of plain bytes. */
	if (files->n_path == 1 && !is_tokens(files) && !desc.raw)
		return input_pieces(files->paths[0], ret_pieces);
	r = hm_pieces_open(files->paths[0], &desc, ret_pieces);
	return r ? raw_tokens_open_failed(files->raw, files->n_npy < files->n_path, r) : 0;
}

static int inspect(const struct inspected *files, uint64_t n_row)
{
	struct contents contents = { 0 };
	struct hm_pieces *pieces;
	int status;

	status = open_pieces(files, &pieces);
	if (status)
		return status;
	status = contents_read(pieces, &contents);
	/* Files that name their own type. */
	if (!status && files->n_npy == files->n_path)
		status = raw_tokens_check_other(files->raw, "inspect", files->paths[0],
						contents.part[0].type);
	if (!status)
		inspect_show(files->paths, files->n_path, &contents, n_row);
	contents_free(&contents);
	hm_pieces_unref(pieces);
	return status;
}

static int inspect_path(const char *path, const struct raw_tokens *raw, uint64_t n_row)
{
	struct inspected files = { .paths = &path, .n_path = 1, .raw = raw };
	struct stat st;
	int status;

	/* A folder is of a format, too; all else is refused as for other commands. */
	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		files.format.struct_size = sizeof(files.format);
		status = hm_pieces_probe(path, NULL, &files.format);
		if (status)
			return fail_library(STATUS_ENVIRONMENT, status, NULL, "cannot take it");
	} else {
		status = look_at(path, &files);
	}
	if (!status)
		status = check_options(&files);
	return status ? status : inspect(&files, n_row);
}

/* Shards: each is raw, or numpy's. */
static int inspect_shards(const char *const *paths, uint32_t n_path,
			  const struct raw_tokens *raw, uint64_t n_row)
{
	struct inspected files = { .paths = paths, .n_path = n_path, .raw = raw };
	int status = 0;
	uint32_t i;

	for (i = 0; i < n_path && !status; i++) {
		status = look_at(paths[i], &files);
		if (!status)
			status = check_shard(&files, paths[i]);
	}
	return status ? status : inspect(&files, n_row);
}

/* Tables are the extension's, which takes the same options. */
static int inspect_table(const char *path, char **argv)
{
	char *shown = text_escape(path);
	char *what = text_format("inspect: reading '%s', %s,", shown, table_file_kind(path));
	int status = extension_run("table", what, argv);

	free(what);
	free(shown);
	return status;
}

struct given {
	const char **paths;
	uint32_t n_path;
	uint64_t n_row;
	struct raw_tokens raw;
};

static int take_option(const struct option_state *state, int option, void *user)
{
	struct given *given = user;
	int status = raw_tokens_take(state, option, &given->raw);

	if (status != OPTION_END)
		return status;
	/* The only other one is --rows. */
	return option_take_number(state, option, 0, UINT32_MAX, "a number from 0 on",
				  &given->n_row);
}

static int take_path(const struct option_state *state, void *user)
{
	struct given *given = user;

	given->paths[given->n_path++] = state->value;
	return 0;
}

static int inspect_chosen(int argc, char **argv, const char **paths)
{
	static const struct option_table table = {
		.command = "inspect",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_path,
	};
	struct given given = {
		.paths = paths,
		.n_row = ROWS,
		.raw = { .dtype = TYPE_NOT_GIVEN },
	};
	const struct raw_tokens *raw = &given.raw;
	int status;

	if (!option_walk(&table, argc, argv, &given, &status))
		return status;
	if (!given.n_path)
		return fail(STATUS_USAGE, EINVAL, "hetmap inspect FILE",
			    "inspect: no file was named");
	/* An option for raw files says that it is one, however it is named. */
	if (raw->dtype == TYPE_NOT_GIVEN && !raw->offset_given && !raw->byte_order &&
	    table_file_kind(paths[0]))
		return inspect_table(paths[0], argv);
	if (given.n_path == 1)
		return inspect_path(paths[0], raw, given.n_row);
	return inspect_shards(paths, given.n_path, raw, given.n_row);
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
