// SPDX-License-Identifier: MIT
/* The accelerator "cpu": runs a kernel's CPU function on threads of this process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "accel/accel.h"
#include "accel/cpu/cpu_pool.h"
#include "base/sys.h"

/* Smaller parts are not worth waking a second thread; few items may still mean many bytes. */
#define ITEMS_A_PART 1024
#define BYTES_A_PART MIB(1)
#define PARTS_A_THREAD 4 /* lets other threads help one that was held up */

struct cpu {
	struct cpu_pool pool;
	uint64_t window;
};

struct cpu_kernel {
	hm_cpu_function *function;
	char name[64];
};

static void describe(struct hm_accel_info *info)
{
	struct sysinfo system;

	info->kind = HM_ACCEL_CPU;
	snprintf(info->name, sizeof(info->name), "cpu");
	snprintf(info->description, sizeof(info->description), "threads of this process");
	snprintf(info->driver, sizeof(info->driver), "hetmap");
	snprintf(info->driver_version, sizeof(info->driver_version), "%d.%d.%d",
		 HM_VERSION_MAJOR, HM_VERSION_MINOR, HM_VERSION_PATCH);
	info->alignment = 1;
	info->ways = 1u << HM_WAY_DIRECT;
	info->caps = HM_ACCEL_ANY_POINTER;
	if (!sysinfo(&system))
		info->memory = (uint64_t)system.totalram * system.mem_unit;
}

static int cpu_query(void *accel, struct hm_accel_info *info)
{
	struct cpu *cpu = accel;

	describe(info);
	info->window = cpu->window;
	info->units = cpu->pool.n_thread;
	return 0;
}

static int cpu_open(const char *rest, const struct hm_accel_desc *desc, void **ret_accel)
{
	struct cpu *cpu;
	int r;

	if (rest[0])
		return -ENODEV;
	cpu = sys_calloc(1, sizeof(*cpu));
	if (!cpu)
		return err_set(-ENOMEM, "no memory for the accelerator cpu");
	r = cpu_pool_init(&cpu->pool);
	if (r) {
		free(cpu);
		return r;
	}
	cpu->window = desc->window ? desc->window : UINT64_MAX;
	*ret_accel = cpu;
	return 0;
}

static void cpu_close(void *accel)
{
	struct cpu *cpu = accel;

	cpu_pool_end(&cpu->pool);
	free(cpu);
}

static int cpu_list(uint32_t index, struct hm_accel_info *info)
{
	const struct hm_accel_desc desc = { 0 };
	void *cpu = NULL;
	int r;

	if (index)
		return -ENODEV;
	r = cpu_open("", &desc, &cpu);
	if (r)
		return r;
	cpu_query(cpu, info);
	cpu_close(cpu);
	return 0;
}

static int cpu_kernel_build(void *accel, const struct hm_kernel_desc *desc,
			    struct hm_accel_parameters *parameters, void **ret_kernel)
{
	struct cpu_kernel *kernel = sys_calloc(1, sizeof(*kernel));

	(void)accel;
	(void)parameters;
	if (!kernel)
		return err_set(-ENOMEM, "kernel %s: no memory", desc->name);
	kernel->function = desc->cpu;
	snprintf(kernel->name, sizeof(kernel->name), "%s", desc->name);
	*ret_kernel = kernel;
	return 0;
}

static void cpu_kernel_free(void *accel, void *kernel)
{
	(void)accel;
	free(kernel);
}

static int cpu_queue_create(void *accel, void **ret_queue)
{
	struct cpu *cpu = accel;
	struct cpu_queue *queue = sys_calloc(1, sizeof(*queue));

	if (!queue)
		return err_set(-ENOMEM, "no memory for a queue of cpu");
	queue->pool = &cpu->pool;
	queue->tail = &queue->head;
	*ret_queue = queue;
	return 0;
}

static void cpu_queue_destroy(void *queue)
{
	cpu_queue_end(queue);
	free(queue);
}

/* ---- beginning of the @part-th of @n parts of @length ---- */

static uint64_t part_begin(uint64_t length, uint32_t part, uint32_t n)
{
	uint64_t extra = length % n;

	return length / n * part + min_u64(part, extra);
}

static uint32_t part_count(uint64_t total, uint64_t grain, uint64_t most, uint32_t threads)
{
	uint64_t n = min_u64(total / grain, (uint64_t)threads * PARTS_A_THREAD);

	n = min_u64(n, most);
	return n ? (uint32_t)n : 1;
}

