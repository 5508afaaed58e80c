// SPDX-License-Identifier: MIT
/* Safetensors: opens, queries and lists a file or a model. */
#include "api/api.h"
#include "format/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

#define SAFETENSORS_INFO_LEAST offsetof(struct hm_safetensors_info, ignored)
#define SHARD_INFO_LEAST sizeof(struct hm_shard_info)
#define TENSOR_INFO_LEAST sizeof(struct hm_tensor_info)

static void destroy(struct hm_safetensors *safetensors)
{
	uint32_t i;

	for (i = 0; i < safetensors->n_shard; i++) {
		hm_map_unref(safetensors->shard[i].map);
		free(safetensors->shard[i].header);
		free(safetensors->shard[i].path);
	}
	free(safetensors->by_name);
	free(safetensors->metadata);
	names_free(&safetensors->names);
	free(safetensors->extents);
	free(safetensors->tensor);
	free(safetensors->shard);
	pthread_mutex_destroy(&safetensors->lock);
	safetensors->object.kind = OBJECT_FREED;
	free(safetensors);
}

static int create(uint32_t n_shard, struct hm_safetensors **ret_safetensors)
{
	struct hm_safetensors *safetensors;

	safetensors = sys_calloc(1, sizeof(*safetensors));
	if (!safetensors)
		return err_set(-ENOMEM, "no memory for a safetensors object");
	safetensors->shard = sys_calloc(n_shard, sizeof(*safetensors->shard));
	if (!safetensors->shard) {
		free(safetensors);
		return err_set(-ENOMEM, "no memory for %u shards", n_shard);
	}
	object_init(&safetensors->object, OBJECT_SAFETENSORS);
	pthread_mutex_init(&safetensors->lock, NULL);
	safetensors->n_shard = n_shard;
	*ret_safetensors = safetensors;
	return 0;
}

/* ---- open ---- */

static int open_shards(struct hm_safetensors *safetensors)
{
	struct hm_device *device;
	uint32_t i;
	int r;

	r = device_open("file", &device);
	if (r)
		return r;
	for (i = 0; !r && i < safetensors->n_shard; i++)
		r = safetensors_open_shard(safetensors, device, i);
	hm_device_unref(device);
	return r;
}

/*
 * Moves the paths into the object, and leaves NULL in their place. @index: the tensors that count,
 * or NULL for all.
 */
static int open_files(char **path, uint32_t n_path, const struct weight_map *index,
		      struct hm_safetensors **ret_safetensors)
{
	struct hm_safetensors *safetensors = NULL;
	uint32_t i;
	int r;

	r = create(n_path, &safetensors);
	if (r)
		return r;
	for (i = 0; i < n_path; i++) {
		safetensors->shard[i].path = path[i];
		path[i] = NULL;
	}
	safetensors->index = index;
	r = open_shards(safetensors);
	if (!r && index)
		r = safetensors_index_check(index, safetensors);
	safetensors->index = NULL;
	if (r) {
		destroy(safetensors);
		return r;
	}
	*ret_safetensors = safetensors;
	return 0;
}

static int open_file(const char *path, struct hm_safetensors **ret_safetensors)
{
	size_t size = strlen(path) + 1;
	char *copy = sys_calloc(1, size);
	int r;

	if (!copy)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
	memcpy(copy, path, size);
	r = open_files(&copy, 1, NULL, ret_safetensors);
	free(copy);
	return r;
}

static int open_index(const char *path, struct hm_safetensors **ret_safetensors)
{
	struct weight_map map;
	int r;

	r = safetensors_index_read(path, &map);
	if (r)
		return r;
	r = open_files(map.path, map.n_path, &map, ret_safetensors);
	safetensors_index_free(&map);
	return r ? err_prefix(r, "%s", path) : 0;
}

static int open_folder(const char *path, struct hm_safetensors **ret_safetensors)
{
	struct folder_model model;
	int r;

	r = safetensors_folder_find(path, &model);
	if (r)
		return r;
	if (model.index)
		r = open_index(model.index, ret_safetensors);
	else
		r = open_files(model.path, model.n_path, NULL, ret_safetensors);
	safetensors_folder_free(&model);
	return r;
}

