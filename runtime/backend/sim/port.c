// SPDX-License-Identifier: MIT
/* Ports: opened once for all devices of the same name, with a handshake; errors as sentences. */
#include "backend/sim/port.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "loss/device_loss.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/util.h"

/* The features that this library needs. */
#define NEEDED_FEATURES ((uint64_t)HETSIM_FEATURE_BUFFERS)
#define NEEDED_MINOR 0

/* Tries before an EINTR is returned: signals may come in bursts. */
#define RETRIES 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects ports, their refs */
static struct sim_port *ports;

/* ---- opening ---- */

static int parse_index(const struct sim_port_ops *ops, const char *rest, uint32_t *ret_index)
{
	unsigned long index;
	char *end;

	if (!*rest) {
		*ret_index = 0;
		return 0;
	}
	index = strtoul(rest, &end, 10);
	/* One name for one device: no signs, blanks, leading zeros. */
	if (*rest < '0' || *rest > '9' || *end || index > UINT16_MAX ||
	    (*rest == '0' && rest[1]))
		return err_set(-ENODEV,
			       "there is no device \"%s:%s\": a number follows, as in "
			       "\"%s:0\"",
			       ops->name, rest, ops->name);
	*ret_index = (uint32_t)index;
	return 0;
}

static const char *accepts(const struct hetsim_handshake *shake)
{
	if (shake->driver_major != HETSIM_VERSION_MAJOR ||
	    (int)shake->driver_minor < NEEDED_MINOR)
		return "too old or too new for this library";
	if ((shake->driver_features & NEEDED_FEATURES) != NEEDED_FEATURES)
		return "without buffers";
	if (!shake->accepted)
		return "not willing to serve this library";
	return NULL;
}

/* Both sides tell their version and features, and either may refuse. */
static int shake_hands(struct sim_port *port)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
		.version_major = HETSIM_VERSION_MAJOR,
		.version_minor = HETSIM_VERSION_MINOR,
		.features = NEEDED_FEATURES,
	};
	const char *refusal;
	int r;

	r = sim_port_call(port, HETSIM_HANDSHAKE, &shake);
	if (r)
		return sim_port_explain(port, r, "its handshake");
	refusal = accepts(&shake);
	if (refusal)
		return err_set(-EPROTO,
			       "%s:%u speaks version %u.%u of its interface, to callers "
			       "from %u.%u on, with features 0x%" PRIx64
			       ", and this library %u.%u, which needs features 0x%" PRIx64
			       ": it is %s; use the module and the library of one release",
			       port->ops->name, port->index, shake.driver_major,
			       shake.driver_minor, shake.driver_major, shake.minimum_minor,
			       (uint64_t)shake.driver_features, HETSIM_VERSION_MAJOR,
			       HETSIM_VERSION_MINOR, NEEDED_FEATURES, refusal);
	port->minor = shake.driver_minor;
	port->features = shake.driver_features;
	return 0;
}

static int query(struct sim_port *port, struct hetsim_query *ret_query)
{
	struct hetsim_query answer = { .size = sizeof(answer) };
	int r = sim_port_call(port, HETSIM_QUERY, &answer);

	if (!r)
		*ret_query = answer;
	return r;
}

static int open_port(const struct sim_port_ops *ops, uint32_t index, struct sim_port **ret_port)
{
	struct sim_port *port;
	int r;

	port = sys_calloc(1, sizeof(*port));
	if (!port)
		return err_set(-ENOMEM, "no memory to open %s:%u", ops->name, index);
	port->ops = ops;
	port->index = index;
	port->refs = 1;
	CDS_INIT_LIST_HEAD(&port->objects);
	pthread_mutex_init(&port->mirror_lock, NULL);
	r = ops->open(port, index, &port->file);
	if (r)
		goto err_free;
	r = shake_hands(port);
	if (r)
		goto err_close;
	r = query(port, &port->query);
	if (r) {
		r = sim_port_explain(port, r, "its identity");
		goto err_close;
	}
	*ret_port = port;
	return 0;

err_close:
	ops->close(port->file);
err_free:
	pthread_mutex_destroy(&port->mirror_lock);
	free(port);
	return r;
}

