/* SPDX-License-Identifier: MIT */
/*
 * Tiering: keeps the hot bytes of a map on a fast tier of memory, and the cold ones on a slow tier.
 *
 * The map is divided into blocks. The library looks again and again at which blocks were touched,
 * and gives each block a heat, which rises with each look that finds it touched, and fades with
 * each that does not. It promotes hot blocks (moves them to the fast tier) and demotes cold ones
 * (moves them to the slow tier) within a budget: bytes of the map on the fast tier, and bytes
 * moved a second. Addresses and bytes stay as they are while a block moves; a thread that touches
 * the block meanwhile waits for it.
 *
 * A look takes the CPU's page-table entries of the map away for a short time, its window, and
 * finds the touched blocks by the entries that have come back: reads and writes count. The pages
 * stay. Private memory (HM_BUFFER_PRIVATE) would lose its bytes so: there the kernel's soft-dirty
 * bits are asked, and only writes count.
 *
 * Touches by accelerators and by other processes are not seen. A huge page is touched, and moves,
 * as a whole: where a map has huge pages, the blocks should be as large as they are.
 */
#ifndef HETMAP_TIERING_H
#define HETMAP_TIERING_H

#include <hetmap/map.h>
#include <hetmap/tier.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_tiering;

/* hm_tiering_desc flags */
#define HM_TIERING_DRY_RUN (1u << 0) /* look only: move nothing */
#define HM_TIERING_MANUAL (1u << 1)  /* no thread: the program calls hm_tiering_step() */

struct hm_tiering_desc {
	uint32_t struct_size;
	uint32_t flags; /* HM_TIERING_ */
	uint32_t fast;  /* enum hm_tier_word of the fast tier; 0: HM_TIER_FAST */
	uint32_t slow;  /* the same of the slow tier; 0: HM_TIER_FAR */
	/* The budget. */
	uint64_t fast_bytes;       /* most bytes of the map on the fast tier, from one block */
	uint64_t bytes_per_second; /* most bytes moved a second, both ways, from one block */

	uint64_t block;       /* bytes that move as one: 0: 64 KiB, or more for large maps */
	uint32_t interval_ms; /* time between two looks, 1 to 60000; 0: 100 */
	uint32_t reserved;    /* 0 */
};

enum hm_tiering_source {
	HM_TIERING_BY_ENTRIES = 1,    /* page-table entries: reads and writes */
	HM_TIERING_BY_SOFT_DIRTY = 2, /* soft-dirty bits: writes only */
};

/* Figures since the tiering was made, except those that say "now". */
struct hm_tiering_info {
	uint32_t struct_size;
	uint32_t source;       /* enum hm_tiering_source */
	uint32_t fast_node;    /* NUMA node of the fast tier */
	uint32_t slow_node;    /* and that of the slow one */
	uint64_t block;        /* bytes */
	uint64_t blocks;       /* number of blocks of the map */
	uint64_t looks;        /* number of looks */
	uint64_t fast_bytes;   /* bytes of the map on the fast tier now */
	uint64_t slow_bytes;   /* bytes of the map on the slow tier now */
	uint64_t promoted;     /* bytes moved to the fast tier */
	uint64_t demoted;      /* bytes moved to the slow tier */
	uint64_t refused;      /* bytes that could not move: pinned, shared, or no room there */
	uint64_t touched;      /* blocks that looks found touched */
	uint64_t touched_fast; /* those of them that were on the fast tier */
	uint64_t heat;         /* sum of the heat of all blocks now */
	uint64_t heat_fast;    /* that of the blocks on the fast tier */
	uint64_t heat_best;    /* most that blocks of fast_bytes of the budget have */
	uint64_t interval_ns;  /* time between two looks now: longer while nothing is touched */
	uint64_t window_ns;    /* time that a look waits for touches now */
	uint64_t cpu_ns;       /* processor time of all looks and moves */
	int32_t status;        /* 0, or the negative errno that ended the looks */
	uint32_t reserved;     /* 0 */
};

