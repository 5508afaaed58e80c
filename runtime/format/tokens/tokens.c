// SPDX-License-Identifier: MIT
/* Files of tokens: opened, mapped, and joined to one array. */
#include "api/api.h"
#include "format/tokens/tokens.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook/hook.h"
#include "api/network.h"
#include "format/npy/npy.h"
#include "format/text/foreign.h"
#include "format/tokens/tokens_index.h"
#include "core/segments.h"
#include "base/sys.h"
#include "map/map.h"

#define TOKENS_DESC_LEAST offsetof(struct hm_tokens_desc, budget)
#define TOKENS_INFO_LEAST offsetof(struct hm_tokens_info, budget)
#define SHARD_INFO_LEAST offsetof(struct hm_tokens_shard_info, first_document)

/* Positions and their products with eight bytes stay far from 2^64. */
#define TOKENS_MAX (1ull << 62)

static void destroy(struct hm_tokens *tokens)
{
	uint32_t i;

	tokens_budget_end(tokens);
	for (i = 0; i < tokens->n_shard; i++) {
		hm_map_unref(tokens->shard[i].map);
		hm_buffer_unref(tokens->shard[i].buffer);
		free(tokens->shard[i].shape);
		free(tokens->shard[i].end);
		free(tokens->shard[i].path);
	}
	free(tokens->shard);
	pthread_mutex_destroy(&tokens->counting);
	pthread_rwlock_destroy(&tokens->touching);
	tokens->object.kind = OBJECT_FREED;
	free(tokens);
}

static int create(uint32_t n_shard, struct hm_tokens **ret_tokens)
{
	struct hm_tokens *tokens = sys_calloc(1, sizeof(*tokens));

	if (!tokens)
		return err_set(-ENOMEM, "no memory for an hm_tokens");
	tokens->shard = sys_calloc(n_shard, sizeof(*tokens->shard));
	if (!tokens->shard) {
		free(tokens);
		return err_set(-ENOMEM, "no memory for %u shards", n_shard);
	}
	object_init(&tokens->object, OBJECT_TOKENS);
	/* Prefers writers: a stream of readers must not keep a thread from giving maps back. */
	tokens->touching = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	pthread_mutex_init(&tokens->counting, NULL);
	tokens->n_shard = n_shard;
	*ret_tokens = tokens;
	return 0;
}

/* ---- one file ---- */

/* By the same rule as readers: reader/choose.c. */
static bool is_network(const struct token_shard *shard)
{
	struct segment_list *list = segments_get(shard->buffer);
	bool is = network_has(list->segment[0].fd);

	segments_put(shard->buffer, list);
	return is;
}

static bool is_empty(const char *path)
{
	int fd = sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;
	int r;

	if (fd < 0)
		return false;
	r = sys_fstat(fd, &st);
	sys_close(fd);
	return !r && S_ISREG(st.st_mode) && !st.st_size;
}

/* Leaves shard->buffer NULL if the file is empty. */
static int map_file(struct hm_device *device, const struct hm_tokens_desc *wish,
		    struct token_shard *shard)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_READ_ONLY,
		.name = "tokens",
	};
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	uint64_t refusals = hook_refusals();
	int r;

	r = buffer_from_file(device, shard->path, -1, &desc, &shard->buffer);
	/* A hook, and a file system, may answer -ENODATA for a file that has bytes. */
	if (r == -ENODATA && hook_refusals() == refusals && is_empty(shard->path))
		return 0;
	if (r)
		return r;
	r = buffer_query(shard->buffer, &info);
	if (r)
		return r;
	shard->size = info.size;
	if (wish->flags & HM_TOKENS_READ || is_network(shard)) {
		shard->no_map = wish->flags & HM_TOKENS_READ ? NO_MAP_ASKED : NO_MAP_NETWORK;
		return 0;
	}
	r = map_create(shard->buffer, NULL, &shard->map);
	/* A file that can't be shared is read. */
	return r == -EOPNOTSUPP && hook_refusals() == refusals ? 0 : r;
}

/* A .npy file describes itself. A file that begins like another kind has no raw tokens. */
static int look_at(const struct token_shard *shard, const struct hm_tokens_desc *desc,
		   bool *ret_npy)
{
	char bytes[FOREIGN_BYTES], text[512];
	uint64_t n = min_u64(sizeof(bytes), shard->size);
	int r;

	r = tokens_pread(shard, bytes, n, 0);
	if (r)
		return r;
	*ret_npy = npy_begins(bytes, n);
	/* Tokens at an offset may be in a file of any kind: the caller knows where. */
	if (*ret_npy || desc->offset)
		return 0;
	r = foreign_check(bytes, n);
	if (!r)
		return 0;
	/* Text as tokens of one byte may begin like a page of HTML. */
	snprintf(text, sizeof(text), "%s", hm_errmsg());
	return err_set(r, "%s: %s; pass HM_TOKENS_RAW if its bytes are tokens nevertheless",
		       shard->path, text);
}

