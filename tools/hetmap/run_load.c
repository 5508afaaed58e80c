// SPDX-License-Identifier: MIT
/*
 * hetmap run load: the pieces of a file, such as a model's tensors, layer by layer, into the memory
 * of a device. A layer that is complete goes to the accelerator, which computes checksums of it
 * where it lies, while the next ones come.
 */
#include "run_load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/input.h"
#include "common/machine.h"
#include "common/text.h"

/* The least length that job_slice_end() lets through without an obstacle. */
#define LAUNCH_LEAST (16ull << 20)

/* ---- computing ---- */

static int wait_oldest(struct run_load *l)
{
	struct hm_fence *fence = l->fence[l->waited++ % LOAD_LAUNCHES];

	return job_wait(fence, 0, &l->job.pass);
}

static int wait_all(struct run_load *l)
{
	int status = 0;

	while (!status && l->waited < l->launched)
		status = wait_oldest(l);
	return status;
}

/* Whatever came of it. */
static void drop_fences(struct run_load *l)
{
	while (l->waited < l->launched)
		hm_fence_unref(l->fence[l->waited++ % LOAD_LAUNCHES]);
}

static int launch(struct run_load *l, const char *bytes, uint64_t length, uint64_t slot)
{
	uint64_t parts = checksum_parts(length);
	int r, status;

	if (l->launched - l->waited == LOAD_LAUNCHES) {
		status = wait_oldest(l);
		if (status)
			return status;
	}
	r = hm_launch(l->job.in_place.queue, l->kernel, parts,
		      &l->fence[l->launched % LOAD_LAUNCHES], HM_RANGE(bytes, length, HM_READ),
		      HM_U64(length),
		      HM_RANGE(l->sums + slot * CHECKSUM_STRIDE,
			       parts * CHECKSUM_STRIDE * sizeof(*l->sums), HM_WRITE));
	if (r)
		return fail_library(r == -ENODEV ? STATUS_WRONG : STATUS_ENVIRONMENT, r, NULL,
				    "cannot launch the kernel");
	l->launched++;
	return 0;
}

uint64_t load_launch_end(const struct run_load *l, uint64_t offset, uint64_t at, uint64_t whole)
{
	uint64_t end = job_slice_end(&l->job, offset + at, offset + whole) - offset;

	return at + checksum_launch_most(&l->job.in_place.info, end - at);
}

static int compute_piece(struct run_load *l, uint64_t index)
{
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	uint64_t slot = l->slot[index], whole, at, end;
	struct hm_pointer_info pointer;
	int r, status = 0;

	hm_pieces_at(l->pieces, index, &piece);
	whole = checksum_whole(&l->job.in_place.info, piece.bytes);
	if (!whole)
		return 0;
	r = hm_pointer_find(l->address[index], &pointer);
	if (r)
		return fail(STATUS_WRONG, r, NULL, "a piece is in no map");
	for (at = 0; !status && at < whole; at = end) {
		end = load_launch_end(l, pointer.map_offset, at, whole);
		status = launch(l, (char *)l->address[index] + at, end - at, slot);
		slot += checksum_parts(end - at);
	}
	return status;
}

/* The layer is complete. */
static int compute_layer(struct run_load *l)
{
	uint64_t i;

	for (i = l->first; !l->status && i < l->first + l->n; i++)
		l->status = compute_piece(l, i);
	l->n_layer += l->n > 0;
	l->first += l->n;
	l->n = 0;
	/* Told already. */
	return l->status ? -ECANCELED : 0;
}

/*
 * "model.layers.7" of "model.layers.7.mlp.up_proj.weight": up to the first part that is a
 * number; without one all but the last part.
 */
static size_t layer_length(const char *name)
{
	const char *dot, *at = name, *last = NULL;

	for (; (dot = strchr(at, '.')) != NULL; at = dot + 1) {
		if (dot > at && strspn(at, "0123456789") == (size_t)(dot - at))
			return (size_t)(dot - name);
		last = dot;
	}
	return last ? (size_t)(last - name) : strlen(name);
}

static int piece_loaded(const struct hm_piece_info *piece, void *address, void *user)
{
	size_t length = layer_length(piece->name);
	struct run_load *l = user;
	int r = 0;

	if (l->layer &&
	    (strlen(l->layer) != length || strncmp(l->layer, piece->name, length) != 0)) {
		r = compute_layer(l);
		free(l->layer);
		l->layer = NULL;
	}
	if (!l->layer)
		l->layer = strndup(piece->name, length);
	l->address[piece->index] = address;
	l->n++;
	return r;
}

static int step_loaded(uint64_t bytes, uint64_t total, void *user)
{
	struct run_load *l = user;

	(void)total;
	progress_add(bytes - l->job.bytes_loaded);
	l->job.bytes_loaded = bytes;
	load_memory_sample(l);
	return signals_pending() ? -EINTR : 0;
}

/* ---- loading ---- */

