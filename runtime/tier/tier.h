/* SPDX-License-Identifier: MIT */
/*
 * The ladder of memory: nodes of the machine with their figures, and the words that stand for
 * them. This room knows sysfs and a clock, and no noun of the library.
 */
#ifndef HETMAP_RUNTIME_TIER_H
#define HETMAP_RUNTIME_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/tier.h>

#include "base/err.h"

#define TIER_NODES_MAX 64
#define TIER_RUNGS_MAX 96

/* ---- node.c: what sysfs says of nodes ---- */

struct node_figures {
	uint64_t latency;   /* ns; 0: not known */
	uint64_t bandwidth; /* bytes a second; 0: not known */
};

/* Bit n: node n has memory that this process may use. 0: the kernel has no NUMA. */
uint64_t node_usable(void);
/* Bytes of the node, and those that are free; false: the node has no memory. */
bool node_memory(uint32_t node, uint64_t *ret_total, uint64_t *ret_free);
uint32_t node_processors(uint32_t node);
/* The firmware's figures; false: the kernel shows none. */
bool node_firmware(uint32_t node, struct node_figures *ret_figures);
/* Distance (SLIT) from the node of this processor: 10 is near; 255: not known. */
uint32_t node_distance(uint32_t node);

/* ---- measure.c ---- */

/*
 * Measures loads from the node by this thread: dependent ones, and a stream.
 * Errors, with a text: -ENODEV: the node went away; those of mmap() and mbind().
 */
int tier_measure_node(uint32_t node, struct node_figures *ret_figures);
/* Likewise, of the first bytes of a device or a file of @length, which are read only. */
int tier_measure_fd(int fd, uint64_t length, struct node_figures *ret_figures);

/* ---- figures.c: measured figures, in this process and in a file ---- */

/* @device: name of a rung. False: the rung was not measured on this machine. */
bool figures_find(const char *device, struct node_figures *ret_figures);
void figures_keep(const char *device, const struct node_figures *figures);

/* ---- ladder.c ---- */

/* Fills up to TIER_RUNGS_MAX rungs in their order. Returns the number, or -ENOMEM with a text. */
int ladder_fill(struct hm_tier *rungs, bool measure);

/*
 * Finds the node that @word stands for. Errors, with a text: -EINVAL: there is no such word;
 * -ENODEV: this machine has no such rung; -EOPNOTSUPP: the kernel has no NUMA; -ENOMEM.
 */
int tier_node(uint32_t word, uint32_t *ret_node);

/*
 * Notes the bandwidth of each of @nodes (base/weights.h), measured where the firmware says nothing.
 * Errors, with a text: -EOPNOTSUPP: a node has no bandwidth; -ENOMEM.
 */
int tier_weigh(uint64_t nodes);

/* "fast"; NULL: there is no such word. */
const char *tier_word_name(uint32_t word);
/* HM_TIER_DEFAULT: no word has this name. */
uint32_t tier_word_find(const char *name);

#endif
