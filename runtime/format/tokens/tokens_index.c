// SPDX-License-Identifier: MIT
/* Finds and reads indexes of documents: see tokens_index.h. */
#include "format/tokens/tokens_index.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/sys.h"
#include "core/core.h"
#include "format/text/foreign.h"
#include "hook/hook.h"

#define RAW_REMEDY "pass HM_TOKENS_RAW if it is to be read without the index"

/* ---- the pair ---- */

#define MEGATRON_MAGIC "MMIDIDX\0\0"
#define MAGIC_LENGTH (sizeof(MEGATRON_MAGIC) - 1)

static bool ends_in(const char *path, const char *end)
{
	size_t length = strlen(path), n = strlen(end);

	return length > n && !strcmp(path + length - n, end);
}

/* @path without its last @cut bytes, and with @end behind it. */
static int make_path(const char *path, size_t cut, const char *end, char **ret_path)
{
	size_t length = strlen(path) - cut, size = length + strlen(end) + 1;
	char *made = sys_calloc(1, size);

	if (!made)
		return err_set(-ENOMEM, "no memory for a path of %zu bytes", size);
	snprintf(made, size, "%.*s%s", (int)length, path, end);
	*ret_path = made;
	return 0;
}

/* A link that leads nowhere is an index that must be got, not none. */
static bool is_absent(int r, const char *path)
{
	char first;

	/* Beside a long name there can be no longer one. */
	if (r == -ENOTDIR || r == -ENAMETOOLONG)
		return true;
	return r == -ENOENT && sys_readlink(path, &first, sizeof(first)) < 0;
}

/* Opens an index; *@ret_fd is -1 if there is none. */
static int open_index(const char *path, int *ret_fd, uint64_t *ret_size)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0), r;
	struct stat st;

	*ret_fd = -1;
	if (is_absent(fd, path))
		return 0;
	if (fd < 0)
		return err_prefix(path_explain_open(fd, path), "%s", path);
	r = sys_fstat(fd, &st);
	if (r)
		err_set(r, "%s: fstat: %s", path, err_name(r));
	else if (S_ISREG(st.st_mode))
		r = hook_file(fd, (uint64_t)st.st_size, HM_READ);
	if (r || !S_ISREG(st.st_mode)) {
		sys_close(fd);
		return r;
	}
	*ret_fd = fd;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

static int read_at(int fd, const char *path, void *to, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_pread(fd, (char *)to + done, length - done, offset + done);
		if (n < 0)
			return err_set((int)n, "%s: reading it at byte %" PRIu64 ": %s", path,
				       offset + done, err_name((int)n));
		if (!n)
			return err_set(-ENODATA,
				       "%s: it ends at byte %" PRIu64 ", before %" PRIu64
				       ": it was cut off while it was in use",
				       path, offset + done, offset + length);
		done += (uint64_t)n;
	}
	return 0;
}

/* -EOPNOTSUPP: the file only stands in for the index, which is somewhere else. */
static int check_stand_in(int fd, const char *path, uint64_t size)
{
	char bytes[FOREIGN_BYTES];
	uint64_t n = min_u64(sizeof(bytes), size);
	int r;

	r = read_at(fd, path, bytes, n, 0);
	if (r)
		return r;
	r = foreign_check_stand_in(bytes, n);
	return r ? err_prefix(r, "%s", path) : 0;
}

/* Is there an index of Megatron at index->path? If not, the kind stays none. */
static int look_for_megatron(struct token_index *index)
{
	char magic[MAGIC_LENGTH];
	uint64_t size;
	int fd, r;

	r = open_index(index->path, &fd, &size);
	if (r || fd < 0)
		return r;
	r = check_stand_in(fd, index->path, size);
	if (!r && size >= MAGIC_LENGTH) {
		r = read_at(fd, index->path, magic, MAGIC_LENGTH, 0);
		if (!r && !memcmp(magic, MEGATRON_MAGIC, MAGIC_LENGTH))
			index->kind = HM_TOKENS_INDEX_MEGATRON;
	}
	sys_close(fd);
	return r;
}

/* datatrove's has nothing to be known by but its name. */
static int look_for_datatrove(struct token_index *index)
{
	uint64_t size;
	int fd, r;

	r = open_index(index->path, &fd, &size);
	if (r || fd < 0)
		return r;
	r = check_stand_in(fd, index->path, size);
	sys_close(fd);
	if (!r)
		index->kind = HM_TOKENS_INDEX_DATATROVE;
	return r;
}

