// SPDX-License-Identifier: MIT
/*
 * hetmap run tokens: batches of tokens into a device's buffer, which grows and shrinks with
 * them at one address. A thread of the library fills slots of the buffer, and the job adds up
 * their tokens through the device's map.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/command.h"
#include "common/input.h"
#include "common/machine.h"
#include "common/text.h"
#include "run_tokens.h"

/* ---- opening ---- */

static int status_of(int r)
{
	switch (-r) {
	case EBADMSG:
	case EINVAL:
	case ENODATA:
	case EOPNOTSUPP:
	case EOVERFLOW:
	case ERANGE:
		return STATUS_USAGE;
	default:
		return job_status_of(r);
	}
}

/* For messages about a file that can't be opened at all. */
static int look_at_file(struct tokens_job *job, const char *path)
{
	struct input input;
	char head[6];
	int status;
	ssize_t n;

	status = input_open(path, &input);
	if (status)
		return status;
	n = pread(input.fd, head, sizeof(head), 0);
	if (raw_tokens_are_npy(head, n < 0 ? 0 : (size_t)n) || raw_tokens_have_index(path))
		job->n_npy++;
	else
		status = raw_tokens_check(&job->options->raw, "run", &input);
	input_close(&input);
	return status;
}

static int look_at_files(struct tokens_job *job)
{
	unsigned int i;
	int status = 0;

	for (i = 0; i < job->options->n_files && !status; i++)
		status = look_at_file(job, job->options->files[i]);
	return status;
}

static int open_tokens(struct tokens_job *job)
{
	const struct job_options *options = job->options;
	struct hm_tokens_desc desc = raw_tokens_desc(&options->raw);
	int r;

	desc.flags |= options->read ? HM_TOKENS_READ : 0;
	desc.budget = options->budget;
	desc.vocab = options->vocab;
	r = hm_tokens_open(options->files, options->n_files, &desc, &job->tokens);
	if (r)
		return raw_tokens_open_failed(&options->raw, job->n_npy < options->n_files, r);
	job->info.struct_size = sizeof(job->info);
	r = hm_tokens_query(job->tokens, &job->info);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot open the tokens");
	if (job->n_npy < options->n_files)
		return 0;
	return raw_tokens_check_other(&options->raw, "run", options->files[0],
				      hm_dtype_name(job->info.dtype));
}

/* From an eighth of --batch to all of it, and back. */
static void make_phases(struct tokens_job *job)
{
	static const unsigned int parts[PHASES_MAX] = { 8, 4, 2, 1, 2, 4, 8 };
	uint64_t batch = job->options->batch, size;
	unsigned int i;

	for (i = 0; i < PHASES_MAX; i++) {
		size = batch / parts[i] ? batch / parts[i] : 1;
		if (!job->options->ramp)
			size = batch;
		if (!job->n_phase || job->phase[job->n_phase - 1] != size)
			job->phase[job->n_phase++] = size;
	}
}

/* Every reported size must have had a batch. */
static int check_phases(const struct tokens_job *job)
{
	char remedy[64];

	if (job->options->batches >= job->n_phase)
		return 0;
	snprintf(remedy, sizeof(remedy), "--batches %u, or more", job->n_phase);
	return fail(STATUS_USAGE, EINVAL, remedy,
		    "run: --ramp feeds batches of %u sizes, one after another, and --batches "
		    "is %" PRIu64,
		    job->n_phase, job->options->batches);
}

/* BOOL, whose number is 0, converts to and from BOOL only, where 0 means BOOL. */
static int check_type(const struct tokens_job *job)
{
	uint32_t to = job->options->to;

	if (to == TYPE_NOT_GIVEN || to == job->to)
		return 0;
	return fail(STATUS_USAGE, EOPNOTSUPP, "leave --to away",
		    "cannot make batches: tokens of %s can't be made %s",
		    hm_dtype_name(job->info.dtype), hm_dtype_name(to));
}