/* The slowest dimension that can be cut into enough pieces, or else the longest. */
static uint32_t split_dimension(const uint64_t grid[3], uint64_t pieces)
{
	uint32_t longest = 0, i;

	for (i = 3; i-- > 0;)
		if (grid[i] >= pieces)
			return i;
	for (i = 1; i < 3; i++)
		if (grid[i] > grid[longest])
			longest = i;
	return longest;
}

static int run_launch(const struct hm_accel_work *work, uint32_t part, uint32_t n_part)
{
	const struct cpu_kernel *kernel = work->kernel;
	struct hm_cpu_range range = { { 0 }, { 0 }, { 0 } };
	uint32_t d = split_dimension(work->grid, n_part);

	memcpy(range.end, work->grid, sizeof(range.end));
	memcpy(range.global, work->grid, sizeof(range.global));
	range.begin[d] = part_begin(work->grid[d], part, n_part);
	range.end[d] = part_begin(work->grid[d], part + 1, n_part);
	return kernel->function(&range, work->arg);
}

static int run_copy(const struct hm_accel_work *work, uint32_t part, uint32_t n_part)
{
	uint64_t length = work->range[0].length;
	uint64_t begin = part_begin(length, part, n_part);
	uint64_t end = part_begin(length, part + 1, n_part);

	memcpy(work->range[0].pointer + begin, work->range[1].pointer + begin, end - begin);
	return 0;
}

static int run_fill(const struct hm_accel_work *work, uint32_t part, uint32_t n_part)
{
	uint64_t words = work->range[0].length / 4;
	uint64_t i = part_begin(words, part, n_part);
	uint64_t end = part_begin(words, part + 1, n_part);
	uint32_t *to = (uint32_t *)(void *)work->range[0].pointer;
	uint32_t word = work->arg[0].u32;

	for (; i < end; i++)
		to[i] = word;
	return 0;
}

static uint64_t range_bytes(const struct hm_accel_work *work)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < work->n_arg; i++)
		if (work->arg[i].kind == HM_ARG_POINTER)
			bytes += work->range[i].length;
	return bytes;
}

static int cpu_submit(void *data, struct hm_accel_work *work)
{
	struct cpu_kernel *kernel = work->kernel;
	struct cpu_queue *queue = data;
	uint32_t threads = queue->pool->n_thread, n, by_bytes, d;
	const uint64_t *grid = work->grid;

	work->way = HM_WAY_DIRECT;
	if (work->kind != HM_WORK_LAUNCH) {
		n = part_count(work->range[0].length, BYTES_A_PART, threads, threads);
		return cpu_pool_submit(queue, work,
				       work->kind == HM_WORK_COPY ? run_copy : run_fill, n);
	}
	work->data[2] = kernel->name;
	n = part_count(grid[0] * grid[1] * grid[2], ITEMS_A_PART, UINT32_MAX, threads);
	by_bytes = part_count(range_bytes(work), BYTES_A_PART, UINT32_MAX, threads);
	if (by_bytes > n)
		n = by_bytes;
	d = split_dimension(grid, n);
	if (grid[d] < n)
		n = (uint32_t)grid[d];
	return cpu_pool_submit(queue, work, run_launch, n);
}

static int cpu_wait(void *data, struct hm_accel_work *work, uint64_t timeout_ns)
{
	const struct cpu_queue *queue = data;

	return cpu_pool_wait(queue->pool, work, timeout_ns);
}

static int cpu_notify(void *data, struct hm_accel_work *work, void (*call)(void *user),
		      void *user)
{
	const struct cpu_queue *queue = data;

	return cpu_pool_notify(queue->pool, work, call, user);
}

/* The CPU's own pages: nothing to hold. */
static int cpu_any_acquire(void *accel, struct hm_accel_range *range)
{
	(void)accel, (void)range;
	return 0;
}

static void cpu_work_release(struct hm_accel_work *work)
{
	(void)work;
}

const struct hm_accel_ops cpu_accel = {
	.size = sizeof(cpu_accel),
	.name = "cpu",
	.form = "cpu",
	.list = cpu_list,
	.open = cpu_open,
	.close = cpu_close,
	.query = cpu_query,
	.kernel_build = cpu_kernel_build,
	.kernel_free = cpu_kernel_free,
	.queue_create = cpu_queue_create,
	.queue_destroy = cpu_queue_destroy,
	.submit = cpu_submit,
	.wait = cpu_wait,
	.notify = cpu_notify,
	.work_release = cpu_work_release,
	.any_acquire = cpu_any_acquire,
};