static int load_failed(struct run_load *l, int r)
{
	char *what;
	int status;

	if (l->status)
		return l->status;
	if (signals_pending())
		return 128 + signals_pending();
	what = text_format("cannot load '%s'", l->shown);
	switch (-r) {
	case ENODATA:
	case EIO:
	case ENODEV:
		status = fail_library(
			STATUS_WRONG, r,
			r == -ENODATA ? "run it again when no program writes to the file" :
					NULL,
			what);
		break;
	case ENOSPC:
	case ENOMEM:
		status = fail_library(STATUS_ENVIRONMENT, r,
				      "hetmap devices says how much memory each has", what);
		break;
	default:
		status = fail_library(STATUS_ENVIRONMENT, r, NULL, what);
	}
	free(what);
	return status;
}

static int load(struct run_load *l, struct hm_device *device)
{
	const struct hm_load_desc desc = {
		.struct_size = sizeof(desc),
		.window = l->job.options->load_window,
		.loaded = piece_loaded,
		.progress = step_loaded,
		.user = l,
	};
	double begin;
	int r, status;

	load_memory_begin(l);
	progress_begin("loading", l->model.bytes);
	r = hm_load_create(device, l->pieces, &desc, &l->load);
	if (!r) {
		l->info.struct_size = sizeof(l->info);
		r = hm_load_query(l->load, &l->info);
	}
	if (r)
		return load_failed(l, r);
	begin = job_now();
	compute_layer(l);
	status = l->status ? l->status : wait_all(l);
	l->compute_after = job_now() - begin;
	l->most.peak = process_memory_now().peak;
	progress_end();
	return status;
}

/* ---- before the load ---- */

/* A slot for each part of each piece, in memory of the device where it makes buffers. */
static int make_slots(struct run_load *l, struct hm_device *device)
{
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	const struct hm_accel_info *accel = &l->job.in_place.info;
	uint64_t i, whole;
	int r;

	l->slot = calloc(l->model.pieces + 1, sizeof(*l->slot));
	l->address = calloc(l->model.pieces + 1, sizeof(*l->address));
	if (!l->slot || !l->address)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the list");
	for (i = 0; i < l->model.pieces; i++) {
		r = hm_pieces_at(l->pieces, i, &piece);
		if (r)
			return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot list it");
		whole = checksum_whole(accel, piece.bytes);
		l->slot[i] = l->n_sum;
		/* A launch that ends where a window does ends with a part that is shorter. */
		l->n_sum += checksum_parts(whole) + 1;
		l->n_sum += l->job.window ? whole / l->job.window + 1 : 0;
		l->n_sum += whole / LAUNCH_LEAST;
		l->by_cpu += piece.bytes - whole;
	}
	r = hm_alloc(device, (l->n_sum + 1) * CHECKSUM_STRIDE * sizeof(*l->sums),
		     HM_READ | HM_WRITE, &l->sums);
	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "no memory for the checksums") : 0;
}

static int check_device(struct run_load *l, struct hm_device *device)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r = hm_device_query(device, &info);

	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot use the device");
	if (!(info.caps & HM_CAP_CREATE))
		return fail(STATUS_USAGE, EOPNOTSUPP, "--device host",
			    "run: load makes a buffer, and device %s creates none", info.name);
	snprintf(l->job.device, sizeof(l->job.device), "%s", info.name);
	/* All other devices have the machine's memory. */
	if (!strcmp(info.backend, "drm"))
		return 0;
	return machine_check_memory(l->model.bytes, "choose a smaller model");
}

static int prepare(struct run_load *l, struct hm_device *device)
{
	int r, status;

	status = check_device(l, device);
	if (status)
		return status;
	l->checksum = checksum_of(&l->job.in_place.info);
	r = checksum_kernel_create(&l->kernel);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no kernel");
	status = job_build(&l->job, l->kernel);
	return status ? status : make_slots(l, device);
}

/* A folder may be a model; other paths that are no file are refused as for other commands. */
static int check_path(const char *path)
{
	struct input input;
	struct stat st;
	int status;

	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return 0;
	status = input_open(path, &input);
	if (!status)
		input_close(&input);
	return status;
}

static int open_model(struct run_load *l)
{
	int status = check_path(l->path), r;

	if (!status)
		status = input_pieces(l->path, &l->pieces);
	if (status)
		return status;
	l->model.struct_size = sizeof(l->model);
	r = hm_pieces_query(l->pieces, &l->model);
	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot use the model") : 0;
}

static int run_on(struct run_load *l, const char *name)
{
	struct hm_device *device;
	int r, status;

	r = hm_device_open(name, &device);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	status = prepare(l, device);
	if (!status)
		status = load(l, device);
	if (!status)
		status = load_verify(l);
	hm_device_unref(device);
	return status;
}

int run_load(const struct job_options *options)
{
	struct job_options own = *options;
	struct run_load *l;
	int status;

	l = calloc(1, sizeof(*l));
	if (!l)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	l->path = options->file;
	l->shown = text_escape(l->path);
	/* A window of the files, not of the accelerator. */
	own.load_window = options->window;
	own.window = 0;
	status = open_model(l);
	if (!status)
		status = job_open(&l->job, &own);
	if (!status) {
		status = run_on(l, options->device);
		progress_end();
		if (!status)
			load_print(l);
		drop_fences(l);
		hm_kernel_unref(l->kernel);
		hm_free(l->sums);
		hm_load_unref(l->load);
		job_close(&l->job);
	}
	hm_pieces_unref(l->pieces);
	free(l->layer);
	free(l->slot);
	free(l->address);
	free(l->shown);
	free(l);
	return status;
}
