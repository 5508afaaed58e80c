// SPDX-License-Identifier: MIT
/* Public functions of the simulated device: calls, handles, plugging in again. */
#include <hetmap/sim.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hook/hook.h"
#include "core/buffer.h"
#include "core/device_link.h"
#include "soft/soft.h"
#include "base/sys.h"
#include "map/view.h"

#include "backend/sim/port.h"

#define PLUG_FILE "/sys/kernel/debug/hetsim/plug"

/* ---- texts for a call's refusal ---- */

static const char *const calls[] = {
#define HETSIM_CALL(NAME, name, last) [HETSIM_NR_##NAME] = "HETSIM_" #NAME,
#include "model/calls.h"
};

/*
 * Meanings as in uapi/hetsim.h; sim_port_explain() has the errnos with one meaning in all uses.
 */
static const struct {
	int r;
	const char *text;
} meanings[] = {
	{ -ENOTTY, "the device does not know this call" },
	{ -E2BIG, "a member that the device does not know is not 0, or size is too large" },
	{ -EINVAL, "a member has a value that no device accepts: a size that is too short, an "
		   "unknown kind or flag, a length of 0, a misaligned number, a reserved "
		   "member that is not 0" },
	{ -EOPNOTSUPP, "this device or this object does not have it" },
	{ -EOVERFLOW, "a sum of members does not fit its type" },
	{ -ERANGE, "a range or number is beyond its object" },
	{ -ENOENT, "there is no such buffer, queue or binding" },
	{ -ENOSPC, "a limit of the device is reached: HETSIM_QUERY shows them" },
	{ -EFAULT, "a pointer does not lead to memory" },
	{ -EEXIST, "something is bound there already" },
	{ -EAGAIN, "the queue is full: wait for some of its work" },
	{ -ETIME, "the work is not done yet" },
	{ -EINTR, "a signal, or an injected one, came first" },
};

static int explain(struct sim_port *port, unsigned long cmd, int r)
{
	const char *name = NULL;
	char number[32];
	size_t i;

	if (_IOC_NR(cmd) < ARRAY_SIZE(calls) && cmd == _IO(HETSIM_TYPE, _IOC_NR(cmd)))
		name = calls[_IOC_NR(cmd)];
	if (!name) {
		snprintf(number, sizeof(number), "call 0x%lx", cmd);
		name = number;
	}
	for (i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].r == r)
			return err_set(r, "%s:%" PRIu32 ": %s: %s", port->ops->name,
				       port->index, name, meanings[i].text);
	sim_port_explain(port, r, name);
	/* The caller would take -EAGAIN for a full queue. */
	return r == SIM_NO_THREAD ? -ENOMEM : r;
}

/* ---- sizes of calls, for the access hook ---- */

/* Arguments with a size for the hook; the caller's struct may be shorter, or longer. */
union argument {
	uint32_t size;
	struct hetsim_buffer_create create;
	struct hetsim_buffer_resize resize;
	struct hetsim_export export;
	struct hetsim_import import;
};

static bool is_asked(unsigned long cmd)
{
	static const unsigned long asked[] = { HETSIM_BUFFER_CREATE, HETSIM_BUFFER_RESIZE,
					       HETSIM_EXPORT, HETSIM_IMPORT, HETSIM_SUBMIT };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(asked); i++)
		if (asked[i] == cmd)
			return true;
	return false;
}

/* Asks the hook. @cmd must be one that is_asked() accepts: other arguments are not known. */
static int ask(struct hm_device *device, unsigned long cmd, const void *from)
{
	struct hm_access_request request = { .device = device->name };
	struct hm_buffer_desc desc = { .name = "raw" };
	union argument argument = { .size = 0 };
	uint32_t size;

	memcpy(&size, from, sizeof(size));
	memcpy(&argument, from, size < sizeof(argument) ? size : sizeof(argument));
	switch (cmd) {
	case HETSIM_BUFFER_CREATE:
		request.operation = HM_ACCESS_CREATE;
		request.size = argument.create.length;
		request.max_size = max_u64(argument.create.capacity, request.size);
		request.flags = argument.create.flags;
		request.place = argument.create.place == HETSIM_PLACE_SYSTEM ? HM_PLACE_SYSTEM :
									       HM_PLACE_DEVICE;
		request.access = HM_READ | HM_WRITE;
		break;
	case HETSIM_BUFFER_RESIZE:
		request.operation = HM_ACCESS_RESIZE;
		request.size = argument.resize.length;
		request.flags = argument.resize.flags;
		request.access = HM_READ | HM_WRITE;
		break;
	case HETSIM_EXPORT:
		request.operation = HM_ACCESS_EXPORT;
		request.flags = argument.export.flags;
		request.access = HM_READ;
		if (argument.export.flags & HETSIM_EXPORT_WRITE)
			request.access |= HM_WRITE;
		break;
	case HETSIM_IMPORT:
		return hook_ask_fd(HM_ACCESS_IMPORT, device, argument.import.fd, &desc);
	case HETSIM_SUBMIT:
		request.operation = HM_ACCESS_LAUNCH;
		request.device = NULL;
		request.accel = device->name;
		request.access = HM_READ | HM_WRITE;
		break;
	default:
		return 0;
	}
	return hook_ask(&request);
}

