// SPDX-License-Identifier: MIT
/*
 * hetmap run saxpy --pointer: y = a * x + y by plain pointers of the process, in memory that the
 * library does not know: malloc(), a stack, a mapped file; or a map, for comparison. In words
 * instead of floats, which every engine has.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "run_pointer.h"

#define SIZE_DEFAULT (64ull << 20)
#define SIZE_ON_STACK (4ull << 20)
#define ROUNDS_DEFAULT 5
#define A 3u
#define ALIGN 64 /* enough for the engine of any kind of device */

static const char source[] =
	"__kernel void saxpy(uint a, __global const uint *x, __global uint *y)\n"
	"{\n"
	"	const size_t i = get_global_id(0);\n"
	"\n"
	"	y[i] += a * x[i];\n"
	"}\n";

static int saxpy_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const uint32_t a = args[0].u32, *x = args[1].pointer;
	uint32_t *y = (uint32_t *)(uintptr_t)args[2].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		y[i] += a * x[i];
	return 0;
}

static const struct hm_engine_step step = {
	.op = HM_ENGINE_AXPY,
	.destination = 2,
	.source = 1,
	.source2 = HM_ENGINE_NONE,
	.length = HM_ENGINE_NONE,
	.value = 0,
};

/* ---- figures of one run over fresh memory ---- */

struct figures {
	double first, median; /* seconds of the first pass, and of the rounds behind it */
	double before;        /* seconds of advice and prefetch */
	uint64_t device_faults, used;
	long minor, major;
	uint64_t bytes_copied;
	uint32_t way_in;
};

struct pointer_run {
	const struct job_options *options;
	uint64_t size, window, rounds;
	struct hm_accel *accel;
	struct hm_accel_info info;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_device *host;
	uint32_t *x, *y;
	/* The run that is under way. */
	bool advised;
	struct figures *figures;
	int status;
};

static uint32_t x_at(uint64_t i)
{
	return (uint32_t)(i * 2654435761u);
}

static void fill(const struct pointer_run *run)
{
	uint64_t i, n = run->size / sizeof(*run->x);

	for (i = 0; i < n; i++) {
		run->x[i] = x_at(i);
		run->y[i] = (uint32_t)i;
	}
}

static int verify(const struct pointer_run *run, uint64_t passes)
{
	uint64_t i, n = run->size / sizeof(*run->y);

	for (i = 0; i < n; i++) {
		uint32_t expected = (uint32_t)(i + passes * A * x_at(i));

		if (run->y[i] != expected)
			return fail(STATUS_WRONG, EIO, NULL,
				    "wrong result: y[%" PRIu64 "] is %" PRIu32 " after %" PRIu64
				    " pass%s, and should be %" PRIu32,
				    i, run->y[i], passes, passes == 1 ? "" : "es", expected);
	}
	return 0;
}

static int pass(struct pointer_run *run, uint64_t *bytes_copied, uint32_t *way_in)
{
	uint64_t at, length;
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence;
	int r;

	for (at = 0; at < run->size; at += length) {
		length = run->size - at < run->window ? run->size - at : run->window;
		r = hm_launch(run->queue, run->kernel, length / sizeof(*run->x), &fence,
			      HM_U32(A), HM_ANY((char *)run->x + at, length, HM_READ),
			      HM_ANY((char *)run->y + at, length, HM_READ | HM_WRITE));
		if (r)
			return fail_library(STATUS_ENVIRONMENT, r, NULL,
					    "cannot launch the kernel");
		r = hm_fence_wait(fence, UINT64_MAX);
		if (r) {
			hm_fence_unref(fence);
			return fail_library(STATUS_WRONG, r, NULL, "the launch failed");
		}
		if (!hm_fence_query(fence, &info)) {
			*bytes_copied += info.bytes_copied;
			if (info.way_in > *way_in)
				*way_in = info.way_in;
		}
		hm_fence_unref(fence);
		if (signals_pending())
			return 128 + signals_pending();
	}
	return 0;
}

/* ---- advice and prefetch ---- */