/* Has the type of y numbers below 0? Without --to, integers become I64. */
static bool y_is_signed(const struct tokens_job *job)
{
	if (job->options->to != TYPE_NOT_GIVEN)
		return tokens_type_is_signed(job->options->to);
	switch (job->info.dtype) {
	case HM_DTYPE_U8:
	case HM_DTYPE_U16:
	case HM_DTYPE_U32:
	case HM_DTYPE_U64:
		return true;
	default:
		return tokens_type_is_signed(job->info.dtype);
	}
}

static int make_batches(struct tokens_job *job)
{
	bool documents = job->options->documents;
	uint32_t to = job->options->to;
	struct hm_batches_desc desc = {
		.struct_size = sizeof(desc),
		.flags = documents ? HM_BATCHES_DOCUMENTS : 0,
		.order = job->options->order,
		.dtype = to == TYPE_NOT_GIVEN ? 0 : to,
		.block = job->options->block,
		.batch = job->phase[0],
		.seed = job->options->seed,
		.pad_x = PAD_X,
	};
	int r;

	if (documents && y_is_signed(job))
		desc.pad_y = job->pad_y = PAD_Y;
	job->cost.struct_size = sizeof(job->cost);
	r = hm_batches_create(job->tokens, &desc, &job->batches);
	if (!r)
		r = hm_batches_query(job->batches, &job->cost);
	if (r)
		return fail_library(status_of(r), r,
				    r == -ERANGE && documents ? "leave --documents away" :
				    r == -ERANGE && job->info.tokens > 1 ?
								"choose a shorter --block" :
				    r == -EOPNOTSUPP ? "leave --to away" :
						       NULL,
				    "cannot make batches");
	job->to = job->cost.dtype;
	job->width = hm_dtype_bits(job->to) / 8;
	return check_type(job);
}

/* ---- the device's buffer ---- */

/* x, then y, in whole pages: slots have none in common. */
static uint64_t half_of(const struct tokens_job *job, uint64_t blocks)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (blocks * job->options->block * job->width + page - 1) / page * page;
}

static uint64_t size_of(const struct tokens_job *job, uint64_t blocks)
{
	return SLOTS * 2 * half_of(job, blocks);
}

static int open_device(struct tokens_job *job)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r;

	r = hm_device_open(job->options->device, &job->device);
	if (!r)
		r = hm_device_query(job->device, &info);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	snprintf(job->device_name, sizeof(job->device_name), "%s", info.name);
	if (!(info.caps & HM_CAP_CREATE))
		return fail(STATUS_USAGE, EOPNOTSUPP, "--device host",
			    "run: tokens feeds a device's buffer, and device %s makes none",
			    info.name);
	return machine_check_memory(size_of(job, job->options->batch),
				    "choose a smaller --batch");
}

static int make_buffer(struct tokens_job *job)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = size_of(job, job->phase[0]),
		.max_size = size_of(job, job->options->batch),
		.name = "batches",
	};
	int r;

	r = hm_buffer_create(job->device, &desc, &job->buffer);
	if (!r)
		r = hm_map_create(job->buffer, NULL, &job->map);
	if (r)
		return fail_library(job_status_of(r), r,
				    job_less(r, "choose a smaller --batch"),
				    "no buffer for the batches");
	job->address = hm_map_address(job->map);
	job->size = job->size_least = job->size_most = desc.size;
	return 0;
}

static int resize(struct tokens_job *job, uint64_t blocks)
{
	uint64_t size = size_of(job, blocks);
	double begin = job_now();
	int r;

	r = hm_batches_resize(job->batches, blocks);
	if (!r && size != job->size) {
		r = hm_buffer_resize(job->buffer, size, 0);
		job->resizes++;
	}
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "leave --ramp away",
				    "the device's buffer can't follow");
	job->resize_seconds += job_now() - begin;
	job->size = size;
	job->size_least = size < job->size_least ? size : job->size_least;
	job->size_most = size > job->size_most ? size : job->size_most;
	if (hm_map_address(job->map) == job->address)
		return 0;
	return fail(STATUS_WRONG, EFAULT, NULL,
		    "wrong result: the buffer was at %p, and is at %p now",
		    (void *)job->address, hm_map_address(job->map));
}