/* ---- calls ---- */

static bool is_unplug(unsigned long cmd, const void *argument)
{
	const struct hetsim_inject *inject = argument;

	return cmd == HETSIM_INJECT && inject->kind == HETSIM_INJECT_UNPLUG;
}

int hm_sim_call(struct hm_device *device, unsigned long cmd, void *argument)
{
	struct device_link *link;
	struct sim_port *port;
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!argument)
		return err_set(-EINVAL, "hm_sim_call: argument is NULL");
	if (!sim_port_of(device))
		return err_set(-EOPNOTSUPP, "\"%s\" is no simulated device", device->name);
	if (cmd == HETSIM_HANDSHAKE)
		return err_set(-EPERM, "the handshake was made when \"%s\" was opened",
			       device->name);
	/*
	 * Its maps must be zeros when the call returns, and the caller has the locks of one of
	 * them.
	 */
	if (view_in_callback() && is_unplug(cmd, argument))
		return err_set(
			-EDEADLK,
			"a view's callback must not take \"%s\" away: call after the callback",
			device->name);
	r = hook_hooked() && is_asked(cmd) ? ask(device, cmd, argument) : 0;
	if (r)
		return r;
	link = link_get(device);
	port = link->backend;
	r = port->ops->call(port->file, cmd, argument);
	if (r == -ENODEV || (!r && is_unplug(cmd, argument)))
		sim_port_lost(port);
	if (r < 0)
		r = explain(port, cmd, r);
	link_put(device, link);
	return r;
}

int hm_sim_buffer(struct hm_buffer *buffer, uint32_t *ret_handle)
{
	struct sim_object *object;
	int r;

	err_begin();
	r = object_check((struct hm_object *)buffer, OBJECT_BUFFER);
	if (r)
		return r;
	if (!ret_handle)
		return err_set(-EINVAL, "hm_sim_buffer: ret_handle is NULL");
	if (!sim_port_of(buffer->device))
		return err_set(-EOPNOTSUPP, "%s is on \"%s\", which is no simulated device",
			       buffer->name, buffer->device->name);
	r = buffer_lock(buffer);
	if (r)
		return r;
	object = buffer->segment[0].object;
	if (buffer->n_segment > 1)
		r = err_set(-EXDEV, "%s: made of %u objects, each with a handle of its own",
			    buffer->name, buffer->n_segment);
	else if (!object->handle)
		r = err_set(-EOPNOTSUPP,
			    "%s was imported read-only: the device has no handle for it",
			    buffer->name);
	else
		*ret_handle = object->handle;
	buffer_unlock(buffer);
	return r;
}

/* ---- plugging in ---- */

static int plug_kernel(uint32_t index)
{
	char text[16];
	ssize_t done;
	int fd;

	fd = sys_open(PLUG_FILE, O_WRONLY, 0);
	if (fd < 0)
		return err_set(fd,
			       "opening " PLUG_FILE ": %s; the module has to be loaded, "
			       "debugfs mounted, and the caller root",
			       err_name(fd));
	snprintf(text, sizeof(text), "%u", index);
	done = sys_write(fd, text, strlen(text));
	sys_close(fd);
	return done < 0 ? (int)done : 0;
}

int hm_sim_plug(const char *name)
{
	static const struct {
		const char *prefix;
		int (*plug)(uint32_t index);
	} ways[] = {
		{ "sim:", plug_kernel },
		{ "soft:", soft_plug },
	};
	uint32_t index, said;
	size_t i, length;
	char end;
	int r;

	err_begin();
	if (!name)
		return err_set(-EINVAL, "hm_sim_plug: name is NULL");
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		length = strlen(ways[i].prefix);
		if (strncmp(name, ways[i].prefix, length) != 0 ||
		    sscanf(name + length, "%" SCNu32 "%c", &index, &end) != 1)
			continue;
		said = err_count();
		r = ways[i].plug(index);
		if (r == -EEXIST)
			return err_set(r, "\"%s\" is plugged in already", name);
		if (r && !err_said_since(said))
			return err_set(r, "plugging \"%s\" in: %s", name, err_name(r));
		return r;
	}
	return err_set(-EINVAL,
		       "\"%s\" is no name of a simulated device: names are as \"soft:0\" and "
		       "\"sim:0\"",
		       name);
}
