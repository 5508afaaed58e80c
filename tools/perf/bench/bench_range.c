// SPDX-License-Identifier: MIT
/*
 * Any pointers: mirror_idle, mirror_fault and invalidate on sim:0 and soft:0.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_engine.h"
#include "bench_options.h"
#include "peer.h"

#define PAGE KIB(4)

static const struct hm_kernel_desc nothing = {
	.struct_size = sizeof(nothing),
	.name = "nothing",
	.signature = "",
	.engine = &engine_nothing,
	.n_engine = 1,
};

static void *pages(size_t length)
{
	void *bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	madvise(bytes, length, MADV_NOHUGEPAGE);
	return bytes;
}

/* An engine with its mirror on, and 2 MiB that it has entries for. */
static int open_mirror(struct engine *engine, const char *device, const char *name,
		       char **ret_bytes)
{
	char *bytes;
	int r;

	r = engine_open(engine, device, name, &nothing);
	if (r)
		return r;
	bytes = pages(2 * MIB(2));
	r = bytes ? hm_range_prefetch(bytes, 2 * MIB(2), engine->accel, HM_READ | HM_WRITE,
				      NULL) :
		    -ENOMEM;
	if (r == -EOPNOTSUPP) {
		bench_skip(name, "%s", hm_errmsg());
		r = -ENODEV;
	} else if (r) {
		bench_fail(name, r, true);
	}
	if (r) {
		if (bytes)
			munmap(bytes, 2 * MIB(2));
		engine_close(engine);
		return r;
	}
	*ret_bytes = bytes;
	return 0;
}

/* ---- mirror_idle: the peer is a process that has never opened a device ---- */

struct idle {
	struct peer_cycles *peer;
};

static int idle_ours(void *user, double *ret_ns)
{
	(void)user;
	return peer_cycle_times(ret_ns);
}

static int idle_peer(void *user, double *ret_ns)
{
	const struct idle *idle = user;

	return peer_cycles_ask(idle->peer, ret_ns);
}

static int idle_on(const char *device, const char *name, double target)
{
	struct bench_pair pair = {
		.name = name,
		.peer = "munmap and mmap in a process without a device",
		.ours = idle_ours,
		.peer_side = idle_peer,
		.rounds = 200,
		.warm_up = 10,
	};
	struct engine engine;
	struct idle idle;
	char *bytes;
	int r;

	/* Before any device is open: the peer's process is a copy of this one. */
	r = peer_cycles_open(&idle.peer);
	if (r)
		return bench_fail(name, r, false);
	r = open_mirror(&engine, device, name, &bytes);
	if (r) {
		peer_cycles_close(idle.peer);
		return r == -ENODEV ? 0 : r;
	}
	r = bench_compare(&pair, &idle, "us", 1e3, TARGET_RATIO, target);
	munmap(bytes, 2 * MIB(2));
	engine_close(&engine);
	peer_cycles_close(idle.peer);
	return r;
}

int bench_mirror_idle(void)
{
	int r = idle_on("soft:0", "soft:0, 1 MiB", 1.05);

	return r ? r : idle_on("sim:0", "sim:0, 1 MiB", 1.05);
}

/* ---- mirror_fault ---- */

struct fault {
	struct engine engine;
	size_t length;
};

static int fault_ours(void *user, double *ret_ns)
{
	const struct fault *fault = user;
	char *bytes = pages(fault->length);
	double start;
	int r;

	if (!bytes)
		return -ENOMEM;
	start = bench_now();
	r = hm_range_prefetch(bytes, fault->length, fault->engine.accel, HM_READ | HM_WRITE,
			      NULL);
	*ret_ns = (bench_now() - start) / ((double)fault->length / PAGE);
	munmap(bytes, fault->length);
	return r;
}

static int fault_peer(void *user, double *ret_ns)
{
	const struct fault *fault = user;

	return peer_faults(fault->length, ret_ns);
}

static int fault_on(const char *device, const char *name)
{
	struct bench_pair pair = {
		.name = name,
		.peer = "a CPU's minor fault",
		.ours = fault_ours,
		.peer_side = fault_peer,
		.rounds = 30,
		.warm_up = 2,
	};
	struct fault fault = { .length = bench_options.small ? MIB(4) : MIB(64) };
	char *bytes;
	int r;

	r = open_mirror(&fault.engine, device, name, &bytes);
	if (r)
		return r == -ENODEV ? 0 : r;
	r = bench_compare(&pair, &fault, "ns", 1, TARGET_RATIO, 1.0);
	munmap(bytes, 2 * MIB(2));
	engine_close(&fault.engine);
	return r;
}

int bench_mirror_fault(void)
{
	int r = fault_on("soft:0", "soft:0, a page of 4 KiB");

	return r ? r : fault_on("sim:0", "sim:0, a page of 4 KiB");
}

/* ---- invalidate ---- */

struct invalidate {
	struct engine engine;
	char *mirrored, *plain;
};

static int invalidate_ours(void *user, double *ret_ns)
{
	const struct invalidate *invalidate = user;
	int r;

	/* The entries come back, beside the time that is measured. */
	r = hm_range_prefetch(invalidate->mirrored, MIB(2), invalidate->engine.accel,
			      HM_READ | HM_WRITE, NULL);
	return r ? r : peer_take_rights(invalidate->mirrored, MIB(2), ret_ns);
}

static int invalidate_peer(void *user, double *ret_ns)
{
	const struct invalidate *invalidate = user;

	peer_touch(invalidate->plain, MIB(2));
	return peer_take_rights(invalidate->plain, MIB(2), ret_ns);
}

static int invalidate_on(const char *device, const char *name)
{
	struct bench_pair pair = {
		.name = name,
		.peer = "mprotect of 2 MiB that no device has",
		.ours = invalidate_ours,
		.peer_side = invalidate_peer,
		.rounds = 200,
		.warm_up = 10,
	};
	struct invalidate invalidate;
	char *bytes;
	int r;

	r = open_mirror(&invalidate.engine, device, name, &bytes);
	if (r)
		return r == -ENODEV ? 0 : r;
	/* At a multiple of 2 MiB: one chunk. */
	invalidate.mirrored = (char *)(((uintptr_t)bytes + MIB(2) - 1) / MIB(2) * MIB(2));
	invalidate.plain = pages(MIB(2));
	r = invalidate.plain ? bench_compare(&pair, &invalidate, "us", 1e3, TARGET_RATIO, 2.0) :
			       bench_fail(name, -ENOMEM, false);
	if (invalidate.plain)
		munmap(invalidate.plain, MIB(2));
	munmap(bytes, 2 * MIB(2));
	engine_close(&invalidate.engine);
	return r;
}

int bench_invalidate(void)
{
	int r = invalidate_on("soft:0", "soft:0, 2 MiB");

	return r ? r : invalidate_on("sim:0", "sim:0, 2 MiB");
}