/* ---- feeding ---- */

static int begin_cpu(const struct tokens_job *job, uint64_t slot, uint64_t blocks,
		     uint32_t access)
{
	uint64_t length = 2 * half_of(job, blocks);
	int r = hm_map_begin_cpu(job->map, slot * length, length, access);

	return r ? fail_library(STATUS_WRONG, r, NULL, "the device's buffer can't be used") : 0;
}

static int end_cpu(const struct tokens_job *job, uint64_t slot, uint64_t blocks,
		   uint32_t access)
{
	uint64_t length = 2 * half_of(job, blocks);
	int r = hm_map_end_cpu(job->map, slot * length, length, access);

	return r ? fail_library(STATUS_WRONG, r, NULL, "the device's buffer can't be used") : 0;
}

static int fail_take(const struct tokens_job *job, int r)
{
	char wider[64];

	/* The files' own type holds all of them; int64, which is no type of theirs, may not. */
	snprintf(wider, sizeof(wider), "choose the files' own type: --to %s",
		 hm_dtype_name(job->info.dtype));
	return fail_library(
		r == -EOVERFLOW || r == -EDOM ? STATUS_USAGE : STATUS_WRONG, r,
		r == -EOVERFLOW ? wider :
		r == -EDOM      ? "is the file of another vocabulary, or --vocab wrong?" :
		r == -ENODATA   ? "run it again when no program writes to the file" :
				  NULL,
		"no further batch");
}

/* Plays the consumer of the batch: looks at all of it, in place. */
static int consume(struct tokens_job *job, const struct hm_batch *batch, uint64_t number)
{
	uint64_t n = batch->blocks * job->options->block, half = half_of(job, batch->blocks);
	const char *x = job->address + 2 * half * batch->slot;
	struct token_sums *sums = &job->sums[number];
	uint64_t i;
	int status;

	status = begin_cpu(job, batch->slot, batch->blocks, HM_READ);
	if (status)
		return status;
	tokens_add_up(job->to, x, n, &sums->x, &sums->x_in_order);
	tokens_add_up(job->to, x + half, n, &sums->y, &sums->y_in_order);
	memcpy(job->starts + job->n_block, batch->starts, batch->blocks * sizeof(*job->starts));
	for (i = 0; i < batch->blocks; i++)
		job->lengths[job->n_block + i] = batch->lengths ? batch->lengths[i] :
								  job->options->block;
	job->blocks[number] = batch->blocks;
	job->n_block += batch->blocks;
	job->n_batch++;
	return end_cpu(job, batch->slot, batch->blocks, HM_READ);
}

/* A slot is the CPU's while it is filled, and the device's then. */
static int feed_one(struct tokens_job *job, uint64_t blocks, bool *ret_owned)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	int r, status;

	r = hm_batches_take(job->batches, UINT64_MAX, &batch);
	if (r)
		return fail_take(job, r);
	ret_owned[batch.slot] = false;
	status = end_cpu(job, batch.slot, blocks, HM_WRITE);
	if (!status)
		status = consume(job, &batch, job->n_batch);
	if (!status)
		status = begin_cpu(job, batch.slot, blocks, HM_WRITE);
	if (status)
		return status;
	ret_owned[batch.slot] = true;
	hm_batches_give(job->batches, batch.slot);
	progress_add(2 * blocks * job->options->block * job->width);
	return signals_pending() ? 128 + signals_pending() : 0;
}

