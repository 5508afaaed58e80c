// SPDX-License-Identifier: MIT
/*
 * model.safetensors.index.json: the file of each tensor.
 *
 *     {"metadata": {"total_size": 24}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
 *
 * A file's path must stay in the index's folder; the folder's owner is responsible for links.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook/hook.h"
#include "format/text/foreign.h"
#include "format/text/json.h"
#include "format/safetensors/safetensors.h"
#include "base/path.h"
#include "base/sys.h"

void safetensors_index_free(struct weight_map *map)
{
	uint32_t i;

	for (i = 0; map->path && i < map->n_path; i++)
		free(map->path[i]);
	free(map->path);
	names_free(&map->files);
	names_free(&map->tensors);
	free(map->text);
	*map = (struct weight_map){ 0 };
}

/* Does the path stay below its first folder, and is it spelled in the only possible way? */
static int check_path(const char *path)
{
	const char *part = path, *end;
	char shown[SHOWN_MAX];
	size_t length;

	if (*path == '/')
		return err_set(-EBADMSG,
			       "file %s: an absolute path leads out of the model's "
			       "folder",
			       name_shown(path, shown));
	for (;; part = end + 1) {
		end = strchrnul(part, '/');
		length = (size_t)(end - part);
		if (length == 2 && !memcmp(part, "..", 2))
			return err_set(-EBADMSG,
				       "file %s: \"..\" leads out of the model's folder",
				       name_shown(path, shown));
		if (!length || (length == 1 && *part == '.'))
			return err_set(-EBADMSG,
				       "file %s: no plain path (\"\", \".\" or \"//\")",
				       name_shown(path, shown));
		if (!*end)
			return 0;
	}
}

/* The file's number; adds a new file. */
static int find_file(struct weight_map *map, const struct jtext_string *path,
		     uint32_t *ret_number)
{
	const struct name *file = names_find(&map->files, path->text, path->length);
	int r;

	if (file) {
		*ret_number = (uint32_t)(file - map->files.name);
		return 0;
	}
	r = check_path(path->text);
	if (!r)
		r = names_add(&map->files, path->text, path->length, 0);
	if (!r)
		*ret_number = map->files.n - 1;
	return r;
}

static int read_weights(struct weight_map *map, struct jtext *json)
{
	struct jtext_string name, path;
	char shown[SHOWN_MAX];
	uint32_t number;
	int more = 0, r;

	r = jtext_open(json, '{');
	while (!r) {
		r = jtext_more(json, '}', &more);
		if (r || !more)
			return r;
		r = jtext_key(json, &name);
		if (r)
			return r;
		r = jtext_string(json, &path);
		if (!r)
			r = find_file(map, &path, &number);
		if (!r)
			r = names_add(&map->tensors, name.text, name.length, number);
		if (r == -EEXIST)
			r = err_set(-EBADMSG, "it is there twice");
		if (r)
			return err_prefix(r, "tensor %s", name_shown(name.text, shown));
	}
	return r;
}

static int read_top(struct weight_map *map, struct jtext *json)
{
	struct names keys = { 0 };
	bool has_weights = false;
	struct jtext_string key;
	char shown[SHOWN_MAX];
	int more = 0, r;

	r = jtext_open(json, '{');
	while (!r) {
		r = jtext_more(json, '}', &more);
		if (r || !more)
			break;
		r = jtext_key(json, &key);
		if (!r)
			r = names_add(&keys, key.text, key.length, 0);
		if (r == -EEXIST)
			r = err_set(-EBADMSG, "%s is there twice", name_shown(key.text, shown));
		if (r)
			break;
		if (!strcmp(key.text, "weight_map")) {
			has_weights = true;
			r = read_weights(map, json);
		} else {
			r = jtext_skip(json);
		}
	}
	names_free(&keys);
	if (!r)
		r = jtext_close(json);
	if (!r && !has_weights)
		r = err_set(-EBADMSG, "it has no weight_map: it is no index of a model");
	if (!r && !map->files.n)
		r = err_set(-EBADMSG, "its weight_map is empty: it names no file");
	return r;
}

static int compare_files(const void *a, const void *b, void *user)
{
	const struct name *file = user;

	return strcmp(file[*(const uint32_t *)a].text, file[*(const uint32_t *)b].text);
}