int safetensors_open(const char *path, uint32_t flags, struct hm_safetensors **ret_safetensors)
{
	static const char json[] = ".json";
	size_t length;
	int r;

	if (!path || !ret_safetensors)
		return err_set(-EINVAL, "hm_safetensors_open: %s is NULL",
			       path ? "ret_safetensors" : "path");
	if (flags)
		return err_set(-EINVAL, "hm_safetensors_open: flags 0x%x are unknown", flags);
	length = strlen(path);
	if (length >= strlen(json) && !strcmp(path + length - strlen(json), json))
		return open_index(path, ret_safetensors);
	r = open_file(path, ret_safetensors);
	return r == -EISDIR ? open_folder(path, ret_safetensors) : r;
}

int hm_safetensors_open(const char *path, uint32_t flags,
			struct hm_safetensors **ret_safetensors)
{
	err_begin();
	return safetensors_open(path, flags, ret_safetensors);
}

struct hm_safetensors *hm_safetensors_ref(struct hm_safetensors *safetensors)
{
	if (safetensors)
		object_ref(&safetensors->object);
	return safetensors;
}

void hm_safetensors_unref(struct hm_safetensors *safetensors)
{
	if (!safetensors || !object_put(&safetensors->object))
		return;
	err_hold();
	destroy(safetensors);
	err_release();
}

/* ---- queries ---- */

static int check(const struct hm_safetensors *safetensors, const void *result, const char *what)
{
	if (!result)
		return err_set(-EINVAL, "%s: an argument is NULL", what);
	return object_check(safetensors ? &safetensors->object : NULL, OBJECT_SAFETENSORS);
}

int hm_safetensors_query(struct hm_safetensors *safetensors,
			 struct hm_safetensors_info *ret_info)
{
	struct hm_safetensors_info info = { 0 };
	uint32_t i;
	int r;

	err_begin();
	r = check(safetensors, ret_info, "hm_safetensors_query");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(info),
				     SAFETENSORS_INFO_LEAST, "hm_safetensors_info");
	if (r)
		return r;
	info.shards = safetensors->n_shard;
	info.tensors = safetensors->n_tensor;
	info.metadata = safetensors->n_metadata;
	for (i = 0; i < safetensors->n_shard; i++) {
		info.bytes += safetensors->shard[i].bytes;
		info.ignored += safetensors->shard[i].ignored;
	}
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

/* -ERANGE, with the number of elements. */
static int check_index(uint64_t index, uint64_t n, const char *what)
{
	if (index < n)
		return 0;
	return err_set(-ERANGE, "there is no %s %" PRIu64 ": there are %" PRIu64, what, index,
		       n);
}

int hm_safetensors_shard(struct hm_safetensors *safetensors, uint32_t number,
			 struct hm_shard_info *ret_info)
{
	const struct shard *shard;
	int r;

	err_begin();
	r = check(safetensors, ret_info, "hm_safetensors_shard");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), SHARD_INFO_LEAST,
				     "hm_shard_info");
	if (!r)
		r = check_index(number, safetensors->n_shard, "shard");
	if (r)
		return r;
	shard = &safetensors->shard[number];
	struct_write(ret_info,
		     &(struct hm_shard_info){
			     .ignored = shard->ignored,
			     .path = shard->path,
			     .map = shard->map,
			     .size = shard->size,
			     .data_offset = shard->data,
			     .first = shard->first,
			     .tensors = shard->n,
		     },
		     ret_info->struct_size);
	return 0;
}

int hm_safetensors_metadata(struct hm_safetensors *safetensors, uint64_t index,
			    struct hm_metadata *ret_metadata)
{
	int r;

	err_begin();
	r = check(safetensors, ret_metadata, "hm_safetensors_metadata");
	if (!r)
		r = check_index(index, safetensors->n_metadata, "metadata");
	if (r)
		return r;
	*ret_metadata = safetensors->metadata[index];
	return 0;
}

