// SPDX-License-Identifier: MIT
/*
 * The code that asked for a device's work. Its tracepoints come from all processes and from the
 * kernel's own threads: the owner of a call chain asked, and there may be none.
 */
#include "device_sites.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <search.h>
#include <stdlib.h>

#include "stacks.h"

#define PAGE_SHIFT 12

struct device_sites {
	struct spaces *spaces;
	struct stacks *stacks;
	void *tree;
	struct device_site *first;
};

struct device_sites *device_sites_create(struct spaces *spaces)
{
	struct device_sites *sites = calloc(1, sizeof(*sites));

	if (!sites)
		return NULL;
	sites->spaces = spaces;
	sites->stacks = stacks_create(spaces, false);
	if (!sites->stacks) {
		free(sites);
		return NULL;
	}
	return sites;
}

void device_sites_free(struct device_sites *sites)
{
	if (!sites)
		return;
	tdestroy(sites->tree, free);
	stacks_free(sites->stacks);
	free(sites);
}

/*
 * Has it any of a program? Of a thread of the kernel's there are none but the kernel's, or
 * zeros where a program's registers would be.
 */
static bool has_frames(const struct recorded_event *event)
{
	bool kernel = false;
	uint32_t i;

	for (i = 0; i < event->n_chain; i++) {
		if (event->chain[i] >= PERF_CONTEXT_MAX)
			kernel = event->chain[i] == PERF_CONTEXT_KERNEL;
		else if (!kernel && event->chain[i])
			return true;
	}
	return false;
}

static enum device_asker asker_of(const struct device_sites *sites,
				  const struct recorded_event *event)
{
	bool traced = spaces_knows(sites->spaces, event->pid);

	if (has_frames(event))
		return traced ? ASKER_CODE : ASKER_OTHER;
	return traced ? ASKER_UNKNOWN : ASKER_ENGINE;
}

static enum device_work work_of(const struct recorded_event *event, bool evicted)
{
	if (event->point == POINT_SIM_FAULT)
		return WORK_FAULT;
	if (event->point == POINT_SIM_ACCESS)
		return WORK_ACCESS;
	return evicted ? WORK_EVICTION : WORK_MOVE;
}

static int compare(const void *a, const void *b)
{
	const struct device_site *x = a, *y = b;

	if (x->object != y->object)
		return x->object->index < y->object->index ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->work != y->work)
		return x->work < y->work ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->asker != y->asker)
		return x->asker < y->asker ? -1 : 1;
	return ((uintptr_t)x->stack > (uintptr_t)y->stack) -
	       ((uintptr_t)x->stack < (uintptr_t)y->stack);
}

static struct device_site *site_of(struct device_sites *sites, const struct device_site *key)
{
	void *node = tfind(key, &sites->tree, compare);
	struct device_site *site;

	if (node)
		return *(struct device_site **)node;
	site = malloc(sizeof(*site));
	if (!site)
		return NULL;
	*site = *key;
	if (!tsearch(site, &sites->tree, compare)) {
		free(site);
		return NULL;
	}
	site->next = sites->first;
	return sites->first = site;
}

int device_sites_note(struct device_sites *sites, const struct recorded_event *event,
		      bool evicted, const struct object *object, struct device_site **ret_site)
{
	struct device_site key = { .object = object,
				   .device = (uint32_t)event->value[SIM_DEVICE],
				   .work = work_of(event, evicted),
				   .first_ns = event->time },
			   *site;
	uint64_t moved = 0;

	*ret_site = NULL;
	if (!event->chain)
		return 0;
	if (key.work >= WORK_MOVE) {
		key.place = (uint32_t)event->value[SIM_PLACE];
		moved = event->value[SIM_N_PAGES] << PAGE_SHIFT;
	}
	key.asker = asker_of(sites, event);
	if (key.asker == ASKER_CODE) {
		key.stack = stacks_of(sites->stacks, NULL, event);
		if (!key.stack)
			return -ENOMEM;
		key.site.pid = event->pid;
		key.site.ip = key.stack->frame[0].ip;
	}
	site = site_of(sites, &key);
	if (!site)
		return -ENOMEM;
	site->n++;
	site->bytes += moved;
	site->last_ns = event->time;
	*ret_site = site;
	return 0;
}

struct device_site *device_sites_first(const struct device_sites *sites)
{
	return sites->first;
}
