// SPDX-License-Identifier: MIT
/* hetmap run tokens: the choices, and the cost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/command.h"
#include "common/text.h"
#include "run_tokens.h"

static const char *const orders[] = {
	[HM_BATCHES_RANDOM] = "random",
	[HM_BATCHES_SHUFFLED] = "shuffled",
	[HM_BATCHES_IN_ORDER] = "in-order",
};

static const char *const ways[] = {
	[HM_BATCHES_NONE] = "none",
	[HM_BATCHES_MAPPED] = "mapped",
	[HM_BATCHES_READ] = "read",
};

static double rate(const struct tokens_job *job)
{
	return job->seconds > 0 ?
		       (double)job->n_block * (double)job->options->block / job->seconds :
		       0;
}

/* ---- for people ---- */

/* "430 million", "1.2 million", "98,304" */
static const char *rate_text(double tokens, char text[TEXT_MAX])
{
	if (tokens < 1e6)
		return text_count((uint64_t)tokens, text);
	snprintf(text, TEXT_MAX, "%.*f million", tokens < 1e7, tokens / 1e6);
	return text;
}

static void line(const char *label, char *text)
{
	printf("  %-13s", label);
	text_wrap(text, 15, 15, 79);
	free(text);
}

static char *phases_text(const struct tokens_job *job)
{
	char *text = text_format("%" PRIu64, job->phase[0]), *longer;
	unsigned int i;

	for (i = 1; i < job->n_phase; i++) {
		longer = text_format("%s, %" PRIu64, text, job->phase[i]);
		free(text);
		text = longer;
	}
	return text;
}

static void print_buffer(const struct tokens_job *job)
{
	char least[TEXT_MAX], most[TEXT_MAX], seconds[TEXT_MAX];

	if (job->resizes) {
		char *phases = phases_text(job);

		line("ramp", text_format("%s blocks a batch", phases));
		free(phases);
		line("buffer", text_format("%s to %s, %u resizes in %s, at %p all the time",
					   text_bytes(job->size_least, least),
					   text_bytes(job->size_most, most), job->resizes,
					   text_seconds(job->resize_seconds, seconds),
					   (void *)job->address));
		return;
	}
	line("buffer",
	     text_format("%s at %p, %d slots of x and y", text_bytes(job->size_most, most),
			 (void *)job->address, SLOTS));
}

/* Prints the options for files that don't name their own type. */
static void print_raw(const struct raw_tokens *raw)
{
	char bytes[TEXT_MAX];

	if (!raw->offset && !raw->byte_order)
		return;
	line("raw files",
	     text_format("tokens from byte %s on, %s%s", text_count(raw->offset, bytes),
			 raw->byte_order ? raw->byte_order : "this machine's",
			 raw->byte_order ? "-endian" : " byte order"));
}

/* Places behind the ends of documents, of x and of y each. */
static uint64_t padding_of(const struct tokens_job *job)
{
	uint64_t padding = 0, i;

	for (i = 0; i < job->n_block; i++)
		padding += job->options->block - job->lengths[i];
	return padding;
}

static void print_documents(const struct tokens_job *job)
{
	uint64_t places = job->n_block * job->options->block, padding = padding_of(job);
	char documents[TEXT_MAX], count[TEXT_MAX];

	line("documents",
	     text_format("%s in the files, each block within one; %s places of x and of y, "
			 "%.1f %%, are behind the end of one: x is %d there, y %" PRId64,
			 text_count(job->info.documents, documents), text_count(padding, count),
			 places ? 100.0 * (double)padding / (double)places : 0, PAD_X,
			 job->pad_y));
}

static void print_text(const struct tokens_job *job)
{
	char count[TEXT_MAX], bytes[TEXT_MAX], block[TEXT_MAX], seconds[TEXT_MAX];
	char waited[TEXT_MAX], minor[TEXT_MAX], major[TEXT_MAX];
	const struct job_options *options = job->options;
	char *shown = text_files(options->files, options->n_files);

	printf("%s: %s tokens of %s, %s\n\n", shown, text_count(job->info.tokens, count),
	       hm_dtype_name(job->info.dtype), text_bytes(job->info.bytes, bytes));
	free(shown);
	line("batches",
	     text_format("%s, blocks of %s token%s, to %s, %s, seed %" PRIu64,
			 text_count(job->n_batch, count), text_count(options->block, block),
			 options->block == 1 ? "" : "s", hm_dtype_name(job->to),
			 orders[options->order], options->seed));
	print_raw(&options->raw);
	if (options->documents)
		print_documents(job);
	line("device", text_format("%s", job->device_name));
	print_buffer(job);
	line("tokens", text_format("%s", job->cost.why));
	line("budget", text_format("%s for maps of the files, page tables included",
				   text_bytes(job->info.budget, bytes)));
	line("announced",
	     text_format("%" PRIu64 " of %" PRIu64 " %s filled", job->cost.announced,
			 job->cost.filled,
			 job->cost.filled == 1 ? "batch that was" : "batches that were"));
	line("time",
	     text_format("%s, %s tokens/s, of which %s were waited for "
			 "batches",
			 text_seconds(job->seconds, seconds), rate_text(rate(job), count),
			 text_seconds((double)job->cost.waited_ns / 1e9, waited)));
	line("read", text_format("%s of the files, in one pass to where they are used",
				 text_bytes(job->cost.bytes, bytes)));
	line("page faults",
	     text_format("%s minor, %s major", text_count((uint64_t)job->minor, minor),
			 text_count((uint64_t)job->major, major)));
	if (options->vocab)
		line("vocabulary",
		     text_format(
			     "below %s: tokens of the batches, and the first %d of each file",
			     text_count(options->vocab, count), VOCABULARY_FIRST));
	puts("  verified     the sums of every batch, by a plain recomputation");
}

