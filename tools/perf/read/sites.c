// SPDX-License-Identifier: MIT
/*
 * Call sites of faults. The mapped code is asked for when a site is met, and not at the end: by
 * then the process may be another program, or the library be gone.
 */
#include "sites.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <search.h>
#include <stdlib.h>

#include "stacks.h"

/* A power of two. Loops that fault have few call sites. */
#define SITES_KNOWN 1024

/* The key of a site: its result depends on the mapped code, too. */
struct asked {
	struct counted *of;
	uint64_t ip, caller, code;
	struct place top;
};

struct known_site {
	struct asked asked;
	struct site *site; /* NULL: none */
};

struct sites {
	struct analysis *analysis;
	void *tree;                           /* of the analysis's sites */
	struct known_site known[SITES_KNOWN]; /* those found last, by site_slot() */
	uint32_t room;
};

static int grow(struct sites *sites)
{
	struct analysis *analysis = sites->analysis;
	struct site **more;

	if (analysis->n_site < sites->room)
		return 0;
	more = reallocarray(analysis->sites, 2 * (size_t)sites->room + 64, sizeof(*more));
	if (!more)
		return -ENOMEM;
	analysis->sites = more;
	sites->room = 2 * sites->room + 64;
	return 0;
}

static int compare_places(const struct place *x, const struct place *y)
{
	if (x->file != y->file)
		return (uintptr_t)x->file < (uintptr_t)y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int compare_sites(const void *a, const void *b)
{
	const struct site *x = a, *y = b;
	int r;

	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	r = compare_places(&x->place, &y->place);
	r = r ? r : compare_places(&x->caller, &y->caller);
	return r ? r : compare_places(&x->top, &y->top);
}

/* The instruction, and the first address of the chain behind it: markers are no addresses. */
static struct asked asked_of(struct sites *sites, struct counted *counted,
			     const struct recorded_event *event)
{
	struct asked asked = { .of = counted };
	uint32_t i;

	if (event->function) {
		asked.ip = (uintptr_t)spaces_string(sites->analysis->spaces, event->function);
		asked.caller = (uintptr_t)spaces_string(sites->analysis->spaces, event->module);
		return asked;
	}
	for (i = 0; i < event->n_chain && !asked.caller; i++) {
		if (event->chain[i] >= PERF_CONTEXT_MAX)
			continue;
		if (!asked.ip)
			asked.ip = event->chain[i];
		else
			asked.caller = event->chain[i];
	}
	if (!asked.ip)
		asked.ip = event->ip;
	asked.top = stacks_top(sites->analysis->spaces, event, asked.ip);
	asked.code = spaces_code_state(sites->analysis->spaces, event->pid);
	return asked;
}

static struct place place_of(struct sites *sites, uint32_t pid, uint64_t address)
{
	struct place place = { .offset = address, .address = address };
	uint64_t offset;

	place.file = spaces_code(sites->analysis->spaces, pid, address, &offset);
	if (place.file)
		place.offset = offset;
	return place;
}

static struct site key_of(struct sites *sites, const struct asked *asked,
			  const struct recorded_event *event)
{
	struct site key = { .of = asked->of, .pid = event->pid, .ip = asked->ip };

	if (event->function) {
		key.function = (const char *)(uintptr_t)asked->ip;
		key.module = (const char *)(uintptr_t)asked->caller;
		key.place.offset = asked->ip;
		key.caller.offset = asked->caller;
		return key;
	}
	key.top = asked->top;
	key.place = place_of(sites, event->pid, asked->ip);
	/* The call is before where it returns to. */
	if (asked->caller)
		key.caller = place_of(sites, event->pid, asked->caller - 1);
	return key;
}

static struct known_site *site_slot(struct sites *sites, const struct asked *asked)
{
	uint64_t mixed = ((uintptr_t)asked->of >> 4) + asked->ip * 31 + asked->caller +
			 asked->top.address * 7;

	mixed *= UINT64_C(0x9e3779b97f4a7c15);
	return &sites->known[mixed >> 32 & (SITES_KNOWN - 1)];
}

struct site *sites_of(struct sites *sites, struct counted *counted,
		      const struct recorded_event *event)
{
	const struct asked asked = asked_of(sites, counted, event);
	struct known_site *slot = site_slot(sites, &asked);
	struct analysis *analysis = sites->analysis;
	struct site key, *site;
	void *node;

	if (slot->site && slot->asked.of == asked.of && slot->asked.ip == asked.ip &&
	    slot->asked.caller == asked.caller && slot->asked.code == asked.code &&
	    slot->asked.top.address == asked.top.address)
		return slot->site;
	key = key_of(sites, &asked, event);
	slot->asked = asked;
	node = tfind(&key, &sites->tree, compare_sites);
	if (node)
		return slot->site = *(struct site **)node;
	slot->site = NULL;
	if (grow(sites))
		return NULL;
	site = malloc(sizeof(*site));
	if (!site)
		return NULL;
	*site = key;
	if (!tsearch(site, &sites->tree, compare_sites)) {
		free(site);
		return NULL;
	}
	analysis->sites[analysis->n_site++] = site;
	return slot->site = site;
}

struct sites *sites_create(struct analysis *analysis)
{
	struct sites *sites = calloc(1, sizeof(*sites));

	if (sites)
		sites->analysis = analysis;
	return sites;
}

static void keep_node(void *node)
{
	(void)node;
}

void sites_free(struct sites *sites)
{
	if (!sites)
		return;
	tdestroy(sites->tree, keep_node);
	free(sites);
}
