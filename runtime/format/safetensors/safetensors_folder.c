// SPDX-License-Identifier: MIT
/*
 * A folder with a model. The tools that write models name its files
 *
 *     STEM.safetensors.index.json, or STEM.safetensors.index.VARIANT.json
 *     STEM.safetensors
 *     STEM-00001-of-00003.safetensors
 *
 * and read the first of these that exists. With VARIANT the stem is STEM.VARIANT.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/safetensors/safetensors.h"
#include "base/sys.h"

#define ENTRIES_BYTES 32768
#define SUFFIX ".safetensors"

/* The stems to look for in a folder with several: of transformers, diffusers and PEFT. */
static const char *const preferred[] = { "model", "diffusion_pytorch_model", "adapter_model" };

enum kind { INDEX, FILE_ALONE, PART }; /* in the order of preference */

struct entry {
	char name[NAME_MAX + 1];
	char stem[NAME_MAX + 1];
	enum kind kind;
	uint32_t number, of; /* of a PART */
};

struct entries {
	struct entry *entry; /* n of them */
	uint64_t n, room;
};

/* ---- names of files ---- */

static bool ends_in(const char *name, const char *end)
{
	size_t length = strlen(name);

	return length > strlen(end) && !strcmp(name + length - strlen(end), end);
}

/* "STEM.safetensors.index.json", "STEM.safetensors.index.VARIANT.json" */
static bool is_index(const char *name, struct entry *entry)
{
	static const char middle[] = SUFFIX ".index", end[] = ".json";
	const char *at = strstr(name, middle), *variant;
	size_t length;

	if (!at || at == name || !ends_in(at, end))
		return false;
	variant = at + strlen(middle);
	length = strlen(variant) - strlen(end);
	if (length && (*variant != '.' || length == 1))
		return false;
	snprintf(entry->stem, sizeof(entry->stem), "%.*s%.*s", (int)(at - name), name,
		 (int)length, variant);
	entry->kind = INDEX;
	return true;
}

/* "STEM.safetensors", "STEM-00001-of-00003.safetensors" */
static bool is_file(const char *name, struct entry *entry)
{
	char *dash, end;

	if (!ends_in(name, SUFFIX))
		return false;
	snprintf(entry->stem, sizeof(entry->stem), "%.*s", (int)(strlen(name) - strlen(SUFFIX)),
		 name);
	entry->kind = FILE_ALONE;
	dash = memrchr(entry->stem, '-', strlen(entry->stem));
	dash = dash ? memrchr(entry->stem, '-', (size_t)(dash - entry->stem)) : NULL;
	dash = dash ? memrchr(entry->stem, '-', (size_t)(dash - entry->stem)) : NULL;
	if (dash && sscanf(dash, "-%9u-of-%9u%c", &entry->number, &entry->of, &end) == 2) {
		*dash = '\0';
		entry->kind = PART;
	}
	return true;
}

static int add(struct entries *entries, const char *name)
{
	struct entry entry = { 0 };
	int r;

	if (*name == '.' || (!is_index(name, &entry) && !is_file(name, &entry)))
		return 0;
	r = safetensors_room((void **)&entries->entry, entries->n + 1, &entries->room,
			     sizeof(entry));
	if (r)
		return r;
	snprintf(entry.name, sizeof(entry.name), "%s", name);
	entries->entry[entries->n++] = entry;
	return 0;
}

/* ---- the folder ---- */

static int read_folder(const char *folder, struct entries *entries)
{
	const struct dirent64 *entry;
	int64_t bytes = 0, at;
	char *buffer;
	int fd, r = 0;

	fd = sys_open(folder, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return err_set(fd, "opening the folder: %s", err_name(fd));
	buffer = sys_calloc(1, ENTRIES_BYTES);
	if (!buffer)
		r = err_set(-ENOMEM, "no memory for the folder's names");
	while (!r && (bytes = sys_getdents(fd, buffer, ENTRIES_BYTES)) > 0)
		for (at = 0; !r && at < bytes; at += entry->d_reclen) {
			entry = (const struct dirent64 *)(buffer + at);
			r = add(entries, entry->d_name);
		}
	if (!r && bytes < 0)
		r = err_set((int)bytes, "reading the folder: %s", err_name((int)bytes));
	free(buffer);
	sys_close(fd);
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->stem, y->stem);

	if (order)
		return order;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return strcmp(x->name, y->name);
}