/* The ends of the two names. */
static const struct {
	const char *tokens, *index;
	int (*look_for)(struct token_index *index);
} pairs[] = {
	{ ".bin", ".idx", look_for_megatron },
	{ ".ds", ".ds.index", look_for_datatrove },
};

int token_index_find(const char *path, struct token_index *ret_index)
{
	const char *end;
	size_t i;
	int r;

	*ret_index = (struct token_index){ .kind = HM_TOKENS_INDEX_NONE };
	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		end = ends_in(path, pairs[i].index)  ? pairs[i].index :
		      ends_in(path, pairs[i].tokens) ? pairs[i].tokens :
						       NULL;
		if (!end)
			continue;
		r = make_path(path, strlen(end), pairs[i].index, &ret_index->path);
		if (!r)
			r = make_path(path, strlen(end), pairs[i].tokens, &ret_index->tokens);
		return r ? r : pairs[i].look_for(ret_index);
	}
	return 0;
}

void token_index_end(struct token_index *index)
{
	free(index->path);
	free(index->tokens);
	free(index->end);
	*index = (struct token_index){ 0 };
}

/* ---- datatrove's: the end of each document in tokens, as uint64 ---- */

/* The last document ends where the file does: that gives the bytes of a token. */
static int find_width(struct token_index *index, uint64_t tokens, uint64_t size)
{
	static const struct {
		uint32_t dtype, width;
	} types[] = { { HM_DTYPE_U16, 2 }, { HM_DTYPE_U32, 4 } };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (size % types[i].width == 0 && tokens == size / types[i].width) {
			index->dtype = types[i].dtype;
			return 0;
		}
	return err_set(-EBADMSG,
		       "%s: its documents have %" PRIu64
		       " tokens, which %s does not have at 2 or "
		       "4 bytes each: it has %" PRIu64
		       " bytes; one of them was cut off, or " RAW_REMEDY,
		       index->path, tokens, index->tokens, size);
}

static int check_ends(struct token_index *index)
{
	uint64_t before = 0, i;

	for (i = 0; i < index->n; i++) {
		index->end[i] = le64toh(index->end[i]);
		if (index->end[i] < before)
			return err_set(-EBADMSG,
				       "%s: document %" PRIu64 " ends at token %" PRIu64
				       ", and the one before it at %" PRIu64,
				       index->path, i, index->end[i], before);
		before = index->end[i];
	}
	return 0;
}

static int make_ends(struct token_index *index, uint64_t n)
{
	index->end = sys_calloc(n + 1, sizeof(*index->end));
	if (!index->end)
		return err_set(-ENOMEM, "%s: no memory for the ends of %" PRIu64 " documents",
			       index->path, n);
	return 0;
}

static int read_datatrove(struct token_index *index, int fd, uint64_t index_size, uint64_t size)
{
	uint64_t n = index_size / sizeof(uint64_t);
	int r;

	if (index_size % sizeof(uint64_t))
		return err_set(-EBADMSG,
			       "%s: its %" PRIu64 " bytes are no whole ends of documents, of 8 "
			       "bytes each: it was cut off",
			       index->path, index_size);
	r = make_ends(index, n);
	if (!r)
		r = read_at(fd, index->path, index->end, index_size, 0);
	index->n = n;
	if (!r)
		r = check_ends(index);
	return r ? r : find_width(index, n ? index->end[n - 1] : 0, size);
}

/* ---- Megatron's ---- */

/*
 * Magic, version, type, numbers of sequences and of entries for documents; packed. The index of
 * fairseq, of which Megatron's was made, ends at the number of sequences, and has no documents
 * [fairseq, fairseq/data/indexed_dataset.py, MMapIndexedDataset].
 */
#define MEGATRON_HEADER 34
#define FAIRSEQ_HEADER 26
#define AT_VERSION 9
#define AT_TYPE 17
#define AT_SEQUENCES 18
#define AT_DOCUMENTS 26

#define WINDOW 16384

/* Numbers of an array in the index, one after another. */
struct numbers {
	uint64_t offset; /* of the next window, in the file */
	uint64_t left;   /* bytes that are in no window yet */
	uint32_t at, n;  /* bytes of the window */
	unsigned char window[WINDOW];
};

struct megatron {
	int fd;
	const char *path;
	uint32_t header; /* bytes of it */
	uint64_t sequences, entries;
	struct numbers lengths, pointers, documents;
};

static uint64_t number_at(const unsigned char *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return le64toh(value);
}

