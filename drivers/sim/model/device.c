// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Kinds of devices, and the answers about a device itself.
 */
#include "model.h"

#define SIM_FEATURES                                                            \
	((u64)HETSIM_FEATURE_BUFFERS | HETSIM_FEATURE_ENGINE | HETSIM_FEATURE_MOVE | \
	 HETSIM_FEATURE_DMABUF | HETSIM_FEATURE_INJECT | HETSIM_FEATURE_SAMPLE | \
	 HETSIM_FEATURE_TIMELINE | HETSIM_FEATURE_USES)

static_assert(sizeof(struct hetsim_counters) - offsetof(struct hetsim_counters, faults) ==
	      SIM_N_COUNTERS * sizeof(__u64), "the counters are those of the interface");

const struct sim_kind sim_kinds[SIM_N_KINDS] = {
	[HETSIM_KIND_GPU] = {
		.name = "gpu",
		.granule_min = SZ_128M,
		.granule_max = SZ_128M,
		.dma_align = 4,
		.max_segment = SZ_1G,
	},
	[HETSIM_KIND_FPGA] = {
		.name = "fpga",
		.granule_min = SZ_64K,
		.granule_max = SZ_64K,
		.dma_align = 64,
		.max_segment = SZ_1M,
	},
	[HETSIM_KIND_NIC] = {
		.name = "nic",
		.granule_min = SZ_2M,
		.granule_max = SZ_4M,
		.dma_align = 8,
		.max_segment = SZ_4M,
	},
};

void sim_handshake_answer(struct hetsim_handshake *shake, u64 more)
{
	u64 features = SIM_FEATURES | more;

	shake->driver_major = HETSIM_VERSION_MAJOR;
	shake->driver_minor = HETSIM_VERSION_MINOR;
	shake->driver_features = features;
	shake->minimum_minor = SIM_MINOR_VERSION_MINIMUM;
	shake->accepted = shake->version_major == HETSIM_VERSION_MAJOR &&
			  shake->version_minor >= shake->minimum_minor &&
			  !(shake->features & ~features);
}

void sim_query_answer(enum hetsim_kind kind, const struct sim_memory *memory, const u64 *mine,
		      struct hetsim_query *query)
{
	const struct sim_kind *of = &sim_kinds[kind];
	const u64 *limit = memory->limit, *used = memory->used;
	u64 opener_used = 0;
	unsigned int i;

	for (i = 0; i < SIM_N_PLACES; i++)
		opener_used += mine[i];
	query->kind = kind;
	query->page_size = SIM_PAGE_SIZE;
	query->granule_min = of->granule_min;
	query->granule_max = of->granule_max;
	query->dma_align = of->dma_align;
	query->max_segment = of->max_segment;
	query->max_buffer = sim_memory_most(memory) << SIM_PAGE_SHIFT;
	query->vram_bytes = limit[HETSIM_PLACE_VRAM] << SIM_PAGE_SHIFT;
	query->vram_used = (used[HETSIM_PLACE_VRAM] + used[HETSIM_PLACE_WINDOW])
			   << SIM_PAGE_SHIFT;
	query->system_bytes = limit[HETSIM_PLACE_SYSTEM] << SIM_PAGE_SHIFT;
	query->system_used = used[HETSIM_PLACE_SYSTEM] << SIM_PAGE_SHIFT;
	query->opener_bytes = memory->opener_limit << SIM_PAGE_SHIFT;
	query->opener_used = opener_used << SIM_PAGE_SHIFT;
	query->window_bytes = limit[HETSIM_PLACE_WINDOW] << SIM_PAGE_SHIFT;
	query->window_used = used[HETSIM_PLACE_WINDOW] << SIM_PAGE_SHIFT;
	query->opener_system_bytes = memory->opener_system_limit << SIM_PAGE_SHIFT;
	query->opener_system_used = mine[HETSIM_PLACE_SYSTEM] << SIM_PAGE_SHIFT;
	query->max_queues = SIM_MAX_QUEUES;
	query->max_commands = SIM_MAX_COMMANDS;
	query->max_pending = SIM_MAX_PENDING;
	query->timeout_ms = SIM_TIMEOUT_MS;
}
