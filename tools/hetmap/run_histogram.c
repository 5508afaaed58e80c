// SPDX-License-Identifier: MIT
/*
 * hetmap run histogram: one pointer to the bytes of a file, for the kernel that
 * counts them and for the CPU that checks the count.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/input.h"
#include "common/machine.h"
#include "common/text.h"
#include "histogram.h"
#include "job.h"

struct histogram {
	struct job job;
	struct input input;
	uint64_t size;
	uint64_t whole; /* bytes for the accelerator; the CPU counts the rest */

	const unsigned char *bytes; /* both the CPU's and the kernel's pointer */
	struct hm_map *map;         /* map of the file; NULL: the bytes were loaded */
	struct hm_kernel *kernel;
	uint32_t *parts; /* the kernel's result: a table for each part */
	uint64_t n_part; /* tables that fit */

	uint64_t counts[HISTOGRAM_VALUES]; /* counts of the first pass */
	bool counted;
};

/* ---- getting at the bytes ---- */

static int fail_cut(const struct histogram *h)
{
	return fail(STATUS_WRONG, ENODATA, "run it again when no program writes to the file",
		    "'%s' was truncated while it was in use", h->input.shown);
}

static int map_file(struct histogram *h, struct hm_device *device)
{
	const char *slash = strrchr(h->input.path, '/');
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_READ_ONLY,
		.size = h->size,
		.name = slash ? slash + 1 : h->input.path,
	};
	struct hm_buffer *buffer;
	char *what;
	int r;

	r = hm_buffer_from_file(device, NULL, h->input.fd, &desc, &buffer);
	if (!r) {
		r = hm_map_create(buffer, NULL, &h->map);
		hm_buffer_unref(buffer);
	}
	if (r && input_cut(&h->input))
		return fail_cut(h);
	if (r) {
		what = text_format("cannot map '%s'", h->input.shown);
		fail_library(job_status_of(r), r,
			     r == -ENOMEM ? "raise RLIMIT_AS (ulimit -v): a map needs address "
					    "space as large as the file" :
					    NULL,
			     what);
		free(what);
		return job_status_of(r);
	}
	h->bytes = hm_map_address(h->map);
	return 0;
}

static int load_file(struct histogram *h, struct hm_device *device)
{
	unsigned char *bytes;
	uint64_t done = 0;
	ssize_t n;
	int r;

	r = machine_check_memory(h->size, "leave --device away: a mapped file needs none");
	if (r)
		return r;
	r = hm_alloc(device, h->size, HM_READ | HM_WRITE, &bytes);
	if (r)
		return fail_library(job_status_of(r), r, NULL,
				    "no buffer for the file's bytes");
	h->bytes = bytes;
	progress_begin("reading", h->size);
	while (done < h->size) {
		uint64_t piece = h->size - done < (16u << 20) ? h->size - done : 16u << 20;

		n = read(h->input.fd, bytes + done, piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(STATUS_WRONG, errno, NULL,
				    "cannot read '%s' at %" PRIu64 ": %s", h->input.shown, done,
				    strerror(errno));
		if (!n)
			return fail(STATUS_WRONG, ENODATA,
				    "run it again when no program writes to the file",
				    "'%s' was truncated while it was read: %" PRIu64
				    " of %" PRIu64 " bytes came",
				    h->input.shown, done, h->size);
		done += (uint64_t)n;
		progress_add((uint64_t)n);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	h->job.bytes_loaded = h->size;
	return 0;
}

/* The kernel's tables are with the bytes, where the device makes buffers. */
static int make_tables(struct histogram *h, struct hm_device *device)
{
	uint64_t a = histogram_parts(&h->job.in_place.info, h->size), b = 0;
	int r;

	if (h->job.copies.accel)
		b = histogram_parts(&h->job.copies.info, h->size);
	h->n_part = a > b ? a : b;
	r = hm_alloc(device, h->n_part * HISTOGRAM_VALUES * sizeof(*h->parts),
		     HM_READ | HM_WRITE, &h->parts);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no memory for the counts");
	return 0;
}

/* Else they are in host memory. */
static int make_host_tables(struct histogram *h)
{
	struct hm_device *host;
	int r, status;

	r = hm_device_open("host", &host);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot open host memory");
	status = make_tables(h, host);
	hm_device_unref(host);
	return status;
}

/* A DAX device makes buffers of its own bytes only: all other files are read into one. */
static bool maps_input(const struct histogram *h, const struct hm_device_info *info)
{
	if (!(info->caps & HM_CAP_FROM_FILE))
		return false;
	return strncmp(info->name, "dax:", 4) != 0 || !strcmp(info->name + 4, h->input.path);
}

/* An empty file is not mapped; the device is opened all the same. */
static int place(struct histogram *h, const char *name)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device;
	int r, status;
	bool maps;

	r = hm_device_open(name, &device);
	if (!r) {
		r = hm_device_query(device, &info);
		if (r)
			hm_device_unref(device);
	}
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	snprintf(h->job.device, sizeof(h->job.device), "%s", info.name);
	maps = maps_input(h, &info);
	if (!maps && h->job.options->ahead)
		status = fail(STATUS_USAGE, EINVAL, "leave --ahead or --device away",
			      "--ahead is for a file that is mapped, and device %s has a copy",
			      h->job.device);
	else if (!h->size)
		status = STATUS_DONE;
	else if (maps)
		status = map_file(h, device);
	else
		status = load_file(h, device);
	if (!status && h->size)
		status = info.caps & HM_CAP_CREATE ? make_tables(h, device) :
						     make_host_tables(h);
	hm_device_unref(device);
	return status;
}

/* ---- counting ---- */

static int wrong_result(const struct histogram *h, const char *whose, unsigned int value,
			uint64_t count, uint64_t expected)
{
	return fail(STATUS_WRONG, EIO,
		    "if a program wrote to the file meanwhile: run it again when none does",
		    "wrong result: %s counts byte 0x%02x %" PRIu64 " times, and %s %" PRIu64,
		    h->job.in_place.info.name, value, count, whose, expected);
}

/* The end of a slice: not more than is announced at once. */
static uint64_t slice_end(const struct histogram *h, uint64_t offset)
{
	uint64_t end = job_slice_end(&h->job, offset, h->whole);
	uint64_t ahead = h->job.options->ahead;

	return ahead && end - offset > ahead ? offset + ahead : end;
}

/* Announces bytes from @offset on while those before are counted. Once a pass: they stay. */
static int announce(const struct histogram *h, uint64_t offset)
{
	uint64_t length = h->job.options->ahead;
	int r;

	if (!length || h->counted || offset >= h->size)
		return 0;
	if (length > h->size - offset)
		length = h->size - offset;
	r = hm_map_advise(h->map, offset, length, HM_ADVICE_WILLNEED);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "leave --ahead away",
				    "cannot read the file ahead");
	return 0;
}