static uint64_t count_stem(const struct entries *entries, uint64_t first)
{
	uint64_t n = 1;

	while (first + n < entries->n &&
	       !strcmp(entries->entry[first].stem, entries->entry[first + n].stem))
		n++;
	return n;
}

/* Chooses the entries of one stem: [*@ret_first, *@ret_first + *@ret_n). */
static int choose_stem(const struct entries *entries, uint64_t *ret_first, uint64_t *ret_n)
{
	const struct entry *entry = entries->entry;
	uint64_t i, n = entries->n ? count_stem(entries, 0) : 0;
	size_t k;

	if (!n)
		return err_set(-ENOENT,
			       "the folder has no *" SUFFIX " and no *" SUFFIX ".index.json: "
			       "name a file, or the folder that has them");
	*ret_first = 0;
	*ret_n = n;
	if (n == entries->n)
		return 0;
	for (k = 0; k < ARRAY_SIZE(preferred); k++)
		for (i = 0; i < entries->n; i += n) {
			n = count_stem(entries, i);
			if (!strcmp(entry[i].stem, preferred[k])) {
				*ret_first = i;
				*ret_n = n;
				return 0;
			}
		}
	return err_set(-EINVAL, "the folder has several models, as %s and %s: name a file",
		       entry[0].name, entry[count_stem(entries, 0)].name);
}

/* Are the @n parts, in the order of their numbers, all that their names tell of? */
static int check_parts(const struct entry *part, uint64_t n)
{
	uint64_t i;

	if (part[0].of != part[n - 1].of)
		return err_set(-EINVAL,
			       "the folder has no index, and two models, as %s and %s: name a "
			       "file",
			       part[0].name, part[n - 1].name);
	for (i = 0; i < n; i++) {
		if (!part[i].number || part[i].number > part[i].of)
			return err_set(-EINVAL,
				       "the folder has no index, and %s is none of the numbers "
				       "1 to %u: get the model again",
				       part[i].name, part[i].of);
		if (i && part[i].number == part[i - 1].number)
			return err_set(-EINVAL,
				       "the folder has no index, and number %u of %u twice, as "
				       "%s and %s: remove one",
				       part[i].number, part[i].of, part[i - 1].name,
				       part[i].name);
	}
	for (i = 0; i < n && part[i].number == i + 1; i++)
		;
	if (i == part[0].of)
		return 0;
	return err_set(-ENOENT,
		       "the folder has no index, and number %" PRIu64
		       " of the %u files %s-*" SUFFIX " is not there: get the model again",
		       i + 1, part[0].of, part[0].stem);
}

static char *join(const char *folder, const char *name)
{
	size_t size = strlen(folder) + strlen(name) + 2;
	char *path = sys_calloc(1, size);

	if (path)
		snprintf(path, size, "%s/%s", folder, name);
	else
		err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
	return path;
}

static int take(const char *folder, const struct entry *entry, uint64_t n,
		struct folder_model *model)
{
	int r;

	if (entry->kind == INDEX) {
		model->index = join(folder, entry->name);
		return model->index ? 0 : -ENOMEM;
	}
	if (entry->kind == FILE_ALONE)
		n = 1;
	r = entry->kind == PART ? check_parts(entry, n) : 0;
	if (r)
		return r;
	model->path = sys_calloc(n, sizeof(*model->path));
	if (!model->path)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " files", n);
	for (; model->n_path < n; model->n_path++) {
		model->path[model->n_path] = join(folder, entry[model->n_path].name);
		if (!model->path[model->n_path])
			return -ENOMEM;
	}
	return 0;
}

int safetensors_folder_find(const char *folder, struct folder_model *ret_model)
{
	struct folder_model model = { 0 };
	struct entries entries = { 0 };
	uint64_t first = 0, n = 0;
	int r;

	r = read_folder(folder, &entries);
	if (!r && entries.n)
		qsort(entries.entry, entries.n, sizeof(*entries.entry), compare);
	if (!r)
		r = choose_stem(&entries, &first, &n);
	if (!r)
		r = take(folder, &entries.entry[first], n, &model);
	free(entries.entry);
	if (r) {
		safetensors_folder_free(&model);
		return err_prefix(r, "%s", folder);
	}
	*ret_model = model;
	return 0;
}

void safetensors_folder_free(struct folder_model *model)
{
	uint32_t i;

	for (i = 0; i < model->n_path; i++)
		free(model->path[i]);
	free(model->path);
	free(model->index);
	*model = (struct folder_model){ 0 };
}