static const struct advice_name {
	const char *name;
	uint32_t advice;
	uint64_t value;
} advices[] = {
	{ "accessed-by", HM_RANGE_ACCESSED_BY, 0 },
	{ "read-mostly", HM_RANGE_READ_MOSTLY, 0 },
	{ "prefer-device", HM_RANGE_PREFER_DEVICE, 0 },
	{ "prefer-host", HM_RANGE_PREFER_HOST, 0 },
	{ "granule-4K", HM_RANGE_GRANULE, 4096 },
	{ "granule-64K", HM_RANGE_GRANULE, 65536 },
	{ "granule-2M", HM_RANGE_GRANULE, 2097152 },
};

#define N_ADVICE (sizeof(advices) / sizeof(advices[0]))

static const struct advice_name *find_advice(const char *name)
{
	size_t i;

	for (i = 0; i < N_ADVICE; i++)
		if (!strcmp(advices[i].name, name))
			return &advices[i];
	return NULL;
}

bool pointer_advice_known(const char *name)
{
	return find_advice(name);
}

/* The host's pages, where the accelerator has no entries of its own. */
static struct hm_accel *entries_of(const struct pointer_run *run)
{
	return run->info.caps & HM_ACCEL_MIRROR ? run->accel : NULL;
}

static int prepare(struct pointer_run *run)
{
	const struct advice_name *advice;
	void *const vector[2] = { run->x, run->y };
	struct hm_fence *fence[2] = { NULL, NULL };
	int i, r = 0;

	if (run->options->advise) {
		advice = find_advice(run->options->advise);
		for (i = 0; !r && i < 2; i++)
			r = hm_range_advise(vector[i], run->size, entries_of(run),
					    advice->advice, advice->value);
		if (!r && *hm_warning())
			remark("%s", hm_warning());
	}
	if (run->options->prefetch) {
		for (i = 0; !r && i < 2; i++)
			r = hm_range_prefetch(vector[i], run->size, entries_of(run),
					      i ? HM_READ | HM_WRITE : HM_READ, &fence[i]);
		for (i = 0; i < 2; i++) {
			if (!r && fence[i])
				r = hm_fence_wait(fence[i], UINT64_MAX);
			hm_fence_unref(fence[i]);
		}
	}
	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "advice or prefetch failed") : 0;
}

/* ---- a run ---- */

static int compare_seconds(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return difference < 0 ? -1 : difference > 0;
}

static int measure_rounds(struct pointer_run *run, double *ret_median)
{
	double *seconds = calloc(run->rounds, sizeof(*seconds));
	uint64_t i, copied = 0;
	uint32_t way = 0;
	int status = 0;

	if (!seconds)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	for (i = 0; !status && i < run->rounds; i++) {
		seconds[i] = job_now();
		status = pass(run, &copied, &way);
		seconds[i] = job_now() - seconds[i];
	}
	qsort(seconds, run->rounds, sizeof(*seconds), compare_seconds);
	*ret_median = seconds[run->rounds / 2];
	free(seconds);
	return status;
}

/* x and y are there: all that is measured of them. */
static int measure(struct pointer_run *run)
{
	struct hm_range_counts before = { .struct_size = sizeof(before) }, after = before;
	struct figures *figures = run->figures;
	struct rusage from, to;
	bool counts;
	int status;

	fill(run);
	counts = entries_of(run) && !hm_range_counts_get(run->accel, &before);
	figures->before = job_now();
	status = run->advised ? prepare(run) : 0;
	figures->before = job_now() - figures->before;
	if (status)
		return status;
	if (counts)
		hm_range_counts_get(run->accel, &before);
	getrusage(RUSAGE_SELF, &from);
	figures->first = job_now();
	status = pass(run, &figures->bytes_copied, &figures->way_in);
	figures->first = job_now() - figures->first;
	getrusage(RUSAGE_SELF, &to);
	if (!status && counts && !hm_range_counts_get(run->accel, &after)) {
		figures->device_faults = after.faults - before.faults;
		figures->used = after.used - before.used;
	}
	figures->minor = to.ru_minflt - from.ru_minflt;
	figures->major = to.ru_majflt - from.ru_majflt;
	if (!status)
		status = verify(run, 1);
	if (!status)
		status = measure_rounds(run, &figures->median);
	return status ? status : verify(run, 1 + run->rounds);
}

/* ---- memory: each kind makes x and y, measures, and takes them away ---- */

static int no_memory(const struct pointer_run *run, int error)
{
	char size[TEXT_MAX];

	return fail(STATUS_ENVIRONMENT, error, "choose a smaller --size",
		    "no memory for two vectors of %s", text_bytes(run->size, size));
}