/* Finds a live port: one may have been unplugged without any call having noticed yet. */
static struct sim_port *find_locked(const struct sim_port_ops *ops, uint32_t index)
{
	struct hetsim_query now;
	struct sim_port *port;

	for (port = ports; port; port = port->next)
		if (port->ops == ops && port->index == index && !port->gone &&
		    query(port, &now) != -ENODEV)
			return port;
	return NULL;
}

int sim_port_get(const struct sim_port_ops *ops, const char *rest, struct sim_port **ret_port)
{
	struct sim_port *port;
	uint32_t index = 0;
	int r;

	r = parse_index(ops, rest, &index);
	if (r)
		return r;
	pthread_mutex_lock(&lock);
	port = find_locked(ops, index);
	if (port) {
		port->refs++;
	} else {
		r = open_port(ops, index, &port);
		if (r)
			goto out;
		port->next = ports;
		ports = port;
	}
	*ret_port = port;
out:
	pthread_mutex_unlock(&lock);
	return r;
}

void sim_port_ref(struct sim_port *port)
{
	pthread_mutex_lock(&lock);
	port->refs++;
	pthread_mutex_unlock(&lock);
}

void sim_port_put(struct sim_port *port)
{
	struct sim_port **at;
	bool last;

	pthread_mutex_lock(&lock);
	last = !--port->refs;
	for (at = &ports; last && *at; at = &(*at)->next)
		if (*at == port) {
			*at = port->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	sim_stream_end(port->stream);
	port->ops->close(port->file);
	pthread_mutex_destroy(&port->mirror_lock);
	free(port);
}

/* ---- fork ---- */

void sim_ports_fork_prepare(void)
{
	sim_objects_lock();
	pthread_mutex_lock(&lock);
}

void sim_ports_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
	sim_objects_unlock();
}

/* The parent keeps its ports: the child opens new ones. */
void sim_ports_fork_child(void)
{
	ports = NULL;
	sim_ports_fork_parent();
}

/* ---- calls ---- */

int sim_port_call(struct sim_port *port, unsigned long cmd, void *argument)
{
	bool submit = cmd == HETSIM_SUBMIT && port->ops->submit;
	int tries = 0, r;

	do {
		r = submit ? port->ops->submit(port->file, argument) :
			     port->ops->call(port->file, cmd, argument);
	} while (r == -EINTR && ++tries < RETRIES);
	if (r == -ENODEV)
		port->gone = true;
	return r;
}

void sim_port_lost(struct sim_port *port)
{
	port->gone = true; /* first: a thread that makes a map checks it afterwards */
	device_loss_tell(port);
}

void sim_port_lost_maps(struct sim_port *port)
{
	port->gone = true;
	device_loss_maps(port);
}

int sim_signals_end(void)
{
	struct sim_port *port;
	int r = 0;

	sim_objects_lock();
	pthread_mutex_lock(&lock);
	for (port = ports; port; port = port->next)
		if (sim_objects_silence(port))
			r = -ENODEV;
	pthread_mutex_unlock(&lock);
	sim_objects_unlock();
	return r;
}

/* ---- texts ---- */

/* "64 MiB of 96 MiB" into @text of 40 bytes at least; returns @text. */
static const char *part_of(uint64_t used, uint64_t limit, char *text, size_t size)
{
	char a[16], b[16];

	snprintf(text, size, "%s of %s", format_bytes(used, a, sizeof(a)),
		 format_bytes(limit, b, sizeof(b)));
	return text;
}

/* @length is beyond a limit of one buffer, however much is in use. */
static int explain_too_long(struct sim_port *port, uint64_t length, uint64_t limit,
			    const char *what, const char *where, const char *remedy)
{
	char a[16], b[16];

	return err_set(-ENOSPC, "%s:%u: %s: %s are more than a buffer can have %s, %s: %s (%s)",
		       port->ops->name, port->index, what, format_bytes(length, a, sizeof(a)),
		       where, format_bytes(limit, b, sizeof(b)), remedy, port->ops->settings);
}