/*
 * Returns 0 if the file still has its length. Called after failures, too: a cut file is an
 * errno for a copy, and a SIGBUS for a read.
 */
static int check_cut(const struct histogram *h)
{
	return h->map && input_cut(&h->input) ? fail_cut(h) : 0;
}

static int histogram_pass(void *user, struct job_side *side, struct job_pass *ret_pass)
{
	struct histogram *h = user;
	uint64_t counts[HISTOGRAM_VALUES] = { 0 };
	uint64_t offset, end, parts, i;
	struct hm_fence *fence;
	int r, status, ahead;

	status = announce(h, 0);
	if (status)
		return status;
	for (offset = 0; offset < h->whole; offset = end) {
		end = slice_end(h, offset);
		parts = histogram_parts(&side->info, end - offset);
		r = hm_launch(side->queue, h->kernel, parts * histogram_group(&side->info),
			      &fence, HM_RANGE(h->bytes + offset, end - offset, HM_READ),
			      HM_U64(end - offset),
			      HM_RANGE(h->parts, parts * HISTOGRAM_VALUES * sizeof(*h->parts),
				       HM_WRITE));
		if (r)
			return check_cut(h) ? STATUS_WRONG :
					      fail_library(STATUS_ENVIRONMENT, r, NULL,
							   "cannot launch the kernel");
		ahead = announce(h, end);
		r = hm_fence_wait(fence, UINT64_MAX);
		if (r && check_cut(h)) {
			hm_fence_unref(fence);
			return STATUS_WRONG;
		}
		status = job_waited(fence, r, end - offset, ret_pass);
		if (status || ahead)
			return status ? status : ahead;
		for (i = 0; i < parts * HISTOGRAM_VALUES; i++)
			counts[i % HISTOGRAM_VALUES] += h->parts[i];
	}
	histogram_count(h->bytes + h->whole, h->size - h->whole, counts);
	if (!h->counted)
		memcpy(h->counts, counts, sizeof(counts));
	h->counted = true;
	for (i = 0; i < HISTOGRAM_VALUES; i++)
		if (counts[i] != h->counts[i])
			return wrong_result(h, "in its first pass", (unsigned int)i, counts[i],
					    h->counts[i]);
	return 0;
}