static int open_npy(struct token_shard *shard, const struct hm_tokens_desc *desc,
		    uint32_t *ret_dtype)
{
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	int r;

	r = npy_query(shard->path, &info);
	if (r)
		return r;
	if (info.offset > shard->size || info.bytes > shard->size - info.offset)
		return err_set(-EBADMSG,
			       "%s: the file was replaced: its array would end at byte "
			       "%" PRIu64 " of %" PRIu64,
			       shard->path, info.offset + info.bytes, shard->size);
	shard->version = info.version;
	shard->offset = info.offset;
	shard->n = info.elements;
	shard->swapped = info.flags & HM_NPY_SWAPPED;
	if (info.flags & HM_NPY_BYTES && npy_takes_type(info.itemsize, desc->dtype))
		info.dtype = desc->dtype;
	if (info.dtype == HM_NPY_OPAQUE)
		return err_set(
			-EOPNOTSUPP,
			"%s: its elements are of %s: tokens are of one of hm_dtype's types%s",
			shard->path, info.descr,
			info.flags & HM_NPY_BYTES ?
				"; hm_tokens_desc.dtype can name one of this size" :
				"");
	*ret_dtype = info.dtype;
	if (!(info.flags & HM_NPY_FORTRAN))
		return 0;
	shard->shape = sys_calloc(info.rank, sizeof(*shard->shape));
	if (!shard->shape)
		return err_set(-ENOMEM, "no memory for a shape of %u dimensions", info.rank);
	memcpy(shard->shape, info.shape, info.rank * sizeof(*shard->shape));
	shard->rank = info.rank;
	return 0;
}

static int open_raw(struct token_shard *shard, const struct hm_tokens_desc *desc,
		    uint32_t *ret_dtype)
{
	uint32_t dtype = desc->dtype || desc->flags & HM_TOKENS_BOOL ? desc->dtype :
								       HM_DTYPE_U16;
	uint32_t width = hm_dtype_bits(dtype) / 8;

	if (desc->offset > shard->size)
		return err_set(-EBADMSG,
			       "%s: its tokens should begin at byte %" PRIu64
			       ", and it has %" PRIu64 " bytes: correct the offset",
			       shard->path, desc->offset, shard->size);
	if ((shard->size - desc->offset) % width)
		return err_set(-EBADMSG,
			       "%s: its %" PRIu64 " bytes from %" PRIu64
			       " on are no whole tokens of %s, which take %u: it was cut off, "
			       "or has another type",
			       shard->path, shard->size - desc->offset, desc->offset,
			       hm_dtype_name(dtype), width);
	shard->offset = desc->offset;
	shard->n = (shard->size - desc->offset) / width;
	shard->swapped = desc->flags & HM_TOKENS_SWAPPED;
	*ret_dtype = dtype;
	return 0;
}

/* The file has @size bytes of tokens, maybe none. */
static int open_indexed(struct token_shard *shard, struct token_index *index,
			uint32_t *ret_dtype)
{
	int r;

	r = token_index_read(index, shard->size);
	if (r)
		return r;
	shard->index = index->kind;
	shard->n = shard->size / (hm_dtype_bits(index->dtype) / 8);
	shard->swapped = index->swapped && hm_dtype_bits(index->dtype) > 8;
	shard->end = index->end;
	shard->n_document = index->n;
	index->end = NULL;
	*ret_dtype = index->dtype;
	return 0;
}

/* ---- all files ---- */

static int refuse_type(const struct hm_tokens *tokens, const struct token_shard *shard,
		       uint32_t dtype)
{
	const struct token_shard *first = tokens->shard;

	while (!first->n)
		first++;
	return err_set(-EINVAL, "%s: its tokens are of %s, and those of %s of %s", shard->path,
		       hm_dtype_name(dtype), first->path, hm_dtype_name(tokens->dtype));
}

/* Finds the file's type, place and number of tokens, and its documents. */
static int open_file(struct hm_device *device, const struct hm_tokens_desc *desc,
		     struct token_index *index, struct token_shard *shard, uint32_t *ret_dtype)
{
	bool npy = false;
	int r;

