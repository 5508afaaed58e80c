// SPDX-License-Identifier: MIT
/* The ladder: all rungs in their order, and the words that stand for nodes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/weights.h"
#include "tier/dax.h"
#include "tier/tier.h"

/* Indexed by enum hm_tier_word. */
static const char *const words[] = {
	[HM_TIER_FAST] = "fast",
	[HM_TIER_LARGE] = "large",
	[HM_TIER_FAR] = "far",
};

const char *tier_word_name(uint32_t word)
{
	return word < ARRAY_SIZE(words) ? words[word] : NULL;
}

uint32_t tier_word_find(const char *name)
{
	uint32_t i;

	for (i = 1; i < ARRAY_SIZE(words); i++)
		if (!strcmp(words[i], name))
			return i;
	return HM_TIER_DEFAULT;
}

static void fill_figures(struct hm_tier *rung, bool measure)
{
	const uint32_t node = (uint32_t)rung->node;
	struct node_figures figures;

	if (node_firmware(node, &figures)) {
		rung->source = HM_TIER_FIRMWARE;
	} else if (figures_find(rung->device, &figures)) {
		rung->source = HM_TIER_MEASURED;
	} else if (measure && !tier_measure_node(node, &figures)) {
		figures_keep(rung->device, &figures);
		rung->source = HM_TIER_MEASURED;
	} else {
		return;
	}
	rung->latency = figures.latency;
	rung->bandwidth = figures.bandwidth;
}

static bool fill_node(uint32_t node, bool measure, struct hm_tier *rung)
{
	uint32_t n = node_processors(node);

	*rung = (struct hm_tier){ .struct_size = sizeof(*rung), .node = (int32_t)node };
	if (!node_memory(node, &rung->capacity, &rung->available))
		return false;
	snprintf(rung->device, sizeof(rung->device), "node:%u", node);
	if (n)
		snprintf(rung->made_of, sizeof(rung->made_of), "memory with %u processor%s", n,
			 n == 1 ? "" : "s");
	else
		snprintf(rung->made_of, sizeof(rung->made_of), "memory without processors");
	if (!n)
		dax_made_of_node(node, rung->made_of, sizeof(rung->made_of));
	fill_figures(rung, measure);
	return true;
}

struct filling {
	struct hm_tier *rungs;
	int n;
	bool measure;
};

/* Only bytes are read: a device may have some that last. */
static void measure_device(const char *path, const struct dax_facts *facts,
			   struct hm_tier *rung, bool measure)
{
	struct node_figures figures;
	int fd;

	if (!figures_find(rung->device, &figures)) {
		if (!measure)
			return;
		fd = sys_open(path, O_RDONLY, 0);
		if (fd < 0)
			return;
		figures.latency = 0;
		if (!tier_measure_fd(fd, facts->size, &figures))
			figures_keep(rung->device, &figures);
		sys_close(fd);
		if (!figures.latency)
			return;
	}
	rung->latency = figures.latency;
	rung->bandwidth = figures.bandwidth;
	rung->source = HM_TIER_MEASURED;
}

static int add_device(void *user, const char *path, const struct dax_facts *facts)
{
	struct filling *filling = user;
	struct hm_tier *rung = &filling->rungs[filling->n];

	if (filling->n >= TIER_RUNGS_MAX)
		return 1;
	*rung = (struct hm_tier){
		.struct_size = sizeof(*rung),
		.node = facts->node,
		.capacity = facts->size,
		.persist = facts->persist,
	};
	if ((size_t)snprintf(rung->device, sizeof(rung->device), "dax:%s", path) >=
	    sizeof(rung->device))
		return 0;
	name_copy(rung->made_of, sizeof(rung->made_of), facts->made_of);
	measure_device(path, facts, rung, filling->measure);
	filling->n++;
	return 0;
}

static int add_mount(void *user, const struct dax_mount *mount)
{
	struct filling *filling = user;
	struct hm_tier *rung = &filling->rungs[filling->n];

	if (filling->n >= TIER_RUNGS_MAX)
		return 1;
	*rung = (struct hm_tier){
		.struct_size = sizeof(*rung),
		.node = -1,
		.capacity = mount->size,
		.available = mount->available,
		.persist = mount->persist,
	};
	if ((size_t)snprintf(rung->device, sizeof(rung->device), "pmem:%s", mount->path) >=
	    sizeof(rung->device))
		return 0;
	name_copy(rung->made_of, sizeof(rung->made_of), mount->made_of);
	filling->n++;
	return 0;
}

static bool is_node(const struct hm_tier *rung)
{
	return !strncmp(rung->device, "node:", 5);
}