/* @n batches of one size. */
static int feed(struct tokens_job *job, uint64_t blocks, uint64_t n)
{
	uint64_t half = half_of(job, blocks), i;
	struct hm_batch_slot slot[SLOTS];
	bool owned[SLOTS] = { false };
	int r, status = 0, last;

	for (i = 0; i < SLOTS && !status; i++) {
		slot[i] = (struct hm_batch_slot){ job->address + 2 * half * i,
						  job->address + 2 * half * i + half };
		status = begin_cpu(job, i, blocks, HM_WRITE);
		owned[i] = !status;
	}
	if (!status) {
		r = hm_batches_start(job->batches, slot, SLOTS);
		if (r)
			status = fail_library(STATUS_ENVIRONMENT, r, NULL,
					      "no thread to keep batches ahead");
	}
	for (i = 0; i < n && !status; i++)
		status = feed_one(job, blocks, owned);
	hm_batches_stop(job->batches);
	for (i = 0; i < SLOTS; i++) {
		last = owned[i] ? end_cpu(job, i, blocks, HM_WRITE) : 0;
		status = status ? status : last;
	}
	return status;
}

/* The batches, evenly over the phases; all have one at least. */
static uint64_t share_of(const struct tokens_job *job, unsigned int phase)
{
	uint64_t n = job->options->batches;

	return n * (phase + 1) / job->n_phase - n * phase / job->n_phase;
}

static int make_room(struct tokens_job *job)
{
	uint64_t n = job->options->batches, blocks = 0;
	unsigned int i;

	for (i = 0; i < job->n_phase; i++)
		blocks += share_of(job, i) * job->phase[i];
	job->sums = calloc(n, sizeof(*job->sums));
	job->blocks = calloc(n, sizeof(*job->blocks));
	job->starts = calloc(blocks ? blocks : 1, sizeof(*job->starts));
	job->lengths = calloc(blocks ? blocks : 1, sizeof(*job->lengths));
	if (!job->sums || !job->blocks || !job->starts || !job->lengths)
		return fail(STATUS_ENVIRONMENT, ENOMEM, "choose fewer --batches",
			    "no memory for the check");
	progress_begin("feeding", 2 * blocks * job->options->block * job->width);
	return 0;
}

static int feed_all(struct tokens_job *job)
{
	struct rusage before, after;
	double begin = job_now();
	unsigned int i;
	int status, r;

	status = make_room(job);
	getrusage(RUSAGE_SELF, &before);
	for (i = 0; i < job->n_phase && !status; i++) {
		status = resize(job, job->phase[i]);
		if (!status)
			status = feed(job, job->phase[i], share_of(job, i));
	}
	getrusage(RUSAGE_SELF, &after);
	progress_end();
	job->seconds = job_now() - begin - job->resize_seconds;
	job->minor = after.ru_minflt - before.ru_minflt;
	job->major = after.ru_majflt - before.ru_majflt;
	job->cost.struct_size = sizeof(job->cost);
	r = hm_batches_query(job->batches, &job->cost);
	if (r && !status)
		status = fail_library(STATUS_ENVIRONMENT, r, NULL,
				      "cannot read the cost of the batches");
	return status;
}

static void close_job(struct tokens_job *job)
{
	hm_batches_unref(job->batches);
	hm_tokens_unref(job->tokens);
	hm_map_unref(job->map);
	hm_buffer_unref(job->buffer);
	hm_device_unref(job->device);
	free(job->sums);
	free(job->blocks);
	free(job->starts);
	free(job->lengths);
}

int run_tokens(const struct job_options *options)
{
	struct tokens_job job = { .options = options };
	int r, status;

	make_phases(&job);
	status = check_phases(&job);
	if (!status)
		status = look_at_files(&job);
	if (status)
		return status;
	/* With the handler, a file that is cut off is an error. */
	r = hm_handler_install(0);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "faults can't be handled");
	status = open_tokens(&job);
	if (!status)
		status = tokens_check_vocabulary(&job);
	if (!status)
		status = make_batches(&job);
	if (!status)
		status = open_device(&job);
	if (!status)
		status = make_buffer(&job);
	if (!status)
		status = feed_all(&job);
	if (!status)
		status = tokens_verify(&job);
	if (!status)
		tokens_print(&job);
	close_job(&job);
	hm_handler_remove();
	return status;
}
