// SPDX-License-Identifier: MIT
/* The mirror of a port's device, and its events, which all accelerators of the port share. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/sim/port.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"
#include "soft/event.h"

/* Events that are kept for readers: as many as the device keeps. */
#define EVENTS 4096u

/* Read from the descriptor in pieces of this many. */
#define BATCH 64

struct kept {
	uint64_t number;
	struct hetsim_event event;
};

struct sim_stream {
	int fd;
	char accel[24]; /* events are published as of this one; "": the device does that */
	uint64_t next;  /* number of the next event, lost ones included */
	uint64_t n;     /* kept since the beginning: the last ones are at n - 1 and below */
	struct kept kept[EVENTS];
};

bool sim_port_has_mirror(const struct sim_port *port)
{
	return port->features & HETSIM_FEATURE_MIRROR;
}

/* ---- events; port->mirror_lock is held ---- */

static int open_stream(struct sim_port *port)
{
	struct hetsim_mirror_events ask = { .size = sizeof(ask) };
	struct sim_stream *stream;
	int r;

	if (port->stream)
		return 0;
	stream = sys_calloc(1, sizeof(*stream));
	if (!stream)
		return err_set(-ENOMEM, "no memory for events of %s:%u", port->ops->name,
			       port->index);
	r = sim_port_call(port, HETSIM_MIRROR_EVENTS, &ask);
	if (r) {
		free(stream);
		return sim_port_explain(port, r, "its events");
	}
	stream->fd = ask.fd;
	/* The twin publishes what it does. */
	if (port->ops == &sim_port_kernel)
		snprintf(stream->accel, sizeof(stream->accel), "%s:%" PRIu32, port->ops->name,
			 port->index);
	r = sys_fcntl(stream->fd, F_SETFL, O_NONBLOCK);
	if (r < 0) {
		sys_close(stream->fd);
		free(stream);
		return err_set(r, "events of %s:%u: fcntl: %s", port->ops->name, port->index,
			       err_name(r));
	}
	port->stream = stream;
	return 0;
}

static void keep(struct sim_stream *stream, const struct hetsim_event *event)
{
	struct kept *kept;

	if (*stream->accel)
		sim_event_publish(stream->accel, event);
	if (event->kind == HETSIM_EVENT_LOST) {
		stream->next += event->value;
		return;
	}
	kept = &stream->kept[stream->n++ % EVENTS];
	kept->number = stream->next++;
	kept->event = *event;
}

static void drain(struct sim_stream *stream)
{
	struct hetsim_event events[BATCH];
	ssize_t n, i;

	do {
		n = sys_read(stream->fd, events, sizeof(events));
		for (i = 0; i < n / (ssize_t)sizeof(events[0]); i++)
			keep(stream, &events[i]);
	} while (n == (ssize_t)sizeof(events));
}

void sim_stream_end(struct sim_stream *stream)
{
	if (!stream)
		return;
	drain(stream);
	sys_close(stream->fd);
	free(stream);
}

/* ---- the mirror ---- */

static int mirror_locked(struct sim_port *port)
{
	struct hetsim_mirror mirror = { .size = sizeof(mirror) };
	int r;

	if (port->mirrored)
		return 0;
	if (!sim_port_has_mirror(port))
		return err_set(-EOPNOTSUPP,
			       "%s:%u has no mirror of the process: its engine reaches buffers "
			       "of the device only",
			       port->ops->name, port->index);
	r = sim_port_call(port, HETSIM_MIRROR, &mirror);
	if (r)
		return sim_port_explain(port, r, "mirroring the process");
	port->mirror = mirror;
	port->mirrored = true;
	/* For tools that watch the process. Without it they know less. */
	if (port->ops == &sim_port_kernel && open_stream(port))
		err_clear();
	return 0;
}

int sim_port_mirror(struct sim_port *port)
{
	int r;

	pthread_mutex_lock(&port->mirror_lock);
	r = mirror_locked(port);
	pthread_mutex_unlock(&port->mirror_lock);
	return r;
}

/* ---- readers of events ---- */

/* Index, as of stream->n, of the first event that is kept and has the number or a later one. */
static uint64_t find(const struct sim_stream *stream, uint64_t number)
{
	uint64_t at = stream->n > EVENTS ? stream->n - EVENTS : 0;

	while (at < stream->n && stream->kept[at % EVENTS].number < number)
		at++;
	return at;
}

static int next_locked(struct sim_port *port, uint64_t *cursor, struct hetsim_event *events,
		       uint32_t capacity, uint32_t *ret_n, uint64_t *ret_lost)
{
	const struct kept *kept;
	struct sim_stream *stream;
	uint64_t at, lost = 0;
	uint32_t n = 0;
	int r;

	r = mirror_locked(port);
	if (!r)
		r = open_stream(port);
	if (r)
		return r;
	stream = port->stream;
	drain(stream);
	if (*cursor == UINT64_MAX)
		*cursor = stream->next;
	for (at = find(stream, *cursor); at < stream->n && n < capacity; at++) {
		kept = &stream->kept[at % EVENTS];
		lost += kept->number - *cursor;
		*cursor = kept->number + 1;
		events[n++] = kept->event;
	}
	*ret_n = n;
	*ret_lost = lost;
	return 0;
}

void sim_port_publish_events(struct sim_port *port)
{
	if (port->ops != &sim_port_kernel)
		return;
	pthread_mutex_lock(&port->mirror_lock);
	if (port->stream)
		drain(port->stream);
	pthread_mutex_unlock(&port->mirror_lock);
}

int sim_port_events(struct sim_port *port, uint64_t *cursor, struct hetsim_event *events,
		    uint32_t capacity, uint32_t *ret_n, uint64_t *ret_lost)
{
	int r;

	pthread_mutex_lock(&port->mirror_lock);
	r = next_locked(port, cursor, events, capacity, ret_n, ret_lost);
	pthread_mutex_unlock(&port->mirror_lock);
	return r;
}