/* Rungs with figures first, the fast ones before the slow. */
static int compare(const void *a, const void *b)
{
	const struct hm_tier *x = a, *y = b;
	uint32_t far_x, far_y;

	if (!x->latency != !y->latency)
		return x->latency ? -1 : 1;
	if (x->latency != y->latency)
		return x->latency < y->latency ? -1 : 1;
	if (x->bandwidth != y->bandwidth)
		return x->bandwidth > y->bandwidth ? -1 : 1;
	if (!is_node(x) || !is_node(y))
		return is_node(x) ? -1 : is_node(y) ? 1 : strcmp(x->device, y->device);
	far_x = node_distance((uint32_t)x->node);
	far_y = node_distance((uint32_t)y->node);
	if (far_x != far_y)
		return far_x < far_y ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Words stand for nodes only: other rungs have bytes that somebody wants to keep. */
static void set_words(struct hm_tier *rungs, int n)
{
	struct hm_tier *first = NULL, *last = NULL, *largest = NULL;
	int i;

	for (i = 0; i < n; i++) {
		if (!is_node(&rungs[i]))
			continue;
		first = first ? first : &rungs[i];
		last = &rungs[i];
		if (!largest || rungs[i].capacity > largest->capacity)
			largest = &rungs[i];
	}
	if (!first)
		return;
	first->words |= 1u << HM_TIER_FAST;
	largest->words |= 1u << HM_TIER_LARGE;
	if (last != first)
		last->words |= 1u << HM_TIER_FAR;
}

int ladder_fill(struct hm_tier *rungs, bool measure)
{
	struct filling filling = { .rungs = rungs, .measure = measure };
	uint64_t nodes = node_usable();
	uint32_t i;

	for (i = 0; i < TIER_NODES_MAX; i++)
		if (nodes >> i & 1 && fill_node(i, measure, &rungs[filling.n]))
			filling.n++;
	dax_each(add_device, &filling);
	dax_each_mount(add_mount, &filling);
	qsort(rungs, (size_t)filling.n, sizeof(rungs[0]), compare);
	set_words(rungs, filling.n);
	return filling.n;
}

int tier_weigh(uint64_t nodes)
{
	uint64_t unknown = weights_unknown(nodes);
	struct hm_tier *rungs;
	int n, i, try;

	/* One node has all pages, whatever its figures are. */
	if (!unknown || !(nodes & (nodes - 1)))
		return 0;
	rungs = sys_calloc(TIER_RUNGS_MAX, sizeof(*rungs));
	if (!rungs)
		return err_set(-ENOMEM, "no memory for the ladder of tiers");
	for (try = 0; try < 2 && unknown; try++) {
		n = ladder_fill(rungs, try > 0);
		for (i = 0; i < n; i++)
			if (is_node(&rungs[i]) && rungs[i].bandwidth)
				weights_set_bandwidth((uint32_t)rungs[i].node,
						      rungs[i].bandwidth);
		unknown = weights_unknown(nodes);
	}
	free(rungs);
	/* A measurement that failed has left its text. */
	return unknown ? err_set(-EOPNOTSUPP,
				 "the bandwidth of nodes 0x%" PRIx64
				 " is not known, nor can it be "
				 "measured: pass HM_NUMA_INTERLEAVE",
				 unknown) :
			 0;
}

int tier_node(uint32_t word, uint32_t *ret_node)
{
	const char *name = tier_word_name(word);
	struct hm_tier *rungs;
	uint64_t nodes;
	int n, i, r;

	if (!name)
		return err_set(-EINVAL, "tier %u is unknown: 1 to %zu are (fast, large, far)",
			       word, ARRAY_SIZE(words) - 1);
	rungs = sys_calloc(TIER_RUNGS_MAX, sizeof(*rungs));
	if (!rungs)
		return err_set(-ENOMEM, "no memory for the ladder of tiers");
	/* A single node needs no figures. */
	nodes = node_usable();
	n = ladder_fill(rungs, false);
	for (i = 0; i < n && nodes & (nodes - 1); i++)
		if (is_node(&rungs[i]) && !rungs[i].latency) {
			n = ladder_fill(rungs, true);
			break;
		}
	r = nodes ? err_set(-ENODEV,
			    "this machine has no tier \"%s\": it has memory of one node only, which "
			    "\"fast\" and \"large\" stand for",
			    name) :
		    err_set(-EOPNOTSUPP,
			    "this kernel has no NUMA nodes, and therefore no tiers");
	for (i = 0; i < n; i++)
		if (rungs[i].words >> word & 1) {
			*ret_node = (uint32_t)rungs[i].node;
			r = 0;
			break;
		}
	if (!r)
		err_clear();
	free(rungs);
	return r;
}
