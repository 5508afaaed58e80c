// SPDX-License-Identifier: MIT
/* Lanes of devices: spans of time, of which neighbours are merged where they are too many. */
#include "device_lanes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Submissions that may be under way in a queue: hetsim lets it have 2048. */
#define PENDING 4096

struct queue_lane {
	uint64_t id;
	struct device_lane *lane;
	struct queue_lane *next;
	struct {
		uint64_t seqno, time;
	} pending[PENDING]; /* by seqno */
};

static struct device_lane *new_lane(struct lanes *lanes, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static struct device_lane *new_lane(struct lanes *lanes, const char *format, ...)
{
	struct device_lane *lane = calloc(1, sizeof(*lane));
	va_list list;

	if (!lane)
		return NULL;
	va_start(list, format);
	vsnprintf(lane->name, sizeof(lane->name), format, list);
	va_end(list);
	lane->own = lanes->first;
	return lanes->first = lane;
}

/* Every second one goes into the one before it. */
static void merge(struct device_lane *lane)
{
	uint32_t i;

	for (i = 0; i + 1 < lane->n; i += 2) {
		struct device_span *to = &lane->span[i / 2], *other = &lane->span[i + 1];

		*to = lane->span[i];
		to->n += other->n;
		to->pages += other->pages;
		if (other->end > to->end)
			to->end = other->end;
		/* The worse of them is told. */
		if (other->kind > to->kind)
			to->kind = other->kind;
		if (!to->status)
			to->status = other->status;
		if (to->object != other->object)
			to->object = NULL;
		if (to->site != other->site)
			to->site = NULL;
	}
	if (lane->n % 2)
		lane->span[i / 2] = lane->span[lane->n - 1];
	lane->n = (lane->n + 1) / 2;
}

static int add(struct device_lane *lane, const struct device_span *span)
{
	struct device_span *more;

	if (lane->n == SPANS_MOST)
		merge(lane);
	if (lane->n == lane->room) {
		more = realloc(lane->span, (2 * (size_t)lane->room + 16) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		lane->span = more;
		lane->room = 2 * lane->room + 16;
	}
	lane->span[lane->n++] = *span;
	return 0;
}

int lanes_move(struct lanes *lanes, const char *device, const struct recorded_event *event,
	       bool evicted, const struct object *object, const struct device_site *site)
{
	if (!lanes->memory)
		lanes->memory = new_lane(lanes, "%s moves", device);
	if (!lanes->memory)
		return -ENOMEM;
	return add(lanes->memory, &(const struct device_span){
					  .begin = event->time,
					  .end = event->time,
					  .kind = evicted ? SPAN_EVICTION : SPAN_MOVE,
					  .n = 1,
					  .pages = event->value[SIM_N_PAGES],
					  .place = (uint32_t)event->value[SIM_PLACE],
					  .object = object,
					  .site = site,
				  });
}

int lanes_loss(struct lanes *lanes, const char *device, const struct recorded_event *event)
{
	if (!lanes->losses)
		lanes->losses = new_lane(lanes, "%s lost", device);
	if (!lanes->losses)
		return -ENOMEM;
	return add(lanes->losses, &(const struct device_span){ .begin = event->time,
							       .end = event->time,
							       .kind = SPAN_LOSS,
							       .n = 1 });
}

static struct queue_lane *queue_of(const struct lanes *lanes, uint64_t id)
{
	struct queue_lane *queue = lanes->queues;

	while (queue && queue->id != id)
		queue = queue->next;
	return queue;
}

int lanes_submit(struct lanes *lanes, const char *device, const struct recorded_event *event)
{
	uint64_t seqno = event->value[SIM_SEQNO];
	struct queue_lane *queue = queue_of(lanes, event->value[SIM_QUEUE]);

	if (!queue) {
		queue = calloc(1, sizeof(*queue));
		if (!queue)
			return -ENOMEM;
		queue->id = event->value[SIM_QUEUE];
		queue->lane = new_lane(lanes, "%s queue %" PRIu64, device, queue->id);
		if (!queue->lane) {
			free(queue);
			return -ENOMEM;
		}
		queue->next = lanes->queues;
		lanes->queues = queue;
	}
	queue->pending[seqno % PENDING].seqno = seqno;
	queue->pending[seqno % PENDING].time = event->time;
	return 0;
}

uint64_t lanes_begun(struct lanes *lanes, const struct recorded_event *event)
{
	const struct queue_lane *queue = queue_of(lanes, event->value[SIM_QUEUE]);
	uint64_t seqno = event->value[SIM_SEQNO];

	if (!queue || queue->pending[seqno % PENDING].seqno != seqno)
		return 0;
	return queue->pending[seqno % PENDING].time;
}

int lanes_complete(struct lanes *lanes, const struct recorded_event *event, uint64_t begun)
{
	const struct queue_lane *queue = queue_of(lanes, event->value[SIM_QUEUE]);

	if (!queue || !begun || begun > event->time)
		return 0;
	return add(queue->lane,
		   &(const struct device_span){ .begin = begun,
						.end = event->time,
						.kind = SPAN_JOB,
						.n = 1,
						.seqno = event->value[SIM_SEQNO],
						.status = (int)event->value[SIM_STATUS] });
}

void lanes_join(struct device_lane **list, struct device_lane *first)
{
	for (; first; first = first->own) {
		first->next = *list;
		*list = first;
	}
}

void lanes_free(struct lanes *lanes)
{
	struct device_lane *lane;
	struct queue_lane *queue;

	while ((queue = lanes->queues)) {
		lanes->queues = queue->next;
		free(queue);
	}
	while ((lane = lanes->first)) {
		lanes->first = lane->own;
		free(lane->span);
		free(lane);
	}
}
