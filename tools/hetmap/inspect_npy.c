// SPDX-License-Identifier: MIT
/* hetmap inspect: an array of numpy's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>
#include <hetmap/npy.h>

#include "command.h"
#include "input.h"
#include "inspect.h"

struct opened {
	struct hm_npy_info info;
	struct hm_map *map;
};

static bool is(const struct inspect_head *head)
{
	size_t length = strlen(head->path);

	if (head->folder)
		return false;
	if (raw_tokens_are_npy(head->bytes, head->n))
		return true;
	/* Its name says so as long as nothing says that it is raw. */
	return head->raw->dtype == TYPE_NOT_GIVEN && length > 4 &&
	       !strcmp(head->path + length - 4, ".npy");
}

static void close_handle(void *handle)
{
	struct opened *opened = handle;

	hm_map_unref(opened->map);
	free(opened);
}

static void add_note(struct contents *contents, const char *key, const char *value)
{
	contents->note[contents->n_note++] = (struct contents_note){ key, value };
}

static int fill(const struct inspect_head *head, struct opened *opened,
		struct contents *contents)
{
	const struct hm_npy_info *info = &opened->info;

	contents->file = calloc(1, sizeof(*contents->file));
	contents->part = calloc(1, sizeof(*contents->part));
	contents->note = calloc(2, sizeof(*contents->note));
	if (!contents->file || !contents->part || !contents->note)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	contents->n_file = contents->n_part = 1;
	contents->file[0] = (struct contents_file){
		.path = head->path,
		.address = hm_map_address(opened->map),
		.size = hm_map_length(opened->map),
		.data_offset = info->offset,
	};
	contents->part[0] = (struct contents_part){
		.name = "array",
		.dtype = info->dtype == HM_NPY_OPAQUE ? info->descr :
							hm_dtype_name(info->dtype),
		.bits = info->itemsize * 8,
		.rank = info->rank,
		.shape = info->shape,
		.offset = info->offset,
		.bytes = info->bytes,
	};
	/* Facts that keep a consumer from taking the array as an array of C. */
	if (info->flags & HM_NPY_FORTRAN)
		add_note(contents, "order", "Fortran's (first index fastest)");
	if (info->flags & HM_NPY_SWAPPED)
		add_note(contents, "byte order", "not this machine's");
	return 0;
}

static int fail_open(int r)
{
	bool broken = r == -EBADMSG || r == -EOVERFLOW;

	return fail_library(broken           ? STATUS_WRONG :
			    r == -EOPNOTSUPP ? STATUS_USAGE :
					       STATUS_ENVIRONMENT,
			    r, NULL, broken ? "the file is broken" : "cannot open it");
}

static int read_contents(const struct inspect_head *head, struct contents *ret_contents)
{
	struct contents contents = { .part_word = "array", .close = close_handle };
	struct opened *opened = calloc(1, sizeof(*opened));
	int r;

	if (!opened)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	opened->info.struct_size = sizeof(opened->info);
	r = hm_npy_query(head->path, &opened->info);
	/* To ask which of its pages are there: none of them is touched. */
	if (!r)
		r = input_map(head->path, &opened->map);
	if (r) {
		free(opened);
		return fail_open(r);
	}
	contents.handle = opened;
	r = fill(head, opened, &contents);
	*ret_contents = contents;
	return r ? r :
		   raw_tokens_check_other(head->raw, "inspect", head->path,
					  contents.part[0].dtype);
}

const struct inspect_kind inspect_npy = {
	.name = "npy",
	.text = "an array, as numpy.save() writes it: *.npy",
	.is = is,
	.read = read_contents,
};
