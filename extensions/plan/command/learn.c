// SPDX-License-Identifier: MIT
/*
 * Learns a graph from launches. Ranges of launches that overlap are one root. The bytes of a root
 * between two accesses by the CPU are a tensor: the first node that reads them makes it an input,
 * and a node that writes them an output. So the CPU finds all bytes where the program found them.
 * The trace has no loads and stores of the CPU, only its brackets.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "learn.h"

#define NONE UINT32_MAX

struct root {
	uint64_t address, end;
	uint32_t tensor; /* of now, or NONE */
	uint32_t versions;
	bool read, write, whole; /* by the node of now */
	bool used;
};

struct bytes {
	char *name;
	uint64_t length;
	bool input, output, written;
};

struct lesson {
	struct root *root; /* by address */
	uint32_t n_root;
	struct bytes *tensor;
	uint32_t n_tensor, tensor_room;
	const struct event **map; /* that are mapped now */
	uint32_t n_map;
	const struct event **flight; /* launches that have not ended */
	uint32_t n_flight, n_node;
	json_t *nodes;
	struct by_hand by_hand;
};

/* ---- roots ---- */

static int by_address(const void *a, const void *b)
{
	const struct root *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Overlapping ranges become one. */
static bool find_roots(struct lesson *lesson, const struct events *events)
{
	struct root *root;
	uint32_t n = 0, i, k;

	for (i = 0; i < events->n; i++)
		if (events->event[i].kind == EVENT_LAUNCH)
			n += events->event[i].n_range;
	root = lesson->root = calloc(n + 1, sizeof(*root));
	if (!root)
		return false;
	n = 0;
	for (i = 0; i < events->n; i++) {
		const struct event *event = &events->event[i];

		for (k = 0; event->kind == EVENT_LAUNCH && k < event->n_range; k++)
			root[n++] = (struct root){
				.address = event->range[k].address,
				.end = event->range[k].address + event->range[k].length,
				.tensor = NONE,
			};
	}
	qsort(root, n, sizeof(*root), by_address);
	for (i = 0, k = 0; i < n; i++) {
		if (!k || root[i].address >= root[k - 1].end)
			root[k++] = root[i];
		else if (root[i].end > root[k - 1].end)
			root[k - 1].end = root[i].end;
	}
	lesson->n_root = k;
	return true;
}

/* The first root that ends after @address. */
static uint32_t root_at(const struct lesson *lesson, uint64_t address)
{
	uint32_t low = 0, high = lesson->n_root;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (lesson->root[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct event *map_at(const struct lesson *lesson, uint64_t address)
{
	uint32_t i;

	for (i = lesson->n_map; i--;) {
		const struct event_range *range = lesson->map[i]->range;

		if (address >= range->address && address - range->address < range->length)
			return lesson->map[i];
	}
	return NULL;
}

static const char *map_text(const struct event *map, const char *key)
{
	return json_string_value(json_object_get(json_object_get(map->json, "args"), key));
}

/* ---- tensors ---- */

/* "weights", "weights+4096", for later bytes "weights #2". */
static char *name_of(const struct lesson *lesson, const struct root *root)
{
	const struct event *map = map_at(lesson, root->address);
	const char *buffer = map ? map_text(map, "buffer") : NULL;
	uint64_t offset = map ? root->address - map->range->address : 0;
	char version[32] = "", at[32] = "";

	if (root->versions > 1)
		snprintf(version, sizeof(version), " #%" PRIu32, root->versions);
	if (offset)
		snprintf(at, sizeof(at), "+%" PRIu64, offset);
	if (buffer && *buffer)
		return text_format("%s%s%s", buffer, at, version);
	return text_format("0x%" PRIx64 "%s", root->address, version);
}

static struct bytes *tensor_of(struct lesson *lesson, struct root *root, bool input)
{
	struct bytes *more;

	if (root->tensor != NONE)
		return &lesson->tensor[root->tensor];
	if (lesson->n_tensor == lesson->tensor_room) {
		lesson->tensor_room = lesson->tensor_room ? 2 * lesson->tensor_room : 64;
		more = realloc(lesson->tensor, lesson->tensor_room * sizeof(*more));
		if (!more)
			return NULL;
		lesson->tensor = more;
	}
	root->versions++;
	root->tensor = lesson->n_tensor++;
	more = &lesson->tensor[root->tensor];
	*more = (struct bytes){
		.name = name_of(lesson, root),
		.length = root->end - root->address,
		.input = input,
	};
	return more->name ? more : NULL;
}

/* The CPU may see the bytes. Where it may @change them, later ones are another tensor. */
static void touch(struct lesson *lesson, struct root *root, bool change)
{
	struct bytes *bytes;

	if (root->tensor == NONE)
		return;
	bytes = &lesson->tensor[root->tensor];
	bytes->output |= bytes->written;
	if (change || bytes->written)
		root->tensor = NONE;
}

static void touch_range(struct lesson *lesson, const struct event_range *range, bool change)
{
	uint32_t i = root_at(lesson, range->address);

	for (; i < lesson->n_root && lesson->root[i].address < range->address + range->length;
	     i++)
		touch(lesson, &lesson->root[i], change);
}

static void touch_all(struct lesson *lesson)
{
	uint32_t i;

	for (i = 0; i < lesson->n_root; i++)
		touch(lesson, &lesson->root[i], true);
}

/* ---- nodes ---- */

/* Memory of the machine, by the name of its device. */
static bool is_of_host(const struct event *map)
{
	const char *device = map ? map_text(map, "device") : NULL;

	return !device || !strncmp(device, "host", 4) || !strncmp(device, "file", 4) ||
	       !strncmp(device, "heap", 4);
}

/* A whole range that moves between memories is what a plan decides: no node, then. */
static bool take_copy(struct lesson *lesson, const struct event *event)
{
	const struct event_range *to = &event->range[0], *from = &event->range[1];
	struct root *target, *source;
	bool in;

	if (strcmp(event->name, "copy") != 0 || event->n_range != 2)
		return false;
	in = is_of_host(map_at(lesson, from->address));
	if (in == is_of_host(map_at(lesson, to->address)))
		return false;
	target = &lesson->root[root_at(lesson, to->address)];
	source = &lesson->root[root_at(lesson, from->address)];
	if (target->end - target->address != to->length ||
	    source->end - source->address != from->length)
		return false;
	if (in) {
		if (source->tensor != NONE && lesson->tensor[source->tensor].written)
			return false;
		target->tensor = NONE;
		if (!tensor_of(lesson, target, true))
			return false;
		lesson->by_hand.bytes_in += to->length;
	} else {
		if (source->tensor == NONE)
			return false;
		lesson->tensor[source->tensor].output |= lesson->tensor[source->tensor].written;
		target->tensor = NONE;
		lesson->by_hand.bytes_out += to->length;
	}
	lesson->by_hand.copies++;
	return true;
}

/* All accesses of the launch to one root together. */
static void gather(struct lesson *lesson, const struct event *event)
{
	uint32_t i;

	for (i = 0; i < event->n_range; i++) {
		const struct event_range *range = &event->range[i];
		struct root *root = &lesson->root[root_at(lesson, range->address)];

		root->used = true;
		root->read |= range->read;
		root->write |= range->write;
		root->whole |= range->write && range->length == root->end - root->address;
	}
}

static int add_access(struct lesson *lesson, struct root *root, json_t *reads, json_t *writes)
{
	/* A part that is written leaves the rest: those bytes are needed. */
	bool read = root->read || (root->write && !root->whole);
	struct bytes *bytes = tensor_of(lesson, root, read);

	if (!bytes)
		return -ENOMEM;
	bytes->written |= root->write;
	if (read)
		json_array_append_new(reads, json_integer(root->tensor));
	if (root->write)
		json_array_append_new(writes, json_integer(root->tensor));
	root->used = root->read = root->write = root->whole = false;
	return 0;
}

static int take_launch(struct lesson *lesson, const struct event *event)
{
	json_t *reads, *writes;
	uint32_t i;
	int r = 0;
	char *name;

	if (event->status) {
		lesson->by_hand.failed++;
		return 0;
	}
	if (!event->n_range || take_copy(lesson, event))
		return 0;
	reads = json_array();
	writes = json_array();
	gather(lesson, event);
	for (i = 0; !r && i < event->n_range; i++) {
		struct root *root = &lesson->root[root_at(lesson, event->range[i].address)];

		if (root->used)
			r = add_access(lesson, root, reads, writes);
	}
	name = text_format("%s %" PRIu32, event->name ? event->name : "launch",
			   ++lesson->n_node);
	json_array_append_new(lesson->nodes, json_pack("{s:s, s:o, s:o}", "name", name, "reads",
						       reads, "writes", writes));
	free(name);
	lesson->by_hand.launches++;
	lesson->by_hand.copied += event->bytes > 0;
	lesson->by_hand.bytes_in += event->bytes;
	lesson->flight[lesson->n_flight++] = event;
	return r;
}

static void take_done(struct lesson *lesson, const struct event *event)
{
	uint32_t i;

	for (i = 0; i < lesson->n_flight; i++)
		if (!strcmp(lesson->flight[i]->id, event->id))
			break;
	if (i == lesson->n_flight)
		return;
	lesson->flight[i] = lesson->flight[--lesson->n_flight];
	lesson->by_hand.bytes_out += event->bytes;
	if (!lesson->n_flight && lesson->by_hand.waits)
		touch_all(lesson);
}

static void take_bracket(struct lesson *lesson, const struct event *event)
{
	const struct event_range *range = event->range;
	uint32_t at = event->n_range ? root_at(lesson, range->address) : NONE;

	if (at >= lesson->n_root || lesson->root[at].address >= range->address + range->length)
		return;
	lesson->by_hand.brackets++;
	touch_range(lesson, range, range->write);
}

static int take(struct lesson *lesson, const struct event *event)
{
	uint32_t i;

	switch (event->kind) {
	case EVENT_LAUNCH:
		return take_launch(lesson, event);
	case EVENT_DONE:
		take_done(lesson, event);
		return 0;
	case EVENT_BRACKET:
		take_bracket(lesson, event);
		return 0;
	case EVENT_MAP:
		if (event->n_range)
			lesson->map[lesson->n_map++] = event;
		return 0;
	default:
		break;
	}
	if (!event->n_range)
		return 0;
	touch_range(lesson, event->range, true);
	for (i = 0; i < lesson->n_map; i++)
		if (lesson->map[i]->range->address == event->range->address) {
			lesson->map[i] = lesson->map[--lesson->n_map];
			break;
		}
	return 0;
}

/* ---- the graph ---- */

static json_t *tensors(const struct lesson *lesson)
{
	/* By input, and output twice. */
	static const char *const kinds[] = { "temporary", "input", "output", "state" };
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < lesson->n_tensor; i++) {
		const struct bytes *bytes = &lesson->tensor[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:I}", "name", bytes->name, "kind",
						kinds[bytes->input + 2 * bytes->output],
						"bytes", (json_int_t)bytes->length));
	}
	return list;
}

static json_t *graph_of(struct lesson *lesson, const char *name)
{
	const struct by_hand *by_hand = &lesson->by_hand;
	json_t *hand = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "launches",
		(json_int_t)by_hand->launches, "failed", (json_int_t)by_hand->failed, "copied",
		(json_int_t)by_hand->copied, "copies", (json_int_t)by_hand->copies, "brackets",
		(json_int_t)by_hand->brackets, "bytes_in", (json_int_t)by_hand->bytes_in,
		"bytes_out", (json_int_t)by_hand->bytes_out, "waits", (int)by_hand->waits);

	return json_pack("{s:s, s:i, s:s, s:b, s:o, s:o, s:O}", "format", "hetmap-graph",
			 "version", 1, "name", name, "train", 0, "by_hand", hand, "tensors",
			 tensors(lesson), "nodes", lesson->nodes);
}