int hm_safetensors_metadata_find(struct hm_safetensors *safetensors, const char *key,
				 const char **ret_value)
{
	char shown[SHOWN_MAX];
	uint32_t i;
	int r;

	err_begin();
	r = check(safetensors, ret_value, "hm_safetensors_metadata_find");
	if (r)
		return r;
	if (!key)
		return err_set(-EINVAL, "hm_safetensors_metadata_find: key is NULL");
	for (i = 0; i < safetensors->n_metadata; i++)
		if (!strcmp(safetensors->metadata[i].key, key)) {
			*ret_value = safetensors->metadata[i].value;
			return 0;
		}
	return err_set(-ENOENT, "there is no %s among the %u strings of __metadata__",
		       name_shown(key, shown), safetensors->n_metadata);
}

/* ---- tensors ---- */

int safetensors_find(struct hm_safetensors *safetensors, const char *name, uint64_t *ret_index)
{
	const struct name *found;
	char shown[SHOWN_MAX];
	int r;

	r = check(safetensors, ret_index, "hm_safetensors_find");
	if (r)
		return r;
	if (!name)
		return err_set(-EINVAL, "hm_safetensors_find: name is NULL");
	found = names_find(&safetensors->names, name, strlen(name));
	if (!found)
		return err_set(-ENOENT, "there is no tensor %s among the %u of %s%s",
			       name_shown(name, shown), safetensors->n_tensor,
			       safetensors->shard[0].path,
			       safetensors->n_shard > 1 ? " and its further files" : "");
	*ret_index = found->value;
	return 0;
}

int hm_safetensors_find(struct hm_safetensors *safetensors, const char *name,
			uint64_t *ret_index)
{
	err_begin();
	return safetensors_find(safetensors, name, ret_index);
}

static int compare_names(const void *a, const void *b, void *user)
{
	const struct hm_safetensors *safetensors = user;
	const uint32_t *x = a, *y = b;

	return strcmp(safetensors->names.name[safetensors->tensor[*x].name].text,
		      safetensors->names.name[safetensors->tensor[*y].name].text);
}

/* The first call for this order pays for it. */
static int index_by_name(struct hm_safetensors *safetensors, uint64_t *index)
{
	uint32_t *order, i;
	int r = 0;

	pthread_mutex_lock(&safetensors->lock);
	order = safetensors->by_name;
	if (!order) {
		order = sys_calloc(safetensors->n_tensor, sizeof(*order));
		if (!order) {
			r = err_set(-ENOMEM, "no memory to sort %u names",
				    safetensors->n_tensor);
			goto out;
		}
		for (i = 0; i < safetensors->n_tensor; i++)
			order[i] = i;
		qsort_r(order, safetensors->n_tensor, sizeof(*order), compare_names,
			safetensors);
		safetensors->by_name = order;
	}
	*index = order[*index];
out:
	pthread_mutex_unlock(&safetensors->lock);
	return r;
}

int safetensors_tensor(struct hm_safetensors *safetensors, uint32_t order, uint64_t index,
		       struct hm_tensor_info *ret_info)
{
	const struct tensor *tensor;
	uint64_t lowest;
	int r;

	r = check(safetensors, ret_info, "hm_safetensors_tensor");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info),
				     TENSOR_INFO_LEAST, "hm_tensor_info");
	if (!r && order > HM_TENSORS_BY_NAME)
		r = err_set(-EINVAL, "hm_safetensors_tensor: order %u is unknown: 0 and 1 are",
			    order);
	if (!r)
		r = check_index(index, safetensors->n_tensor, "tensor");
	if (!r && order == HM_TENSORS_BY_NAME)
		r = index_by_name(safetensors, &index);
	if (r)
		return r;
	tensor = &safetensors->tensor[index];
	lowest = tensor->offset & -tensor->offset;
	struct_write(ret_info,
		     &(struct hm_tensor_info){
			     .dtype = tensor->dtype,
			     .rank = tensor->rank,
			     .shard = tensor->shard,
			     .name = safetensors->names.name[tensor->name].text,
			     .shape = safetensors->extents + tensor->shape,
			     .index = index,
			     .offset = tensor->offset,
			     .bytes = tensor->bytes,
			     .alignment = min_u64(lowest, page_size()),
		     },
		     ret_info->struct_size);
	return 0;
}

int hm_safetensors_tensor(struct hm_safetensors *safetensors, uint32_t order, uint64_t index,
			  struct hm_tensor_info *ret_info)
{
	err_begin();
	return safetensors_tensor(safetensors, order, index, ret_info);
}
