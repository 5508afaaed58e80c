// SPDX-License-Identifier: MIT
/*
 * hetmap run tokens: the sums once more, from the files by pread(2), a token at a time. The
 * check shares nothing with the batches but the places of their blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "run_tokens.h"

/* ---- sums ---- */

/* The bits of F32 for those of F16, by the meaning of the bits [IEEE 754]. */
static uint64_t bits_of_half(uint64_t half)
{
	uint64_t exponent = half >> 10 & 31, fraction = half & 1023;
	uint64_t sign = (half & 0x8000) << 16;
	float value;
	uint32_t bits, i;

	if (exponent == 31)
		return sign | 0x7f800000 | fraction << 13;
	value = (float)(exponent ? 1024 + fraction : fraction) / (1 << 24);
	for (i = 1; i < exponent; i++)
		value *= 2;
	memcpy(&bits, &value, sizeof(bits));
	return sign | bits;
}

/* The value as 64 bits, whatever its sign; for types that are no integers, the bits of @to. */
static uint64_t value_of(uint32_t dtype, uint32_t to, const unsigned char *bytes, bool swapped)
{
	uint32_t width = hm_dtype_bits(dtype) / 8, i;
	/* Each half of a complex number has an order of its own. */
	uint32_t last = dtype == HM_DTYPE_C64 ? 3 : width - 1;
	uint64_t value = 0;

	for (i = 0; i < width; i++)
		value |= (uint64_t)bytes[swapped ? i ^ last : i] << (8 * i);
	if (to == HM_DTYPE_F32 && dtype == HM_DTYPE_F16)
		return bits_of_half(value);
	if (to == HM_DTYPE_F32 && dtype == HM_DTYPE_BF16)
		return value << 16;
	switch (dtype) {
	case HM_DTYPE_I8:
		return (uint64_t)(int64_t)(int8_t)value;
	case HM_DTYPE_I16:
		return (uint64_t)(int64_t)(int16_t)value;
	case HM_DTYPE_I32:
		return (uint64_t)(int64_t)(int32_t)value;
	default:
		return value;
	}
}

#define ADD_UP(type)                                                     \
	do {                                                             \
		const type *values = bytes;                              \
                                                                         \
		for (i = 0; i < n; i++) {                                \
			one += (uint64_t)(int64_t)values[i];             \
			other += (uint64_t)(int64_t)values[i] * (i + 1); \
		}                                                        \
	} while (0)

static void add_up_bits(uint32_t bits, const void *bytes, uint64_t n, uint64_t *sum,
			uint64_t *in_order)
{
	uint64_t one = 0, other = 0, i;

	switch (bits) {
	case 8:
		ADD_UP(uint8_t);
		break;
	case 16:
		ADD_UP(uint16_t);
		break;
	case 32:
		ADD_UP(uint32_t);
		break;
	default:
		ADD_UP(uint64_t);
		break;
	}
	*sum = one;
	*in_order = other;
}

void tokens_add_up(uint32_t dtype, const void *bytes, uint64_t n, uint64_t *sum,
		   uint64_t *in_order)
{
	uint64_t one = 0, other = 0, i;

	switch (dtype) {
	case HM_DTYPE_I8:
		ADD_UP(int8_t);
		break;
	case HM_DTYPE_I16:
		ADD_UP(int16_t);
		break;
	case HM_DTYPE_I32:
		ADD_UP(int32_t);
		break;
	default:
		/* Without a sign, or no integers, of which the bits are added up. */
		add_up_bits(hm_dtype_bits(dtype), bytes, n, &one, &other);
		break;
	}
	*sum = one;
	*in_order = other;
}

/* ---- the files again ---- */

struct plain_file {
	struct hm_tokens_shard_info info;
	struct hm_npy_info npy; /* its shape; in Fortran's order only */
	int fd;
};

struct plain {
	const struct tokens_job *job;
	struct plain_file *file;
	unsigned char *bytes; /* bytes of a block and one token */
	uint64_t *values;
};

static int fail_read(const struct plain_file *file, int error)
{
	char *shown = text_escape(file->info.path);
	bool few = error == EMFILE || error == ENFILE;
	int status = few ? STATUS_ENVIRONMENT : STATUS_WRONG;

	fail(status, error ? error : ENODATA,
	     few ? "raise ulimit -n" : "run it again when no program writes to the file",
	     "cannot read '%s' again: %s", shown, error ? strerror(error) : "it was cut off");
	free(shown);
	return status;
}

/* To plain->bytes. */
static int read_part(const struct plain *plain, const struct plain_file *file, uint64_t offset,
		     uint64_t length)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = pread(file->fd, plain->bytes + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_read(file, n ? errno : 0);
		done += (uint64_t)n;
	}
	return 0;
}

/* Where in the file number @at of the array is, which is in Fortran's order there. */
static uint64_t place_of(const struct hm_npy_info *npy, uint64_t at)
{
	uint64_t stride = npy->elements, place = 0;
	uint32_t d;

	/* The last dimension is the fastest of the array, and the slowest of the file. */
	for (d = npy->rank; d-- > 0; at /= npy->shape[d]) {
		stride /= npy->shape[d];
		place += at % npy->shape[d] * stride;
	}
	return place;
}

