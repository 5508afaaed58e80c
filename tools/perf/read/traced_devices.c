// SPDX-License-Identifier: MIT
/*
 * Simulated devices as their tracepoints told of them.
 *
 * They name a buffer by its number on the device. Mappings of the device's file tell which one
 * that is: each number has a window of that file, all of one size, which the first page fault
 * tells, being told of by its address and by its number.
 *
 * Tracepoints are those of all processes, since engines run beside them: those of who opened
 * the device count if any was in a traced process.
 */
#include "traced_devices.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_lanes.h"
#include "device_sites.h"

#define PAGE_SHIFT 12

/* A piece of a device's file that is mapped. Two are equal that overlap. */
struct mapped {
	uint32_t device, pid;
	uint64_t first, end; /* pages of the file */
	uint64_t address;
	uint64_t serial;
};

/* A buffer's number, and its meaning at the moment. */
struct link {
	uint32_t device, slot;
	uint64_t opener;
	uint64_t generation;   /* of the device's maps, when it was looked up */
	uint64_t mapped;       /* serial of the mappings that it was looked up by; 0: none */
	struct object *object; /* NULL: not known */
	struct device_use *use;
};

/* An opener of a device. */
struct client {
	uint32_t device;
	uint64_t opener;
	bool ours;
	struct device_use use;
	uint64_t submitted, completed, failed, fences;
	struct latency jobs;
	struct lanes lanes;
	struct client *next;
};

struct known_device {
	uint32_t index;
	uint64_t window; /* pages of the file that each buffer has; 0: not known yet */
	uint64_t generation;
	struct traced_device told;
	struct lanes lanes; /* work of no client */
	struct known_device *next;
};

struct devices {
	struct spaces *spaces;
	struct known_device *known;
	struct client *clients, *client;
	void *mapped; /* tree */
	void *links;  /* tree */
	void *uses;   /* tree, by object */
	struct device_use *first_use;
	struct device_sites *sites;
	bool evictions;
};

/* ---- finding ---- */

static int compare_mapped(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->end <= y->first)
		return -1;
	return x->first >= y->end;
}