/* Takes the next @width bytes of the array, which must have them. */
static int take(const struct megatron *file, struct numbers *from, uint32_t width,
		const unsigned char **ret_bytes)
{
	int r;

	if (from->at == from->n) {
		from->n = (uint32_t)min_u64(from->left, WINDOW);
		from->at = 0;
		r = read_at(file->fd, file->path, from->window, from->n, from->offset);
		if (r)
			return r;
		from->offset += from->n;
		from->left -= from->n;
	}
	*ret_bytes = from->window + from->at;
	from->at += width;
	return 0;
}

static int take_u64(const struct megatron *file, struct numbers *from, uint64_t *ret_number)
{
	const unsigned char *bytes;
	int r = take(file, from, 8, &bytes);

	if (!r)
		*ret_number = number_at(bytes);
	return r;
}

static int take_length(struct megatron *file, int32_t *ret_length)
{
	const unsigned char *bytes;
	uint32_t value;
	int r = take(file, &file->lengths, 4, &bytes);

	if (r)
		return r;
	memcpy(&value, bytes, sizeof(value));
	*ret_length = (int32_t)le32toh(value);
	return 0;
}

/* Its code is an entry of this table. fairseq, and DeepSpeed's Megatron, have 9 and 10. */
static int find_type(struct token_index *index, uint32_t code)
{
	static const uint32_t types[] = {
		[1] = HM_DTYPE_U8,  [2] = HM_DTYPE_I8,   [3] = HM_DTYPE_I16, [4] = HM_DTYPE_I32,
		[5] = HM_DTYPE_I64, [6] = HM_DTYPE_F64,  [7] = HM_DTYPE_F32, [8] = HM_DTYPE_U16,
		[9] = HM_DTYPE_U32, [10] = HM_DTYPE_U64,
	};

	if (!code || code >= ARRAY_SIZE(types))
		return err_set(-EOPNOTSUPP, "%s: type %u is unknown: 1 to %zu are known",
			       index->path, code, ARRAY_SIZE(types) - 1);
	index->dtype = types[code];
	return 0;
}

static int read_header(struct token_index *index, struct megatron *file, uint64_t size)
{
	unsigned char header[MEGATRON_HEADER];
	uint64_t version, needed;
	bool fits;
	int r;

	if (size < sizeof(header))
		return err_set(-EBADMSG,
			       "%s: it ends inside of its header: it has %" PRIu64
			       " of %d bytes",
			       index->path, size, MEGATRON_HEADER);
	r = read_at(file->fd, index->path, header, sizeof(header), 0);
	if (r)
		return r;
	version = number_at(header + AT_VERSION);
	if (version != 1)
		return err_set(-EOPNOTSUPP, "%s: version %" PRIu64 " is unknown: 1 is known",
			       index->path, version);
	r = find_type(index, header[AT_TYPE]);
	if (r)
		return r;
	file->sequences = number_at(header + AT_SEQUENCES);
	file->header = FAIRSEQ_HEADER;
	/* Megatron's has 16 bytes more, at least. */
	if (file->sequences <= size / 12 && size == FAIRSEQ_HEADER + file->sequences * 12)
		return 0;
	file->header = MEGATRON_HEADER;
	file->entries = number_at(header + AT_DOCUMENTS);
	/* Each must fit on its own: otherwise the sum may have overflowed. */
	fits = file->sequences <= size / 12 && file->entries <= size / 8;
	needed = MEGATRON_HEADER + file->sequences * 12 + file->entries * 8;
	/* With images there is a byte for each sequence at the end. */
	if (!fits || (size != needed && size != needed + file->sequences))
		return err_set(-EBADMSG,
			       "%s: it has %" PRIu64 " bytes, which are too %s for %" PRIu64
			       " sequences and %" PRIu64 " entries for documents",
			       index->path, size, !fits || size < needed ? "few" : "many",
			       file->sequences, file->entries);
	if (!file->entries)
		return err_set(-EBADMSG,
			       "%s: it has no entry for documents, not even the first",
			       index->path);
	return 0;
}

static void begin_numbers(struct megatron *file)
{
	uint64_t at = file->header;

	file->lengths.offset = at;
	file->lengths.left = file->sequences * 4;
	at += file->lengths.left;
	file->pointers.offset = at;
	file->pointers.left = file->sequences * 8;
	at += file->pointers.left;
	file->documents.offset = at;
	file->documents.left = file->entries * 8;
}