enum hm_tiering_why {
	HM_TIERING_HOT = 1,  /* promoted: it was touched often */
	HM_TIERING_COLD = 2, /* demoted: a hotter block needed its place */
	HM_TIERING_OVER = 3, /* demoted: the fast tier had more than the budget allows */
};

struct hm_tiering_move {
	uint64_t time;    /* CLOCK_MONOTONIC, ns */
	uint64_t address; /* first byte of the block */
	uint64_t length;  /* bytes moved */
	int32_t node;     /* NUMA node that they moved to */
	uint16_t why;     /* enum hm_tiering_why */
	uint16_t heat;    /* heat of the block, 0 to 1000 */
};

/**
 * hm_tiering_create - begin to keep the hot bytes of a map on a fast tier
 * @map:         [in] the tiering takes a reference
 * @desc:        [in] budget and tiers
 * @ret_tiering: [out] a reference; the caller must drop it with hm_tiering_unref()
 *
 * Starts a thread, except with HM_TIERING_MANUAL. A map has one tiering at a time: of two, each
 * would take the other's looks for touches. Pages that were never touched take no part before
 * their first touch. If the map gets shorter, is lost, or shows replaced bytes, the looks end, and
 * hm_tiering_info.status says why.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the budget is below one block, both tiers are one node, the block is no power of
 *                two from 4096 on, or a field is unknown.
 *   -E2BIG:      struct_size is larger than this library knows.
 *   -ENODEV:     this machine has no such tier (it has memory of one node only), or the map is
 *                lost.
 *   -EOPNOTSUPP: the kernel has no NUMA, or can't tell touches of memory of this kind: that of
 *                devices, locked memory, or private memory without soft-dirty bits.
 *   -EAGAIN:     no thread could be started; the text names the limit.
 *   -EBUSY:      the map is being changed: call again.
 *   -ENOMEM:     not enough memory is available.
 */
HM_API int hm_tiering_create(struct hm_map *map, const struct hm_tiering_desc *desc,
			     struct hm_tiering **ret_tiering);

/**
 * hm_tiering_step - look once, and move what the budget allows
 * @tiering: [in] with HM_TIERING_MANUAL
 *
 * The window of the look is the time since the last call, or since hm_tiering_create().
 *
 * Thread safety: any thread; calls wait for each other.
 *
 * Errors:
 *   -EBUSY:  the tiering has a thread, which does this, or the map is being changed: call again.
 *   -ENODEV: the map is lost, has lost bytes, or is shorter than it was: the looks have ended.
 */
HM_API int hm_tiering_step(struct hm_tiering *tiering);

/**
 * hm_tiering_query - report what a tiering has seen and done
 * @tiering:  [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread; waits for a step that moves bytes.
 *
 * Errors:
 *   -E2BIG, -EINVAL: struct_size is not that of a struct this library knows.
 */
HM_API int hm_tiering_query(struct hm_tiering *tiering, struct hm_tiering_info *ret_info);

/**
 * hm_tiering_moves - list the last moves, the newest first
 * @tiering:  [in]
 * @moves:    [out] array of @capacity
 * @capacity: [in] entries in @moves; the library keeps the last 64 moves
 * @ret_n:    [out] number of entries written
 *
 * Thread safety: any thread; waits for a step that moves bytes.
 *
 * Errors:
 *   -EINVAL: a pointer is NULL.
 */
HM_API int hm_tiering_moves(struct hm_tiering *tiering, struct hm_tiering_move *moves,
			    uint32_t capacity, uint32_t *ret_n);

/** hm_tiering_ref - take a reference; returns @tiering. NULL is allowed. */
HM_API struct hm_tiering *hm_tiering_ref(struct hm_tiering *tiering);

/**
 * hm_tiering_unref - drop a reference
 * @tiering: [in] NULL is allowed
 *
 * The last one ends the thread and waits for its look. Bytes stay where they are.
 */
HM_API void hm_tiering_unref(struct hm_tiering *tiering);

#ifdef __cplusplus
}
#endif

#endif