/* Tokens [@at, @at + @n) of one file, one at a time if they are all over it. */
static int read_file(const struct plain *plain, const struct plain_file *file, uint64_t at,
		     uint64_t n, uint64_t *to)
{
	uint32_t dtype = plain->job->info.dtype, width = hm_dtype_bits(dtype) / 8;
	bool swapped = file->info.flags & HM_NPY_SWAPPED;
	uint64_t i;
	int status = 0;

	if (file->info.flags & HM_NPY_FORTRAN) {
		for (i = 0; i < n && !status; i++) {
			status = read_part(plain, file,
					   file->info.offset +
						   place_of(&file->npy, at + i) * width,
					   width);
			to[i] = value_of(dtype, plain->job->to, plain->bytes, swapped);
		}
		return status;
	}
	status = read_part(plain, file, file->info.offset + at * width, n * width);
	for (i = 0; i < n && !status; i++)
		to[i] = value_of(dtype, plain->job->to, plain->bytes + i * width, swapped);
	return status;
}

bool tokens_type_is_signed(uint32_t dtype)
{
	return dtype == HM_DTYPE_I8 || dtype == HM_DTYPE_I16 || dtype == HM_DTYPE_I32 ||
	       dtype == HM_DTYPE_I64;
}

static int fail_vocabulary(const struct plain *plain, const struct plain_file *file,
			   uint64_t at, uint64_t value)
{
	char *shown = text_escape(file->info.path), count[TEXT_MAX], number[32];

	snprintf(number, sizeof(number),
		 tokens_type_is_signed(plain->job->info.dtype) ? "%" PRId64 : "%" PRIu64,
		 value);
	fail(STATUS_USAGE, ERANGE,
	     file->info.npy ?
		     "--vocab is how many tokens the tokenizer has: is the file of another one?" :
		     "look at --dtype, --byte-order and --offset, and whether --vocab is the "
		     "tokenizer's",
	     "token %s of '%s' is %s as %s, and --vocab is %" PRIu64, text_count(at, count),
	     shown, number, hm_dtype_name(plain->job->info.dtype), plain->job->options->vocab);
	free(shown);
	return STATUS_USAGE;
}

/* The @n values from token @at of the file on. Numbers below 0 are large ones here. */
static int check_vocabulary(const struct plain *plain, const struct plain_file *file,
			    uint64_t at, uint64_t n, const uint64_t *values)
{
	uint64_t vocab = plain->job->options->vocab, i;

	for (i = 0; vocab && i < n; i++)
		if (values[i] >= vocab)
			return fail_vocabulary(plain, file, at + i, values[i]);
	return 0;
}

/* Tokens [@first, @first + @n) as 64 bits. */
static int read_values(const struct plain *plain, uint64_t first, uint64_t n)
{
	const struct plain_file *file = plain->file;
	uint64_t *to = plain->values, now;
	int status = 0;

	for (; n && !status; first += now, n -= now, to += now, file++) {
		while (first >= file->info.first + file->info.tokens)
			file++;
		now = file->info.first + file->info.tokens - first;
		now = now < n ? now : n;
		status = read_file(plain, file, first - file->info.first, now, to);
		if (!status)
			status = check_vocabulary(plain, file, first - file->info.first, now,
						  to);
	}
	return status;
}

static int compare(const struct tokens_job *job, uint64_t number, const struct token_sums *sums)
{
	const struct token_sums *of_batch = &job->sums[number];

	if (!memcmp(sums, of_batch, sizeof(*sums)))
		return 0;
	return fail(STATUS_WRONG, EIO,
		    "if a program wrote to the file meanwhile: run it again when none does",
		    "wrong result: batch %" PRIu64 " has sums %" PRIu64 " of x and %" PRIu64
		    " of y on device %s, and %" PRIu64 " and %" PRIu64
		    " by a plain recomputation",
		    number, of_batch->x, of_batch->y, job->device_name, sums->x, sums->y);
}

static int fail_document(const struct tokens_job *job, uint64_t start, uint64_t n,
			 uint64_t document, uint64_t end)
{
	return fail(STATUS_WRONG, EIO, NULL,
		    "wrong result: a block of --block %" PRIu64 " has tokens %" PRIu64
		    " to %" PRIu64 ", and document %" PRIu64 " ends with token %" PRIu64,
		    job->options->block, start, start + n, document, end - 1);
}

/*
 * With --documents: the @n tokens from @start on and the one behind them must be of one document,
 * and fewer than a block only at its end.
 */