static int compare_links(const void *a, const void *b)
{
	const struct link *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

static int compare_uses(const void *a, const void *b)
{
	const struct device_use *x = a, *y = b;

	return (x->object->index > y->object->index) - (x->object->index < y->object->index);
}

static struct known_device *device_of(struct devices *devices, uint32_t index)
{
	struct known_device *device = devices->known;

	while (device && device->index != index)
		device = device->next;
	if (device)
		return device;
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	device->index = device->told.index = index;
	snprintf(device->told.name, sizeof(device->told.name), "hetsim%" PRIu32, index);
	device->next = devices->known;
	return devices->known = device;
}

static struct client *client_of(struct devices *devices, uint32_t device, uint64_t opener)
{
	struct client *client = devices->client;

	if (client && client->device == device && client->opener == opener)
		return client;
	client = devices->clients;
	while (client && (client->device != device || client->opener != opener))
		client = client->next;
	if (!client) {
		client = calloc(1, sizeof(*client));
		if (!client)
			return NULL;
		client->device = device;
		client->opener = opener;
		client->next = devices->clients;
		devices->clients = client;
	}
	return devices->client = client;
}

static struct device_use *use_of(struct devices *devices, struct object *object)
{
	const struct device_use key = { .object = object };
	void *node = tfind(&key, &devices->uses, compare_uses);
	struct device_use *use;

	if (node)
		return *(struct device_use **)node;
	use = calloc(1, sizeof(*use));
	if (!use)
		return NULL;
	use->object = object;
	if (!tsearch(use, &devices->uses, compare_uses)) {
		free(use);
		return NULL;
	}
	use->next = devices->first_use;
	return devices->first_use = use;
}

/* ---- which buffer a number is ---- */

int devices_map(struct devices *devices, const struct recorded_event *event)
{
	struct mapped mapped = { .pid = event->pid,
				 .first = event->offset >> PAGE_SHIFT,
				 .address = event->address },
		      *copy, *old;
	struct known_device *device;
	int n = 0;
	void *node;

	if (sscanf(event->name, "/dev/hetsim%" SCNu32 "%n", &mapped.device, &n) != 1 ||
	    event->name[n])
		return 0;
	mapped.end = mapped.first + (event->length + (1 << PAGE_SHIFT) - 1) / (1 << PAGE_SHIFT);
	device = device_of(devices, mapped.device);
	copy = malloc(sizeof(*copy));
	if (!device || !copy) {
		free(copy);
		return -ENOMEM;
	}
	while ((node = tfind(&mapped, &devices->mapped, compare_mapped))) {
		old = *(struct mapped **)node;
		tdelete(old, &devices->mapped, compare_mapped);
		free(old);
	}
	mapped.serial = ++device->generation;
	*copy = mapped;
	if (tsearch(copy, &devices->mapped, compare_mapped))
		return 0;
	free(copy);
	return -ENOMEM;
}

/* Learns the length of a window from the mapping at the address of a fault. */
static void learn_window(struct devices *devices, struct known_device *device, uint32_t pid,
			 uint64_t address, uint32_t slot, uint64_t page)
{
	const struct object *object;
	uint64_t offset;

	if (device->window || !slot)
		return;
	object = spaces_mapped(devices->spaces, pid, address, &offset);
	if (!object || object->kind != OBJECT_DEVICE ||
	    strncmp(object->name, "/dev/", 5) != 0 ||
	    strcmp(object->name + 5, device->told.name) != 0)
		return;
	offset >>= PAGE_SHIFT;
	if (offset > page && (offset - page) % slot == 0)
		device->window = (offset - page) / slot;
}

static struct link *link_of(struct devices *devices, uint32_t device, uint64_t opener,
			    uint32_t slot)
{
	const struct link key = { .device = device, .slot = slot };
	void *node = tfind(&key, &devices->links, compare_links);
	struct link *link = node ? *(struct link **)node : NULL;

	if (!link) {
		link = malloc(sizeof(*link));
		if (!link)
			return NULL;
		*link = key;
		link->opener = opener;
		if (!tsearch(link, &devices->links, compare_links)) {
			free(link);
			return NULL;
		}
	}
	if (link->opener != opener) {
		*link = key;
		link->opener = opener;
	}
	return link;
}

/* By the mappings of its window, if these have changed since. */
static int look_up(struct devices *devices, const struct known_device *device,
		   struct link *link)
{
	struct mapped key = { .device = device->index };
	const struct mapped *mapped;
	struct object *object;
	uint64_t offset;
	void *node;

	if (!device->window || link->generation == device->generation)
		return 0;
	key.first = link->slot * device->window;
	key.end = key.first + device->window;
	node = tfind(&key, &devices->mapped, compare_mapped);
	mapped = node ? *(struct mapped **)node : NULL;
	if (!mapped || (link->mapped == mapped->serial && link->object)) {
		link->generation = device->generation;
		return 0;
	}
	object = spaces_find(devices->spaces, mapped->pid, mapped->address, &offset);
	if (!object)
		return -ENOMEM;
	/* Until the library says which one it is, it may still do so. */
	if (object->kind == OBJECT_HETMAP) {
		link->generation = device->generation;
		link->mapped = mapped->serial;
	}
	if (object != link->object)
		link->use = NULL;
	link->object = object;
	return 0;
}

/* The object that counts for the buffer. *ret_use NULL: its owner is not traced. */
static int buffer_use(struct devices *devices, const struct known_device *device,
		      const struct client *client, struct link *link,
		      struct device_use **ret_use)
{
	int r = look_up(devices, device, link);

	*ret_use = NULL;
	if (r || (!client->ours && !link->object))
		return r;
	if (!link->object) {
		link->object = spaces_nameless(devices->spaces, device->told.name, link->opener,
					       link->slot);
		link->use = NULL;
	}
	if (link->object && !link->use)
		link->use = use_of(devices, link->object);
	*ret_use = link->use;
	return link->use ? 0 : -ENOMEM;
}

/* ---- events ---- */

static bool is_eviction(const struct recorded_event *event)
{
	return event->known & 1u << SIM_EVICTED && event->value[SIM_EVICTED];
}

static void count(struct device_use *use, const struct recorded_event *event)
{
	switch (event->point) {
	case POINT_SIM_FAULT:
		use->faults++;
		break;
	case POINT_SIM_ACCESS:
		use->accesses++;
		break;
	default:
		if (is_eviction(event))
			use->evictions++;
		else
			use->moves++;
		use->bytes_moved += event->value[SIM_N_PAGES] << PAGE_SHIFT;
	}
}

static int on_buffer(struct devices *devices, struct known_device *device,
		     struct client *client, const struct recorded_event *event, uint64_t fault,
		     struct object *object)
{
	uint32_t slot = (uint32_t)event->value[SIM_BUFFER];
	struct link *link = link_of(devices, device->index, client->opener, slot);
	struct device_site *site = NULL;
	struct device_use *use;
	int r;

	if (!link)
		return -ENOMEM;
	if (event->point != POINT_SIM_MOVE && fault) {
		learn_window(devices, device, event->pid, fault, slot, event->value[SIM_PAGE]);
		if (object != link->object)
			link->use = NULL;
		link->object = object;
		link->generation = device->generation;
	}
	r = buffer_use(devices, device, client, link, &use);
	if (r)
		return r;
	count(&client->use, event);
	if (use) {
		count(use, event);
		r = device_sites_note(devices->sites, event, is_eviction(event), use->object,
				      &site);
		if (r)
			return r;
	}
	if (event->point != POINT_SIM_MOVE)
		return 0;
	devices->evictions |= event->known & 1u << SIM_EVICTED;
	return lanes_move(&client->lanes, device->told.name, event, is_eviction(event),
			  link->object, site);
}

static int on_queue(struct known_device *device, struct client *client,
		    const struct recorded_event *event)
{
	uint64_t begun;
	int status = (int)event->value[SIM_STATUS];

	switch (event->point) {
	case POINT_SIM_SUBMIT:
		client->submitted++;
		return lanes_submit(&client->lanes, device->told.name, event);
	case POINT_SIM_COMPLETE:
		client->completed++;
		client->failed += status != 0;
		begun = lanes_begun(&client->lanes, event);
		if (begun && begun <= event->time)
			latency_add(&client->jobs, event->time - begun);
		return lanes_complete(&client->lanes, event, begun);
	default:
		client->fences++;
		return 0;
	}
}

/* Fields without which it says nothing. */
static bool is_whole(const struct recorded_event *event)
{
	const uint32_t opener = 1u << SIM_DEVICE | 1u << SIM_OPENER;
	uint32_t wanted = opener | 1u << SIM_QUEUE | 1u << SIM_SEQNO;

	if (event->point == POINT_SIM_LOST)
		wanted = 1u << SIM_DEVICE;
	else if (event->point == POINT_SIM_MOVE)
		wanted |= 1u << SIM_N_PAGES | 1u << SIM_PLACE;
	return (event->known & wanted) == wanted;
}

int devices_point(struct devices *devices, const struct recorded_event *event, uint64_t fault,
		  struct object *object)
{
	struct known_device *device;
	struct client *client;

	if (!is_whole(event))
		return 0;
	device = device_of(devices, (uint32_t)event->value[SIM_DEVICE]);
	if (!device)
		return -ENOMEM;
	if (event->point == POINT_SIM_LOST) {
		device->told.losses++;
		return lanes_loss(&device->lanes, device->told.name, event);
	}
	client = client_of(devices, device->index, event->value[SIM_OPENER]);
	if (!client)
		return -ENOMEM;
	/* Making room may move memory of others. */
	if (!client->ours && !(event->point == POINT_SIM_MOVE && is_eviction(event)))
		client->ours = spaces_knows(devices->spaces, event->pid);
	if (event->point <= POINT_SIM_MOVE)
		return on_buffer(devices, device, client, event, fault, object);
	return on_queue(device, client, event);
}

/* ---- the sum ---- */

static void add_use(struct device_use *to, const struct device_use *use)
{
	to->faults += use->faults;
	to->accesses += use->accesses;
	to->moves += use->moves;
	to->evictions += use->evictions;
	to->bytes_moved += use->bytes_moved;
}

static void add_client(struct traced_device *told, struct client *client)
{
	uint32_t i;

	add_use(&told->use, &client->use);
	told->submitted += client->submitted;
	told->completed += client->completed;
	told->failed += client->failed;
	told->fences += client->fences;
	told->jobs.n += client->jobs.n;
	told->jobs.sum += client->jobs.sum;
	for (i = 0; i < LATENCY_CLASSES; i++)
		told->jobs.count[i] += client->jobs.count[i];
	lanes_join(&told->lanes, client->lanes.first);
}

int devices_sum(struct devices *devices, struct traced_device **ret_devices,
		struct device_use **ret_buffers)
{
	struct traced_device **link = ret_devices;
	struct known_device *device;
	struct client *client;
	bool any;

	*ret_devices = NULL;
	for (device = devices->known; device; device = device->next) {
		any = device->told.losses;
		lanes_join(&device->told.lanes, device->lanes.first);
		for (client = devices->clients; client; client = client->next) {
			if (client->device != device->index || !client->ours)
				continue;
			add_client(&device->told, client);
			any = true;
		}
		if (!any)
			continue;
		device->told.next = NULL;
		*link = &device->told;
		link = &device->told.next;
	}
	*ret_buffers = devices->first_use;
	return 0;
}

struct device_site *devices_sites(const struct devices *devices)
{
	return device_sites_first(devices->sites);
}

bool devices_tell_evictions(const struct devices *devices)
{
	return devices->evictions;
}

/* ---- the whole ---- */

struct devices *devices_create(struct spaces *spaces)
{
	struct devices *devices = calloc(1, sizeof(*devices));

	if (!devices)
		return NULL;
	devices->spaces = spaces;
	devices->sites = device_sites_create(spaces);
	if (!devices->sites) {
		free(devices);
		return NULL;
	}
	return devices;
}

void devices_free(struct devices *devices)
{
	struct known_device *device;
	struct client *client;

	if (!devices)
		return;
	while ((client = devices->clients)) {
		devices->clients = client->next;
		lanes_free(&client->lanes);
		free(client);
	}
	while ((device = devices->known)) {
		devices->known = device->next;
		lanes_free(&device->lanes);
		free(device);
	}
	tdestroy(devices->mapped, free);
	tdestroy(devices->links, free);
	tdestroy(devices->uses, free);
	device_sites_free(devices->sites);
	free(devices);
}
