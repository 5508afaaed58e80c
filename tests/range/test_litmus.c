// SPDX-License-Identifier: MIT
/*
 * The litmus tests of docs/coherence.md: the order of stores between CPUs and accelerators, on
 * maps and on any pointers. Each checks the promises of that page, and nothing more.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "range/range_support.h"

#define WORDS 4096 /* words of the data: 16 KiB */
#define BYTES (WORDS * sizeof(uint32_t))
#define LINE 1024 /* words from one thing to the next: a page */

/* Work that both sides do. The engine's steps run one after the other. */
struct litmus {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_device *device;     /* NULL: plain memory */
	struct hm_kernel *fill;       /* "out u32" */
	struct hm_kernel *copy_both;  /* flag, then data: "out out in in" */
	struct hm_kernel *store_load; /* y = 1, then r = x: "out out in" */
	struct hm_kernel *add;        /* words += 1: "inout in" */
	uint32_t *data, *flag, *x, *y, *seen_data, *seen_flag;
	void *memory;
	unsigned int rounds;
};

/* ---- the same work on the CPU ---- */

static int cpu_fill(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *to = (uint32_t *)(uintptr_t)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		__atomic_store_n(&to[i], args[1].u32, __ATOMIC_RELEASE);
	return 0;
}

static int cpu_copy_both(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *seen_flag = (uint32_t *)(uintptr_t)args[0].pointer, i;
	uint32_t *seen_data = (uint32_t *)(uintptr_t)args[1].pointer;
	const uint32_t *flag = args[2].pointer, *data = args[3].pointer;

	(void)range;
	seen_flag[0] = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
	for (i = 0; i < WORDS; i++)
		seen_data[i] = __atomic_load_n(&data[i], __ATOMIC_RELAXED);
	return 0;
}

static int cpu_store_load(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *y = (uint32_t *)(uintptr_t)args[0].pointer;
	uint32_t *seen = (uint32_t *)(uintptr_t)args[1].pointer;

	(void)range;
	__atomic_store_n(y, 1, __ATOMIC_SEQ_CST);
	seen[0] = __atomic_load_n((const uint32_t *)args[2].pointer, __ATOMIC_SEQ_CST);
	return 0;
}

static int cpu_add(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *to = (uint32_t *)(uintptr_t)args[0].pointer;

	(void)range;
	__atomic_fetch_add(to, 1, __ATOMIC_RELAXED);
	return 0;
}

static struct hm_kernel *make(const char *name, const char *signature, hm_cpu_function *cpu,
			      const struct hm_engine_step *steps, uint32_t n)
{
	struct hm_kernel *kernel;

	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = name, .signature = signature,
				      .cpu = cpu, .engine = steps, .n_engine = n),
				 &kernel));
	return kernel;
}

static void make_kernels(struct litmus *litmus)
{
	static const struct hm_engine_step fill = { HM_ENGINE_FILL, 0, NONE, NONE, NONE, 1, 0 };
	static const struct hm_engine_step copy_both[] = {
		{ HM_ENGINE_COPY, 0, 2, NONE, NONE, NONE, 0 },
		{ HM_ENGINE_COPY, 1, 3, NONE, NONE, NONE, 0 },
	};
	static const struct hm_engine_step store_load[] = {
		{ HM_ENGINE_FILL, 0, NONE, NONE, NONE, 3, 0 },
		{ HM_ENGINE_COPY, 1, 2, NONE, NONE, NONE, 0 },
	};
	static const struct hm_engine_step add = { HM_ENGINE_AXPY, 0, 1, NONE, NONE, 2, 0 };

	litmus->fill = make("fill", "out u32", cpu_fill, &fill, 1);
	litmus->copy_both = make("copy_both", "out out in in", cpu_copy_both, copy_both, 2);
	litmus->store_load =
		make("store_load", "out out in u32", cpu_store_load, store_load, 2);
	litmus->add = make("add", "inout in u32", cpu_add, &add, 1);
}

/* ---- accelerators and their memory ---- */

static const struct subject {
	const char *title, *accel, *device;
} subjects[] = {
	{ "cpu", "cpu", NULL },
	{ "soft_any", "soft:0", NULL },
	{ "soft_map", "soft:0", "soft:0" },
	{ "sim_any", "sim:0", NULL },
	{ "sim_map", "sim:0", "sim:0" },
};

