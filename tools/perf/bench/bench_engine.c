// SPDX-License-Identifier: MIT
/* sim_submit, soft_submit: the cost of an empty command, against bare eventfds. */
#include "bench_engine.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <hetmap/sim.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

#define QUEUED 1000

/*
 * Round trips in one sample beside that. On one CPU as many as last about as long:
 * whatever else this machine, or the one under it, gives that CPU to strikes both.
 */
#define ECHOES 500
#define ECHOES_ANY 50

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
	int n;      /* in a row, in one sample */
	int echoes; /* beside more than one */
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
	int n = submit->n < submit->echoes ? submit->n : submit->echoes;
	double start = bench_now();
	int i, r = 0;

	for (i = 0; i < n && !r; i++)
		r = peer_echo(submit->echo);
	*ret_ns = (bench_now() - start) / n;
	return r;
}

/* ---- one CPU ---- */

/* Pins the kernel thread that runs the module's queue; -ESRCH: there is none. */
static int pin_engine(const struct engine *engine, const cpu_set_t *cpus)
{
	glob_t names;
	uint32_t queue;
	char pattern[64], comm[32];
	int pid, r = -ESRCH;
	size_t i;

	if (hm_sim_queue(engine->queue, &queue))
		return -ESRCH;
	snprintf(pattern, sizeof(pattern), "hetsim0-*.%u\n", queue);
	if (glob("/proc/[0-9]*/comm", 0, NULL, &names))
		return -ESRCH;
	for (i = 0; i < names.gl_pathc; i++) {
		FILE *file = fopen(names.gl_pathv[i], "re");

		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file) && !fnmatch(pattern, comm, 0) &&
		    sscanf(names.gl_pathv[i], "/proc/%d", &pid) == 1)
			r = sched_setaffinity(pid, sizeof(*cpus), cpus) ? -errno : 0;
		fclose(file);
	}
	globfree(&names);
	return r;
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

/* ---- the pairs ---- */

struct form {
	const char *device;
	const cpu_set_t *cpus; /* one, for both sides; NULL: any */
	double target;
	unsigned int rounds;
	const char *name, *queued;
};

static int submit_measure(const struct form *form, struct submit *submit)
{
	struct bench_pair pair = {
		.name = form->name,
		.peer = "an eventfd written and another one read, two threads",
		.ours = submit_ours,
		.peer_side = submit_peer,
		.rounds = form->rounds,
		.warm_up = form->rounds / 10,
	};
	struct bench_figures figures;
	int r;

	r = bench_measure(&pair, submit, &figures);
	if (r)
		return r;
	bench_report_pair(&pair, &figures, "us", 1e3, TARGET_RATIO, form->target);
	pair.name = form->queued;
	pair.rounds = 50;
	pair.warm_up = 5;
	submit->n = QUEUED;
	r = bench_measure(&pair, submit, &figures);
	if (!r)
		bench_report_pair(&pair, &figures, "us", 1e3, TARGET_RATIO, 0.5);
	return r;
}

static int submit_run(const struct form *form)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "nothing",
		.signature = "",
		.engine = &engine_nothing,
		.n_engine = 1,
	};
	struct submit submit = { .n = 1, .echoes = form->cpus ? ECHOES : ECHOES_ANY };
	int r;

	r = engine_open(&submit.engine, form->device, form->name, &desc);
	if (r)
		return r == -ENODEV ? 0 : r;
	/* The twin's thread is one of this process, and has its CPUs from it. */
	if (form->cpus && form->device[1] == 'i') {
		r = pin_engine(&submit.engine, form->cpus);
		if (r) {
			bench_fail("the engine on one CPU", r, true);
			goto out_engine;
		}
	}
	r = peer_echo_open(&submit.echo);
	if (r) {
		bench_fail(form->name, r, false);
		goto out_engine;
	}
	r = submit_measure(form, &submit);
	peer_echo_close(submit.echo);
out_engine:
	engine_close(&submit.engine);
	return r;
}

/*
 * On one CPU: a thread elsewhere is woken at ten times the price, and which of the
 * two pairs of threads is split is the scheduler's mood.
 */
static int submit_run_on_one(struct form *form)
{
	cpu_set_t all, one;
	int r;

	if (sched_getaffinity(0, sizeof(all), &all))
		return bench_fail("CPUs", -errno, false);
	one_cpu(&all, &one);
	form->cpus = &one;
	sched_setaffinity(0, sizeof(one), &one);
	r = submit_run(form);
	form->cpus = NULL;
	sched_setaffinity(0, sizeof(all), &all);
	return r;
}

int bench_sim_submit(void)
{
	struct form one = {
		.device = "sim:0",
		.target = 3,
		.rounds = 5000,
		.name = "empty command and wait",
		.queued = "1000 queued, each",
	};
	const struct form any = {
		.device = "sim:0",
		.target = 3,
		.rounds = 500,
		.name = "the same on any CPU",
		.queued = "1000 queued, any CPU",
	};
	int r = submit_run_on_one(&one);

	if (!r && !access("/dev/hetsim0", F_OK))
		r = submit_run(&any);
	return r;
}

int bench_soft_submit(void)
{
	struct form one = {
		.device = "soft:0",
		.target = 1.5,
		.rounds = 5000,
		.name = "empty command and wait",
		.queued = "1000 queued, each",
	};

	return submit_run_on_one(&one);
}