/* Sorts the paths, and stores for each file the place of its path. */
static int sort_files(struct weight_map *map, const char *folder)
{
	struct name *file = map->files.name;
	uint32_t n = map->files.n, *order, i;
	size_t size;
	int r = 0;

	order = sys_calloc(n, sizeof(*order));
	map->path = order ? sys_calloc(n, sizeof(*map->path)) : NULL;
	if (!map->path) {
		r = err_set(-ENOMEM, "no memory for %u files", n);
		goto out;
	}
	for (i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare_files, file);
	for (; map->n_path < n; map->n_path++) {
		i = order[map->n_path];
		file[i].value = map->n_path;
		size = strlen(folder) + file[i].length + 1;
		map->path[map->n_path] = sys_calloc(1, size);
		if (!map->path[map->n_path]) {
			r = err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
			goto out;
		}
		snprintf(map->path[map->n_path], size, "%s%s", folder, file[i].text);
	}
out:
	free(order);
	return r;
}

int safetensors_index_parse(char *text, uint64_t length, const char *folder,
			    struct weight_map *ret_map)
{
	struct weight_map map = { .text = text };
	struct jtext json;
	int r;

	jtext_begin(&json, text, length, 0);
	r = read_top(&map, &json);
	if (!r)
		r = sort_files(&map, folder);
	if (r) {
		safetensors_index_free(&map);
		return r;
	}
	*ret_map = map;
	return 0;
}

/* Reads all of the file; the caller must free() it. */
static int read_text(int fd, char **ret_text, uint64_t *ret_length)
{
	uint64_t done = 0, size;
	struct stat st;
	char *text;
	ssize_t n;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (!S_ISREG(st.st_mode))
		return err_set(-EINVAL, "it is no regular file");
	size = (uint64_t)st.st_size;
	r = hook_file(fd, size, HM_READ);
	if (r)
		return r;
	if (size > HEADER_MAX)
		return err_set(-EBADMSG, "an index of %" PRIu64 " bytes: up to %llu are read",
			       size, HEADER_MAX);
	text = sys_calloc(1, size + 1);
	if (!text)
		return err_set(-ENOMEM, "no memory for its %" PRIu64 " bytes", size);
	while (done < size) {
		n = sys_pread(fd, text + done, size - done, done);
		if (n <= 0) {
			free(text);
			return n ? err_set((int)n, "reading it: %s", err_name((int)n)) :
				   err_set(-ENODATA, "it was cut off while it was read");
		}
		done += (uint64_t)n;
	}
	r = foreign_check(text, size);
	if (r) {
		free(text);
		return r;
	}
	*ret_text = text;
	*ret_length = size;
	return 0;
}

int safetensors_index_read(const char *path, struct weight_map *ret_map)
{
	const char *slash = strrchr(path, '/');
	size_t folder_length = slash ? (size_t)(slash + 1 - path) : 0;
	char *folder, *text = NULL;
	uint64_t length = 0;
	int fd, r;

	fd = sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return err_prefix(path_explain_open(fd, path), "%s", path);
	r = read_text(fd, &text, &length);
	sys_close(fd);
	if (r)
		return err_prefix(r, "%s", path);
	folder = sys_calloc(1, folder_length + 1);
	if (!folder) {
		free(text);
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", folder_length);
	}
	memcpy(folder, path, folder_length);
	r = safetensors_index_parse(text, length, folder, ret_map);
	free(folder);
	return r ? err_prefix(r, "%s", path) : 0;
}

/*
 * Checks that each tensor of the index was found. Only listed tensors count, each once, so equal
 * numbers mean that all were.
 */
int safetensors_index_check(const struct weight_map *map,
			    const struct hm_safetensors *safetensors)
{
	const struct name *listed;
	char shown[SHOWN_MAX];
	uint32_t i;

	for (i = 0; map->tensors.n != safetensors->n_tensor; i++) {
		listed = &map->tensors.name[i];
		if (!names_find(&safetensors->names, listed->text, listed->length))
			return err_set(
				-EBADMSG, "tensor %s is not in %s, as the weight_map says",
				name_shown(listed->text, shown),
				safetensors->shard[map->files.name[listed->value].value].path);
	}
	return 0;
}
