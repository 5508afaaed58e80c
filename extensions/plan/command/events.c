// SPDX-License-Identifier: MIT
/* Reads the lines of a trace that a plan is learned from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "learn.h"

static const struct {
	const char *category, *phase;
	enum event_kind kind;
	const char *name; /* NULL: any */
} kinds[] = {
	{ "launch", "b", EVENT_LAUNCH, NULL },   { "launch", "e", EVENT_DONE, NULL },
	{ "bracket", "b", EVENT_BRACKET, NULL }, { "map", "X", EVENT_MAP, "map" },
	{ "map", "i", EVENT_UNMAP, "unmap" },
};

static bool is(const json_t *json, const char *key, const char *text)
{
	const char *value = json_string_value(json_object_get(json, key));

	return value && !strcmp(value, text);
}

static uint64_t number(const json_t *json, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(json, key));
}

static bool take_range(const char *address, json_int_t length, const char *access,
		       struct event_range *range)
{
	char *end;

	if (!address || length <= 0 || !access)
		return false;
	range->address = strtoull(address, &end, 16);
	range->length = (uint64_t)length;
	range->read = strstr(access, "read") != NULL;
	range->write = strstr(access, "write") != NULL;
	return !*end && range->address && range->address + range->length > range->address;
}

/* The ranges of a launch. */
static bool take_ranges(const json_t *args, struct event *event)
{
	const json_t *list = json_object_get(args, "arguments");
	size_t i;

	if (!json_is_array(list))
		return false;
	event->n_range = (uint32_t)json_array_size(list);
	event->range = calloc(event->n_range + 1, sizeof(*event->range));
	if (!event->range)
		return false;
	for (i = 0; i < event->n_range; i++) {
		const json_t *one = json_array_get(list, i);

		if (!take_range(json_string_value(json_array_get(one, 0)),
				json_integer_value(json_array_get(one, 1)),
				json_string_value(json_array_get(one, 2)), &event->range[i]))
			return false;
	}
	return true;
}

/* The range of a map, or of a bracket. */
static bool take_one(const json_t *args, struct event *event)
{
	const char *access = json_string_value(json_object_get(args, "access"));

	event->range = calloc(1, sizeof(*event->range));
	if (!event->range || json_integer_value(json_object_get(args, "length")) <= 0)
		return true; /* of no bytes */
	event->n_range = 1;
	return take_range(json_string_value(json_object_get(args, "address")),
			  json_integer_value(json_object_get(args, "length")),
			  access ? access : "none", event->range);
}

static bool take(json_t *json, enum event_kind kind, uint64_t line, struct event *ret_event)
{
	const json_t *args = json_object_get(json, "args");

	*ret_event = (struct event){
		.kind = kind,
		.time = json_number_value(json_object_get(json, "ts")),
		.line = line,
		.name = json_string_value(json_object_get(json, "name")),
		.id = json_string_value(json_object_get(json, "id")),
		.json = json_incref(json),
	};
	switch (kind) {
	case EVENT_LAUNCH:
		ret_event->bytes = number(args, "bytes_in");
		return ret_event->id && take_ranges(args, ret_event);
	case EVENT_DONE:
		ret_event->bytes = number(args, "bytes_out");
		ret_event->status = (int)json_integer_value(json_object_get(args, "status"));
		return ret_event->id != NULL;
	default:
		return take_one(args, ret_event);
	}
}

/* -ENOMEM, or -EINVAL where the line lacks what a plan needs. */
static int add(struct events *events, json_t *json, uint64_t line)
{
	struct event *more;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is(json, "cat", kinds[i].category) && is(json, "ph", kinds[i].phase) &&
		    (!kinds[i].name || is(json, "name", kinds[i].name)))
			break;
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		return 0;
	if (events->n == events->room) {
		events->room = events->room ? 2 * events->room : 1024;
		more = realloc(events->event, events->room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		events->event = more;
	}
	return take(json, kinds[i].kind, line, &events->event[events->n++]) ? 0 : -EINVAL;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* A launch gets the status of its end. Work that never ended counts as done. */
static void match(struct events *events)
{
	uint32_t i, k;

	for (i = 0; i < events->n; i++) {
		struct event *end = &events->event[i];

		if (end->kind != EVENT_DONE)
			continue;
		for (k = i; k--;)
			if (events->event[k].kind == EVENT_LAUNCH &&
			    !strcmp(events->event[k].id, end->id)) {
				events->event[k].status = end->status;
				break;
			}
	}
}

/* One event a line. A program that was killed leaves no end of the array. */
static int read_lines(FILE *in, const char *file, struct events *events)
{
	char *text = NULL;
	size_t room = 0;
	uint64_t line = 0;
	ssize_t n;
	int status = 0;

	while (!status && (n = getline(&text, &room, in)) > 0) {
		json_t *json;
		int r;

		line++;
		while (n && (text[n - 1] == '\n' || text[n - 1] == ','))
			n--;
		if (!n || *text != '{')
			continue;
		json = json_loadb(text, (size_t)n, 0, NULL);
		r = json ? add(events, json, line) : -EINVAL;
		json_decref(json);
		if (r == -ENOMEM)
			status = fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
		else if (r)
			status = fail(STATUS_USAGE, EINVAL,
				      "make it by HETMAP_TRACE=trace.json and this hetmap",
				      "%s: line %llu has no event, or no ranges of a launch",
				      file, (unsigned long long)line);
	}
	free(text);
	return status;
}

int events_read(FILE *in, const char *file, struct events *ret_events)
{
	struct events events = { 0 };
	int status = read_lines(in, file, &events);

	if (status) {
		events_free(&events);
		return status;
	}
	if (events.n)
		qsort(events.event, events.n, sizeof(*events.event), by_time);
	match(&events);
	*ret_events = events;
	return 0;
}

void events_free(struct events *events)
{
	uint32_t i;

	for (i = 0; i < events->n; i++) {
		json_decref(events->event[i].json);
		free(events->event[i].range);
	}
	free(events->event);
	*events = (struct events){ 0 };
}