	r = map_file(device, desc, shard);
	if (r)
		return index->kind ? err_prefix(r, "the tokens of %s", index->path) : r;
	if (index->kind)
		return open_indexed(shard, index, ret_dtype);
	/* A writer of shards may have no tokens left for the last ones. */
	if (!shard->buffer)
		return 0;
	if (!(desc->flags & HM_TOKENS_RAW))
		r = look_at(shard, desc, &npy);
	if (!r)
		r = npy ? open_npy(shard, desc, ret_dtype) : open_raw(shard, desc, ret_dtype);
	return r;
}

static int copy_path(const char *path, char **ret_path)
{
	*ret_path = sys_calloc(1, strlen(path) + 1);
	if (!*ret_path)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", strlen(path));
	memcpy(*ret_path, path, strlen(path));
	return 0;
}

static int open_shard(struct hm_tokens *tokens, struct hm_device *device, const char *path,
		      const struct hm_tokens_desc *desc, struct token_shard *shard)
{
	struct token_index index = { .kind = HM_TOKENS_INDEX_NONE };
	uint32_t dtype = 0;
	int r = 0;

	if (!(desc->flags & HM_TOKENS_RAW))
		r = token_index_find(path, &index);
	if (!r)
		r = copy_path(index.kind ? index.tokens : path, &shard->path);
	if (!r)
		r = open_file(device, desc, &index, shard, &dtype);
	token_index_end(&index);
	if (r)
		return r;
	shard->first = tokens->n;
	shard->document = tokens->n_document;
	if (!shard->n)
		shard->n_document = 0;
	else if (!shard->end)
		shard->n_document = 1;
	tokens->n_document += shard->n_document;
	/*
	 * The type of no tokens does not matter: numpy's is float64 unless the program names
	 * another.
	 */
	if (!shard->n)
		return 0;
	if (tokens->n && dtype != tokens->dtype)
		return refuse_type(tokens, shard, dtype);
	tokens->dtype = dtype;
	tokens->width = hm_dtype_bits(dtype) / 8;
	tokens->n += shard->n;
	if (shard->n >= TOKENS_MAX || tokens->n >= TOKENS_MAX)
		return err_set(-EOVERFLOW,
			       "%s: with it there are %" PRIu64 " tokens, 2^62 or more",
			       shard->path, tokens->n);
	return 0;
}

static int open_shards(struct hm_tokens *tokens, const char *const *paths,
		       const struct hm_tokens_desc *desc)
{
	struct hm_device *device;
	uint32_t i;
	int r;

	r = device_open("file", &device);
	if (r)
		return r;
	for (i = 0; !r && i < tokens->n_shard; i++) {
		r = open_shard(tokens, device, paths[i], desc, &tokens->shard[i]);
	}
	hm_device_unref(device);
	if (!r && !tokens->n)
		r = err_set(-ENODATA, "%s%s empty: there is no token to read",
			    tokens->shard[0].path,
			    tokens->n_shard > 1 ? " and the other files are" : " is");
	if (!r && desc->vocab && !widen_is_integer(tokens->dtype))
		r = err_set(-EINVAL,
			    "%s: a vocabulary is of integers, and the tokens are of %s",
			    tokens->shard[0].path, hm_dtype_name(tokens->dtype));
	tokens->vocab = desc->vocab;
	return r;
}

static int check_desc(const struct hm_tokens_desc *desc)
{
	static const uint32_t flags = HM_TOKENS_RAW | HM_TOKENS_SWAPPED | HM_TOKENS_BOOL |
				      HM_TOKENS_READ;

	if (desc->flags & ~flags || desc->reserved)
		return err_set(-EINVAL, "hm_tokens_open: flags 0x%x or reserved %u are unknown",
			       desc->flags, desc->reserved);
	if (desc->flags & HM_TOKENS_BOOL && desc->dtype)
		return err_set(-EINVAL,
			       "hm_tokens_open: HM_TOKENS_BOOL says that dtype 0 is BOOL, and "
			       "dtype is %u",
			       desc->dtype);
	if (!widen_knows(desc->dtype))
		return err_set(
			-EINVAL, "hm_tokens_open: dtype %u (%s) is no type of whole bytes",
			desc->dtype,
			hm_dtype_name(desc->dtype) ? hm_dtype_name(desc->dtype) : "unknown");
	return 0;
}