static int with_malloc(struct pointer_run *run)
{
	size_t size = (run->size + ALIGN - 1) / ALIGN * ALIGN;
	int status;

	run->x = aligned_alloc(ALIGN, size);
	run->y = aligned_alloc(ALIGN, size);
	status = run->x && run->y ? measure(run) : no_memory(run, ENOMEM);
	free(run->x);
	free(run->y);
	return status;
}

static void *on_stack(void *user)
{
	struct pointer_run *run = user;
	char *bytes = __builtin_alloca(2 * run->size + 2 * ALIGN);
	uintptr_t at = ((uintptr_t)bytes + ALIGN - 1) / ALIGN * ALIGN;

	run->x = (uint32_t *)at;
	run->y = (uint32_t *)(at + (run->size + ALIGN - 1) / ALIGN * ALIGN);
	run->status = measure(run);
	return NULL;
}

static int with_stack(struct pointer_run *run)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	r = pthread_attr_setstacksize(&attr, (2 * run->size + (2 << 20)) / 4096 * 4096);
	if (!r)
		r = pthread_create(&thread, &attr, on_stack, run);
	pthread_attr_destroy(&attr);
	if (r)
		return no_memory(run, r);
	pthread_join(thread, NULL);
	return run->status;
}

static int with_file(struct pointer_run *run)
{
	const char *folder = getenv("TMPDIR");
	char *path = text_format("%s/hetmap-XXXXXX", folder && *folder ? folder : "/tmp");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = (run->size + page - 1) / page * page;
	void *bytes = MAP_FAILED;
	int fd = mkstemp(path), status;

	if (fd >= 0)
		unlink(path);
	if (fd >= 0 && !posix_fallocate(fd, 0, (off_t)(2 * size)))
		bytes = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		status = fail(STATUS_ENVIRONMENT, errno,
			      "choose a smaller --size, or another TMPDIR",
			      "no file for two vectors");
	} else {
		run->x = bytes;
		run->y = (uint32_t *)((char *)bytes + size);
		status = measure(run);
		munmap(bytes, 2 * size);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	return status;
}

static int with_map(struct pointer_run *run)
{
	int r = 0, status;

	run->x = run->y = NULL;
	if (!run->host)
		r = hm_device_open("host", &run->host);
	if (!r)
		r = hm_alloc(run->host, run->size, HM_READ | HM_WRITE, &run->x);
	if (!r)
		r = hm_alloc(run->host, run->size, HM_READ | HM_WRITE, &run->y);
	status = r ? fail_library(STATUS_ENVIRONMENT, r, job_less(r, "choose a smaller --size"),
				  "cannot make two vectors") :
		     measure(run);
	hm_free(run->x);
	hm_free(run->y);
	return status;
}

static const struct memory_kind {
	const char *name;
	const char *text;
	int (*measure)(struct pointer_run *run);
} kinds[] = {
	{ "malloc", "malloc()", with_malloc },
	{ "stack", "a thread's stack", with_stack },
	{ "file", "a file, mapped by mmap()", with_file },
	{ "map", "a map of host memory", with_map },
};

#define N_KIND (sizeof(kinds) / sizeof(kinds[0]))