int sim_port_explain_full(struct sim_port *port, uint32_t place, uint64_t length, uint64_t more,
			  const char *what)
{
	struct hetsim_query now = port->query;
	char a[40], b[40], c[40], text[16];

	query(port, &now); /* if it can't be asked any more, keeps the values of the open */
	format_bytes(more, text, sizeof(text));
	if (length > now.max_buffer)
		return explain_too_long(port, length, now.max_buffer, what, "there",
					"raise vram_mb or system_mb");
	if (place == HETSIM_PLACE_WINDOW && length > now.window_bytes)
		return explain_too_long(port, length, now.window_bytes, what,
					"in the window that the CPU reaches",
					"raise bar_mb, or have several buffers");
	if (place == HETSIM_PLACE_VRAM && more > now.vram_bytes)
		return explain_too_long(port, more, now.vram_bytes, what,
					"in VRAM, where it is made as a whole",
					"pass HM_PLACE_SYSTEM, or raise vram_mb");
	if (now.opener_used + more > now.opener_bytes)
		return err_set(-ENOSPC,
			       "%s:%u: %s: %s are more than is left of the limit of one "
			       "process: %s are used; release some of it, or raise opener_mb "
			       "(%s)",
			       port->ops->name, port->index, what, text,
			       part_of(now.opener_used, now.opener_bytes, a, sizeof(a)),
			       port->ops->settings);
	/* Drivers before minor version 2 don't have the limit. */
	if (place == HETSIM_PLACE_SYSTEM && now.opener_system_bytes &&
	    now.opener_system_used + more > now.opener_system_bytes)
		return err_set(-ENOSPC,
			       "%s:%u: %s: %s are more than is left of the system memory that "
			       "one process may take: %s are used; release some of it, have it "
			       "in VRAM, or raise system_mb or opener_mb (%s)",
			       port->ops->name, port->index, what, text,
			       part_of(now.opener_system_used, now.opener_system_bytes, a,
				       sizeof(a)),
			       port->ops->settings);
	return err_set(
		-ENOSPC,
		"%s:%u: %s: %s are more than %s left of it: %s of VRAM%s%s "
		"and %s of system memory are used%s; release some, or raise vram_mb or "
		"system_mb (%s)",
		port->ops->name, port->index, what, text, port->ops->sharers,
		part_of(now.vram_used, now.vram_bytes, a, sizeof(a)),
		now.window_bytes ? ", with the window's " : "",
		now.window_bytes ? part_of(now.window_used, now.window_bytes, c, sizeof(c)) :
				   "",
		part_of(now.system_used, now.system_bytes, b, sizeof(b)),
		place == HETSIM_PLACE_SYSTEM ? "" :
					       " (the bytes of other buffers in VRAM need "
					       "that)",
		port->ops->settings);
}

int sim_port_explain(struct sim_port *port, int r, const char *what)
{
	static const struct {
		int r;
		const char *text;
	} reasons[] = {
		{ -ENODEV,
		  "the device was taken away: when it is plugged in, hm_device_recover() "
		  "brings back buffers that have a loss policy; unref the others, and open "
		  "the device again" },
		{ -ENOMEM, "there is no memory left, or none for this control group" },
		{ -EACCES, "the descriptor or the device's file does not give that access" },
		{ -EPERM, "the object is another opener's, or the call needs the setting "
			  "test=1: of HETMAP_SOFT for soft; of the module, and CAP_SYS_ADMIN, "
			  "for sim" },
		{ -EBUSY, "it is in use elsewhere: end that use first" },
		{ -ENOENT, "it is gone" },
		{ -ENXIO, "the bytes are in VRAM outside the window that the CPU can reach: "
			  "move them there by HETSIM_BUFFER_MOVE" },
		{ -EINTR, "signals came all the time" },
	};
	char whose[128];
	size_t i;

	snprintf(whose, sizeof(whose), "%s:%u: %s", port->ops->name, port->index, what);
	if (r == SIM_NO_THREAD)
		return rlimits_explain_thread(-EAGAIN, whose);
	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, whose);
	if (r == -EFBIG)
		return rlimits_explain_file(r, whose);
	for (i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].r == r)
			return err_set(r, "%s: %s", whose, reasons[i].text);
	return err_set(r, "%s: %s", whose, err_name(r));
}

int sim_port_explain_memory(struct sim_port *port, uint64_t length, const char *what)
{
	char whose[128];

	snprintf(whose, sizeof(whose), "%s:%u: %s", port->ops->name, port->index, what);
	return rlimits_explain_memory(-ENOMEM, length, whose);
}