static int check_paths(const char *const *paths, uint32_t n_paths, const void *result)
{
	uint32_t i;

	if (!paths || !n_paths || !result)
		return err_set(-EINVAL, "hm_tokens_open: %s",
			       !result ? "ret_tokens is NULL" :
			       !paths  ? "paths is NULL" :
					 "n_paths is 0");
	for (i = 0; i < n_paths; i++)
		if (!paths[i])
			return err_set(-EINVAL, "hm_tokens_open: path %u of %u is NULL", i,
				       n_paths);
	return 0;
}

int tokens_open_paths(const char *const *paths, uint32_t n_paths,
		      const struct hm_tokens_desc *desc, struct hm_tokens **ret_tokens)
{
	struct hm_tokens_desc known = { 0 };
	struct hm_tokens *tokens = NULL;
	int r;

	r = check_paths(paths, n_paths, ret_tokens);
	if (!r && desc)
		r = struct_read(&known, sizeof(known), desc, desc->struct_size,
				TOKENS_DESC_LEAST, "hm_tokens_desc");
	if (!r)
		r = check_desc(&known);
	if (!r)
		r = create(n_paths, &tokens);
	if (r)
		return r;
	r = open_shards(tokens, paths, &known);
	if (!r)
		r = tokens_budget_begin(tokens, known.budget);
	if (r) {
		destroy(tokens);
		return r;
	}
	err_clear();
	*ret_tokens = tokens;
	return 0;
}

int hm_tokens_open(const char *const *paths, uint32_t n_paths,
		   const struct hm_tokens_desc *desc, struct hm_tokens **ret_tokens)
{
	err_begin();
	return tokens_open_paths(paths, n_paths, desc, ret_tokens);
}

struct hm_tokens *hm_tokens_ref(struct hm_tokens *tokens)
{
	if (tokens)
		object_ref(&tokens->object);
	return tokens;
}

void hm_tokens_unref(struct hm_tokens *tokens)
{
	if (!tokens || !object_put(&tokens->object))
		return;
	err_hold();
	destroy(tokens);
	err_release();
}

/* ---- queries ---- */

uint32_t tokens_shard_of(const struct hm_tokens *tokens, uint64_t number)
{
	uint32_t low = 0, high = tokens->n_shard, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (tokens->shard[middle].first <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

const struct token_shard *tokens_shard_at(const struct hm_tokens *tokens, uint64_t number,
					  uint64_t n, uint64_t *ret_n)
{
	const struct token_shard *shard = &tokens->shard[tokens_shard_of(tokens, number)];

	*ret_n = min_u64(n, shard->first + shard->n - number);
	return shard;
}

static int check(const struct hm_tokens *tokens, const void *result, const char *what)
{
	if (!result)
		return err_set(-EINVAL, "%s: ret_info is NULL", what);
	return object_check(tokens ? &tokens->object : NULL, OBJECT_TOKENS);
}

int hm_tokens_query(struct hm_tokens *tokens, struct hm_tokens_info *ret_info)
{
	int r;

	err_begin();
	r = check(tokens, ret_info, "hm_tokens_query");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info),
				     TOKENS_INFO_LEAST, "hm_tokens_info");
	if (r)
		return r;
	struct_write(ret_info,
		     &(struct hm_tokens_info){
			     .dtype = tokens->dtype,
			     .shards = tokens->n_shard,
			     .tokens = tokens->n,
			     .bytes = tokens->n * tokens->width,
			     .budget = tokens->budget,
			     .documents = tokens->n_document,
		     },
		     ret_info->struct_size);
	return 0;
}

int hm_tokens_shard(struct hm_tokens *tokens, uint32_t number,
		    struct hm_tokens_shard_info *ret_info)
{
	const struct token_shard *shard;
	int r;

	err_begin();
	r = check(tokens, ret_info, "hm_tokens_shard");
	if (!r)
		r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), SHARD_INFO_LEAST,
				     "hm_tokens_shard_info");
	if (r)
		return r;
	if (number >= tokens->n_shard)
		return err_set(-ERANGE, "there is no shard %u: there are %u", number,
			       tokens->n_shard);
	shard = &tokens->shard[number];
	struct_write(ret_info,
		     &(struct hm_tokens_shard_info){
			     .npy = shard->version,
			     .flags = (shard->rank ? HM_NPY_FORTRAN : 0) |
				      (shard->swapped ? HM_NPY_SWAPPED : 0),
			     .path = shard->path,
			     .map = shard->map,
			     .size = shard->size,
			     .offset = shard->offset,
			     .first = shard->first,
			     .tokens = shard->n,
			     .index = shard->index,
			     .first_document = shard->document,
			     .documents = shard->n_document,
		     },
		     ret_info->struct_size);
	return 0;
}
