// SPDX-License-Identifier: MIT
/* GGUF: opens, queries and lists a file or the files of a split model. */
#include "api/api.h"
#include "format/gguf/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "core/buffer.h"
#include "map/map.h"

static void destroy(struct hm_gguf *gguf)
{
	uint32_t i;

	names_free(&gguf->tensors);
	names_free(&gguf->keys);
	free(gguf->tensor);
	free(gguf->value);
	for (i = 0; i < gguf->n_file; i++)
		gguf_file_free(&gguf->file[i]);
	free(gguf->file);
	pthread_mutex_destroy(&gguf->lock);
	gguf->object.kind = OBJECT_FREED;
	free(gguf);
}

static int create(struct hm_gguf **ret_gguf)
{
	struct hm_gguf *gguf = sys_calloc(1, sizeof(*gguf));

	if (!gguf)
		return err_set(-ENOMEM, "no memory for an hm_gguf");
	object_init(&gguf->object, OBJECT_GGUF);
	pthread_mutex_init(&gguf->lock, NULL);
	*ret_gguf = gguf;
	return 0;
}

/* ---- open ---- */

static int read_buffer(void *user, void *to, uint64_t length, uint64_t offset)
{
	return pieces_pread(user, to, length, offset);
}

/* Opens, maps and parses the file. Takes over @path, also on failure. */
static int open_file(struct gguf_file *file, uint32_t number, char *path,
		     struct hm_device *device)
{
	struct scan scan = { .read = read_buffer };
	int r;

	file->path = path;
	r = pieces_map_file(device, path, &file->map);
	if (r)
		return r;
	file->size = scan.size = hm_map_length(file->map);
	scan.user = file->map->buffer;
	r = scan_begin(&scan);
	if (!r)
		r = gguf_parse(file, number, &scan);
	scan_end(&scan);
	return r ? err_prefix(r, "%s", path) : 0;
}

/* Makes the file that was opened first one of @count, at its place, and opens the others. */
static int open_others(struct hm_gguf *gguf, struct hm_device *device, uint64_t no,
		       uint64_t count)
{
	struct gguf_file *all, first = gguf->file[0];
	char *path;
	uint32_t i;
	int r = 0;

	all = sys_calloc(count, sizeof(*all));
	if (!all)
		return err_set(-ENOMEM, "no memory for %" PRIu64 " files", count);
	free(gguf->file);
	gguf->file = all;
	gguf->n_file = (uint32_t)count;
	all[no] = first;
	for (i = 0; i < first.n_value; i++)
		first.value[i].file = (uint32_t)no;
	for (i = 0; i < first.n_tensor; i++)
		first.tensor[i].file = (uint32_t)no;
	for (i = 0; !r && i < count; i++) {
		if (i == no)
			continue;
		r = gguf_split_path(first.path, i, count, &path);
		if (!r)
			r = open_file(&all[i], i, path, device);
		if (r == -ENOENT)
			err_prefix(r, "file %u of the %" PRIu64 " of a split model", i + 1,
				   count);
	}
	return r ? r : gguf_split_check(gguf);
}

static int open_files(struct hm_gguf *gguf, const char *path, struct hm_device *device)
{
	size_t size = strlen(path) + 1;
	uint64_t no = 0, count = 0;
	const struct gguf_file *file;
	char *copy;
	int r;

	gguf->file = sys_calloc(1, sizeof(*gguf->file));
	copy = gguf->file ? sys_calloc(1, size) : NULL;
	if (!copy)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
	gguf->n_file = 1;
	r = open_file(&gguf->file[0], 0, memcpy(copy, path, size), device);
	if (r)
		return r;
	file = &gguf->file[0];
	if (file->split_count < 2)
		return 0;
	if (!gguf_split_is(path, &no, &count))
		return err_set(-EINVAL,
			       "%s: it is file %" PRIu64 " of the %" PRIu64
			       " of a split model: name it ...-%05" PRIu64 "-of-%05" PRIu64
			       ".gguf, beside the others",
			       path, file->split_no + 1, file->split_count, file->split_no + 1,
			       file->split_count);
	if (no != file->split_no || count != file->split_count)
		return err_set(-EBADMSG,
			       "%s: it is file %" PRIu64 " of %" PRIu64
			       " by its name, and file %" PRIu64 " of %" PRIu64
			       " by its metadata",
			       path, no + 1, count, file->split_no + 1, file->split_count);
	return open_others(gguf, device, no, count);
}