static int verify(const struct histogram *h)
{
	uint64_t expected[HISTOGRAM_VALUES] = { 0 };
	uint64_t offset, end, i;

	progress_begin("checking on the CPU", h->size);
	for (offset = 0; offset < h->size; offset = end) {
		end = h->size - offset < (64u << 20) ? h->size : offset + (64u << 20);
		histogram_count(h->bytes + offset, end - offset, expected);
		progress_add(end - offset);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	if (check_cut(h))
		return STATUS_WRONG;
	for (i = 0; i < HISTOGRAM_VALUES; i++)
		if (h->counts[i] != expected[i])
			return wrong_result(h, "the CPU", (unsigned int)i, h->counts[i],
					    expected[i]);
	return 0;
}

/* Keeps the reason why bytes are copied. */
static int look_at_way(struct histogram *h)
{
	uint64_t end = job_slice_end(&h->job, 0, h->whole);
	uint32_t way;
	int r;

	if (!h->whole)
		return 0;
	r = hm_accel_way_in(h->job.in_place.accel, h->bytes, end, &way);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL,
				    "the accelerator can't reach the bytes");
	if (way == HM_WAY_COPY)
		h->job.reason = strdup(hm_warning());
	return 0;
}

/* Also finds out how the accelerator gets at the bytes, before it is timed. */
static int count(struct histogram *h)
{
	int r, status;

	r = histogram_kernel_create(&h->job.in_place.info, &h->kernel);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no kernel");
	status = job_build(&h->job, h->kernel);
	if (status)
		return status;
	/* The compiler inside a driver installs handlers of its own: before ours. */
	if (h->map)
		lost_watch(h->input.fd, h->input.path);
	status = look_at_way(h);
	if (!status)
		status = job_measure(&h->job, h->size, histogram_pass, NULL, h);
	return status ? status : verify(h);
}

/* ---- result ---- */

static void print_json(const struct histogram *h)
{
	json_t *object = json_object(), *counts = json_array();
	char *path = text_escape_json(h->input.path);
	int i;

	for (i = 0; i < HISTOGRAM_VALUES; i++)
		json_array_append_new(counts, json_integer((json_int_t)h->counts[i]));
	json_object_set_new(object, "job", json_string("histogram"));
	json_object_set_new(object, "file", json_string(path));
	json_object_set_new(object, "bytes", json_integer((json_int_t)h->size));
	json_object_set_new(object, "entropy", json_real(histogram_entropy(h->counts)));
	json_object_set_new(object, "histogram", counts);
	json_object_set_new(object, "bytes_by_cpu",
			    json_integer((json_int_t)(h->size - h->whole)));
	job_json(&h->job, object);
	json_object_set_new(object, "verified", json_true());
	output_object(object);
	free(path);
}

static void print(const struct histogram *h)
{
	char bytes[TEXT_MAX], size[TEXT_MAX];

	if (output.json) {
		print_json(h);
		return;
	}
	printf("%s: %s byte%s", h->input.shown, text_count(h->size, bytes),
	       h->size == 1 ? "" : "s");
	if (h->size >= 1024)
		printf(", %s", text_bytes(h->size, size));
	puts("\n");
	if (!h->size) {
		puts("  The file is empty: nothing to count, entropy 0.");
		return;
	}
	histogram_chart(h->counts);
	job_print(&h->job, h->size);
	if (h->whole < h->size)
		printf("  by the CPU   the last %s: the engine takes multiples of %" PRIu64
		       "\n",
		       text_bytes(h->size - h->whole, bytes), h->job.in_place.info.alignment);
	puts("  verified     every count is the CPU's own");
}

int run_histogram(const struct job_options *options)
{
	struct histogram *h = calloc(1, sizeof(*h));
	int status;

	if (!h)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	status = input_open(options->file, &h->input);
	if (status)
		goto out_free;
	h->size = (uint64_t)h->input.stat.st_size;
	status = job_open(&h->job, options);
	if (status)
		goto out_close;
	h->whole = histogram_whole(&h->job.in_place.info, h->size);
	status = place(h, options->device ? options->device : "file");
	if (!status && h->size)
		status = count(h);
	lost_watch(-1, NULL);
	progress_end();
	if (!status)
		print(h);

	hm_kernel_unref(h->kernel);
	hm_free(h->parts);
	if (h->map)
		hm_map_unref(h->map);
	else
		hm_free((void *)h->bytes);
	job_close(&h->job);
out_close:
	input_close(&h->input);
out_free:
	free(h);
	return status;
}
