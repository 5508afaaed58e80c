// SPDX-License-Identifier: MIT
/* The accelerators "sim:N" and "soft:N": engines of simulated devices. */
#include "accel/engine/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sys.h"

static const char *const kinds[] = {
	[HETSIM_KIND_GPU] = "GPU",
	[HETSIM_KIND_FPGA] = "FPGA",
	[HETSIM_KIND_NIC] = "NIC",
};

static uint32_t capabilities(const struct sim_port *port, uint32_t flags)
{
	uint32_t caps = port->features & HETSIM_FEATURE_DMABUF_FENCES ? HM_ACCEL_FENCES : 0;

	if (!sim_port_has_mirror(port))
		return caps;
	caps |= HM_ACCEL_MIRROR;
	if (!(flags & HM_ACCEL_FORCE_COPY))
		caps |= HM_ACCEL_ANY_POINTER;
	/* The kernel takes the module's entries away; the twin finds out at a use. */
	if (port->ops == &sim_port_kernel)
		caps |= HM_ACCEL_TOLD;
	if (port->mirrored && port->mirror.migration != HETSIM_MIGRATION_NONE)
		caps |= HM_ACCEL_MIGRATE;
	return caps;
}

static void describe(const struct sim_port *port, uint32_t flags, uint64_t window,
		     struct hm_accel_info *info)
{
	const struct hetsim_query *query = &port->query;

	info->kind = HM_ACCEL_ENGINE;
	snprintf(info->name, sizeof(info->name), "%s:%" PRIu32, port->ops->name, port->index);
	snprintf(info->description, sizeof(info->description),
		 "engine of a simulated %s, in %s",
		 query->kind < ARRAY_SIZE(kinds) ? kinds[query->kind] : "device",
		 port->ops == &sim_port_kernel ? "the kernel" : "this process");
	snprintf(info->driver, sizeof(info->driver), "%s",
		 port->ops == &sim_port_kernel ? "hetsim" : "hetmap");
	snprintf(info->driver_version, sizeof(info->driver_version), "%d.%d",
		 HETSIM_VERSION_MAJOR, HETSIM_VERSION_MINOR);
	info->window = window;
	info->memory = query->vram_bytes;
	info->alignment = query->dma_align;
	info->units = query->max_queues;
	info->ways = 1u << HM_WAY_COPY;
	if (!(flags & HM_ACCEL_FORCE_COPY))
		info->ways |= 1u << HM_WAY_DIRECT;
	info->caps = capabilities(port, flags);
}

/* The ports' numbers have gaps where a device was unplugged. */
static int list(const struct sim_port_ops *ops, uint32_t index, struct hm_accel_info *info)
{
	uint32_t n = ops->count(), i;
	struct sim_port *port;
	char rest[16];

	for (i = 0; i < n; i++) {
		snprintf(rest, sizeof(rest), "%" PRIu32, i);
		if (sim_port_get(ops, rest, &port))
			continue;
		if (port->features & HETSIM_FEATURE_ENGINE && !index--) {
			describe(port, 0, port->query.max_segment, info);
			sim_port_put(port);
			return 0;
		}
		sim_port_put(port);
	}
	return -ENODEV;
}

/* 0: the wish is less than a page. */
static uint64_t choose_window(const struct hetsim_query *query, uint64_t wish)
{
	if (!wish || wish >= query->max_segment)
		return query->max_segment;
	return round_down(wish, query->page_size);
}

static int open_engine(const struct sim_port_ops *ops, const char *rest,
		       const struct hm_accel_desc *desc, void **ret_accel)
{
	struct engine *engine;
	struct sim_port *port;
	uint64_t window;
	int r;

	r = sim_port_get(ops, rest, &port);
	if (r)
		return r;
	if (!(port->features & HETSIM_FEATURE_ENGINE)) {
		r = err_set(-ENODEV, "%s:%" PRIu32 " has no engine", ops->name, port->index);
		goto err_port;
	}
	window = choose_window(&port->query, desc->window);
	if (!window) {
		r = err_set(-EINVAL,
			    "%s:%" PRIu32 ": a window of %" PRIu64 " bytes is less than a "
			    "page of the device, %" PRIu32,
			    ops->name, port->index, desc->window, port->query.page_size);
		goto err_port;
	}
	engine = sys_calloc(1, sizeof(*engine));
	if (!engine) {
		r = err_set(-ENOMEM, "no memory for the accelerator %s:%" PRIu32, ops->name,
			    port->index);
		goto err_port;
	}
	atomic_init(&engine->refs, 1);
	engine->port = port;
	snprintf(engine->name, sizeof(engine->name), "%s:%" PRIu32, ops->name, port->index);
	engine->flags = desc->flags;
	engine->window = window;
	engine_notifier_init(&engine->notifier);
	pthread_mutex_init(&engine->range_lock, NULL);
	*ret_accel = engine;
	return 0;

err_port:
	sim_port_put(port);
	return r;
}

void engine_put(struct engine *engine)
{
	if (atomic_fetch_sub(&engine->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&engine->notifier.lock);
	pthread_mutex_destroy(&engine->range_lock);
	sim_port_put(engine->port);
	free(engine);
}

/* All work is done, and all callbacks have run; fences may still be held. */
static void engine_close(void *accel)
{
	struct engine *engine = accel;

	engine_notifier_end(&engine->notifier);
	if (engine->range_queue)
		engine_queue_end(engine->range_queue);
	engine_put(engine);
}

static int engine_query(void *accel, struct hm_accel_info *info)
{
	struct engine *engine = accel;

	/* Says how pages move; a failure is told by the call that needs it. */
	err_hold();
	sim_port_mirror(engine->port);
	err_release();
	describe(engine->port, engine->flags, engine->window, info);
	return 0;
}

static int list_sim(uint32_t index, struct hm_accel_info *info)
{
	return list(&sim_port_kernel, index, info);
}

static int list_soft(uint32_t index, struct hm_accel_info *info)
{
	return list(&sim_port_soft, index, info);
}

static int open_sim(const char *rest, const struct hm_accel_desc *desc, void **ret_accel)
{
	return open_engine(&sim_port_kernel, rest, desc, ret_accel);
}

static int open_soft(const char *rest, const struct hm_accel_desc *desc, void **ret_accel)
{
	return open_engine(&sim_port_soft, rest, desc, ret_accel);
}

#define ENGINE_OPS(name_)                                                                     \
	{                                                                                     \
		.size = sizeof(struct hm_accel_ops), .name = #name_, .form = "engine",        \
		.list = list_##name_, .open = open_##name_, .close = engine_close,            \
		.query = engine_query, .kernel_build = engine_kernel_build,                   \
		.kernel_free = engine_kernel_free, .queue_create = engine_queue_create,       \
		.queue_destroy = engine_queue_destroy, .submit = engine_submit,               \
		.wait = engine_wait, .notify = engine_notify,                                 \
		.work_release = engine_work_release, .view_create = engine_view_create,       \
		.view_destroy = engine_view_destroy, .view_acquire = engine_view_acquire,     \
		.view_release = engine_view_release, .fence_fd = engine_fence_fd,             \
		.may_be_done = engine_may_be_done, .any_acquire = engine_any_acquire,         \
		.range_advise = engine_range_advise, .range_prefetch = engine_range_prefetch, \
		.range_query = engine_range_query, .range_events = engine_range_events,       \
		.range_counts = engine_range_counts, .range_learn = engine_range_learn,       \
	}

const struct hm_accel_ops sim_accel = ENGINE_OPS(sim);
const struct hm_accel_ops soft_accel = ENGINE_OPS(soft);