static void litmus_open(struct litmus *litmus, const struct subject *subject)
{
	const uint64_t size = 64 * PAGE;
	uint32_t *at;

	memset(litmus, 0, sizeof(*litmus));
	litmus->rounds = test_is_slow() ? 50 : 500;
	CHECK_OK_FATAL(hm_accel_open(subject->accel, NULL, &litmus->accel));
	CHECK_OK_FATAL(hm_queue_create(litmus->accel, 0, &litmus->queue));
	if (subject->device) {
		CHECK_OK_FATAL(hm_device_open(subject->device, &litmus->device));
		litmus->memory = engine_alloc(litmus->device, size);
	} else {
		litmus->memory = any_pages(size, PROT_READ | PROT_WRITE);
	}
	make_kernels(litmus);
	at = litmus->memory;
	litmus->data = at;
	litmus->seen_data = at + WORDS;
	litmus->flag = at + 2 * WORDS;
	litmus->seen_flag = at + 2 * WORDS + LINE;
	litmus->x = at + 2 * WORDS + 2 * LINE;
	litmus->y = at + 2 * WORDS + 3 * LINE;
	memset(litmus->memory, 0, size);
}

static void litmus_close(struct litmus *litmus)
{
	hm_kernel_unref(litmus->fill);
	hm_kernel_unref(litmus->copy_both);
	hm_kernel_unref(litmus->store_load);
	hm_kernel_unref(litmus->add);
	hm_queue_unref(litmus->queue);
	hm_accel_unref(litmus->accel);
	if (litmus->device)
		CHECK_OK(hm_free(litmus->memory));
	else
		munmap(litmus->memory, 64 * PAGE);
	hm_device_unref(litmus->device);
}

#define IN(pointer, words) HM_ANY(pointer, (words) * sizeof(uint32_t), HM_READ)
#define OUT(pointer, words) HM_ANY(pointer, (words) * sizeof(uint32_t), HM_WRITE)
#define INOUT(pointer, words) HM_ANY(pointer, (words) * sizeof(uint32_t), HM_READ | HM_WRITE)

/* ---- the tests ---- */

/* A launch sees all stores before it, and the CPU all of its after the fence. */
static void by_fences(struct litmus *litmus)
{
	struct hm_fence *fence;
	uint32_t i, k, wrong = 0;

	for (i = 1; i <= litmus->rounds; i++) {
		for (k = 0; k < WORDS; k++)
			litmus->data[k] = i + k;
		litmus->flag[0] = i;
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->copy_both, 1, &fence,
					 OUT(litmus->seen_flag, 1),
					 OUT(litmus->seen_data, WORDS), IN(litmus->flag, 1),
					 IN(litmus->data, WORDS)));
		finish(fence);
		for (k = 0; k < WORDS; k++)
			wrong += litmus->seen_data[k] != i + k;
		wrong += litmus->seen_flag[0] != i;
	}
	CHECK_EQUAL(wrong, 0);
}

/* Message passing to a CPU that does not wait for the fence: data first, then the flag. */
static void message_to_cpu(struct litmus *litmus)
{
	struct hm_fence *fence;
	uint32_t i, k, wrong = 0;

	for (i = 1; i <= litmus->rounds; i++) {
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->fill, WORDS, NULL,
					 OUT(litmus->data, WORDS), HM_U32(i)));
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->fill, 1, &fence,
					 OUT(litmus->flag, 1), HM_U32(i)));
		while (__atomic_load_n(litmus->flag, __ATOMIC_ACQUIRE) != i)
			sched_yield();
		for (k = 0; k < WORDS; k++)
			wrong += __atomic_load_n(&litmus->data[k], __ATOMIC_RELAXED) != i;
		finish(fence);
	}
	CHECK_EQUAL(wrong, 0);
}

/* The other way, into running work: a side that sees the flag sees the data. */
static void message_to_accel(struct litmus *litmus)
{
	struct hm_fence *fence;
	uint32_t i, k, wrong = 0;

	for (i = 1; i <= litmus->rounds; i++) {
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->copy_both, 1, &fence,
					 OUT(litmus->seen_flag, 1),
					 OUT(litmus->seen_data, WORDS), IN(litmus->flag, 1),
					 IN(litmus->data, WORDS)));
		for (k = 0; k < WORDS; k++)
			__atomic_store_n(&litmus->data[k], i, __ATOMIC_RELAXED);
		__atomic_store_n(litmus->flag, i, __ATOMIC_RELEASE);
		finish(fence);
		if (litmus->seen_flag[0] != i)
			continue;
		for (k = 0; k < WORDS; k++)
			wrong += litmus->seen_data[k] != i;
	}
	CHECK_EQUAL(wrong, 0);
}

/*
 * Store buffering: each side stores, and loads the other's word. On "cpu" with sequentially
 * consistent atomics one of them sees the other's. An engine promises no such thing.
 */