static int check_document(const struct tokens_job *job, uint64_t start, uint64_t n)
{
	uint64_t low = 0, high = job->info.documents, middle, first, length;
	int r;

	/* The last document that begins at the token or before it: empty ones share its place. */
	while (high - low > 1) {
		middle = low + (high - low) / 2;
		r = hm_tokens_document(job->tokens, middle, &first, &length);
		if (r)
			return fail_library(STATUS_WRONG, r, NULL, "a document is not there");
		if (first <= start)
			low = middle;
		else
			high = middle;
	}
	r = hm_tokens_document(job->tokens, low, &first, &length);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "a document is not there");
	if (start + n + 1 > first + length ||
	    (n < job->options->block && start + n + 1 != first + length))
		return fail_document(job, start, n, low, first + length);
	return 0;
}

/* Adds the block of @n tokens, which are in plain->values, at place @place and behind it. */
static void add_block(const struct plain *plain, uint64_t n, uint64_t place,
		      struct token_sums *sums)
{
	uint64_t block = plain->job->options->block, pad_y = (uint64_t)plain->job->pad_y, k;
	uint64_t x, y;

	for (k = 0; k < block; k++) {
		x = k < n ? plain->values[k] : PAD_X;
		y = k < n ? plain->values[k + 1] : pad_y;
		sums->x += x;
		sums->y += y;
		sums->x_in_order += x * (place + k + 1);
		sums->y_in_order += y * (place + k + 1);
	}
}

static int check_batches(const struct plain *plain)
{
	const struct tokens_job *job = plain->job;
	uint64_t block = job->options->block, b, i, at = 0;
	struct token_sums sums;
	int status = 0;

	for (b = 0; b < job->n_batch; b++) {
		memset(&sums, 0, sizeof(sums));
		for (i = 0; i < job->blocks[b]; i++, at++) {
			if (job->options->documents)
				status = check_document(job, job->starts[at], job->lengths[at]);
			if (!status)
				status = read_values(plain, job->starts[at],
						     job->lengths[at] + 1);
			if (status)
				return status;
			add_block(plain, job->lengths[at], i * block, &sums);
		}
		status = compare(job, b, &sums);
		if (status)
			return status;
		progress_add(job->blocks[b] * block * job->width);
		if (signals_pending())
			return 128 + signals_pending();
	}
	return 0;
}

static int open_files(struct plain *plain)
{
	struct plain_file *file;
	uint32_t i;
	int r;

	for (i = 0; i < plain->job->info.shards; i++)
		plain->file[i].fd = -1;
	for (i = 0; i < plain->job->info.shards; i++) {
		file = &plain->file[i];
		file->info.struct_size = sizeof(file->info);
		r = hm_tokens_shard(plain->job->tokens, i, &file->info);
		if (r)
			return fail_library(STATUS_ENVIRONMENT, r, NULL, "a file is not there");
		file->fd = open(file->info.path, O_RDONLY | O_CLOEXEC);
		if (file->fd < 0)
			return fail_read(file, errno);
		if (!(file->info.flags & HM_NPY_FORTRAN))
			continue;
		file->npy.struct_size = sizeof(file->npy);
		r = hm_npy_query(file->info.path, &file->npy);
		if (!r && file->npy.elements != file->info.tokens)
			return fail_read(file, 0);
		if (r)
			return fail_library(STATUS_WRONG, r, NULL,
					    "cannot read the shape again");
	}
	return 0;
}

static void end_plain(struct plain *plain)
{
	uint32_t i;

	for (i = 0; plain->file && i < plain->job->info.shards; i++)
		if (plain->file[i].fd >= 0)
			close(plain->file[i].fd);
	free(plain->file);
	free(plain->bytes);
	free(plain->values);
}

/* With room for @n tokens at a time. end_plain(), whatever comes of it. */
static int begin_plain(struct plain *plain, const struct tokens_job *job, uint64_t n)
{
	*plain = (struct plain){
		.job = job,
		.file = calloc(job->info.shards, sizeof(*plain->file)),
		.bytes = calloc(n, 8),
		.values = calloc(n, 8),
	};
	if (plain->file && plain->bytes && plain->values)
		return open_files(plain);
	free(plain->file);
	plain->file = NULL;
	return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory to check the tokens");
}

int tokens_check_vocabulary(const struct tokens_job *job)
{
	struct plain plain;
	uint64_t n;
	uint32_t i;
	int status;

	if (!job->options->vocab)
		return 0;
	status = begin_plain(&plain, job, VOCABULARY_FIRST);
	for (i = 0; i < job->info.shards && !status; i++) {
		n = plain.file[i].info.tokens;
		n = n < VOCABULARY_FIRST ? n : VOCABULARY_FIRST;
		status = read_file(&plain, &plain.file[i], 0, n, plain.values);
		if (!status)
			status = check_vocabulary(&plain, &plain.file[i], 0, n, plain.values);
	}
	end_plain(&plain);
	return status;
}

int tokens_verify(const struct tokens_job *job)
{
	struct plain plain;
	int status;

	status = begin_plain(&plain, job, job->options->block + 1);
	if (!status) {
		progress_begin("checking on the CPU",
			       job->n_block * job->options->block * job->width);
		status = check_batches(&plain);
		progress_end();
	}
	end_plain(&plain);
	return status;
}