/* ---- the lists of all files ---- */

static int add_tensors(struct hm_gguf *gguf, struct gguf_file *file)
{
	struct gguf_tensor *tensor;
	char shown[SHOWN_MAX];
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < file->n_tensor; i++) {
		tensor = &file->tensor[i];
		r = names_add(&gguf->tensors, tensor->name, tensor->name_length,
			      gguf->n_tensor);
		gguf->tensor[gguf->n_tensor++] = tensor;
		if (r == -EEXIST)
			r = err_set(-EBADMSG, "%s: there are two tensors of the name %s",
				    file->path, name_shown(tensor->name, shown));
	}
	return r;
}

/* Keys of an earlier file count. */
static int add_values(struct hm_gguf *gguf, struct gguf_file *file)
{
	struct names own = { 0 };
	struct gguf_value *value;
	char shown[SHOWN_MAX];
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < file->n_value; i++) {
		value = &file->value[i];
		r = names_add(&own, value->key, value->key_length, i);
		if (r == -EEXIST)
			r = err_set(-EBADMSG, "%s: key %s is there twice", file->path,
				    name_shown(value->key, shown));
		if (r || names_find(&gguf->keys, value->key, value->key_length))
			continue;
		r = names_add(&gguf->keys, value->key, value->key_length, gguf->n_value);
		gguf->value[gguf->n_value++] = value;
	}
	names_free(&own);
	return r;
}

static int make_lists(struct hm_gguf *gguf)
{
	uint64_t n_tensor = 0, n_value = 0;
	uint32_t i;
	int r;

	for (i = 0; i < gguf->n_file; i++) {
		n_tensor += gguf->file[i].n_tensor;
		n_value += gguf->file[i].n_value;
	}
	if (max_u64(n_tensor, n_value) >= UINT32_MAX / 2)
		return err_set(-EBADMSG, "%s: more than 2^31 tensors or keys",
			       gguf->file[0].path);
	gguf->tensor = sys_calloc(n_tensor + 1, sizeof(*gguf->tensor));
	gguf->value = sys_calloc(n_value + 1, sizeof(*gguf->value));
	if (!gguf->tensor || !gguf->value)
		return err_set(-ENOMEM,
			       "no memory for %" PRIu64 " tensors and %" PRIu64 " keys",
			       n_tensor, n_value);
	r = names_expect(&gguf->tensors, (uint32_t)n_tensor);
	for (i = 0; !r && i < gguf->n_file; i++) {
		r = add_tensors(gguf, &gguf->file[i]);
		if (!r)
			r = add_values(gguf, &gguf->file[i]);
	}
	return r;
}

int gguf_open(const char *path, uint32_t flags, struct hm_gguf **ret_gguf)
{
	struct hm_device *device;
	struct hm_gguf *gguf = NULL;
	int r;

	if (!path || !ret_gguf)
		return err_set(-EINVAL, "hm_gguf_open: %s is NULL", path ? "ret_gguf" : "path");
	if (flags)
		return err_set(-EINVAL, "hm_gguf_open: flags 0x%x are unknown", flags);
	r = create(&gguf);
	if (r)
		return r;
	r = device_open("file", &device);
	if (!r) {
		r = open_files(gguf, path, device);
		hm_device_unref(device);
	}
	if (!r)
		r = make_lists(gguf);
	if (r) {
		destroy(gguf);
		return r;
	}
	*ret_gguf = gguf;
	return 0;
}

int hm_gguf_open(const char *path, uint32_t flags, struct hm_gguf **ret_gguf)
{
	err_begin();
	return gguf_open(path, flags, ret_gguf);
}

struct hm_gguf *hm_gguf_ref(struct hm_gguf *gguf)
{
	if (gguf)
		object_ref(&gguf->object);
	return gguf;
}

void hm_gguf_unref(struct hm_gguf *gguf)
{
	if (!gguf || !object_put(&gguf->object))
		return;
	err_hold();
	destroy(gguf);
	err_release();
}

/* ---- queries ---- */

int gguf_check(const struct hm_gguf *gguf, const void *result, const char *what)
{
	if (!result)
		return err_set(-EINVAL, "%s: an argument is NULL", what);
	return object_check(gguf ? &gguf->object : NULL, OBJECT_GGUF);
}

int gguf_check_index(uint64_t index, uint64_t n, const char *what)
{
	if (index < n)
		return 0;
	return err_set(-ERANGE, "there is no %s %" PRIu64 ": there are %" PRIu64, what, index,
		       n);
}