int learn(const struct events *events, const char *name, bool waits, json_t **ret_graph,
	  struct by_hand *ret_by_hand)
{
	struct lesson lesson = { .by_hand.waits = waits, .nodes = json_array() };
	json_t *graph = NULL;
	uint32_t i;
	int r;

	lesson.map = calloc(events->n + 1, sizeof(struct event *));
	lesson.flight = calloc(events->n + 1, sizeof(struct event *));
	r = lesson.map && lesson.flight && find_roots(&lesson, events) ? 0 : -ENOMEM;
	for (i = 0; !r && i < events->n; i++)
		r = take(&lesson, &events->event[i]);
	if (!r) {
		touch_all(&lesson);
		graph = graph_of(&lesson, name);
	}
	for (i = 0; i < lesson.n_tensor; i++)
		free(lesson.tensor[i].name);
	json_decref(lesson.nodes);
	free(lesson.tensor);
	free(lesson.root);
	free(lesson.map);
	free(lesson.flight);
	if (!graph)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for a graph");
	if (!lesson.n_node) {
		json_decref(graph);
		return fail(STATUS_USAGE, ENODATA,
			    "set HETMAP_TRACE for a program that launches",
			    "the trace has no launch on a range");
	}
	*ret_graph = graph;
	*ret_by_hand = lesson.by_hand;
	return 0;
}
