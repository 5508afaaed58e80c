// SPDX-License-Identifier: MIT
/* sim_submit, soft_submit: what an empty command costs, against bare eventfds. */
#include "bench_engine.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

#define QUEUED 1000
#define ECHOES 50 /* round trips in one sample beside that */

const struct hm_engine_step engine_nothing = {
	.op = HM_ENGINE_NOTHING,
	.destination = HM_ENGINE_NONE,
	.source = HM_ENGINE_NONE,
	.source2 = HM_ENGINE_NONE,
	.length = HM_ENGINE_NONE,
	.value = HM_ENGINE_NONE,
};

int engine_open(struct engine *engine, const char *device, const char *name,
		const struct hm_kernel_desc *desc)
{
	int r;

	*engine = (struct engine){ .name = device };
	if (device[1] == 'i' && access("/dev/hetsim0", F_OK)) {
		bench_skip(name, "no /dev/hetsim0: make vm");
		return -ENODEV;
	}
	r = hm_device_open(device, &engine->device);
	if (r == -ENODEV || r == -EACCES) {
		bench_skip(name, "%s", hm_errmsg());
		return -ENODEV;
	}
	if (!r)
		r = hm_accel_open(device, NULL, &engine->accel);
	if (!r)
		r = hm_kernel_create(desc, &engine->kernel);
	if (!r)
		r = hm_queue_create(engine->accel, 0, &engine->queue);
	if (r) {
		bench_fail(name, r, true);
		engine_close(engine);
	}
	return r;
}

void engine_close(struct engine *engine)
{
	hm_queue_unref(engine->queue);
	hm_kernel_unref(engine->kernel);
	hm_accel_unref(engine->accel);
	hm_device_unref(engine->device);
}

int engine_map(struct engine *engine, uint64_t size, struct hm_buffer **ret_buffer,
	       struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = size };
	struct hm_buffer *buffer;
	int r;

	r = hm_buffer_create(engine->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, ret_map);
	if (r)
		hm_buffer_unref(buffer);
	else
		*ret_buffer = buffer;
	return r;
}

/* ---- sim_submit, soft_submit ---- */

struct submit {
	struct engine engine;
	struct peer_echo *echo;
	int n; /* in a row, in one sample */
};

static int submit_ours(void *user, double *ret_ns)
{
	const uint64_t one[3] = { 1, 1, 1 };
	const struct submit *submit = user;
	struct hm_fence *fence;
	double start = bench_now();
	int i, r = 0;

	for (i = 1; i < submit->n && !r; i++)
		r = hm_queue_launch(submit->engine.queue, submit->engine.kernel, one, NULL, 0,
				    NULL);
	if (!r)
		r = hm_queue_launch(submit->engine.queue, submit->engine.kernel, one, NULL, 0,
				    &fence);
	if (r)
		return r;
	r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	*ret_ns = (bench_now() - start) / submit->n;
	return r;
}

static int submit_peer(void *user, double *ret_ns)
{
	const struct submit *submit = user;
	int n = submit->n < ECHOES ? submit->n : ECHOES;
	double start = bench_now();
	int i, r = 0;

	for (i = 0; i < n && !r; i++)
		r = peer_echo(submit->echo);
	*ret_ns = (bench_now() - start) / n;
	return r;
}

static int submit_run(const char *device, double target)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "nothing",
		.signature = "",
		.engine = &engine_nothing,
		.n_engine = 1,
	};
	struct bench_pair pair = {
		.name = "empty command and wait",
		.peer = "an eventfd written and another one read, two threads",
		.ours = submit_ours,
		.peer_side = submit_peer,
		.rounds = 5000,
		.warm_up = 500,
	};
	struct bench_figures figures;
	struct submit submit = { .n = 1 };
	int r;

	r = engine_open(&submit.engine, device, pair.name, &desc);
	if (r)
		return r == -ENODEV ? 0 : r;
	r = peer_echo_open(&submit.echo);
	if (r) {
		bench_fail(pair.name, r, false);
		goto out_engine;
	}
	r = bench_measure(&pair, &submit, &figures);
	if (r)
		goto out_echo;
	bench_report_pair(&pair, &figures, "us", 1e3, TARGET_RATIO, target);
	pair.name = "1000 queued, each";
	pair.rounds = 50;
	pair.warm_up = 5;
	submit.n = QUEUED;
	r = bench_measure(&pair, &submit, &figures);
	if (!r)
		bench_report_pair(&pair, &figures, "us", 1e3, TARGET_RATIO, 0.5);
out_echo:
	peer_echo_close(submit.echo);
out_engine:
	engine_close(&submit.engine);
	return r;
}

int bench_sim_submit(void)
{
	return submit_run("sim:0", 3);
}

/* The first one of @from. */
static void one_cpu(const cpu_set_t *from, cpu_set_t *ret_one)
{
	int cpu = 0;

	while (!CPU_ISSET(cpu, from))
		cpu++;
	CPU_ZERO(ret_one);
	CPU_SET(cpu, ret_one);
}

/*
 * On one CPU: a thread elsewhere is woken at ten times the price, and which of the
 * two pairs of threads is split is the scheduler's mood.
 */
int bench_soft_submit(void)
{
	cpu_set_t all, one;
	int r;

	if (sched_getaffinity(0, sizeof(all), &all))
		return bench_fail("CPUs", -errno, false);
	one_cpu(&all, &one);
	sched_setaffinity(0, sizeof(one), &one);
	r = submit_run("soft:0", 1.5);
	sched_setaffinity(0, sizeof(all), &all);
	return r;
}