const struct gguf_type *gguf_type_of(const struct gguf_tensor *tensor)
{
	const struct gguf_type *type = NULL;

	/* Known since the header was read. */
	gguf_type_find(tensor->type, &type);
	return type;
}

bool gguf_is_swapped(const struct hm_gguf *gguf, const struct gguf_tensor *tensor)
{
	return gguf->file[tensor->file].swapped && gguf_type_of(tensor)->swapped;
}

int hm_gguf_query(struct hm_gguf *gguf, struct hm_gguf_info *ret_info)
{
	struct hm_gguf_info info = { 0 };
	const struct gguf_file *file;
	uint32_t i;
	int r;

	err_begin();
	r = gguf_check(gguf, ret_info, "hm_gguf_query");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(info), sizeof(info),
				     "hm_gguf_info");
	if (r)
		return r;
	file = &gguf->file[0];
	info.version = file->version;
	info.files = gguf->n_file;
	info.swapped = file->swapped;
	info.big_endian = file->swapped == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	info.alignment = file->alignment;
	info.tensors = gguf->n_tensor;
	info.metadata = gguf->n_value;
	for (i = 0; i < gguf->n_tensor; i++)
		info.bytes += gguf->tensor[i]->bytes;
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_gguf_file(struct hm_gguf *gguf, uint32_t number, struct hm_gguf_file_info *ret_info)
{
	struct hm_gguf_file_info info = { 0 };
	const struct gguf_file *file;
	uint32_t i;
	int r;

	err_begin();
	r = gguf_check(gguf, ret_info, "hm_gguf_file");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(info), sizeof(info),
				     "hm_gguf_file_info");
	if (!r)
		r = gguf_check_index(number, gguf->n_file, "file");
	if (r)
		return r;
	file = &gguf->file[number];
	info.version = file->version;
	info.path = file->path;
	info.map = file->map;
	info.size = file->size;
	info.data_offset = file->data;
	info.alignment = file->alignment;
	for (i = 0; i < number; i++)
		info.first += gguf->file[i].n_tensor;
	info.tensors = file->n_tensor;
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_gguf_find(struct hm_gguf *gguf, const char *name, uint64_t *ret_index)
{
	const struct name *found;
	char shown[SHOWN_MAX];
	int r;

	err_begin();
	r = gguf_check(gguf, ret_index, "hm_gguf_find");
	if (r)
		return r;
	if (!name)
		return err_set(-EINVAL, "hm_gguf_find: name is NULL");
	found = names_find(&gguf->tensors, name, strlen(name));
	if (!found)
		return err_set(-ENOENT, "there is no tensor %s among the %u of %s%s",
			       name_shown(name, shown), gguf->n_tensor, gguf->file[0].path,
			       gguf->n_file > 1 ? " and its further files" : "");
	*ret_index = found->value;
	return 0;
}

int hm_gguf_at(struct hm_gguf *gguf, uint64_t index, struct hm_gguf_tensor_info *ret_info)
{
	const struct gguf_tensor *tensor;
	const struct gguf_type *type;
	uint64_t lowest;
	bool swapped;
	int r;

	err_begin();
	r = gguf_check(gguf, ret_info, "hm_gguf_at");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info),
				     sizeof(*ret_info), "hm_gguf_tensor_info");
	if (!r)
		r = gguf_check_index(index, gguf->n_tensor, "tensor");
	if (r)
		return r;
	tensor = gguf->tensor[index];
	type = gguf_type_of(tensor);
	swapped = gguf_is_swapped(gguf, tensor);
	lowest = tensor->offset & -tensor->offset;
	struct_write(ret_info,
		     &(struct hm_gguf_tensor_info){
			     .type = tensor->type,
			     .dtype = swapped ? HM_DTYPE_OPAQUE : type->dtype,
			     .swapped = swapped,
			     .rank = tensor->rank,
			     .file = tensor->file,
			     .name = tensor->name,
			     .type_name = type->name,
			     .ne = tensor->ne,
			     .shape = tensor->shape,
			     .index = index,
			     .offset = tensor->offset,
			     .bytes = tensor->bytes,
			     .alignment = lowest ? min_u64(lowest, page_size()) : page_size(),
			     .block_elements = type->block_elements,
			     .block_bytes = type->block_bytes,
		     },
		     ret_info->struct_size);
	return 0;
}