static void store_buffering(struct litmus *litmus)
{
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	uint32_t i, seen_by_cpu, both_missed = 0, wrong = 0;
	struct hm_fence *fence;

	CHECK_OK(hm_accel_query(litmus->accel, &info));
	for (i = 0; i < litmus->rounds; i++) {
		__atomic_store_n(litmus->x, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(litmus->y, 0, __ATOMIC_SEQ_CST);
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->store_load, 1, &fence,
					 OUT(litmus->y, 1), OUT(litmus->seen_flag, 1),
					 IN(litmus->x, 1), HM_U32(1)));
		__atomic_store_n(litmus->x, 1, __ATOMIC_SEQ_CST);
		seen_by_cpu = __atomic_load_n(litmus->y, __ATOMIC_SEQ_CST);
		finish(fence);
		wrong += seen_by_cpu > 1 || litmus->seen_flag[0] > 1;
		both_missed += !seen_by_cpu && !litmus->seen_flag[0];
	}
	CHECK_EQUAL(wrong, 0);
	if (info.kind == HM_ACCEL_CPU)
		CHECK_EQUAL(both_missed, 0);
}

struct adder {
	uint32_t *word;
	uint32_t n;
};

static void *add_atomically(void *user)
{
	const struct adder *adder = user;
	uint32_t i;

	for (i = 0; i < adder->n; i++)
		__atomic_fetch_add(adder->word, 1, __ATOMIC_RELAXED);
	return NULL;
}

/*
 * A counter of both at once. Functions on "cpu" may use atomics. An engine has none: its sum and
 * the CPU's are not lost only if they take turns.
 */
static void atomics(struct litmus *litmus)
{
	struct adder adder = { .word = litmus->x, .n = 100 * litmus->rounds };
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence;
	pthread_t thread;
	uint32_t i, sum;

	CHECK_OK(hm_accel_query(litmus->accel, &info));
	litmus->y[0] = 1;
	CHECK_FATAL(!pthread_create(&thread, NULL, add_atomically, &adder));
	for (i = 0; i < litmus->rounds; i++) {
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->add, 1, &fence,
					 INOUT(litmus->x, 1), IN(litmus->y, 1), HM_U32(1)));
		finish(fence);
	}
	pthread_join(thread, NULL);
	sum = __atomic_load_n(litmus->x, __ATOMIC_RELAXED);
	if (info.kind == HM_ACCEL_CPU)
		CHECK_EQUAL(sum, adder.n + litmus->rounds);
	else
		CHECK(sum >= 1 && sum <= adder.n + litmus->rounds);
	/* In turns nothing is lost, on any of them. */
	__atomic_store_n(litmus->x, 0, __ATOMIC_RELAXED);
	for (i = 0; i < litmus->rounds; i++) {
		__atomic_fetch_add(litmus->x, 1, __ATOMIC_RELAXED);
		CHECK_OK_FATAL(hm_launch(litmus->queue, litmus->add, 1, &fence,
					 INOUT(litmus->x, 1), IN(litmus->y, 1), HM_U32(1)));
		finish(fence);
	}
	CHECK_EQUAL(litmus->x[0], 2 * litmus->rounds);
}

static const struct {
	const char *name;
	void (*run)(struct litmus *litmus);
} cases[] = {
	{ "by_fences", by_fences },
	{ "message_to_cpu", message_to_cpu },
	{ "message_to_accel", message_to_accel },
	{ "store_buffering", store_buffering },
	{ "atomics", atomics },
};

#define N_CASE (sizeof(cases) / sizeof(cases[0]))
#define N_SUBJECT (sizeof(subjects) / sizeof(subjects[0]))

/* Laid out subject by subject. */
static struct test tests[N_SUBJECT * N_CASE + 1];

static void run(void)
{
	size_t at = (size_t)(test_current() - tests);
	struct litmus litmus;

	litmus_open(&litmus, &subjects[at / N_CASE]);
	cases[at % N_CASE].run(&litmus);
	litmus_close(&litmus);
}

int main(int argc, char **argv)
{
	bool module = !access("/dev/hetsim0", F_OK);
	size_t i, n = module ? N_SUBJECT : 3;
	char *name;

	for (i = 0; i < n * N_CASE; i++) {
		if (asprintf(&name, "%s.%s", subjects[i / N_CASE].title,
			     cases[i % N_CASE].name) < 0)
			return 1;
		tests[i] = (struct test){ name, run, 60, 0 };
	}
	return harness_main(argc, argv, "litmus", tests);
}