static const struct memory_kind *find_kind(const char *name)
{
	size_t i;

	for (i = 0; i < N_KIND; i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

bool pointer_kind_known(const char *name)
{
	return find_kind(name);
}

/* ---- result ---- */

static json_t *figures_json(const struct figures *figures)
{
	return json_pack("{s:{s:f, s:f, s:f}, s:{s:I, s:I, s:I}, s:I}", "seconds", "first",
			 figures->first, "in_place", figures->median, "before", figures->before,
			 "faults", "minor", (json_int_t)figures->minor, "major",
			 (json_int_t)figures->major, "device",
			 (json_int_t)figures->device_faults, "prefetched_pages_used",
			 (json_int_t)figures->used);
}

static void print_json(const struct pointer_run *run, const struct figures *plain,
		       const struct figures *advised)
{
	json_t *object = figures_json(plain);

	json_object_set_new(object, "job", json_string("saxpy"));
	json_object_set_new(object, "pointer", json_string(run->options->pointer));
	json_object_set_new(object, "bytes", json_integer((json_int_t)(2 * run->size)));
	json_object_set_new(object, "bytes_copied",
			    json_integer((json_int_t)plain->bytes_copied));
	json_object_set_new(object, "rounds", json_integer((json_int_t)run->rounds));
	json_object_set_new(object, "device", json_string("process"));
	json_object_set_new(object, "accel", json_string(run->info.name));
	json_object_set_new(object, "way_in", json_string(job_way_json(plain->way_in)));
	json_object_set_new(object, "advised", advised ? figures_json(advised) : json_null());
	json_object_set_new(object, "verified", json_true());
	output_object(object);
}

static void print_figures(const struct pointer_run *run, const struct figures *figures)
{
	char first[TEXT_MAX], median[TEXT_MAX], minor[TEXT_MAX], device[TEXT_MAX];

	printf("  time         %s the first pass, %s each of %" PRIu64 " more (median)\n",
	       text_seconds(figures->first, first), text_seconds(figures->median, median),
	       run->rounds);
	printf("  page faults  %s minor, %ld major, in the first pass\n",
	       text_count((uint64_t)figures->minor, minor), figures->major);
	if (entries_of(run))
		printf("  device       %s fault%s in the first pass\n",
		       text_count(figures->device_faults, device),
		       figures->device_faults == 1 ? "" : "s");
}

static void print(const struct pointer_run *run, const struct figures *plain,
		  const struct figures *advised)
{
	char bytes[TEXT_MAX], copied[TEXT_MAX], before[TEXT_MAX];

	if (output.json) {
		print_json(run, plain, advised);
		return;
	}
	printf("saxpy: y = a * x + y, two vectors of %s in %s\n\n",
	       text_bytes(run->size, bytes), find_kind(run->options->pointer)->text);
	printf("  accelerator  %s, %s\n", run->info.name, run->info.description);
	printf("  pointer      the process's own, by HM_ANY\n");
	printf("  bytes copied %s by the launches\n", text_count(plain->bytes_copied, copied));
	print_figures(run, plain);
	if (advised) {
		printf("  with %s%s%s, %s before the launch:\n",
		       run->options->advise ? run->options->advise : "",
		       run->options->advise && run->options->prefetch ? " and " : "",
		       run->options->prefetch ? "prefetch" : "",
		       text_seconds(advised->before, before));
		print_figures(run, advised);
	}
	puts("  verified     every element of y, by the CPU");
}

/* ---- beginning and end ---- */

static int open_all(struct pointer_run *run)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "saxpy",
		.opencl = source,
		.cpu = saxpy_cpu,
		.signature = "u32 in inout",
		.engine = &step,
		.n_engine = 1,
	};
	const struct job_options *options = run->options;
	int r;

	run->info.struct_size = sizeof(run->info);
	r = hm_accel_open(options->accel ? options->accel : options->device, NULL, &run->accel);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r,
				    "with --pointer, --device names who computes: cpu, soft:0, "
				    "sim:0, opencl:0",
				    "cannot open the accelerator");
	r = hm_accel_query(run->accel, &run->info);
	if (!r)
		r = hm_queue_create(run->accel, 0, &run->queue);
	if (!r)
		r = hm_kernel_create(&desc, &run->kernel);
	if (!r)
		r = hm_kernel_build(run->kernel, run->accel);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot use the accelerator");
	run->window = run->info.window;
	if (options->window && options->window < run->window)
		run->window = options->window;
	return 0;
}

int run_pointer(const struct job_options *options)
{
	const struct memory_kind *kind = find_kind(options->pointer);
	struct figures plain = { 0 }, advised = { 0 };
	struct pointer_run run = {
		.options = options,
		.size = options->size               ? options->size :
			kind->measure == with_stack ? SIZE_ON_STACK :
						      SIZE_DEFAULT,
		.rounds = options->rounds ? options->rounds : ROUNDS_DEFAULT,
		.figures = &plain,
	};
	bool prepares = options->advise || options->prefetch;
	int status;

	status = machine_check_memory(2 * run.size, "choose a smaller --size");
	if (!status)
		status = open_all(&run);
	if (!status)
		status = kind->measure(&run);
	if (!status && prepares) {
		run.advised = true;
		run.figures = &advised;
		status = kind->measure(&run);
	}
	if (!status)
		print(&run, &plain, prepares ? &advised : NULL);
	hm_kernel_unref(run.kernel);
	hm_queue_unref(run.queue);
	hm_accel_unref(run.accel);
	hm_device_unref(run.host);
	return status;
}
