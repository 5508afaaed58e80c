// SPDX-License-Identifier: MIT
/*
 * libexec/hetmap/hetmap-bench, which `hetmap bench` runs: the cases of the library, in the order in
 * which they run.
 */
#include "bench_list.h"
#include "common/command.h"
#include "peer.h"

static const struct bench cases[] = {
	{ "map_cycle", "create, map, touch and release 64 KiB", bench_map_cycle,
	  peer_maps_source },
	{ "alloc_cycle", "hm_alloc, touch and hm_free of 64 KiB", bench_alloc_cycle,
	  peer_maps_source },
	{ "protect_pair", "take the right to write away and give it back, 64 KiB",
	  bench_protect_pair, peer_maps_source },
	{ "lock_pair", "lock and unlock 64 KiB", bench_lock_pair, peer_maps_source },
	{ "pointer_find", "look addresses up among 10,000 and 60,000 maps", bench_pointer_find,
	  peer_pointer_source },
	{ "pool_cycle", "take 64 B to 1 MiB from a pool, touch and give back", bench_pool_cycle,
	  peer_pool_source },
	{ "launch", "an empty kernel, and wait for it", bench_launch, peer_opencl_source },
	{ "zero_copy", "SAXPY on 2 x 256 MiB, in place", bench_zero_copy, peer_opencl_source },
	{ "grow", "1 GiB in sixteen steps, at one address", bench_grow, peer_maps_source },
	{ "first_touch", "1 GiB of new memory, every page written", bench_first_touch,
	  peer_maps_source },
	{ "soft_submit", "an empty command on soft:0, and wait for it", bench_soft_submit,
	  peer_sim_source },
	{ "sim_fault", "256 MiB of VRAM of sim:0, every page written", bench_sim_fault,
	  peer_sim_source },
	{ "sim_submit", "an empty command on sim:0, and wait for it", bench_sim_submit,
	  peer_sim_source },
	{ "sim_copy", "64 MiB copied by the engine of sim:0", bench_sim_copy, peer_sim_source },
	{ "transfer_1g", "1 GiB from a producer to the engine's result", bench_transfer_1g,
	  peer_sim_source },
	{ "mirror_idle", "1 MiB unmapped and mapped, beside a mirror of the process",
	  bench_mirror_idle, peer_range_source },
	{ "mirror_fault", "an entry of a device for 4 KiB, by chunks of 2 MiB",
	  bench_mirror_fault, peer_range_source },
	{ "invalidate", "rights taken from 2 MiB that a device has entries for",
	  bench_invalidate, peer_range_source },
	{ "dev_tlb", "a translation that an engine has, has not, and loses", bench_dev_tlb,
	  peer_range_source },
	{ "migrate", "256 MiB to an engine's memory and back", bench_migrate,
	  peer_range_source },
	{ "cache_gain", "pages read by Zipf's law, with hot ones in an engine's memory",
	  bench_cache_gain, peer_range_source },
	{ "prefetch_gain", "4K frames of a cold file filtered, with learning",
	  bench_prefetch_gain, peer_range_source },
	{ "dmabuf_bracket", "an access of the CPU's to a dma-buf, begun and ended",
	  bench_dmabuf_bracket, peer_dmabuf_source },
	{ "drm_map_cycle", "create, map, touch and release 1 MiB on a DRM node",
	  bench_drm_map_cycle, peer_drm_source },
	{ "drm_reuse", "the same, where an idle object is used again", bench_drm_reuse,
	  peer_drm_source },
	{ "dmabuf_share", "a dma-buf sent to another process, mapped and read there",
	  bench_dmabuf_share, peer_dmabuf_source },
	{ "guard_copy", "copies into a map, with an error instead of a signal",
	  bench_guard_copy, peer_maps_source },
	{ "copy_ladder", "copies of 1 byte to 16 MiB between two maps", bench_copy_ladder,
	  peer_maps_source },
	{ "combine", "small writes scattered over 1 MiB, gathered by lines", bench_combine,
	  peer_maps_source },
	{ "find_under_churn", "look-ups while another thread maps and unmaps without pause",
	  bench_find_under_churn, peer_maps_source },
	{ "retire", "the last reference to a map of 1 MiB, as its caller sees it", bench_retire,
	  peer_maps_source },
	{ "lost_to_usable", "a lost device, until 256 MiB with a shadow are touched",
	  bench_lost_to_usable, peer_maps_source },
	{ "shadow_cost", "the end of a bracket over 1 MiB of a buffer with a shadow",
	  bench_shadow_cost, peer_maps_source },
	{ "publish_cost", "map_cycle with the published table of maps", bench_publish_cost,
	  peer_maps_source },
	{ "trace_overhead", "time that hetmap trace adds to a program that only faults",
	  bench_trace_overhead, peer_trace_source },
	{ "frag_effect", "map_cycle and first_touch while memory is in pieces",
	  bench_frag_effect, peer_maps_source },
	{ "report_10m", "hetmap report on a trace of 10 million faults", bench_report_10m,
	  peer_trace_source },
	{ "seq_cold", "all bytes of a file that is not in memory", bench_seq_cold,
	  peer_file_source },
	{ "seq_warm", "all bytes of a file that is in memory", bench_seq_warm,
	  peer_file_source },
	{ "tokens_warm", "batches of 64 blocks of tokens out of RAM", bench_tokens_warm,
	  peer_tokens_source },
	{ "tokens_cold", "the same from storage", bench_tokens_cold, peer_tokens_source },
	{ "safetensors_open", "a model of 10,000 tensors, until the first is there",
	  bench_safetensors_open, peer_model_source },
	{ "gguf_open", "a model with a long vocabulary, until a tensor is there",
	  bench_gguf_open, peer_model_source },
	{ "load", "a model of 2 GiB into the memory of soft:0", bench_load_model,
	  peer_model_source },
	{ "ipc_ring", "records from one process to another, 64 bytes and 1 MiB", bench_ipc_ring,
	  peer_ipc_source },
	{ "frame_path", "a picture from its decoder to its conversion", bench_frame_path,
	  peer_frames_source },
	{ "workers", "4 processes that read one file of tokens", bench_workers,
	  peer_ipc_source },
	{ "map_tier", "create, map, touch and release 2 MiB on each tier of memory",
	  bench_map_tier, peer_tier_source },
	{ "interleave", "64 MiB over all nodes by their bandwidths", bench_interleave,
	  peer_tier_source },
	{ "tiering", "Zipf reads of 256 MiB with 64 MiB on the fast tier", bench_tiering,
	  peer_tier_source },
	{ "cxl_latency", "a load from each node, and the translation of its address",
	  bench_cxl_latency, peer_tier_source },
};

int main(int argc, char **argv)
{
	static char name[] = "bench";

	output_init();
	output_scan_json(argc, argv);
	signals_init();
	/* Programs of extensions have cases by that name. */
	argv[0] = name;
	return output_finish(
		bench_main_of(cases, sizeof(cases) / sizeof(cases[0]), argc, argv));
}