/* Sequence @number: it must lie behind the one before it. Moves *@at, in bytes, behind it. */
static int take_sequence(const struct token_index *index, struct megatron *file,
			 uint64_t number, uint64_t size, uint64_t *at)
{
	uint32_t width = hm_dtype_bits(index->dtype) / 8;
	uint64_t pointer = 0;
	int32_t length = 0;
	int r;

	r = take_length(file, &length);
	if (!r)
		r = take_u64(file, &file->pointers, &pointer);
	if (r)
		return r;
	if (length < 0)
		return err_set(-EBADMSG, "%s: sequence %" PRIu64 " has %d tokens", index->path,
			       number, length);
	if (pointer > size || (uint64_t)length * width > size - pointer)
		return err_set(-EBADMSG,
			       "%s: sequence %" PRIu64 " has %d tokens of %u bytes from byte "
			       "%" PRIu64 " on, and %s has %" PRIu64 " bytes",
			       index->path, number, length, width, pointer, index->tokens,
			       size);
	if (pointer != *at)
		return err_set(-EOPNOTSUPP,
			       "%s: sequence %" PRIu64 " begins at byte %" PRIu64
			       ", and the one before it ends at %" PRIu64
			       ": only sequences one behind another are known",
			       index->path, number, pointer, *at);
	*at += (uint64_t)length * width;
	return 0;
}

/* Entry @number for documents: the number of the sequence behind the document. */
static int take_entry(const struct token_index *index, struct megatron *file, uint64_t number,
		      uint64_t before, uint64_t *ret_sequence)
{
	uint64_t sequence = 0;
	int r = take_u64(file, &file->documents, &sequence);

	if (r)
		return r;
	if (sequence < before || sequence > file->sequences || (!number && sequence))
		return err_set(-EBADMSG,
			       "%s: entry %" PRIu64 " for documents is sequence %" PRIu64
			       " of %" PRIu64 ", behind %" PRIu64
			       ": they begin with 0 and ascend",
			       index->path, number, sequence, file->sequences, before);
	*ret_sequence = sequence;
	return 0;
}

/* Each sequence is a document. */
static int take_sequences(struct token_index *index, struct megatron *file, uint64_t size,
			  uint64_t *at)
{
	uint32_t width = hm_dtype_bits(index->dtype) / 8;
	uint64_t sequence;
	int r = 0;

	for (sequence = 0; !r && sequence < file->sequences; sequence++) {
		r = take_sequence(index, file, sequence, size, at);
		index->end[index->n++] = *at / width;
	}
	return r;
}

static int take_documents(struct token_index *index, struct megatron *file, uint64_t size)
{
	uint64_t number, sequence = 0, next = 0, at = 0;
	uint32_t width = hm_dtype_bits(index->dtype) / 8;
	int r = 0;

	if (file->header == FAIRSEQ_HEADER) {
		r = take_sequences(index, file, size, &at);
		goto out;
	}
	for (number = 0; !r && number < file->entries; number++) {
		r = take_entry(index, file, number, sequence, &next);
		for (; !r && sequence < next; sequence++)
			r = take_sequence(index, file, sequence, size, &at);
		if (!r && number)
			index->end[index->n++] = at / width;
	}
	if (r || sequence == file->sequences)
		goto out;
	/* A writer that never ended its last document. */
	for (; !r && sequence < file->sequences; sequence++)
		r = take_sequence(index, file, sequence, size, &at);
	index->end[index->n++] = at / width;
out:
	if (!r && at != size)
		r = err_set(-EBADMSG,
			    "%s: its sequences end at byte %" PRIu64 ", and %s has %" PRIu64
			    ": they are no pair, or one of them was cut off",
			    index->path, at, index->tokens, size);
	return r;
}

static int read_megatron(struct token_index *index, int fd, uint64_t index_size, uint64_t size)
{
	struct megatron *file = sys_calloc(1, sizeof(*file));
	int r;

	if (!file)
		return err_set(-ENOMEM, "%s: no memory to read it", index->path);
	file->fd = fd;
	file->path = index->path;
	r = read_header(index, file, index_size);
	if (!r)
		r = make_ends(index,
			      file->header == FAIRSEQ_HEADER ? file->sequences : file->entries);
	if (!r) {
		begin_numbers(file);
		r = take_documents(index, file, size);
	}
	free(file);
	return r;
}

int token_index_read(struct token_index *index, uint64_t size)
{
	uint64_t index_size = 0;
	int fd, r;

	r = open_index(index->path, &fd, &index_size);
	if (r)
		return r;
	if (fd < 0)
		return err_set(-ENOENT, "%s: it was there, and is gone", index->path);
	index->swapped = BYTE_ORDER == BIG_ENDIAN;
	if (index->kind == HM_TOKENS_INDEX_MEGATRON)
		r = read_megatron(index, fd, index_size, size);
	else
		r = read_datatrove(index, fd, index_size, size);
	sys_close(fd);
	return r;
}