/* ---- as JSON ---- */

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *strings(const char *const *names, unsigned int n)
{
	json_t *array = json_array();
	unsigned int i;

	for (i = 0; i < n; i++) {
		char *shown = text_escape_json(names[i]);

		json_array_append_new(array, json_string(shown));
		free(shown);
	}
	return array;
}

static json_t *shards_json(const struct tokens_job *job)
{
	struct hm_tokens_shard_info info = { .struct_size = sizeof(info) };
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < job->info.shards && !hm_tokens_shard(job->tokens, i, &info); i++)
		json_array_append_new(
			array,
			json_pack("{s:I, s:I, s:s, s:b}", "offset", (json_int_t)info.offset,
				  "tokens", (json_int_t)info.tokens, "byte_order",
				  tokens_byte_order_name(info.flags & HM_NPY_SWAPPED), "npy",
				  info.npy != 0));
	return array;
}

static json_t *buffer_json(const struct tokens_job *job)
{
	json_t *phases = json_array();
	char address[32];
	unsigned int i;

	for (i = 0; i < job->n_phase; i++)
		json_array_append_new(phases, number(job->phase[i]));
	snprintf(address, sizeof(address), "%p", (void *)job->address);
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:f, s:b}", "blocks", phases, "address",
			 address, "bytes_least", (json_int_t)job->size_least, "bytes_most",
			 (json_int_t)job->size_most, "resizes", (json_int_t)job->resizes,
			 "resize_seconds", job->resize_seconds, "address_kept", 1);
}

static void print_json(const struct tokens_job *job)
{
	const struct job_options *options = job->options;
	json_t *object = json_object();
	uint64_t sum = 0, i;

	for (i = 0; i < job->n_batch; i++)
		sum += job->sums[i].x;
	json_object_set_new(object, "job", json_string("tokens"));
	json_object_set_new(object, "files", strings(options->files, options->n_files));
	json_object_set_new(object, "shards", shards_json(job));
	json_object_set_new(object, "tokens", number(job->info.tokens));
	json_object_set_new(object, "dtype", json_string(hm_dtype_name(job->info.dtype)));
	json_object_set_new(object, "to", json_string(hm_dtype_name(job->to)));
	json_object_set_new(object, "vocab",
			    options->vocab ? number(options->vocab) : json_null());
	json_object_set_new(object, "order", json_string(orders[options->order]));
	json_object_set_new(object, "seed", number(options->seed));
	json_object_set_new(object, "block", number(options->block));
	json_object_set_new(object, "batches", number(job->n_batch));
	json_object_set_new(object, "tokens_fed", number(job->n_block * options->block));
	if (options->documents)
		json_object_set_new(object, "documents",
				    json_pack("{s:I, s:I, s:I, s:I}", "count",
					      (json_int_t)job->info.documents, "padding",
					      (json_int_t)padding_of(job), "pad_x",
					      (json_int_t)PAD_X, "pad_y",
					      (json_int_t)job->pad_y));
	/* The sum of all x, modulo 2^64, and without a sign that JSON has not. */
	json_object_set_new(object, "sum", json_integer((json_int_t)(sum & INT64_MAX)));
	json_object_set_new(object, "device", json_string(job->device_name));
	json_object_set_new(object, "buffer", buffer_json(job));
	json_object_set_new(object, "way", json_string(ways[job->cost.way]));
	json_object_set_new(object, "why", json_string(job->cost.why));
	json_object_set_new(object, "budget", number(job->info.budget));
	json_object_set_new(object, "batches_filled", number(job->cost.filled));
	json_object_set_new(object, "batches_mapped", number(job->cost.mapped));
	json_object_set_new(object, "batches_announced", number(job->cost.announced));
	json_object_set_new(object, "bytes_read", number(job->cost.bytes));
	json_object_set_new(object, "seconds",
			    json_pack("{s:f, s:f}", "all", job->seconds, "waited",
				      (double)job->cost.waited_ns / 1e9));
	json_object_set_new(object, "tokens_per_second", json_real(rate(job)));
	json_object_set_new(object, "faults",
			    json_pack("{s:I, s:I}", "minor", (json_int_t)job->minor, "major",
				      (json_int_t)job->major));
	json_object_set_new(object, "verified", json_true());
	output_object(object);
}

void tokens_print(const struct tokens_job *job)
{
	if (output.json)
		print_json(job);
	else
		print_text(job);
}
